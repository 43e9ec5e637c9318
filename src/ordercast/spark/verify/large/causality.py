"""Causal order in a large run, by a certificate: the order keys that the protocol wrote.

Take as edges between messages what the judges look at: that a site delivers one before the other, that a source sends
one before the other, or delivers one before it sends the other, or says that the other depends on it. An edge that
does not ascend by key spans the keys between its ends. A message that is delivered before one that causally precedes
it makes a circle of edges, and so does a pair that two sites deliver in different orders; and whoever goes in a circle
comes down again over every key that it has climbed over. So the whole circle, with all messages through which
causality runs in it, has keys within one span (or several that overlap, taken together). The judges are asked about the
messages of each span; where every edge ascends there is no span, and nothing to be asked.

A message that is missing makes no circle, and shows in what follows it: where a site lacks what it is owed, the judges
look at what surrounds the first that is missing.

Where there are no keys, a run is judged as a whole if it is small enough, and else not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check.facts import Facts
from ordercast.check.verdict import Finding
from ordercast.spark.verify.large.obligations import first_multicasts
from ordercast.spark.verify.large.packs import Find, ask_parts
from ordercast.spark.verify.large.parts import (
    ABOUT_A_MESSAGE,
    ABOUT_SITES,
    cut_by_message,
    judge_parts,
    of_sites,
    part_rows_of,
)
from ordercast.spark.verify.large.spans import Key, Span, ids_in_spans, key_literal, unite_spans
from ordercast.spark.verify.large.tables import Tables
from ordercast.trace.schema import Run

_WITHOUT_HOLES: Final = "reliable-timestamp-order"
CAUSAL: Final = frozenset({"causal-order", "timestamp-order", _WITHOUT_HOLES})

SAMPLE_MESSAGES: Final = 1000
"""With the lowest keys: among so many there are two of which one precedes the other, unless there are none at all."""

_LACKING: Final = pa.schema([("message", pa.string())])

_NOT_JUDGED: Final = Finding(obliged=False, judged=False)


def find_causal_disorder(tables: Tables, properties: Sequence[str]) -> dict[str, Finding]:
    """What is found about these properties, all of them about causality."""
    rows = tables.events.where(F.col("kind").isin(*ABOUT_A_MESSAGE, *ABOUT_SITES, "send"))
    if rows.count() <= tables.limits.whole_rows:
        return judge_parts(rows.withColumn("part", F.lit(0)), tables.run, properties)
    if not tables.sites:
        return dict.fromkeys(properties, Finding(obliged=False))
    if not tables.one_key:
        return dict.fromkeys(properties, _NOT_JUDGED)
    spans, complete = _spans(tables)
    holes = _holes(tables) if _WITHOUT_HOLES in properties else None
    others = [span for span in (_sample(tables), holes.around if holes else None) if span]
    findings = judge_parts(_rows_of(tables, spans, others), tables.run, properties, overlapping=True)
    for name, finding in findings.items():
        sure = complete and not (name == _WITHOUT_HOLES and holes)
        if not finding.witnesses and not (sure and finding.obliged):
            findings[name] = _NOT_JUDGED
    return findings


# ---------------------------------------------------------------------- spans
def _spans(tables: Tables) -> tuple[list[Span], bool]:
    """The spans of edges that do not ascend, those that overlap taken together, and whether they are all."""
    keys = tables.messages.select("id", _key(tables).alias("key"))
    known = first_multicasts(tables).join(keys, "id", "left").select("source", "sent", "key")
    delivered = tables.first_deliveries().join(keys, "id")
    sites = F.array(*map(F.lit, tables.sites))
    rows = delivered.select(sites[F.col("code")].alias("site"), "seq", "key", F.lit(False).alias("sends")).unionByName(
        known.select(F.col("source").alias("site"), F.col("sent").alias("seq"), "key", F.lit(True).alias("sends"))
    )
    before = Window.partitionBy("site").orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    highest = F.when(F.col("sends"), F.max("key").over(before)).otherwise(
        F.max(F.when(~F.col("sends"), F.col("key"))).over(before)
    )
    steps = rows.select(F.col("key").alias("low"), highest.alias("high")).where("low <= high")
    told = (
        tables.events.where((F.col("kind") == "multicast") & (F.size("depends") > 0))
        .select(tables.id_of(F.col("message")).alias("id"), F.explode("depends").alias("cause"))
        .withColumn("cause", tables.id_of(F.col("cause")))
        .join(keys.withColumnRenamed("key", "low"), "id", "left")
        .join(keys.select(F.col("id").alias("cause"), F.col("key").alias("high")), "cause", "left")
        .select("low", "high")
    )
    # What nobody delivers has no key; what it hands on from one message to another cannot be seen.
    complete = told.where("low is null or high is null").isEmpty()
    found = steps.unionByName(told.where("low <= high"))
    united = unite_spans(found)
    fitting = _fitting(tables, united or [])
    return fitting, complete and united is not None and len(fitting) == len(united)


def _fitting(tables: Tables, spans: list[Span]) -> list[Span]:
    """Those that a worker can hold: a span is a knot, or several."""
    if not spans:
        return []
    sized = _ids_of(tables, spans).join(tables.messages.select("id", "rows"), "id")
    sizes = sized.groupBy("part").agg(F.sum("rows").alias("rows")).collect()
    rows = {row["part"]: row["rows"] for row in sizes}
    return [span for number, span in enumerate(spans) if rows.get(number, 0) <= tables.limits.knot_rows_max]


def _key(tables: Tables) -> Column:
    return F.struct(*tables.keys)


# ---------------------------------------------------------------------- holes
class _Holes(NamedTuple):
    around: Span | None
    """What surrounds the first message that a site lacks; None where it has no key."""


def _holes(tables: Tables) -> _Holes | None:
    """Where a site has not delivered what it is owed; None: nowhere."""
    parts = cut_by_message(tables.events, tables.limits.part_rows)
    lacking = ask_parts(part_rows_of(parts), _lacking(tables.run), _LACKING)
    keys = tables.messages.select("id", _key(tables).alias("key"))
    named = lacking.select(tables.id_of(F.col("message")).alias("id"))
    missing, first = named.join(keys, "id", "left").agg(F.count("*"), F.min("key")).collect()[0]
    if not missing:
        return None
    return _Holes(None if first is None else _around(tables, tuple(first)))


def _lacking(run: Run) -> Find:
    """The facts, as a function from the rows of a part to what some site is owed and lacks."""

    def find(_: int, rows: pa.Table) -> pa.Table:
        facts = Facts(run, rows).counting(_WITHOUT_HOLES)
        lacks = (facts.membership.owed & (facts.deliveries.first_row < 0)).any(axis=0)
        names = [facts.columns.message_name(message) for message in np.flatnonzero(lacks).tolist()]
        return pa.table({"message": names}, schema=_LACKING)

    return find


def _sample(tables: Tables) -> Span | None:
    """The messages with the lowest keys."""
    said = _ends(tables.messages.select(_key(tables).alias("key")).orderBy("key"))
    return Span(tuple(said[0]), tuple(said[1])) if said[0] else None


def _around(tables: Tables, key: Key) -> Span:
    """So many messages before a key, so that its source has been heard of, and as many behind it."""
    middle = key_literal(key, tables.keys)
    keys = tables.messages.select(_key(tables).alias("key"))
    low, _ = _ends(keys.where(F.col("key") <= middle).orderBy(F.desc("key")))
    _, high = _ends(keys.where(F.col("key") >= middle).orderBy("key"))
    return Span(tuple(low), tuple(high))


def _ends(keys: DataFrame) -> tuple[Row, Row]:
    row = keys.limit(SAMPLE_MESSAGES).agg(F.min("key"), F.max("key")).collect()[0]
    return row[0], row[1]


# ---------------------------------------------------------------------- parts
def _rows_of(tables: Tables, spans: list[Span], others: list[Span]) -> DataFrame:
    """The events about the messages of these spans, each span a part, and beside them all that is about sites."""
    ids = _ids_of(tables, spans)
    for number, span in enumerate(others, start=len(spans)):
        ids = ids.unionByName(_ids_of(tables, [span]).withColumn("part", F.lit(number)))
    about = tables.events.where(F.col("kind").isin(*ABOUT_A_MESSAGE))
    about = about.withColumn("id", tables.id_of(F.col("message"))).join(ids, "id").drop("id")
    sends = tables.events.where(F.col("kind") == "send").withColumn("served", F.explode("messages"))
    sends = sends.withColumn("id", tables.id_of(F.col("served"))).join(ids, "id").drop("id", "served")
    rows = about.unionByName(sends.dropDuplicates(["site", "seq", "part"]))
    return rows.unionByName(of_sites(tables.events, range(len(spans) + len(others))))


def _ids_of(tables: Tables, spans: list[Span]) -> DataFrame:
    """part (the number of a span), id: the messages with keys in these spans, which ascend."""
    return ids_in_spans(tables.messages.select("id", *tables.keys), tables.keys, spans)
