"""What a run under chaos is said to have shown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ordercast.chaos.harness import Cluster, Outcome
from ordercast.chaos.schedule import Plan
from ordercast.cli.chaos.outcome import describe
from ordercast.trace.pieces import Trace
from ordercast.verify.folder import Verified
from ordercast.verify.summary import PropertySummary, Summary

CLUSTER = Cluster("two-phase", {"accounts": ("a",)}, {"a": 1.0})


def _describe(violated: str, forgotten: list[str]) -> tuple[int, bool]:
    books = {"ledger": {"applied": 1, "refused": 0}, "digest": 1, "gathered": 1, "orders": {}, "strange": []}
    outcome = Outcome(Path(), {}, Counter(), Counter(), {"a": 1}, 1.0, 1.0, [], forgotten=forgotten)
    outcome.results = {"a": books}
    found = PropertySummary(violated, claimed=1, outcomes=Counter(violated=1), violated_claims=1)
    verified = Verified(Trace(Path(), {}, [], []), Summary(1, 1, [found], []), {}, [], None)
    document = describe(CLUSTER, Plan(1.0, ()), outcome, verified)
    return document["violated_claims"], document["fine"]


@pytest.mark.parametrize("name", ["no-duplication", "R1"])
def test_who_forgot_what_nobody_relied_on_may_deliver_it_again(name: str) -> None:
    assert _describe(name, ["a"]) == (0, True)
    assert _describe(name, []) == (1, False)


def test_who_forgot_something_must_keep_the_order_all_the_same() -> None:
    assert _describe("acyclic-order", ["a"]) == (1, False)
