"""The two-phase protocol: what it promises under faults, and the steps that the promises rest on."""

from __future__ import annotations

from collections import Counter

import pytest

from ordercast.core import MessageId, Multicast, UsageError, WireError
from ordercast.core.effects import Blocked, Checkpoint, Credit, Effect, Replay
from ordercast.core.events import Recovered, TimerFired
from ordercast.protocols import find_protocol
from ordercast.protocols.classic.two_phase import TwoPhase, TwoPhaseOptions
from ordercast.protocols.classic.two_phase.packets import Acknowledge, Data, Decided, Final, Held, Noted, Proposal
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, SlowReader
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, branches_never_taken, broken_claims, delivered, random_run, sent

GROUPS = {"g": ("a", "b"), "h": ("b", "c")}
SITES = ("a", "b", "c", "s")
TINY = TwoPhaseOptions(
    window_messages=2, acknowledge_every=1, retransmit_seconds=0.05, retransmit_seconds_max=0.1, blocked_seconds=0.3
)


def hand(site: str, options: TwoPhaseOptions | None = None, incarnation: int = 0) -> Hand:
    return Hand(TwoPhase, site, GROUPS, SITES, options, incarnation)


def message(source: str, number: int) -> MessageId:
    return MessageId(source, 0, number)


def data(source: str, number: int, *groups: str) -> Data:
    return Data(Multicast(message(source, number), groups))


def test_it_is_found_by_its_name() -> None:
    assert find_protocol("two-phase") is TwoPhase


# ---------------------------------------------------------------------- under faults
@pytest.mark.parametrize("seed", range(30))
def test_all_claims_hold_under_any_mixture_of_faults(seed: int) -> None:
    assert broken_claims(random_run(TwoPhase, seed)) == {}


@pytest.mark.parametrize("seed", range(1000, 1010))
def test_all_claims_hold_with_tiny_windows_and_timeouts(seed: int) -> None:
    assert broken_claims(random_run(TwoPhase, seed, TINY)) == {}


def test_every_branch_of_note_is_taken() -> None:
    taken: Counter[str] = Counter()
    for seed in range(2000, 2012):
        taken.update(random_run(TwoPhase, seed, TINY if seed % 2 else None).execute().branches)
    assert branches_never_taken(TwoPhase, taken) == set()


def run_with(
    fault: Crash | SlowReader,
    sources: tuple[str, ...],
    options: TwoPhaseOptions | None = None,
    sync_seconds: float = 0.0,
) -> Simulation:
    return Simulation(
        TwoPhase,
        GROUPS,
        PointToPoint(),
        sites=SITES,
        options=options,
        faults=[fault],
        workloads=[Workload(sources=sources, groups=("g", "h"), rate=20.0, count=60)],
        duration=6.0,
        settle=10.0,
        sync_seconds=sync_seconds,
    )


def test_a_crashed_destination_blocks_and_the_source_names_it_until_it_recovers() -> None:
    simulation = run_with(Crash(from_=1.0, to=5.0, sites=("c",)), ("s",))
    assert broken_claims(simulation) == {}
    assert any("site c has not given" in reason for reason in simulation.sites["s"].blocked_reasons)
    assert simulation.branches["unblocked"]


def test_a_crashed_source_blocks_its_destinations_and_they_name_it() -> None:
    # Sync takes long, so that the source crashes between the phases.
    simulation = run_with(Crash(from_=1.0, to=5.0, sites=("s",)), ("s",), sync_seconds=0.03)
    assert broken_claims(simulation) == {}
    assert any("site s has not decided" in reason for reason in simulation.sites["b"].blocked_reasons)


def test_a_slow_reader_stops_the_source_at_its_window() -> None:
    simulation = run_with(SlowReader(from_=0.0, sites=("b",), seconds=1.0), ("s",), TwoPhaseOptions(window_messages=4))
    assert broken_claims(simulation) == {}
    assert any("the window is full: site b" in reason for reason in simulation.sites["s"].blocked_reasons)


