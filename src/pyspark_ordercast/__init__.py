"""Spark looks for data sources in modules called `pyspark_…`, and so finds `format("ordercast")` by its name."""

from ordercast.spark.source import OrdercastSource as DefaultSource

__all__ = ["DefaultSource"]
