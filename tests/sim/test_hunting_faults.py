"""Faults that follow the run: they strike at effects, links, quorums and leaders, and not at times."""

from __future__ import annotations

import pytest

from ordercast.core import UsageError
from ordercast.protocols.classic.sequencer import Sequencer
from ordercast.sim import AnyFault, Simulation, Workload
from ordercast.sim.faults import Crash
from ordercast.sim.hunting_faults import AtEffect, BareQuorum, HitLeader, OldPackets, Priorities
from ordercast.sim.networks import PointToPoint

LATENCY = 0.001


def simulate(*faults: AnyFault, **changes: object) -> Simulation:
    """A sequencer, a, and two others; ten messages a second for four seconds, then ten seconds of peace."""
    given: dict[str, object] = {"duration": 4.0, "settle": 10.0, "sync_seconds": 0.001}
    return Simulation(
        Sequencer,
        {"g": ["a", "b", "c"]},
        PointToPoint(0.0, LATENCY),
        workloads=[Workload(sources=("b",), groups=("g",), rate=10, arrivals="regular", count=40)],
        faults=faults,
        **(given | changes),  # type: ignore[arg-type]
    ).execute()


def rows(simulation: Simulation, kind: str, site: str | None = None) -> list[dict]:
    table = simulation.table().to_pylist()
    return [row for row in table if row["kind"] == kind and site in (None, row["site"])]


def delivers_everything(simulation: Simulation) -> bool:
    multicasts = [row["message"] for row in rows(simulation, "multicast")]
    return len(multicasts) > 30 and all(
        [row["message"] for row in rows(simulation, "deliver", site)] == multicasts for site in "abc"
    )


@pytest.mark.parametrize("effect", ["append", "send", "deliver"])
@pytest.mark.parametrize("after", [False, True])
def test_a_site_crashes_at_the_effect_and_comes_back(effect: str, after: bool) -> None:
    fault = AtEffect(from_=0.5, sites=("a",), effect=effect, number=3, after=after, seconds=0.4)  # type: ignore[arg-type]
    run = simulate(fault)
    assert run.fault_counts["at-effect"] == 1
    (failed,), (awake,) = rows(run, "fail", "a"), rows(run, "awake", "a")
    assert 0.5 <= failed["time"] < 1.5
    assert awake["time"] - failed["time"] == pytest.approx(0.4, abs=0.01)
    assert delivers_everything(run)


def test_what_a_step_wants_after_the_effect_is_not_done() -> None:
    before = simulate(AtEffect(from_=0.0, sites=("a",), effect="send", number=1, after=False))
    after = simulate(AtEffect(from_=0.0, sites=("a",), effect="send", number=1, after=True))
    moment = rows(before, "fail", "a")[0]["time"]
    sent = [[row for row in rows(run, "send", "a") if row["time"] <= moment] for run in (before, after)]
    assert len(sent[0]) == 0 < len(sent[1])


def test_an_effect_that_never_comes_is_no_fault_that_counts() -> None:
    run = simulate(AtEffect(from_=0.0, sites=("a",), effect="send", number=100_000))
    assert not run.fault_counts
    assert delivers_everything(run)


def test_slow_links_stay_slow_and_the_others_are_as_fast_as_ever() -> None:
    run = simulate(Priorities(from_=0.0, seconds=0.5, changes=0))
    sent = {row["packet_id"]: row for row in rows(run, "send") if row["time"] < 3.0}
    late: dict[tuple[str, str], set[bool]] = {}
    for row in rows(run, "receive"):
        if row["packet_id"] in sent and row["peer"] != row["site"]:
            seconds = row["time"] - sent[row["packet_id"]]["time"]
            late.setdefault((row["peer"], row["site"]), set()).add(seconds > 2 * LATENCY)
    assert run.fault_counts["priorities"] > 0
    assert all(len(kinds) == 1 for kinds in late.values())
    assert {True, False} == {kind for kinds in late.values() for kind in kinds}
    assert delivers_everything(run)


def test_two_majorities_that_follow_each_other_share_one_site() -> None:
    run = simulate(BareQuorum(from_=0.0, seconds=0.5))
    pairs: dict[int, set[frozenset[str]]] = {}
    sent = {row["packet_id"]: row["time"] for row in rows(run, "send") if row["time"] < 3.9}
    for row in rows(run, "receive"):
        begun = sent.get(row["packet_id"])
        if begun is None or row["peer"] == row["site"] or not 0.01 < begun % 0.5 < 0.49:
            continue  # between two turns, both count
        if row["time"] - begun <= 2 * LATENCY:
            pairs.setdefault(int(begun / 0.5), set()).add(frozenset((row["peer"], row["site"])))
    assert all(len(heard) == 1 for heard in pairs.values())
    assert len({pair for heard in pairs.values() for pair in heard}) > 1
    assert delivers_everything(run)


def test_what_a_site_said_and_was_told_before_its_crash_arrives_when_it_is_back() -> None:
    old = OldPackets(from_=0.0, to=1.0, sites=("a",), release=2.0, rate=1.0, spread=0.1)
    run = simulate(old, Crash(from_=1.0, to=1.5, sites=("a",)))
    again = [row for row in rows(run, "receive") if "a" in (row["site"], row["peer"]) and 2.0 <= row["time"] <= 2.2]
    assert run.fault_counts["old-packets"] > 0
    assert len(again) >= run.fault_counts["old-packets"]
    assert delivers_everything(run)


def test_whoever_orders_is_hit_again_and_again() -> None:
    run = simulate(HitLeader(from_=0.0, sites=("a", "b", "c"), every=0.5, seconds=0.1))
    assert run.fault_counts["hit-leader"] >= 3
    assert {row["site"] for row in rows(run, "fail")} == {"a"}
    assert delivers_everything(run)


def test_a_leader_that_must_not_fail_is_spared() -> None:
    run = simulate(HitLeader(from_=0.0, sites=("b", "c"), every=0.5, seconds=0.1))
    assert not run.fault_counts
    assert not rows(run, "fail")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (BareQuorum(from_=0.0, seconds=0.0), "seconds are more than 0"),
        (HitLeader(from_=0.0, sites=("a",), every=0.0), "every is more than 0"),
        (AtEffect(from_=0.0, sites=("a",), effect="send", number=0), "number is 1 or more"),
        (OldPackets(from_=0.0, to=2.0, release=1.0), "is not before to"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(fault: AnyFault, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fault.check(frozenset("abc"))
