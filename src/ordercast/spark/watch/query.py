"""The query: events in, alerts out, one state a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from ordercast.spark.watch.outlets import Outlets
from ordercast.trace.schema import Event, Run
from ordercast.watch import ALERT_COLUMNS, Settings, Watch

_LISTS: Final = ("groups", "destinations", "members")
_SEEN: Final = ("site", "seq", "time", "kind", "message", "source", "source_seq", "view", *_LISTS)
_KINDS: Final = ("deliver", "multicast", "fail", "recover", "awake", "rollback", "view", "join", "leave")
_STATE: Final = "state binary"


def begin_watch(
    spark: SparkSession,
    trace: str,
    runs: Sequence[Run],
    settings: Settings,
    outlets: Outlets,
    *,
    checkpoint: str,
    interval_seconds: float | None,
) -> Any:
    """Watch a folder of traces; without an interval, what there is now, and then it ends. The query, which runs."""
    outlets.check(spark)
    events = spark.readStream.format("ordercast").load(trace)
    writer = find_alerts(events, runs, settings).writeStream.foreachBatch(outlets.tell)
    if interval_seconds is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(interval_seconds * 1000)} milliseconds")
    return writer.queryName("ordercast watch").option("checkpointLocation", checkpoint).start()


def find_alerts(events: DataFrame, runs: Sequence[Run], settings: Settings) -> DataFrame:
    """A row for everything that is wrong, when it is seen."""
    known = {run.run: msgspec.json.encode(run) for run in runs}

    def see(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        name = str(key[0])
        run = msgspec.json.decode(known[name], type=Run) if name in known else Run(run=name)
        watch = Watch(run, settings, bytes(state.get[0]) if state.exists else None)
        alerts = watch.see(in_order(pd.concat(list(frames))))
        state.update((watch.pack(),))
        rows = [msgspec.structs.asdict(alert) for alert in alerts]
        yield pd.DataFrame([row | {name: list(row[name]) for name in ("sites", "messages")} for row in rows])

    # As a text: pandas makes a floating number of a whole one where another is missing.
    numbered = events.where(F.col("kind").isin(*_KINDS)).withColumn("source_seq", F.col("source_seq").cast("string"))
    by_run = numbered.select("run", *_SEEN).groupBy("run")
    return by_run.applyInPandasWithState(see, ALERT_COLUMNS, _STATE, "append", GroupStateTimeout.NoTimeout)


def in_order(frame: pd.DataFrame) -> Iterator[Event]:
    """The rows by time, those of each site in their order, whatever their times say."""
    ordered = frame.sort_values(["site", "seq"], kind="stable")
    ordered = ordered.assign(time_of_order=ordered.groupby("site")["time"].cummax())
    ordered = ordered.sort_values("time_of_order", kind="stable")
    columns = [ordered[name].tolist() for name in _SEEN]
    for values in zip(*columns, strict=True):
        row = dict(zip(_SEEN, values, strict=True))
        for name in _LISTS:
            row[name] = None if row[name] is None else [str(item) for item in row[name]]
        number = row["source_seq"]
        row["source_seq"] = None if number is None else int(number)
        yield Event(run="", **row)