def test_the_log_is_bounded_by_checkpoints() -> None:
    simulation = Simulation(
        TwoPhase,
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


# ---------------------------------------------------------------------- the two phases
def test_a_source_outside_the_group_takes_the_highest_priority() -> None:
    source = hand("s")
    first = source.multicast("g")
    assert sent(source.receive("a", Proposal(first, 7))) == []
    assert sent(source.receive("b", Proposal(first, 3))) == [(("a", "b"), Final(first, 7))]


def test_a_destination_gives_a_priority_above_any_given_or_seen() -> None:
    b = hand("b")
    assert sent(b.receive("s", data("s", 1, "g"))) == [(("s",), Proposal(message("s", 1), 1))]
    b.receive("s", Final(message("s", 1), 9))
    assert sent(b.receive("c", data("c", 1, "h"))) == [(("c",), Proposal(message("c", 1), 10))]


def test_a_message_is_delivered_only_when_it_is_first_and_final() -> None:
    b = hand("b")
    b.receive("s", data("s", 1, "g"))
    b.receive("c", data("c", 1, "h"))
    assert delivered(b.receive("c", Final(message("c", 1), 2))) == []
    assert delivered(b.receive("s", Final(message("s", 1), 5))) == [message("c", 1), message("s", 1)]


def test_a_later_message_of_a_source_waits_for_the_decision_on_an_earlier_one() -> None:
    source = hand("s")
    first, second = source.multicast("g"), source.multicast("h")
    source.receive("c", Proposal(second, 1))
    assert sent(source.receive("b", Proposal(second, 1))) == []
    source.receive("a", Proposal(first, 4))
    # Not below the first one's: with equal numbers the names decide.
    assert sent(source.receive("b", Proposal(first, 2))) == [
        (("a", "b"), Final(first, 4)),
        (("b", "c"), Final(second, 4)),
    ]


def test_a_later_message_to_other_destinations_does_not_wait() -> None:
    source = Hand(TwoPhase, "s", {"g": ("a", "b"), "h": ("c",)}, SITES)
    source.multicast("g")
    second = source.multicast("h")
    assert sent(source.receive("c", Proposal(second, 1))) == [(("c",), Final(second, 1))]


def test_what_was_delivered_is_not_given_a_priority_again() -> None:
    b = hand("b")
    b.receive("s", data("s", 1, "g"))
    b.receive("s", Final(message("s", 1), 1))
    assert sent(b.receive("s", data("s", 1, "g"))) == []
    assert delivered(b.receive("s", Final(message("s", 1), 1))) == []


def test_a_final_priority_that_is_known_already_is_noted() -> None:
    b = hand("b")
    b.receive("s", data("s", 1, "g"))
    b.receive("c", data("c", 1, "h"))
    b.receive("c", Final(message("c", 1), 2))
    assert sent(b.receive("c", Final(message("c", 1), 2))) == [(("c",), Noted(message("c", 1)))]


def test_the_source_forgets_a_message_when_every_destination_has_acknowledged_it() -> None:
    source = hand("s", TwoPhaseOptions(window_messages=1))
    first = source.multicast("g")
    source.receive("a", Proposal(first, 1))
    source.receive("b", Proposal(first, 1))
    assert source.receive("a", Acknowledge(first)) == []
    assert source.receive("b", Acknowledge(first)) == [Credit(1)]


def test_an_acknowledgement_of_something_undecided_is_not_believed() -> None:
    source = hand("s", TwoPhaseOptions(window_messages=1))
    first = source.multicast("g")
    assert source.receive("a", Acknowledge(first)) == []
    assert len(sent(source.receive("a", Proposal(first, 1)))) == 0
    assert sent(source.receive("b", Proposal(first, 1))) == [(("a", "b"), Final(first, 1))]


# ---------------------------------------------------------------------- crash and recovery
def recovered(old: Hand) -> tuple[Hand, list[Effect]]:
    new = hand(old.core.site, incarnation=1)
    return new, new.step(Recovered(tuple(append.record for append in old.log)))


def test_a_destination_that_recovers_has_its_queue_again_and_gives_the_same_priority() -> None:
    b = hand("b")
    b.receive("a", data("a", 1, "g"))
    b.receive("s", data("s", 1, "g"))
    again, _ = recovered(b)
    assert sent(again.receive("s", data("s", 1, "g"))) == [(("s",), Proposal(message("s", 1), 2))]
    assert delivered(again.receive("s", Final(message("s", 1), 2))) == []
    assert delivered(again.receive("a", Final(message("a", 1), 1))) == [message("a", 1), message("s", 1)]


def test_a_destination_that_recovers_replays_what_it_had_delivered() -> None:
    b = hand("b")
    b.receive("s", data("s", 1, "g"))
    b.receive("s", Final(message("s", 1), 6))
    again, effects = recovered(b)
    assert [effect.multicast.id for effect in effects if isinstance(effect, Replay)] == [message("s", 1)]
    assert sent(again.receive("s", data("s", 2, "g"))) == [(("s",), Proposal(message("s", 2), 7))]


def test_a_source_that_recovers_announces_what_it_had_decided() -> None:
    source = hand("s")
    first = source.multicast("g")
    source.receive("a", Proposal(first, 4))
    source.receive("b", Proposal(first, 2))
    again, _ = recovered(source)
    # Whatever it hears now.
    assert sent(again.receive("b", Proposal(first, 8))) == []
    effects = [effect for _ in range(2) for effect in again.step(TimerFired("tick"))]
    assert sent(effects) == [(("a", "b"), Final(first, 4))]


def test_a_source_that_recovers_asks_again_for_priorities_of_what_it_had_not_decided() -> None:
    source = hand("s")
    first = source.multicast("g")
    source.receive("a", Proposal(first, 4))
    again, effects = recovered(source)
    assert (("a", "b"), Data(Multicast(first, ("g",)))) in sent(effects)
    again.receive("b", Proposal(first, 2))
    assert sent(again.receive("a", Proposal(first, 4))) == [(("a", "b"), Final(first, 4))]


def test_the_decision_is_logged_before_it_is_announced() -> None:
    source = hand("s")
    first = source.multicast("h")
    source.receive("b", Proposal(first, 1))
    effects = source.receive("c", Proposal(first, 1))
    assert effects[0] == source.log[-1]
    assert source.log[-1].record == Decided(first, 1)
    assert not any(isinstance(effect, Checkpoint) for effect in effects)


# ---------------------------------------------------------------------- silence and garbage
def test_a_silent_site_is_asked_ever_more_seldom_and_named() -> None:
    options = TwoPhaseOptions(retransmit_seconds=0.1, retransmit_seconds_max=0.8, blocked_seconds=1.0)
    source = hand("s", options)
    first = source.multicast("g")
    source.receive("a", Proposal(first, 1))
    rounds = [source.step(TimerFired("tick")) for _ in range(40)]
    packets = [[packet for _, packet in sent(effects)] for effects in rounds]
    repeats = [at for at, said in enumerate(packets, 1) if any(isinstance(packet, Data) for packet in said)]
    assert repeats == [2, 4, 6, 10, 18, 26, 34]
    assert [at for at, said in enumerate(packets, 1) if Held(("b",)) in said] == [10, 16, 24, 32, 40]
    assert all(sent(rounds[at - 1])[0][0] == ("b",) for at in repeats)
    reasons = [effect.reason for effects in rounds for effect in effects if isinstance(effect, Blocked)]
    assert reasons == [f"site b has not given {first} a priority"]


@pytest.mark.parametrize(
    ("sender", "garbage"),
    [
        ("a", data("s", 1, "g")),
        ("s", data("s", 1, "nobody")),
        ("x", data("x", 1, "g")),
        ("a", Final(message("s", 1), 1)),
        ("a", Acknowledge(message("s", 1))),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_garbage_from_the_network_is_refused(sender: str, garbage: Data | Final | Acknowledge) -> None:
    with pytest.raises(WireError):
        hand("b").receive(sender, garbage)


def test_a_final_priority_below_the_one_given_is_not_believed() -> None:
    b = hand("b")
    b.receive("c", data("c", 1, "h"))
    b.receive("s", data("s", 1, "g"))
    assert b.receive("s", Final(message("s", 1), 1)) == []


@pytest.mark.parametrize(
    "options",
    [{"window_messages": 0}, {"retransmit_seconds": 0.0}, {"retransmit_seconds_max": 0.01}, {"blocked_seconds": -1.0}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="options of two-phase"):
        TwoPhaseOptions(**options)  # type: ignore[arg-type]
