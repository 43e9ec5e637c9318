"""A verdict on made-up outcomes: each thing that can be wrong with a run is found, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ordercast.chaos.books import Books, order_name
from ordercast.chaos.harness import Cluster, Outcome
from ordercast.chaos.record import Absence
from ordercast.chaos.schedule import Kill, LostLog, Plan, Rollback
from ordercast.chaos.strangers import FIRST_START
from ordercast.chaos.verdict import MEMORY_MAX_MIB, Verdict, judge_run

NAMES = ("a", "b", "c")
CLUSTER = Cluster("sequencer", {"accounts": NAMES}, dict.fromkeys(NAMES, 1.0))
ORDERS = [f"deposit ada 100 | {order_name(name, 0, number)}" for number in (1, 2, 3) for name in NAMES]
PLAN = Plan(10.0, (Kill(1.0, "a", 1.0), Rollback(5.0, "b", 4.0, 2.0)), loss=0.1)


def _books(orders: list[str]) -> dict[str, Any]:
    books = Books()
    for order in orders:
        books.apply(order)
    return dict(msgspec.to_builtins(books))


def _outcome(**changed: list[str]) -> Outcome:
    """Everything as it should be, but for the orders that some processes have applied."""
    return Outcome(
        Path(),
        {name: _books(changed.get(name, ORDERS)) for name in NAMES},
        Counter({"kill": 1, "rollback": 1}),
        Counter({"lost": 7}),
        dict.fromkeys(NAMES, len(ORDERS)),
        10.0,
        1.0,
        [],
        memory_kib=dict.fromkeys(NAMES, 50_000),
        acknowledged={name: [f"{name}.0.1", f"{name}.0.2"] for name in NAMES},
    )


def _wrong(outcome: Outcome, plan: Plan = PLAN, **promised: bool) -> Verdict:
    """What is wrong. Each thing has a line."""
    verdict = judge_run(CLUSTER, plan, outcome, **promised)
    assert verdict.fine == (not verdict.lines())
    assert all("\n" not in line for line in verdict.lines())
    return verdict


def _fields(verdict: Verdict) -> set[str]:
    return {name for name, value in msgspec.structs.asdict(verdict).items() if value}


def test_a_run_in_which_all_is_well_is_fine() -> None:
    assert _wrong(_outcome()).fine


def test_replicas_that_applied_the_same_orders_in_another_order_differ() -> None:
    verdict = _wrong(_outcome(c=[*ORDERS[1:], ORDERS[0]]))
    assert _fields(verdict) == {"divergence"}
    assert set(verdict.divergence) == set(NAMES)
    assert verdict.lines()[0].startswith("the replicas differ: a 9 orders")
    assert _wrong(_outcome(c=[*ORDERS[1:], ORDERS[0]]), ordered=False).fine


def test_an_acknowledged_order_that_one_replica_has_not_is_lost() -> None:
    verdict = _wrong(_outcome(c=[order for order in ORDERS if not order.endswith("b.0.2")]))
    assert _fields(verdict) == {"divergence", "lost"}
    assert verdict.lost == {"c": ["b.0.2"]}
    assert "c has lost 1 acknowledged order (b.0.2)" in verdict.lines()


def test_an_acknowledged_order_that_no_replica_has_is_lost_although_all_are_equal() -> None:
    less = [order for order in ORDERS if not order.endswith("b.0.2")]
    verdict = _wrong(_outcome(a=less, b=less, c=less))
    assert _fields(verdict) == {"lost"}
    assert verdict.lost == {key: ["b.0.2"] for key in NAMES}
    assert _wrong(_outcome(a=less, b=less, c=less), kept=False).fine


def test_an_order_that_nobody_acknowledged_may_be_lost_everywhere() -> None:
    less = [order for order in ORDERS if not order.endswith(".0.3")]
    assert _wrong(_outcome(a=less, b=less, c=less)).fine


def test_an_order_that_was_applied_twice_is_found_although_all_are_equal() -> None:
    more = [*ORDERS, ORDERS[4]]
    verdict = _wrong(_outcome(a=more, b=more, c=more))
    assert _fields(verdict) == {"doubled"}
    assert verdict.doubled == {key: ["b.0.2"] for key in NAMES}
    assert _wrong(_outcome(a=more, b=more, c=more), once=False).fine


def test_an_order_of_a_stranger_that_was_applied_is_found() -> None:
    more = [*ORDERS, f"deposit ada 100 | {order_name('a', FIRST_START + 1, 1)}"]
    verdict = _wrong(_outcome(a=more, b=more, c=more))
    assert _fields(verdict) == {"strange"}
    assert verdict.strange["b"] == [f"a.{FIRST_START + 1}"]


def test_a_process_that_takes_too_much_memory_is_found() -> None:
    outcome = _outcome()
    outcome.memory_kib["b"] = MEMORY_MAX_MIB * 1024
    assert _wrong(outcome).fine
    outcome.memory_kib["b"] += 1024
    verdict = _wrong(outcome)
    assert _fields(verdict) == {"memory_mib"}
    assert verdict.memory_mib == {"b": 257.0}


@pytest.mark.parametrize(
    ("happened", "lost", "vacuous"),
    [
        ({"kill": 1}, 1, {"rollback": (0, 1)}),
        ({"kill": 1, "rollback": 1}, 0, {"loss": (0, 1)}),
        ({}, 1, {"kill": (0, 1), "rollback": (0, 1)}),
    ],
)
def test_a_fault_that_did_not_strike_makes_the_run_vacuous(
    happened: dict[str, int], lost: int, vacuous: dict[str, tuple[int, int]]
) -> None:
    outcome = _outcome()
    outcome.happened, outcome.network = Counter(happened), Counter({"lost": lost})
    verdict = _wrong(outcome)
    assert _fields(verdict) == {"vacuous"}
    assert verdict.vacuous == vacuous
    assert all(line.startswith("vacuous: ") for line in verdict.lines())


def test_a_second_fault_that_did_not_strike_is_vacuous_too() -> None:
    plan = Plan(10.0, (LostLog(1.0, "a", 4.0), LostLog(6.0, "b", 4.0)))
    outcome = _outcome()
    outcome.happened = Counter({"lost-log": 1})
    assert _wrong(outcome, plan).vacuous == {"lost-log": (1, 2)}


def test_an_absence_is_harmless_when_the_others_go_on_or_say_for_whom_they_wait() -> None:
    outcome = _outcome()
    outcome.absences = [Absence("b", 9.0, 100, ()), Absence("c", 9.0, 0, ("a: waits for c",))]
    outcome.absences.append(Absence("a", 1.0, 0, ()))  # too short to be told
    assert _wrong(outcome).fine
    outcome.absences.append(Absence("a", 9.0, 0, ()))
    verdict = _wrong(outcome)
    assert _fields(verdict) == {"stalled"}
    assert verdict.stalled == ["a"]


def test_who_is_owed_nothing_is_compared_with_nobody() -> None:
    outcome = _outcome(c=ORDERS[-1:])
    outcome.strangers = frozenset("c")
    assert _wrong(outcome).fine


def test_books_take_no_more_room_for_many_orders_and_skip_what_is_no_order() -> None:
    books = Books()
    for number in range(1, 1001):
        books.apply(f"deposit ada 1 | {order_name('a', 0, number)}")
    for foreign in ("", "\0 what no replica wrote", "deposit ada 100 | nobody"):
        books.apply(foreign)
    assert books.applied == {"a.0": [(1, 1000)]}
    assert books.skipped == 3
    assert books.ledger.balances["ada"] == 1000
    assert books.doubled == []


def test_books_of_several_groups_are_judged_group_by_group() -> None:
    groups = {"x": ("a", "b"), "y": ("b", "c")}
    cluster = Cluster("propagation-graph", groups, dict.fromkeys(NAMES, 1.0))

    def outcome_of(last: list[str]) -> Outcome:
        outcome = _outcome()
        outcome.results = {
            "a": _books(ORDERS),
            "b": {"books": {"x": _books(ORDERS), "y": _books(ORDERS[:4])}},
            "c": _books(last),
        }
        outcome.acknowledged = {"a": ["x a.0.3"], "c": ["y a.0.2"]}
        return outcome

    fine = outcome_of(ORDERS[:4])
    assert judge_run(cluster, PLAN, fine).fine
    verdict = judge_run(cluster, PLAN, outcome_of(ORDERS[:3]))
    assert _fields(verdict) == {"divergence", "lost"}
    assert set(verdict.divergence) == {"a", "b for x", "b for y", "c"}
    assert verdict.lost == {"c": ["a.0.2"]}
