"""Symmetric timestamps: what they promise under faults, and the steps that the promises rest on."""

from __future__ import annotations

from collections import Counter

import pytest

from ordercast.core import MessageId, Multicast, UsageError, WireError
from ordercast.core.effects import Append, Effect, Replay
from ordercast.core.events import Consumed, Recovered, TimerFired
from ordercast.protocols import find_protocol
from ordercast.protocols.classic.lamport import Lamport, LamportOptions
from ordercast.protocols.classic.lamport.packets import Data, Request, Reserved, Tick
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, SlowReader
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, branches_never_taken, broken_claims, delivered, random_run, sent

GROUPS = {"g": ("a", "b"), "h": ("b", "c")}
SITES = ("a", "b", "c")
TINY = LamportOptions(
    window_messages=2, acknowledge_every=1, interval_seconds=0.03, interval_seconds_max=0.05, blocked_seconds=0.3
)


def hand(site: str, options: LamportOptions | None = None, incarnation: int = 0) -> Hand:
    return Hand(Lamport, site, GROUPS, SITES, options, incarnation)


def message(source: str, number: int) -> MessageId:
    return MessageId(source, 0, number)


def data(time: int, source: str, number: int, group: str, numbers: tuple[int, int]) -> Data:
    return Data(time, numbers, Multicast(message(source, number), (group,)))


def tick(time: int, highest: tuple[int, int, int] = (0, 0, 0), reply: bool = False) -> Tick:
    return Tick(time, highest, (0, 0, 0), reply)


def test_it_is_found_by_its_name() -> None:
    assert find_protocol("lamport") is Lamport


# ---------------------------------------------------------------------- under faults
@pytest.mark.parametrize("seed", range(30))
def test_all_claims_hold_under_any_mixture_of_faults(seed: int) -> None:
    assert broken_claims(random_run(Lamport, seed)) == {}


@pytest.mark.parametrize("seed", range(1000, 1010))
def test_all_claims_hold_with_tiny_windows_and_timeouts(seed: int) -> None:
    assert broken_claims(random_run(Lamport, seed, TINY)) == {}


def test_every_branch_of_note_is_taken() -> None:
    taken: Counter[str] = Counter()
    for seed in range(2000, 2012):
        taken.update(random_run(Lamport, seed, TINY if seed % 2 else None).execute().branches)
    assert branches_never_taken(Lamport, taken) == set()


def run_with(fault: Crash | SlowReader, options: LamportOptions | None = None) -> Simulation:
    return Simulation(
        Lamport,
        GROUPS,
        PointToPoint(),
        sites=SITES,
        options=options,
        faults=[fault],
        workloads=[Workload(sources=("a", "b"), groups=("g",), rate=20.0, count=60)],
        duration=6.0,
        settle=10.0,
    )


def test_everyone_waits_for_a_crashed_site_and_names_it_even_if_it_is_no_destination() -> None:
    simulation = run_with(Crash(from_=1.0, to=5.0, sites=("c",)))
    assert broken_claims(simulation) == {}
    for site in ("a", "b"):
        assert any("site c has not said" in reason for reason in simulation.sites[site].blocked_reasons)
    rows = simulation.table().to_pylist()
    assert not [row for row in rows if row["kind"] == "deliver" and 1.1 < row["time"] < 5.0]
    assert simulation.branches["unblocked"]


def test_nobody_waits_for_a_site_that_is_not_among_the_sources() -> None:
    simulation = run_with(Crash(from_=1.0, to=5.0, sites=("c",)), LamportOptions(sources=("a", "b")))
    assert broken_claims(simulation) == {}
    rows = simulation.table().to_pylist()
    assert [row for row in rows if row["kind"] == "deliver" and 1.1 < row["time"] < 5.0]
    assert not simulation.sites["a"].blocked_reasons


def test_a_slow_reader_stops_the_sources_at_their_windows() -> None:
    simulation = run_with(SlowReader(from_=0.0, sites=("b",), seconds=1.0), LamportOptions(window_messages=4))
    assert broken_claims(simulation) == {}
    assert any("the window is full: site b" in reason for reason in simulation.sites["a"].blocked_reasons)


