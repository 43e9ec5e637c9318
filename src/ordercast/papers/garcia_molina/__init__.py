"""Garcia-Molina, Kogan, Lynch 1987: its comparisons, which it makes in words, as experiments."""
