"""`ordercast demo`: the bank as processes, or in simulated time."""
