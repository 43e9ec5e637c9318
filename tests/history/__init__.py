"""Tests of the history of results."""
