"""One run, judged."""

from __future__ import annotations

import pyarrow as pa

from ordercast.check.choice import CLAIMED, Choice, check_claims
from ordercast.check.facts import Facts
from ordercast.check.registry import JUDGES
from ordercast.check.verdict import Verdict
from ordercast.trace.schema import Run


def judge(run: Run, events: pa.Table, choice: Choice = CLAIMED) -> dict[str, Verdict]:
    """Judge one run by the events of that run.

    Every listed property has a verdict: those that are not chosen for this run are `not-judged`.
    """
    check_claims([run])
    facts = Facts(run, events)
    claimed, judged = set(run.guarantees), set(choice.judged(run))
    verdicts = {}
    for name in choice.listed:
        if name in judged:
            verdicts[name] = JUDGES[name](facts.counting(name)).verdict(name, name in claimed)
        else:
            verdicts[name] = Verdict(name, False, "not-judged")
    return verdicts
