"""Tests of the Spark pipeline: one session for all of them."""
