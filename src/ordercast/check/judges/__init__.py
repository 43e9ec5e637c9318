"""Judges: facts in, a finding about one property out; they share facts, and know nothing of one another."""
