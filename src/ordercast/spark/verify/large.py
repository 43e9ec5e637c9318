"""A run too large for one worker, judged in bounded memory; the verdicts are those of `ordercast.check`.

Properties of single messages are judged in parts, a share of the messages each, by the judges themselves
(`large_parts`). Order is judged by a certificate or by a merge, and where that fails by the judges again, on what
failed (`large_order`). Nothing but the names of sites, verdicts and witnesses reaches the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from ordercast.check import Verdict
from ordercast.check.verdict import Finding
from ordercast.core.errors import UsageError
from ordercast.spark.verify.large_order import ORDER, judge_order
from ordercast.spark.verify.large_parts import BY_MESSAGE, judge_by_message
from ordercast.spark.verify.large_source import judge_source_order
from ordercast.spark.verify.large_tables import Limits, complete, tabulate
from ordercast.trace.schema import Run

_PROMISE_NOTHING: Final = frozenset({"P0", "Q0", "R0"})
_SOURCE_ORDER: Final = "source-order"

LARGE_PROPERTIES: Final[frozenset[str]] = frozenset({*ORDER, *BY_MESSAGE, *_PROMISE_NOTHING, _SOURCE_ORDER})
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
    if by_message:
        findings |= judge_by_message(own, run, by_message, limits.part_rows)
    order = [name for name in properties if name in ORDER]
    if order or _SOURCE_ORDER in properties:
        with tabulate(spark, own, run, limits) as tables:
            if order:
                findings |= judge_order(tables, order)
            if _SOURCE_ORDER in properties:
                findings[_SOURCE_ORDER] = judge_source_order(tables)
    return {name: findings[name].verdict(name, name in run.guarantees) for name in properties}
