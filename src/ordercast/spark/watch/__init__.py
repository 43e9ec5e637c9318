"""Live traces watched by a streaming query: its state is that of `ordercast.watch`, kept in Spark's checkpoint."""

from ordercast.spark.watch.outlets import Outlets
from ordercast.spark.watch.query import begin_watch

__all__ = ["Outlets", "begin_watch"]
