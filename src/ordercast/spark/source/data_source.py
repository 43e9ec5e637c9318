"""What `format("ordercast")` is: which options it takes, and who reads what they ask for.

Spark imports this module in every session that reads anything, to know the name of the format. So what it takes to
read, pyarrow above all, is imported only by those who do.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from ordercast.core.errors import UsageError

OPTIONS = ("path", "skipCorrupt")


class OrdercastSource(DataSource):
    """Traces: a folder, or a folder of them, on any file system that pyarrow knows by its URI."""

    @classmethod
    def name(cls) -> str:
        """As it is called."""
        return "ordercast"

    def schema(self) -> StructType:
        """The columns of docs/trace.md. A schema of the user's own with fewer of them reads only those."""
        from ordercast.spark.tables import events_schema

        _check(self.options)
        return events_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Who reads it."""
        from ordercast.spark.source.trace import TraceReader

        _check(self.options)
        return TraceReader(self.options["path"], schema.names, _flag(self.options, "skipCorrupt"))


class FilteringSource(OrdercastSource):
    """The same, where Spark hands conditions down."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Who reads it."""
        from ordercast.spark.source.trace import FilteringTraceReader

        _check(self.options)
        return FilteringTraceReader(self.options["path"], schema.names, _flag(self.options, "skipCorrupt"))


def _check(options: Mapping[str, str]) -> None:
    for name in options:
        if name.lower() not in {known.lower() for known in OPTIONS}:
            near = get_close_matches(name, OPTIONS, 1, cutoff=0.0)
            raise UsageError(f"the format ordercast has no option {name!r}; the nearest is {near[0]!r}")
    if "path" not in options:
        raise UsageError('the format ordercast needs a trace: spark.read.format("ordercast").load("TRACE")')


def _flag(options: Mapping[str, str], name: str) -> bool:
    value = str(options.get(name, "false")).lower()
    if value not in ("true", "false"):
        raise UsageError(f"the option {name} is true or false, not {value!r}")
    return value == "true"
