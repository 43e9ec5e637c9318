"""ordercast as a data source of Spark.

    spark.read.format("ordercast").load("trace").where("kind = 'deliver'")

Every session finds the format by its name. After `register(spark)` conditions are handed down to the files, too.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from ordercast.spark.internals import work_with
from ordercast.spark.source.data_source import FilteringSource, OrdercastSource

__all__ = ["OrdercastSource", "register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Off by default. While it is off Spark refuses a source that takes conditions, so the one that is found by its name
takes none."""


def register(spark: SparkSession) -> None:
    """Make `format("ordercast")` of a session the one that reads no more of a file than conditions ask for."""
    if "PYSPARK_PYTHON" not in os.environ and str(spark.sparkContext.master).startswith("local"):
        # Else workers run whatever `python3` is, which need not have this package.
        work_with(spark.sparkContext, sys.executable)
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(FilteringSource)