def test_a_quiet_system_is_silent() -> None:
    simulation = Simulation(
        Lamport,
        GROUPS,
        PointToPoint(),
        workloads=[Workload(sources=("a",), groups=("g",), rate=10.0, count=3)],
        duration=2.0,
        settle=20.0,
    ).execute()
    rows = simulation.table().to_pylist()
    last = max(row["time"] for row in rows if row["kind"] == "deliver")
    assert max(row["time"] for row in rows if row["kind"] == "send") < last + 2.0


def test_the_log_is_bounded_by_checkpoints() -> None:
    simulation = Simulation(
        Lamport,
        {"g": ("a", "b")},
        PointToPoint(),
        workloads=[Workload(sources=("a",), groups=("g",), rate=500.0, count=2000, size=0)],
        duration=5.0,
        settle=1.0,
        tracing=False,
        check_invariants=False,
    ).execute()
    for site in simulation.sites.values():
        recovery = site.disk.logs["main"].recover()
        assert recovery.checkpoint is not None
        assert len(recovery.checkpoint) < 20_000
        assert len(recovery.records) < 1500


# ---------------------------------------------------------------------- timestamps
def test_a_message_waits_until_every_clock_has_passed_its_timestamp() -> None:
    b = hand("b")
    assert delivered(b.receive("a", data(5, "a", 1, "g", (1, 1)))) == []
    assert delivered(b.receive("c", tick(4))) == []
    assert delivered(b.receive("c", tick(5))) == [message("a", 1)]


def test_messages_are_delivered_by_timestamp_and_then_by_site() -> None:
    b = hand("b")
    b.receive("c", data(5, "c", 1, "h", (1, 1)))
    assert delivered(b.receive("a", data(5, "a", 1, "g", (1, 1)))) == [message("a", 1), message("c", 1)]


def test_a_clock_counts_only_when_the_messages_before_it_are_there() -> None:
    b = hand("b")
    b.receive("a", data(5, "a", 1, "g", (1, 1)))
    effects = b.receive("c", tick(9, (0, 1, 0)))
    assert delivered(effects) == []
    assert sent(effects) == [(("c",), Request(((1, 1),)))]
    assert delivered(b.receive("c", data(3, "c", 1, "h", (1, 1)))) == [message("c", 1), message("a", 1)]


def test_a_gap_is_asked_for_at_once_and_each_part_of_it_only_once() -> None:
    b = hand("b")
    assert sent(b.receive("a", data(5, "a", 3, "g", (3, 3)))) == [(("a",), Request(((1, 2),)))]
    assert sent(b.receive("a", data(6, "a", 4, "g", (4, 4)))) == []
    assert sent(b.receive("a", data(8, "a", 6, "g", (6, 6)))) == [(("a",), Request(((5, 5),)))]


def test_what_is_asked_for_is_sent_again() -> None:
    a = hand("a")
    first = a.multicast("g")
    assert sent(a.receive("b", Request(((1, 99),)))) == [(("b",), Data(1, (1, 1), Multicast(first, ("g",))))]


def test_an_own_message_gets_a_timestamp_after_everything_heard() -> None:
    b = hand("b")
    b.receive("c", tick(41))
    b.multicast("g")
    assert b.core.clock.time == 42  # type: ignore[attr-defined]


def test_a_site_tells_its_clock_to_those_who_have_not_heard_it_with_a_message() -> None:
    b = hand("b")
    b.multicast("g")
    effects = b.step(TimerFired("tick"))
    assert [to for to, _ in sent(effects)] == [("c",)]
    assert sent(b.step(TimerFired("tick"))) == []


def test_a_site_that_is_asked_answers_at_once() -> None:
    b = hand("b")
    effects = b.receive("a", tick(7, reply=True))
    assert sent(effects) == [(("a",), tick(7))]


def test_hearing_a_time_that_everyone_knows_leads_to_nothing() -> None:
    b = hand("b")
    b.receive("a", tick(7))
    b.step(TimerFired("tick"))
    assert b.receive("c", tick(7)) == []


def test_a_source_hears_with_a_tick_what_was_taken() -> None:
    b = hand("b", LamportOptions(acknowledge_every=1))
    b.receive("c", tick(9))
    assert delivered(b.receive("a", data(5, "a", 1, "g", (1, 1)))) == [message("a", 1)]
    assert sent(b.step(Consumed(1))) == [(("a",), Tick(9, (0, 0, 0), (1, 0, 0), False))]


