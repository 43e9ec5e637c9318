"""Which question goes which way, and the verdicts that come of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check import Verdict
from ordercast.check.verdict import Finding
from ordercast.core.errors import UsageError
from ordercast.spark.tasks import ask_together
from ordercast.spark.verify.large.divergence import DIVERGENCE, find_divergence
from ordercast.spark.verify.large.obligations import obliged
from ordercast.spark.verify.large.order import ORDER, find_disorder
from ordercast.spark.verify.large.parts import (
    BY_MESSAGE,
    BY_SITE,
    BY_SOURCE,
    judge_by_message,
    judge_by_site,
    judge_by_source,
)
from ordercast.spark.verify.large.source import SENDING_ORDER, find_sending_disorder
from ordercast.spark.verify.large.tables import Limits, complete, tabulate
from ordercast.trace.schema import Run

_PROMISE_NOTHING: Final = frozenset({"P0", "Q0", "R0"})

LARGE_PROPERTIES: Final[frozenset[str]] = frozenset(
    {*ORDER, *SENDING_ORDER, *BY_MESSAGE, *BY_SOURCE, *BY_SITE, *_PROMISE_NOTHING, DIVERGENCE}
)
"""What can be judged of a run of any size."""
DEFAULT_LIMITS: Final = Limits()


def judge_large(
    spark: SparkSession, events: DataFrame, run: Run, properties: Sequence[str], limits: Limits = DEFAULT_LIMITS
) -> dict[str, Verdict]:
    """The verdicts about these properties of the run, by those of the events that are its own."""
    for name in properties:
        if name not in LARGE_PROPERTIES:
            known = ", ".join(sorted(LARGE_PROPERTIES))
            raise UsageError(f"{name!r} cannot be judged of a run that is too large for one worker; these can: {known}")
    own = complete(events, run)
    findings: dict[str, Finding] = {name: Finding(obliged=True) for name in properties if name in _PROMISE_NOTHING}
    by_message = [name for name in properties if name in BY_MESSAGE]
    by_source = [name for name in properties if name in BY_SOURCE]
    by_site = [name for name in properties if name in BY_SITE]
    by_order: dict[tuple[str, ...], list[str]] = {}
    for name in properties:
        if name in ORDER or name in SENDING_ORDER or name == DIVERGENCE:
            by_order.setdefault(_services(run, name), []).append(name)
    questions: list[Callable[[], dict[str, Finding]]] = [
        partial(_judge_order, spark, _counting(own, services), run, names, limits)
        for services, names in by_order.items()
    ]
    if by_message:
        questions.append(lambda: judge_by_message(own, run, by_message, limits.part_rows))
    if by_source:
        questions.append(lambda: judge_by_source(own, run, by_source, limits.part_rows))
    if by_site:
        questions.append(lambda: judge_by_site(own, run, by_site))
    for found in ask_together(spark, questions):
        findings |= found
    return {name: findings[name].verdict(name, name in run.guarantees) for name in properties}


def _services(run: Run, name: str) -> tuple[str, ...]:
    """The services with which a delivery counts for a property; none: with whatever service."""
    return tuple(sorted(service for service, names in run.services.items() if name in names))


def _counting(events: DataFrame, services: Sequence[str]) -> DataFrame:
    return events.where((F.col("kind") != "deliver") | F.col("service").isin(*services)) if services else events


def _judge_order(
    spark: SparkSession, events: DataFrame, run: Run, properties: Sequence[str], limits: Limits
) -> dict[str, Finding]:
    order = [name for name in properties if name in ORDER]
    findings: dict[str, Finding] = {}
    with tabulate(spark, events, run, limits) as tables:
        if order:
            findings |= find_disorder(tables, order)
        for name in properties:
            if name in SENDING_ORDER:
                findings[name] = find_sending_disorder(tables, name)
        if DIVERGENCE in properties:
            findings[DIVERGENCE] = find_divergence(tables)
        in_order = [name for name in properties if name not in findings]
        some = obliged(tables, in_order)
    return findings | {name: Finding(name in some) for name in in_order}
