"""Each fault does what it says, is counted when it does, and is gone when it is over."""

from __future__ import annotations

import pytest

from ordercast.core import UsageError
from ordercast.protocols.fan import Fan0
from ordercast.sim import FAULT_KINDS, AnyFault, Simulation, Workload
from ordercast.sim.faults import (
    BurstLoss,
    Crash,
    Cut,
    Delay,
    Duplication,
    Loss,
    Partition,
    Pause,
    Skew,
    SlowReader,
    TornLog,
)
from ordercast.sim.networks import PointToPoint

LATENCY = 0.001


def simulate(*faults: AnyFault, count: int = 100, sources: tuple[str, ...] = ("a",), **changes: object) -> Simulation:
    """`count` messages in the first ten seconds, faults as given, then two seconds of peace."""
    given: dict[str, object] = {"duration": 10.0, "settle": 2.0}
    return Simulation(
        Fan0,
        {"g": ["a", "b", "c"]},
        PointToPoint(0.0, LATENCY),
        workloads=[Workload(sources=sources, groups=("g",), rate=count / 10, arrivals="regular", count=count)],
        faults=faults,
        **(given | changes),  # type: ignore[arg-type]
    ).execute()


def rows(simulation: Simulation, kind: str, site: str | None = None) -> list[dict]:
    table = simulation.table().to_pylist()
    return [row for row in table if row["kind"] == kind and site in (None, row["site"])]


def test_loss_takes_its_share_of_the_packets_while_it_lasts() -> None:
    run = simulate(Loss(from_=2.0, to=8.0, rate=0.5), count=1000)
    dropped = rows(run, "drop")
    assert all(2.0 <= row["time"] <= 8.0 + LATENCY and row["reason"] == "loss" for row in dropped)
    assert 0.45 < len(dropped) / 1200 < 0.55
    assert run.fault_counts["loss"] == len(dropped)


def test_loss_at_one_site_spares_the_others() -> None:
    run = simulate(Loss(from_=0.0, rate=1.0, sites=("b",)))
    assert len(rows(run, "deliver", "b")) == 0
    assert len(rows(run, "deliver", "c")) == 100


def test_burst_loss_comes_in_bursts() -> None:
    run = simulate(BurstLoss(from_=0.0, rate=0.02, length=10.0, sites=("b",)), count=2000)
    lost = {int(row["messages"][0].split(":")[2]) for row in rows(run, "drop", "b")}
    followed = sum(number + 1 in lost for number in lost)
    assert 50 < len(lost) < 1000
    assert followed / len(lost) > 0.8


def test_duplication_brings_packets_twice_under_the_same_number() -> None:
    run = simulate(Duplication(from_=0.0, rate=0.5))
    received = [row["packet_id"] for row in rows(run, "receive", "b")]
    assert 120 < len(received) < 180
    assert len(set(received)) == 100


def test_delay_lets_later_packets_overtake() -> None:
    run = simulate(Delay(from_=0.0, seconds=1.0, rate=0.5))
    order = [int(row["message"].split(":")[2]) for row in rows(run, "deliver", "b")]
    assert sorted(order) == list(range(1, 101))
    assert order != sorted(order)


def test_a_cut_works_one_way_only() -> None:
    run = simulate(Cut(from_=0.0, to=5.0, sites=("a",), peers=("b",)), sources=("a", "b"))
    at_b = {row["message"].split(":")[0] for row in rows(run, "deliver", "b") if row["time"] < 5.0}
    at_a = {row["message"].split(":")[0] for row in rows(run, "deliver", "a") if row["time"] < 5.0}
    assert at_b == {"b"}
    assert at_a == {"a", "b"}


def test_a_partition_splits_and_heals() -> None:
    run = simulate(Partition(from_=0.0, to=5.0, parts=(("a",),)), sources=("a", "b"))
    early = {row["message"].split(":")[0] for row in rows(run, "deliver", "c") if row["time"] < 5.0}
    late = {row["message"].split(":")[0] for row in rows(run, "deliver", "c") if row["time"] > 5.1}
    assert early == {"b"}
    assert late == {"a", "b"}