# ---------------------------------------------------------------------- crash and recovery
def recovered(old: Hand) -> tuple[Hand, list[Effect]]:
    new = hand(old.core.site, incarnation=1)
    return new, new.step(Recovered(tuple(append.record for append in old.log)))


def test_a_clock_that_was_told_is_passed_after_a_crash() -> None:
    b = hand("b")
    effects = b.receive("a", tick(7, reply=True))
    assert isinstance(effects[-2], Append)
    again, _ = recovered(b)
    again.multicast("g")
    assert again.core.clock.time > 7  # type: ignore[attr-defined]


def test_what_was_delivered_is_passed_after_a_crash_though_the_clock_was_never_told() -> None:
    b = hand("b")
    b.receive("c", tick(7))
    assert delivered(b.receive("a", data(7, "a", 1, "g", (1, 1)))) == [message("a", 1)]
    again, _ = recovered(b)
    again.multicast("g")
    assert again.core.clock.time == 8  # type: ignore[attr-defined]


def test_not_every_clock_value_costs_a_record() -> None:
    b = hand("b")
    for time in range(1, 500):
        b.receive("a", tick(time, reply=True))
    assert [type(append.record) for append in b.log] == [Reserved]


def test_a_site_that_recovers_sends_and_queues_its_own_messages_again() -> None:
    b = hand("b")
    first = b.multicast("g")
    again, effects = recovered(b)
    assert sent(effects)[0] == (("a", "b"), Data(1, (1, 1), Multicast(first, ("g",))))
    again.receive("a", tick(2000))
    assert delivered(again.receive("c", tick(2000))) == [first]


def test_a_site_that_recovers_replays_what_it_had_delivered_and_wants_the_rest_again() -> None:
    b = hand("b")
    b.receive("c", tick(5))
    b.receive("a", data(5, "a", 1, "g", (1, 1)))
    b.receive("a", data(8, "a", 2, "g", (2, 2)))
    again, effects = recovered(b)
    assert [effect.multicast.id for effect in effects if isinstance(effect, Replay)] == [message("a", 1)]
    assert sent(again.receive("a", tick(9, (0, 2, 0)))) == [(("a",), Request(((2, 2),)))]


def test_numbers_go_on_after_a_crash() -> None:
    b = hand("b")
    b.multicast("g")
    again, _ = recovered(b)
    second = again.multicast("g")
    numbers = [
        sent_data.numbers
        for _, sent_data in sent(again.receive("a", Request(((2, 2),))))
        if isinstance(sent_data, Data)
    ]
    assert numbers == [(2, 2)]
    assert second == MessageId("b", 1, 1)


# ---------------------------------------------------------------------- misuse and garbage
def test_a_site_that_is_not_among_the_sources_may_not_multicast() -> None:
    with pytest.raises(UsageError, match="not among the sources"):
        hand("c", LamportOptions(sources=("a", "b"))).multicast("h")


def test_sources_must_exist() -> None:
    with pytest.raises(UsageError, match="no site 'x'"):
        hand("c", LamportOptions(sources=("x",)))


@pytest.mark.parametrize(
    ("sender", "garbage"),
    [
        ("a", data(1, "c", 1, "g", (1, 1))),
        ("a", data(1, "a", 1, "nobody", (1, 1))),
        ("x", data(1, "x", 1, "g", (1, 1))),
        ("a", Data(1, (1,), Multicast(message("a", 1), ("g",)))),
        ("a", Tick(1, (0,), (0, 0, 0), False)),
        ("x", tick(1)),
    ],
)
def test_garbage_from_the_network_is_refused(sender: str, garbage: Data | Tick) -> None:
    with pytest.raises(WireError):
        hand("b").receive(sender, garbage)


@pytest.mark.parametrize(
    "options",
    [{"window_messages": 0}, {"tick_seconds": 0.0}, {"interval_seconds_max": 0.01}, {"blocked_seconds": -1.0}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="options of lamport"):
        LamportOptions(**options)  # type: ignore[arg-type]
