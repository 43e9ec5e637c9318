"""What a survey of a large run settles: all that is judged message by message, and order where keys tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ordercast.check.verdict import Finding
from ordercast.spark.verify.large.ascent import find_ascent
from ordercast.spark.verify.large.failures import FAILURES, LOGICAL
from ordercast.spark.verify.large.obligations import SENDING, obliged_by
from ordercast.spark.verify.large.order import ORDER
from ordercast.spark.verify.large.packs import Rows
from ordercast.spark.verify.large.sending import sending_ascends
from ordercast.spark.verify.large.source import SENDING_ORDER
from ordercast.spark.verify.large.spans import find_disorder_by_key
from ordercast.spark.verify.large.survey import Survey, read_survey, take_survey
from ordercast.spark.verify.large.tables import Limits, kept

BY_KEY: Final = frozenset({*ORDER, *FAILURES, *SENDING_ORDER}) - {LOGICAL}
"""What order keys may settle, and the numbers that sources give."""


def judge_by_survey(rows: Rows, by_message: Sequence[str], by_key: Sequence[str], limits: Limits) -> dict[str, Finding]:
    """What is found about the properties of single messages, and about those of the others that are settled by it."""
    ascent = find_ascent(rows)
    order = [name for name in by_key if name not in SENDING_ORDER]
    sending = [name for name in by_key if name in SENDING_ORDER]
    with kept(take_survey(rows, ascent, rows.count(), by_message, limits.part_rows)) as said:
        survey = read_survey(said, rows.run, ascent.sites, by_message)
        findings = dict(survey.findings)
        sites = len(ascent.sites)
        if order and ascent.key_length and survey.one_key:
            wrong: dict[str, Finding] | None = {}
            if ascent.doubtful:
                # Who failed, and when, counts for the others.
                order = [name for name in order if name in ORDER]
                wrong = find_disorder_by_key(rows, ascent, order, limits) if order else {}
            if wrong is not None:
                some = obliged_by(survey.sets, sites, [name for name in order if name not in wrong])
                findings |= {name: Finding(name in some) for name in order} | wrong
        if sending and _is_sent_in_order(rows, survey, sites):
            findings |= {name: Finding(obliged=True) for name in sending}
    return findings


def _is_sent_in_order(rows: Rows, survey: Survey, sites: int) -> bool:
    """Whether every source is delivered in its sending order everywhere, and that could have been otherwise."""
    return survey.one_sender and sending_ascends(rows) and bool(obliged_by(survey.sets, sites, [SENDING]))
