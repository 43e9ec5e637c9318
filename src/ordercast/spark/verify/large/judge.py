"""Which question goes which way, and the verdicts that come of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check import Verdict
from ordercast.check.verdict import Finding
from ordercast.core.errors import UsageError
from ordercast.spark.tasks import ask_together, described
from ordercast.spark.verify.large.blocks import SPARED, judge_by_block
from ordercast.spark.verify.large.causality import CAUSAL, find_causal_disorder
from ordercast.spark.verify.large.divergence import DIVERGENCE, find_divergence
from ordercast.spark.verify.large.failures import (
    FAILURES,
    LOGICAL,
    find_disorder_despite_failures,
    without_what_does_not_count,
)
from ordercast.spark.verify.large.obligations import obliged
from ordercast.spark.verify.large.offsets import OFFSETS, find_differing_offsets
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
from ordercast.spark.verify.large.views import VIEWS, judge_views
from ordercast.trace.schema import Run

_PROMISE_NOTHING: Final = frozenset({"P0", "Q0", "R0"})

_OF_DELIVERIES: Final = frozenset({*ORDER, *SENDING_ORDER, *FAILURES, *CAUSAL, DIVERGENCE})
"""What is asked about the deliveries as a whole; they are tabulated first."""

LARGE_PROPERTIES: Final[frozenset[str]] = frozenset(
    {*_OF_DELIVERIES, *BY_MESSAGE, *BY_SOURCE, *BY_SITE, *VIEWS, OFFSETS, *_PROMISE_NOTHING}
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
    if not run.groups and any(name in BY_SOURCE or name in CAUSAL for name in properties):
        run = _with_named_groups(own, run)
    findings: dict[str, Finding] = {name: Finding(obliged=True) for name in properties if name in _PROMISE_NOTHING}
    by_message = [name for name in properties if name in BY_MESSAGE]
    by_source = [name for name in properties if name in BY_SOURCE]
    by_site = [name for name in properties if name in BY_SITE]
    of_views = [name for name in properties if name in VIEWS]
    of_deliveries: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for name in properties:
        if name in SPARED:
            of_deliveries.setdefault(((), False), []).append(name)
        elif name in _OF_DELIVERIES:
            of_deliveries.setdefault((_services(run, name), name == LOGICAL), []).append(name)
    questions: list[Callable[[], dict[str, Finding]]] = [
        partial(_judge_deliveries, _counting(own, run, services, logical), run, names, limits)
        for (services, logical), names in of_deliveries.items()
    ]
    whole = [name for name in by_message if name not in SPARED]
    if whole:
        questions.append(_about(spark, run, whole, lambda: judge_by_message(own, run, whole, limits.part_rows)))
    if by_source:
        questions.append(_about(spark, run, by_source, lambda: judge_by_source(own, run, by_source, limits.part_rows)))
    if by_site:
        questions.append(_about(spark, run, by_site, lambda: judge_by_site(own, run, by_site)))
    if of_views:
        questions.append(_about(spark, run, of_views, lambda: judge_views(own, run, of_views, limits.part_rows)))
    if OFFSETS in properties:
        counting = _counting(own, run, _services(run, OFFSETS), logical=False)
        questions.append(_about(spark, run, [OFFSETS], lambda: {OFFSETS: find_differing_offsets(counting, run)}))
    for found in ask_together(spark, questions):
        findings |= found
    return {name: findings[name].verdict(name, name in run.guarantees) for name in properties}


def _about(
    spark: SparkSession, run: Run, names: Sequence[str], ask: Callable[[], dict[str, Finding]]
) -> Callable[[], dict[str, Finding]]:
    """The question, with its name in Spark's user interface."""

    def question() -> dict[str, Finding]:
        with described(spark, f"run {run.run}: {', '.join(names)}"):
            return ask()

    return question


def _with_named_groups(events: DataFrame, run: Run) -> Run:
    """The run with the groups that messages name, without members: a part may have none of these messages, and is
    judged group by group all the same."""
    named = events.where((F.col("kind") == "multicast") & (F.coalesce(F.size("destinations"), F.lit(0)) <= 0))
    groups = named.select(F.explode("groups").alias("group")).distinct().collect()
    return msgspec.structs.replace(run, groups={row["group"]: [] for row in groups if row["group"] is not None})


def _services(run: Run, name: str) -> tuple[str, ...]:
    """The services with which a delivery counts for a property; none: with whatever service."""
    return tuple(sorted(service for service, names in run.services.items() if name in names))


def _counting(events: DataFrame, run: Run, services: Sequence[str], logical: bool) -> DataFrame:
    """The events with those deliveries that count."""
    if services:
        events = events.where((F.col("kind") != "deliver") | F.col("service").isin(*services))
    return without_what_does_not_count(events, run) if logical else events


def _judge_deliveries(events: DataFrame, run: Run, properties: Sequence[str], limits: Limits) -> dict[str, Finding]:
    spared = [name for name in properties if name in SPARED]
    order = [name for name in properties if name in ORDER]
    failures = [name for name in properties if name in FAILURES]
    causal = [name for name in properties if name in CAUSAL]
    findings: dict[str, Finding] = {}
    spark = events.sparkSession

    def about(names: Sequence[str], step: str) -> AbstractContextManager[None]:
        return described(spark, f"run {run.run}: {', '.join(names)}: {step}")

    with about(properties, "survey"), tabulate(events, run, limits) as tables:
        if spared:
            with about(spared, "digests of blocks, and the rows of those that differ"):
                findings |= judge_by_block(tables, spared)
        if order:
            with about(order, "certificate, and what it leaves open"):
                findings |= find_disorder(tables, order)
        if failures:
            with about(failures, "certificate, and what it leaves open beside what failed"):
                findings |= find_disorder_despite_failures(tables, failures)
        if causal:
            with about(causal, "spans of keys"):
                findings |= find_causal_disorder(tables, causal)
        for name in properties:
            if name in SENDING_ORDER:
                with about([name], "numbers of sources"):
                    findings[name] = find_sending_disorder(tables, name)
        if DIVERGENCE in properties:
            with about([DIVERGENCE], "what is missing, inverted or passed by"):
                findings[DIVERGENCE] = find_divergence(tables)
        in_order = [name for name in properties if name not in findings]
        with about(in_order, "could anything have been wrong?"):
            some = obliged(tables, in_order)
    return findings | {name: Finding(name in some) for name in in_order}
