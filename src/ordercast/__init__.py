"""Ordered, reliable multicast for Python, with a Spark laboratory that proves it."""

__version__ = "0.1.0"
