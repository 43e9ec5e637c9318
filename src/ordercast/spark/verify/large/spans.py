"""Disorder in a large run whose messages have one key each: found where keys do not ascend, and nowhere else.

Whoever goes in a circle along the sites' orders comes down again over every key that it has climbed over. So a circle
lies within one span of keys over which some site descends (or several that overlap, taken together), and so does every
pair that two sites deliver in different orders. The judges are asked about the messages of each span.

A span may be most of the run: two far messages that are swapped at one site make it so. But then few keys are odd ones,
without which all sites ascend, and every inverted pair has one of them. So the messages of such a span are dealt out to
parts, the odd ones to all of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check.verdict import Finding
from ordercast.spark.verify.large.ascent import Ascent, Descents, Key, Span, find_descents
from ordercast.spark.verify.large.order import ACYCLIC
from ordercast.spark.verify.large.packs import Rows
from ordercast.spark.verify.large.parts import judge_parts
from ordercast.spark.verify.large.tables import Limits

SPANS_TOLD: Final = 64
"""Spans that are told apart; each is a condition for every delivery. Neighbours are taken together where there are
more."""
ODD_MAX: Final = 256
"""Odd keys; each is a condition, too, and every part has their messages."""


def find_disorder_by_key(
    rows: Rows, ascent: Ascent, properties: Sequence[str], limits: Limits
) -> dict[str, Finding] | None:
    """What is wrong, for those of these order properties that are violated, in a run whose messages have one key each;
    None where keys do not tell."""
    descents = find_descents(rows, ascent, ODD_MAX)
    if descents is None:
        return None
    if not descents.spans:
        return {}
    spans = _told(descents.spans)
    key = F.struct(*(F.col("order_key")[place].alias(f"key_{place}") for place in range(ascent.key_length)))
    deliveries = rows.events.where(F.col("kind") == "deliver")
    in_spans = deliveries.select("message", key.alias("key"), _number(key, spans).alias("span")).where("span >= 0")
    sizes = {row["span"]: row["count"] for row in in_spans.groupBy("span").count().collect()}
    large = {span: size for span, size in sizes.items() if size > limits.knot_rows_max}
    messages = in_spans.groupBy("message").agg(F.first("span").alias("span"), F.first("key").alias("key"))
    parts = messages.withColumn("part", F.explode(_parts(descents, len(spans), large, limits.part_rows)))
    about = rows.events.where(F.col("kind").isin("multicast", "deliver"))
    apart = about.join(parts.select("message", "part"), "message")
    findings = judge_parts(apart, rows.run, properties, overlapping=bool(large))
    found = {name: finding for name, finding in findings.items() if finding.witnesses}
    if large and ACYCLIC in properties:
        if ACYCLIC not in found:
            return None
        # Each part sees a circle, and they may all be of one knot.
        found[ACYCLIC] = Finding(True, found[ACYCLIC].witnesses[:1])
    return found


def _told(spans: list[Span]) -> list[Span]:
    together = -(-len(spans) // SPANS_TOLD)
    groups = [spans[at : at + together] for at in range(0, len(spans), together)]
    return [Span(group[0].low, group[-1].high) for group in groups]


def _literal(key: Key) -> Column:
    return F.struct(*(F.lit(number).cast("long").alias(f"key_{place}") for place, number in enumerate(key)))


def _number(key: Column, spans: list[Span]) -> Column:
    """The number of the span that a key is in; -1: of none."""

    def choose(otherwise: Column, numbered: tuple[int, Span]) -> Column:
        number, span = numbered
        inside = (key >= _literal(span.low)) & (key <= _literal(span.high))
        return F.when(inside, F.lit(number)).otherwise(otherwise)

    return reduce(choose, enumerate(spans), F.lit(-1))


def _parts(descents: Descents, spans: int, large: dict[int, int], part_rows: int) -> Column:
    """The parts of a message: its span, or where that is large one of several parts; all of these if it is odd."""
    parts = F.array(F.col("span"))
    first = spans
    for span, size in sorted(large.items()):
        count = -(-size // part_rows)
        one = F.array((F.pmod(F.xxhash64("message"), F.lit(count)) + F.lit(first)).cast("int"))
        every = F.array(*(F.lit(number) for number in range(first, first + count)))
        odd = reduce(Column.__or__, (F.col("key") == _literal(key) for key in sorted(descents.odd)))
        parts = F.when(F.col("span") == span, F.when(odd, every).otherwise(one)).otherwise(parts)
        first += count
    return parts
