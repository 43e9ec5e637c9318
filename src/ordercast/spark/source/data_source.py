"""What `format("ordercast")` is: which options it takes, and who reads what they ask for.

Spark imports this module in every session that reads anything, to know the name of the format. So what it takes to
read, pyarrow above all, is imported only by those who do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ordercast.core.errors import UsageError

if TYPE_CHECKING:
    from ordercast.spark.source.group import GroupOptions
    from ordercast.spark.source.sink import SinkOptions

TRACE_OPTIONS = ("path", "skipCorrupt", "maxBytesPerTrigger")
GROUP_OPTIONS = (
    *("config", "group", "process", "startingOffset", "endingOffset", "maxOffsetsPerTrigger", "failOnDataLoss"),
    *("query", "timeout", "atRest"),
)
_OF_SPARK = ("checkpointLocation", "queryName")
"""Options of every stream, which Spark hands on to its sink."""


class OrdercastSource(DataSource):
    """A trace: a folder, or a folder of them, on any file system that pyarrow knows by its URI. Or the deliveries of
    groups, where the configuration of a cluster is named."""

    @classmethod
    def name(cls) -> str:
        """As it is called."""
        return "ordercast"

    def schema(self) -> StructType:
        """The columns of docs/trace.md, or those of deliveries. A schema of the user's own with fewer of them reads
        only those."""
        from ordercast.spark.tables import events_schema

        if self._is_of_groups():
            from pyspark.sql.pandas.types import from_arrow_schema

            from ordercast.spark.source.group import DELIVERIES

            return from_arrow_schema(DELIVERIES)
        return events_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Who reads it once."""
        if self._is_of_groups():
            from ordercast.spark.source.group import GroupReader

            return GroupReader(group_options(self.options, "earliest"), schema.names)
        return self.trace_reader(schema)

    def trace_reader(self, schema: StructType) -> DataSourceReader:
        """Who reads a trace."""
        from ordercast.spark.source.trace import TraceReader

        return TraceReader(self.options["path"], schema.names, _flag(self.options, "skipCorrupt"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's names
        """Who reads on."""
        if self._is_of_groups():
            from ordercast.spark.source.group import GroupStreamReader

            options = group_options(self.options, "latest")
            if options.at_rest:
                raise UsageError("a log at rest does not go on: read it with spark.read")
            return GroupStreamReader(options, schema.names)
        from ordercast.spark.source.growing import TraceStreamReader

        most = self.options.get("maxBytesPerTrigger")
        max_bytes = None if most is None else _number("maxBytesPerTrigger", most, 1)
        return TraceStreamReader(self.options["path"], schema.names, max_bytes)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Who writes a DataFrame into a group."""
        from ordercast.spark.source.sink import GroupWriter, check_columns

        if overwrite:
            raise UsageError('what was multicast stays: write with mode("append")')
        check_columns(schema)
        return GroupWriter(sink_options(self.options, uuid4().hex))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Who writes the batches of a query into a group."""
        from ordercast.spark.source.sink import GroupStreamWriter, check_columns, name_of_checkpoint

        check_columns(schema)
        checkpoint = self.options.get("checkpointLocation")
        name = None if checkpoint is None else name_of_checkpoint(checkpoint)
        return GroupStreamWriter(sink_options(self.options, name))

    def _is_of_groups(self) -> bool:
        """Whether groups are asked for; `UsageError` when it cannot be told what."""
        return check_options(self.options)


class FilteringSource(OrdercastSource):
    """The same, where Spark hands conditions down."""

    def trace_reader(self, schema: StructType) -> DataSourceReader:
        """Who reads a trace."""
        from ordercast.spark.source.trace import FilteringTraceReader

        return FilteringTraceReader(self.options["path"], schema.names, _flag(self.options, "skipCorrupt"))


def check_options(options: Mapping[str, str]) -> bool:
    """Whether these ask for groups and not for a trace; `UsageError` when they ask for neither, or name no option."""
    is_of_groups = "config" in options or "group" in options
    known, others = (GROUP_OPTIONS, TRACE_OPTIONS) if is_of_groups else (TRACE_OPTIONS, GROUP_OPTIONS)
    for name in options:
        if _is_among(name, others):
            asked, other = ("a group", "traces") if is_of_groups else ("a trace", "groups")
            raise UsageError(f"the option {name} is for {other}, and {asked} is asked for")
        if not _is_among(name, (*known, *_OF_SPARK)):
            near = get_close_matches(name, known, 1, cutoff=0.0)
            raise UsageError(f"the format ordercast has no option {name!r}; the nearest is {near[0]!r}")
    if not is_of_groups and "path" not in options:
        raise UsageError(
            'the format ordercast needs a trace, spark.read.format("ordercast").load("TRACE"), or the options config '
            "and group"
        )
    for name in ("config", "group"):
        if is_of_groups and not options.get(name):
            raise UsageError(f"the option {name} is missing: a group is read with the options config and group")
    return is_of_groups


def group_options(options: Mapping[str, str], start: str) -> GroupOptions:
    """What is asked of groups, beginning there unless it says where."""
    from ordercast.spark.source.group import GroupOptions

    most = options.get("maxOffsetsPerTrigger")
    # Whoever names a group twice wants its messages once.
    groups = list(dict.fromkeys(name.strip() for name in options["group"].split(",") if name.strip()))
    if not groups:
        raise UsageError(f"the option group names a group, or several, separated by commas, not {options['group']!r}")
    return GroupOptions(
        config=os.path.abspath(options["config"]),
        groups=groups,
        process=options.get("process"),
        start=_offset(options, "startingOffset", start),
        stop=_offset(options, "endingOffset", "latest"),
        max_offsets=None if most is None else _number("maxOffsetsPerTrigger", most, 1),
        fail_on_data_loss=_flag(options, "failOnDataLoss", "true"),
        at_rest=_flag(options, "atRest"),
        timeout=_number("timeout", options.get("timeout", "60")),
    )


def sink_options(options: Mapping[str, str], name: str | None) -> SinkOptions:
    """What is asked of a group to write to; rows have numbers under that name unless it says another."""
    from ordercast.spark.source.sink import SinkOptions

    if not check_options(options) or "," in options["group"]:
        raise UsageError("rows are written into one group: give the options config and group")
    query = options.get("query", name)
    if query is None:
        raise UsageError(
            "give the query a checkpointLocation, or a name with the option query: the group knows it by that"
        )
    timeout = _number("timeout", options.get("timeout", "60"))
    return SinkOptions(os.path.abspath(options["config"]), options["group"], options.get("process"), query, timeout)


def _offset(options: Mapping[str, str], name: str, otherwise: str) -> str:
    said = str(options.get(name, otherwise)).lower()
    return said if said in ("earliest", "latest") else str(_number(name, said))


def _is_among(name: str, options: Iterable[str]) -> bool:
    """Spark takes options in whatever case."""
    return name.lower() in {each.lower() for each in options}


def _number(name: str, said: str, lowest: int = 0) -> int:
    if not said.isdecimal() or int(said) < lowest:
        raise UsageError(f"the option {name} is a whole number, {lowest} or more, not {said!r}")
    return int(said)


def _flag(options: Mapping[str, str], name: str, otherwise: str = "false") -> bool:
    value = str(options.get(name, otherwise)).lower()
    if value not in ("true", "false"):
        raise UsageError(f"the option {name} is true or false, not {value!r}")
    return value == "true"
