"""Real processes under real faults: killed, stopped, cut off, on a network that loses, delays and repeats."""
