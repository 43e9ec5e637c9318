"""Order in a large run: is the union of all sites' orders one order, and where it is not, who disagrees about what?

No site is compared with any other where that can be avoided. Where the union of the orders has no cycle, every two
sites agree on everything, and that can be seen in one of two ways:

- by a certificate: the order keys that the protocol wrote. If every message has one key, and the keys ascend along
  every site's deliveries, there is no cycle, for a key would have to be lower than itself. That is checked, by digests
  where the rows lie (`evidence`), and not believed. (Two messages with one key do no harm: no site could have both.)
  Where it fails, it fails over spans of keys, and the judges are asked about these (`spans`).
- by merging the orders, where there are no keys or the spans are too many (`merge`). The merge brings out the knots, if
  there are any; every two messages on whose order two sites disagree lie in one knot, so the judges of order are asked
  about the knots only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from ordercast.check.verdict import Finding
from ordercast.core.errors import InvariantViolation
from ordercast.spark.verify.large.columns import hash_of, kept
from ordercast.spark.verify.large.evidence import Evidence
from ordercast.spark.verify.large.merge import Merge, Stretch
from ordercast.spark.verify.large.parts import judge_parts
from ordercast.spark.verify.large.spans import BROADCAST_IDS_MAX, Span, ids_in_spans, with_part
from ordercast.spark.verify.large.tables import Limits, Tables

ACYCLIC: Final = "acyclic-order"
PAIRWISE: Final = ("single-source-order", "multiple-source-order", "multiple-group-order", "order-equivalence")
ORDER: Final = frozenset({ACYCLIC, *PAIRWISE})

_STUCK: Final = -1
"""The part with the messages at which the merge gave up."""
_KNOTS: Final = pa.schema([("part", pa.int32()), ("id", pa.int64())])


def find_disorder(tables: Tables, properties: Sequence[str]) -> dict[str, Finding]:
    """What is wrong, for those of these properties, all of them about order, that are violated."""
    findings = _in_a_thinned_span(tables, properties)
    left = [name for name in properties if name not in findings]
    if left:
        with taken_apart(tables) as apart:
            if apart is not None and apart.parts:
                findings |= _judge_apart(tables, apart, left)
    return {name: finding for name, finding in findings.items() if finding.witnesses}


class Apart(NamedTuple):
    """The messages among which order may be wrong, in parts that a worker can hold."""

    ids: DataFrame
    """part, id"""
    parts: frozenset[int]
    """The numbers of the parts; none, where the merge has found no knot."""
    id_of: Callable[[Column], Column]
    few: bool = False
    """Whether the messages are few enough to be told to all workers."""
    by_key: bool = False
    """Whether these are spans of keys, in which a message that comes again shows too, or else knots."""

    @property
    def stuck(self) -> bool:
        """Whether the merge gave up at some knot: the messages at which it did are a part of their own, those behind
        are in none."""
        return _STUCK in self.parts

    def rows(self, events: DataFrame) -> DataFrame:
        """Those of these events that are about the messages, with their part."""
        about = events.where(F.col("message").isNotNull()).withColumn("id", self.id_of(F.col("message")))
        return with_part(about, self.ids, self.few).drop("id")

    def pairs_meet(self, tables: Tables, events: DataFrame) -> DataFrame:
        """The same; where a knot is too large for a part all events, so that every two sites meet in one."""
        return block_pairs(tables, events.where(F.col("message").isNotNull())) if self.stuck else self.rows(events)


@contextmanager
def taken_apart(tables: Tables) -> Iterator[Apart | None]:
    """What may be out of order: spans of keys, or knots; None: the keys tell the order of everything."""
    spans = tables.evidence.spans if tables.evidence else None
    if not tables.sites or spans == []:
        yield None
        return
    if spans:
        with kept(_ids_of(tables, spans)) as ids:
            rows = _rows_of_parts(ids)
            if max(rows.values()) <= tables.limits.knot_rows_max:
                distinct = ids.dropDuplicates(["part", "id"])
                few = sum(rows.values()) <= BROADCAST_IDS_MAX
                yield Apart(distinct, frozenset(rows), hash_of, few, by_key=True)
                return
    with kept(find_knots(tables)) as knots:
        yield Apart(knots, frozenset(_rows_of_parts(knots)), tables.id_of)


def _ids_of(tables: Tables, spans: Sequence[Span]) -> DataFrame:
    evidence = _evidence(tables)
    return ids_in_spans(evidence.numbers.where("not sends"), evidence.keys, spans)


def _evidence(tables: Tables) -> Evidence:
    if tables.evidence is None:
        raise InvariantViolation("spans without the evidence for them")
    return tables.evidence


def _rows_of_parts(ids: DataFrame) -> dict[int, int]:
    return {row["part"]: row["count"] for row in ids.groupBy("part").count().collect()}


def _in_a_thinned_span(tables: Tables, properties: Sequence[str]) -> dict[str, Finding]:
    """What is wrong within spans that no worker can hold, seen in a share of their messages: those beside each step
    back, which are out of place or next to one that is, and of the others every so many.

    Two far messages that are swapped at one site span all between them, and a few of these show it. What is found is
    wrong; where nothing is found, nothing is known.
    """
    spans = tables.evidence.spans if tables.evidence else None
    if not spans:
        return {}
    evidence = _evidence(tables)
    with kept(_ids_of(tables, spans)) as ids:
        rows = _rows_of_parts(ids)
        if max(rows.values()) <= tables.limits.knot_rows_max:
            return {}
        share = -(-sum(rows.values()) // tables.limits.part_rows)
        turns = F.broadcast(evidence.turns.limit(BROADCAST_IDS_MAX).withColumn("turns", F.lit(True)))
        chosen = ids.join(turns, "id", "left").where(F.col("turns") | (F.pmod(F.xxhash64("id"), F.lit(share)) == 0))
        apart = Apart(chosen.select("part", "id").distinct(), frozenset(rows), hash_of, few=True)
        findings = judge_parts(apart.rows(tables.events), tables.run, properties)
    return {name: finding for name, finding in findings.items() if finding.witnesses}


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


def _judge_apart(tables: Tables, apart: Apart, properties: Sequence[str]) -> dict[str, Finding]:
    if not apart.stuck:
        return judge_parts(apart.rows(tables.events), tables.run, properties)
    # The knot at which it gave up is nobody's to hold: sites are compared block by block, and all their messages.
    findings: dict[str, Finding] = {}
    acyclic = [name for name in properties if name == ACYCLIC]
    pairwise = [name for name in properties if name != ACYCLIC]
    if acyclic:
        findings |= judge_parts(apart.rows(tables.events), tables.run, acyclic)
    if pairwise:
        findings |= judge_parts(apart.pairs_meet(tables, tables.events), tables.run, pairwise, overlapping=True)
    return findings


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
