"""Traces in a session of one's own: in a notebook, or in a pipeline that has other things to do.

    from ordercast.spark.notebook import measure, read_trace, verify

    events = read_trace(spark, "trace")
    verify(events).where("verdict = 'violated'").show()
    measure(events)["latency"].show()

Import this before the session is begun: then Spark's workers run the Python of this process.
"""

from __future__ import annotations

import os
import sys

# Spark's workers would run whatever `python3` is, and fail there with sixty lines. What is set already stays.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from ordercast.spark.notebook.traces import measure, read_trace, verify

__all__ = ["measure", "read_trace", "verify"]
