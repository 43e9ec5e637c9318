"""Order in a large run: is the union of all sites' orders one order, and where it is not, who disagrees about what?

No site is compared with any other where that can be avoided. Where the union of the orders has no cycle, every two
sites agree on everything, and that can be seen in one of two ways:

- by a certificate: the order keys that the protocol wrote. If every message has one key, and the keys ascend along
  every site's deliveries, there is no cycle, for a key would have to be lower than itself. That is checked, in Spark's
  SQL, and not believed. (Two messages with one key do no harm: no site could have both.)
- by merging the orders, where there are no keys or they do not ascend (`merge`).

The merge brings out the knots, if there are any; every two messages on whose order two sites disagree lie in one
knot, so the judges of order are asked about the knots only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from ordercast.check.verdict import Finding
from ordercast.spark.verify.large.merge import Merge, Stretch
from ordercast.spark.verify.large.parts import judge_parts
from ordercast.spark.verify.large.tables import Limits, Tables, kept

ACYCLIC: Final = "acyclic-order"
PAIRWISE: Final = ("single-source-order", "multiple-source-order", "multiple-group-order", "order-equivalence")
ORDER: Final = frozenset({ACYCLIC, *PAIRWISE})

_STUCK: Final = -1
"""The part with the messages at which the merge gave up."""
_KNOTS: Final = pa.schema([("part", pa.int32()), ("id", pa.int64())])


def find_disorder(tables: Tables, properties: Sequence[str]) -> dict[str, Finding]:
    """What is wrong, for those of these properties, all of them about order, that are violated."""
    if is_certified(tables):
        return {}
    with kept(find_knots(tables)) as knots:
        sizes = {row["part"] for row in knots.select("part").distinct().collect()}
        findings = _judge_knots(tables, knots, _STUCK in sizes, properties) if sizes else {}
    return {name: finding for name, finding in findings.items() if finding.witnesses}


@contextmanager
def knots_apart(tables: Tables, events: DataFrame) -> Iterator[DataFrame]:
    """Of these events, which have the id of their message, those of the knots, each with its part; where a knot is too
    large for a part, all of them, so that every two sites meet in one."""
    with kept(find_knots(tables)) as knots:
        yield block_pairs(tables, events) if is_stuck(knots) else events.join(knots, "id")


def is_stuck(knots: DataFrame) -> bool:
    """Whether some knot is too large to be taken apart."""
    return not knots.where(F.col("part") == _STUCK).isEmpty()


def is_certified(tables: Tables) -> bool:
    """Whether every message has one order key, and the keys ascend at every site."""
    if not tables.one_key or tables.repeats:
        return False
    keys = [F.col(key) for key in tables.keys]
    key = keys[0] if len(keys) == 1 else F.struct(*keys)
    before = F.lag(key).over(Window.partitionBy("code").orderBy("seq"))
    steps = tables.deliveries.select((key <= before).alias("wrong"))
    return steps.where("wrong").isEmpty()


def find_knots(tables: Tables) -> DataFrame:
    """part, id: the messages of the knots, several knots to a part; no row where there are none."""
    rows = tables.first_deliveries().join(tables.messages.select("id", "at"), "id")
    in_order = rows.select("code", "seq", "id", "at").repartition(1).sortWithinPartitions("code", "seq")
    merge = _Merging(len(tables.sites), tables.limits)
    return in_order.select("code", "id", "at").mapInArrow(merge, from_arrow_schema(_KNOTS))


class _Merging:
    """The merge as a function from the deliveries of all sites, sorted by site and seq, to the knots.

    Sites come one after the other, and are wanted side by side: they are put down in a file first, twelve bytes a
    delivery, and read from there.
    """

    def __init__(self, sites: int, limits: Limits) -> None:
        self._sites = sites
        self._limits = limits

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with tempfile.TemporaryFile(prefix="ordercast-merge-") as file:
            lengths = np.zeros(self._sites, dtype=np.int64)
            for batch in batches:
                code, message, at = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
                lengths += np.bincount(code, minlength=self._sites)
                rows = np.empty(len(code), dtype=_ROW)
                rows["message"], rows["at"] = message, at
                file.write(rows.data)
            starts = np.cumsum(lengths) - lengths

            def read(site: int, low: int, high: int) -> Stretch:
                file.seek((int(starts[site]) + low) * _ROW.itemsize)
                rows = np.frombuffer(file.read((high - low) * _ROW.itemsize), dtype=_ROW)
                return Stretch(rows["message"].copy(), rows["at"].copy())

            limits = self._limits
            yield from self._parts(Merge(lengths.tolist(), read, limits.window_rows, limits.knot_rows_max))

    def _parts(self, merge: Merge) -> Iterator[pa.RecordBatch]:
        part = rows = 0
        for messages, sites in merge.knots():
            size = int(sites.sum())
            if rows and rows + size > self._limits.part_rows:
                part, rows = part + 1, 0
            rows += size
            yield _batch(part, messages)
        if merge.stuck_at is not None:
            yield _batch(_STUCK, np.unique(merge.stuck_at))


_ROW: Final = np.dtype([("message", "<i8"), ("at", "<i4")])


def _batch(part: int, messages: np.ndarray) -> pa.RecordBatch:
    parts = pa.array(np.full(len(messages), part, dtype=np.int32))
    return pa.record_batch([parts, pa.array(messages)], schema=_KNOTS)


def _judge_knots(tables: Tables, knots: DataFrame, stuck: bool, properties: Sequence[str]) -> dict[str, Finding]:
    events = events_with_id(tables)
    findings: dict[str, Finding] = {}
    acyclic = [name for name in properties if name == ACYCLIC]
    pairwise = [name for name in properties if name != ACYCLIC]
    in_knots = events.join(knots, "id")
    if stuck:
        # The knot at which it gave up is nobody's to hold: sites are compared block by block, and all their messages.
        if acyclic:
            findings |= judge_parts(in_knots, tables.run, acyclic)
        if pairwise:
            findings |= judge_parts(block_pairs(tables, events), tables.run, pairwise, overlapping=True)
    else:
        findings |= judge_parts(in_knots, tables.run, [*acyclic, *pairwise])
    return findings


def events_with_id(tables: Tables) -> DataFrame:
    """What is about a message: deliveries, and the multicasts that tell source and address."""
    events = tables.events.where(F.col("message").isNotNull())
    return events.withColumn("id", tables.id_of(F.col("message")))


def block_pairs(tables: Tables, events: DataFrame) -> DataFrame:
    """Sites in blocks, and a part for every two blocks: every two sites meet in one of them.

    A block has a part's deliveries, or one site. What is not a delivery goes to all parts.
    """
    block_of: dict[str, int] = {}
    block, taken = 0, 0
    for site, rows in zip(tables.sites, tables.rows, strict=True):
        if taken and taken + rows > tables.limits.part_rows:
            block, taken = block + 1, 0
        block_of[site] = block
        taken += rows
    numbers = {pair: number for number, pair in enumerate((a, b) for b in range(block + 1) for a in range(b + 1))}
    parts_of = {
        site: [number for pair, number in numbers.items() if own in pair and (block == 0 or pair[0] != pair[1])]
        for site, own in block_of.items()
    }
    everywhere = sorted({number for parts in parts_of.values() for number in parts})
    return events.withColumn("part", F.explode(_choose(parts_of, everywhere)))


def _choose(parts_of: dict[str, list[int]], everywhere: list[int]) -> Column:
    choices = F.create_map(
        *(item for site, parts in parts_of.items() for item in (F.lit(site), F.array(*(F.lit(part) for part in parts))))
    )
    return F.when(F.col("kind") == "deliver", choices[F.col("site")]).otherwise(F.array(*map(F.lit, everywhere)))
