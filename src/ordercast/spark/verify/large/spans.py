"""Spans of order keys: where the keys do not tell the order, and what lies between.

An edge between two messages that does not ascend by key spans the keys between its ends; whoever goes in a circle comes
down again over every key that it has climbed over. So every circle lies within one span, or within several that
overlap, taken together, and the judges who see the messages of each span find in them all that they would find in the
whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from ordercast.check.facts.columns import Ints
from ordercast.spark.verify.large.digesting import ranked

SPANS_MAX: Final = 1000
"""Spans that are looked at: a run with more of them is wrong a thousand times."""
BROADCAST_IDS_MAX: Final = 1 << 20
"""Messages whose names every worker may hold to pick out their rows; the driver hands them out, some ten MB."""

_IDS: Final = pa.schema([("part", pa.int32()), ("id", pa.int64())])

Key = tuple[int, ...]


class Span(NamedTuple):
    """All keys from the lowest to the highest."""

    low: Key
    high: Key


def unite_spans(spans: DataFrame) -> list[Span] | None:
    """Of rows with a lowest and a highest key, those that overlap taken together; None: they are too many."""
    so_far = F.max("high").over(Window.orderBy("low", "high").rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(F.col("low") > F.col("so_far"), F.lit(True)).cast("int")
    number = F.sum(begins).over(Window.orderBy("low", "high").rowsBetween(Window.unboundedPreceding, 0))
    merged = spans.withColumn("so_far", so_far).withColumn("span", number).groupBy("span")
    united = merged.agg(F.min("low").alias("low"), F.max("high").alias("high")).orderBy("low").limit(SPANS_MAX + 1)
    found = [Span(tuple(row["low"]), tuple(row["high"])) for row in united.collect()]
    return found if len(found) <= SPANS_MAX else None


def key_literal(key: Key, names: Sequence[str]) -> Column:
    """A key as Spark compares it."""
    return F.struct(*(F.lit(value).cast("long").alias(name) for value, name in zip(key, names, strict=True)))


def ids_in_spans(keyed: DataFrame, keys: Sequence[str], spans: Sequence[Span]) -> DataFrame:
    """part (the number of a span), id: of rows with id and key, those with keys in these spans, which ascend."""
    if not spans:
        return keyed.sparkSession.createDataFrame([], from_arrow_schema(_IDS))
    key = F.struct(*keys)
    low, high = key_literal(spans[0].low, keys), key_literal(max(span.high for span in spans), keys)
    between = keyed.where((key >= low) & (key <= high)).select("id", *keys)
    return between.mapInArrow(_Choosing(spans), from_arrow_schema(_IDS))


def with_part(events: DataFrame, ids: DataFrame, few: bool) -> DataFrame:
    """Of events that have the id of their message those of these messages, once for each of their parts."""
    return events.join(F.broadcast(ids) if few else ids, "id")


class _Choosing:
    """Which keys are in which span."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._lows = np.array([span.low for span in spans], dtype=np.int64)
        self._highs = np.array([span.high for span in spans], dtype=np.int64)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                part = self.part_of([column.to_numpy() for column in batch.columns[1:]])
                chosen = np.flatnonzero(part >= 0)
                ids = batch.column(0).take(pa.array(chosen))
                yield pa.record_batch([pa.array(part[chosen].astype(np.int32)), ids], schema=_IDS)

    def part_of(self, keys: Sequence[Ints]) -> Ints:
        """The number of the span in which each key lies, -1 where in none."""
        count = len(self._lows)
        # Ranked among the ends of the spans, keys of any length are compared as numbers.
        both = [np.concatenate([self._lows[:, at], self._highs[:, at], key]) for at, key in enumerate(keys)]
        rank, _ = ranked(both)
        low, high, own = rank[:count], rank[count : 2 * count], rank[2 * count :]
        part = np.searchsorted(low, own, "right") - 1
        return np.where((part >= 0) & (own <= high[part]), part, -1)
