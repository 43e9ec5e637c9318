"""Verdicts, measures and campaign results of commits in one table, and what has changed between two of them.

    append("history", rows_of(json.load(open("measured.json")), "abc123", now))
    compare(read("history"), "v0.4", "abc123")

A row is one value of one thing: the 99th percentile of the latency of a run, whether a property was violated in it, how
many of a campaign's runs failed. The table is Parquet here; `ordercast.spark.history` writes others.
"""

from ordercast.history.compare import Change, compare
from ordercast.history.parquet import append, read
from ordercast.history.rows import HISTORY, rows_of

__all__ = ["HISTORY", "Change", "append", "compare", "read", "rows_of"]
