"""Spauster (1991)."""