def test_a_crashed_site_hears_nothing_comes_back_as_a_new_incarnation_and_says_so() -> None:
    run = simulate(Crash(from_=2.0, to=4.0, sites=("b",)))
    times = [row["time"] for row in rows(run, "deliver", "b")]
    assert not any(2.0 < time < 4.0 for time in times)
    assert times[-1] > 9.9
    assert [(row["kind"], row["time"], row["incarnation"]) for k in ("fail", "awake") for row in rows(run, k)] == [
        ("fail", 2.0, 0),
        ("awake", 4.0, 1),
    ]
    assert {row["reason"] for row in rows(run, "drop", "b")} == {"down"}


def test_a_crash_without_an_end_is_over_at_the_heal_unless_it_is_for_ever() -> None:
    assert [row["time"] for row in rows(simulate(Crash(from_=2.0, sites=("b",))), "awake")] == [10.0]
    assert rows(simulate(Crash(from_=2.0, sites=("b",), forever=True)), "awake") == []


def test_a_torn_log_is_a_crash() -> None:
    run = simulate(TornLog(from_=2.0, to=3.0, sites=("b",)))
    assert run.fault_counts["torn-log"] == 1
    assert [row["time"] for row in rows(run, "fail")] == [2.0]


def test_a_paused_site_stands_still_keeps_everything_and_is_recovered_when_its_backlog_is_done() -> None:
    run = simulate(Pause(from_=2.0, to=4.0, sites=("b",)))
    delivered = rows(run, "deliver", "b")
    assert len(delivered) == 100
    assert not any(2.0 < row["time"] < 4.0 for row in delivered)
    (awake,), (recover,) = rows(run, "awake"), rows(run, "recover")
    backlog = [row for row in delivered if row["time"] == 4.0]
    assert len(backlog) == 20
    assert awake["seq"] < backlog[0]["seq"]
    assert backlog[-1]["seq"] < recover["seq"]
    assert recover["incarnation"] == 0


def test_a_skewed_clock_runs_at_its_own_rate_and_jumps_and_goes_right_again() -> None:
    run = simulate(Skew(from_=2.0, to=4.0, sites=("b",), drift=0.5, jump=10.0))
    site = run.sites["b"]
    assert site.clock.read(12.0) == pytest.approx(12.0 + 10.0 + 1.0)
    assert run.sites["a"].clock.read(12.0) == 12.0


def test_the_time_at_a_site_never_goes_backwards_in_the_trace() -> None:
    run = simulate(
        Pause(from_=1.0, to=2.0, sites=("b",)),
        Crash(from_=3.0, to=4.0, sites=("b", "c")),
        Delay(from_=0.0, seconds=0.5),
        Loss(from_=0.0, rate=0.2),
        sources=("a", "b"),
    )
    for site in "abc":
        found = [row for row in run.table().to_pylist() if row["site"] == site]
        assert [row["seq"] for row in found] == list(range(len(found)))
        times = [row["time"] for row in found]
        assert times == sorted(times)


@pytest.mark.parametrize(
    "fault",
    [
        Loss(from_=0.0, rate=1.5),
        Loss(from_=0.0, rate=-0.1),
        Loss(from_=2.0, to=1.0, rate=0.1),
        Loss(from_=-1.0, rate=0.1),
        Loss(from_=0.0, rate=0.1, sites=("z",)),
        BurstLoss(from_=0.0, rate=0.1, length=0.5),
        Duplication(from_=0.0, rate=0.1, seconds=-1.0),
        Delay(from_=0.0, seconds=-1.0),
        Cut(from_=0.0, sites=("a",), peers=()),
        Cut(from_=0.0, sites=("a",), peers=("z",)),
        Partition(from_=0.0, parts=()),
        Partition(from_=0.0, parts=(("a",), ("a",))),
        Partition(from_=0.0, parts=(("z",),)),
        Crash(from_=0.0),
        Skew(from_=0.0, sites=("a",), drift=-1.0),
        SlowReader(from_=0.0, sites=("a",), seconds=-1.0),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(fault: AnyFault) -> None:
    with pytest.raises(UsageError):
        fault.check(frozenset("abc"))


def test_the_kinds_of_faults_have_their_names() -> None:
    assert set(FAULT_KINDS) == {
        "loss",
        "burst-loss",
        "duplication",
        "delay",
        "cut",
        "partition",
        "crash",
        "torn-log",
        "pause",
        "skew",
        "slow-reader",
        "outage",
        "away",
        "rollback",
        "lost-log",
        "drift",
        "foreign",
        "priorities",
        "bare-quorum",
        "old-packets",
        "at-effect",
        "hit-leader",
    }
