"""The classic algorithms that the five systems compare themselves with (Spauster 1991, chapter 2)."""
