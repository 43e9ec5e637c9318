"""Which question goes which way, and the verdicts that come of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from ordercast.check import Verdict
from ordercast.check.verdict import Finding
from ordercast.core.errors import UsageError
from ordercast.spark.tasks import ask_together
from ordercast.spark.verify.large.divergence import DIVERGENCE, find_divergence
from ordercast.spark.verify.large.obligations import obliged
from ordercast.spark.verify.large.order import ORDER, find_disorder
from ordercast.spark.verify.large.parts import BY_MESSAGE, BY_SITE, judge_by_message, judge_by_site
from ordercast.spark.verify.large.source import SOURCE_ORDER, find_source_disorder
from ordercast.spark.verify.large.tables import Limits, complete, tabulate
from ordercast.trace.schema import Run

_PROMISE_NOTHING: Final = frozenset({"P0", "Q0", "R0"})

LARGE_PROPERTIES: Final[frozenset[str]] = frozenset(
    {*ORDER, *BY_MESSAGE, *BY_SITE, *_PROMISE_NOTHING, SOURCE_ORDER, DIVERGENCE}
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
    by_site = [name for name in properties if name in BY_SITE]
    by_order = [name for name in properties if name in ORDER or name in (SOURCE_ORDER, DIVERGENCE)]
    questions: list[Callable[[], dict[str, Finding]]] = []
    if by_order:
        questions.append(lambda: _judge_order(spark, own, run, by_order, limits))
    if by_message:
        questions.append(lambda: judge_by_message(own, run, by_message, limits.part_rows))
    if by_site:
        questions.append(lambda: judge_by_site(own, run, by_site))
    for found in ask_together(spark, questions):
        findings |= found
    return {name: findings[name].verdict(name, name in run.guarantees) for name in properties}


def _judge_order(
    spark: SparkSession, events: DataFrame, run: Run, properties: Sequence[str], limits: Limits
) -> dict[str, Finding]:
    order = [name for name in properties if name in ORDER]
    findings: dict[str, Finding] = {}
    with tabulate(spark, events, run, limits) as tables:
        if order:
            findings |= find_disorder(tables, order)
        if SOURCE_ORDER in properties:
            findings |= find_source_disorder(tables)
        if DIVERGENCE in properties:
            findings[DIVERGENCE] = find_divergence(tables)
        in_order = [name for name in properties if name not in findings]
        some = obliged(tables, in_order)
    return findings | {name: Finding(name in some) for name in in_order}
