"""Tests of the building blocks."""
