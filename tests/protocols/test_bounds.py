"""A member that is away: what the others keep for it stays within its bound in bytes, they wait, everyone who
multicasts names the member that holds everyone up, and when it is back everything goes on.

Messages are as large as a live node's bundles are beside these bounds; the bounds in messages are never reached.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, cast

import pytest

from ordercast.core import MAIN_INSTANCE, Options, Protocol
from ordercast.core.arrangement import Groups
from ordercast.protocols import find_protocol
from ordercast.protocols.broadcast_tree import BroadcastTree, BroadcastTreeOptions
from ordercast.protocols.classic.lamport import Lamport, LamportOptions
from ordercast.protocols.classic.sequencer import Sequencer, SequencerOptions
from ordercast.protocols.classic.two_phase import TwoPhase, TwoPhaseOptions
from ordercast.protocols.fan import Fan3, FanOptions
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.selective_total import SelectiveTotal, SelectiveTotalOptions
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Fault, SlowReader
from ordercast.sim.networks import OneChannel, PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import broken_claims

SIZE = 10_000
BOUND = 20 * SIZE
AWAY_FROM = 1.0
DURATION = 12.0
ABC: Groups = {"g": ("a", "b", "c")}


class Kept(NamedTuple):
    """What a core keeps for others, measured again from what is there."""

    what: str
    kept_bytes: int


class Case(NamedTuple):
    """A protocol, and how its bound is set and measured."""

    protocol: str
    options: Options
    measure: Callable[[Any], list[Kept]]
    groups: Groups = ABC
    sources: tuple[str, ...] = ("a", "b")
    elsewhere: Mapping[str, str] = {}
    """Source -> the group to which it multicasts, where that is not g."""
    limit: int = BOUND


def watched(protocol: type[Protocol], measure: Callable[[Any], list[Kept]]) -> type[Protocol]:
    """The protocol, which notes after every step what it keeps, and what is in its way."""

    class Watched(protocol):  # type: ignore[misc, valid-type]
        most: ClassVar[dict[str, int]] = {}

        def __init__(self, *arguments: Any) -> None:
            self.reasons: dict[str, str] = {}
            super().__init__(*arguments)

        def block(self, by: str, reason: str) -> None:
            super().block(by, reason)
            self.reasons[by] = reason

        def check_invariants(self) -> None:
            super().check_invariants()
            for what, kept_bytes in measure(self):
                self.most[what] = max(self.most.get(what, 0), kept_bytes)

    return Watched


def reasons(simulation: Simulation, site: str) -> str:
    """What is in the way of a site now."""
    instance = simulation.sites[site].instances[MAIN_INSTANCE]
    return "; ".join(reason for reason in cast(Any, instance.core).reasons.values() if reason)


def size_of(payloads: Any) -> int:
    return sum(len(payload) for payload in payloads)


def sequencer(core: Sequencer) -> list[Kept]:
    return [
        Kept("submissions", size_of(submit.multicast.payload for submit in core.source.pending.values())),
        *(
            Kept("history", size_of(each.multicast.payload for each in link.kept))
            for link in core.center.links.values()
        ),
    ]


def propagation_graph(core: PropagationGraph) -> list[Kept]:
    return [
        Kept("own messages", core.own_pending_bytes),
        Kept("deliveries", sum(core.untaken)),
        *(Kept("an edge", size_of(each.multicast.payload for each in edge.kept)) for edge in core.outgoing.values()),
        *(
            Kept("a wait queue", size_of(each.multicast.payload for each in edge.early.values()))
            for edge in core.incoming.values()
        ),
    ]


def fan(core: Fan3) -> list[Kept]:
    return [
        Kept("the log", size_of(each.payload for stream in core.outgoing.values() for each in stream.kept)),
        Kept("early", size_of(each.payload for stream in core.incoming.values() for each in stream.early.values())),
    ]


def two_phase(core: TwoPhase) -> list[Kept]:
    queued: Counter[str] = Counter()
    for entry in core.destination.entries.values():
        queued[entry.multicast.id.source] += len(entry.multicast.payload)
    return [
        Kept("the window", size_of(each.multicast.payload for each in core.source.pending.values())),
        *(Kept("the queue", kept_bytes) for kept_bytes in queued.values()),
    ]


def lamport(core: Lamport) -> list[Kept]:
    queued: Counter[str] = Counter()
    for _, _, multicast in core.destination.queue:
        queued[multicast.id.source] += len(multicast.payload)
    return [
        Kept("the window", size_of(each.data.multicast.payload for each in core.source.pending.values())),
        *(Kept("the queue", kept_bytes) for kept_bytes in queued.values()),
    ]


def broadcast_tree(core: BroadcastTree) -> list[Kept]:
    kept = size_of(each.payload for stream in core.streams.values() for each in stream.kept.values())
    return [Kept("the messages of all sources", kept)]


CASES = [
    Case("sequencer", SequencerOptions(history_bytes_max=BOUND), sequencer),
    # The sequencer is none of the group's members.
    Case(
        "sequencer",
        SequencerOptions(sequencer="d", history_bytes_max=BOUND),
        sequencer,
        {**ABC, "h": ("a", "d")},
        ("a", "b", "d"),
    ),
    Case(
        "propagation-graph", PropagationGraphOptions(history_bytes_max=BOUND, away_bytes_max=BOUND), propagation_graph
    ),
    Case("fan-3", FanOptions(log_bytes_max=BOUND, sources=("a", "b")), fan),
    Case("two-phase", TwoPhaseOptions(window_bytes_max=BOUND), two_phase),
    # What is decided waits at b behind what is not, and what d sends waits for b.
    Case(
        "two-phase",
        TwoPhaseOptions(window_bytes_max=BOUND),
        two_phase,
        {**ABC, "h": ("b", "d")},
        ("a", "b", "d"),
        {"b": "h", "d": "h"},
    ),
    Case("lamport", LamportOptions(window_bytes_max=BOUND), lamport),
    # Nobody waits for the clock of c, which only receives.
    Case(
        "lamport",
        LamportOptions(window_bytes_max=BOUND, sources=("a", "b", "d")),
        lamport,
        {**ABC, "h": ("b", "d")},
        ("a", "b", "d"),
    ),
    # Before they hear of each other, two sources do not know that they share the bound.
    Case("broadcast-tree", BroadcastTreeOptions(kept_bytes_max=BOUND), broadcast_tree, limit=2 * BOUND),
    # A chain: d is above b, and that above c, which is away. What d and e see is that b takes nothing.
    Case(
        "propagation-graph",
        PropagationGraphOptions(history_bytes_max=BOUND, away_bytes_max=BOUND, parents={"b": "d", "c": "b"}),
        propagation_graph,
        {"g": ("b", "c", "d")},
        ("b", "d", "e"),
    ),
]


def away(case: Case, seed: int = 0) -> tuple[Simulation, dict[str, str], dict[str, int]]:
    """A run in which c is away for ten seconds; what is in the way of the others when it comes back; the most that
    anybody kept until then."""
    protocol = watched(find_protocol(case.protocol), case.measure)
    simulation = Simulation(
        protocol,
        case.groups,
        PointToPoint(latency=0.001),
        seed=seed,
        options=case.options,
        workloads=[
            Workload(sources=(source,), groups=(case.elsewhere.get(source, "g"),), rate=30.0, size=SIZE)
            for source in case.sources
        ],
        faults=[Crash(from_=AWAY_FROM, sites=("c",))],
        duration=DURATION,
        settle=30.0,
    )
    before: dict[str, str] = {}
    most: dict[str, int] = {}

    def look() -> None:
        before.update({site: reasons(simulation, site) for site in case.sources})
        most.update(cast(Any, protocol).most)

    simulation.queue.schedule(DURATION - 0.01, look)
    assert not broken_claims(simulation)
    return simulation, before, most


@pytest.mark.parametrize("case", CASES, ids=[f"{case.protocol}-{len(case.sources)}" for case in CASES])
def test_a_member_that_is_away_fills_no_more_than_the_bound_is_named_and_gets_everything_when_it_is_back(
    case: Case,
) -> None:
    simulation, before, most = away(case)
    for site, reason in before.items():
        assert re.search(r"\bc\b", reason), f"{site} says {reason!r}"
    for what, kept_bytes in most.items():
        assert kept_bytes <= case.limit + SIZE, f"{kept_bytes} bytes of {what}"
    assert max(most.values()) >= BOUND / 2, "the bound is not what stopped anyone"
    for site in simulation.sites:
        assert reasons(simulation, site) == ""


# ---------------------------------------------------------------------- who is left out
def one_channel(fault: Fault, look_at: float, settle: float) -> tuple[Simulation, dict[str, str], dict[str, int]]:
    """Selective total order, a fault from the first second on; what is in the way of a and b at some time; the most
    that anybody kept."""
    protocol = watched(SelectiveTotal, selective_total)
    simulation = Simulation(
        protocol,
        ABC,
        OneChannel(),
        options=SelectiveTotalOptions(buffer_bytes_max=BOUND),
        workloads=[Workload(sources=("a", "b"), groups=("g",), rate=30.0, size=SIZE)],
        faults=[fault],
        duration=DURATION,
        settle=settle,
    )
    before: dict[str, str] = {}
    simulation.queue.schedule(look_at, lambda: before.update({site: reasons(simulation, site) for site in ("a", "b")}))
    assert not broken_claims(simulation)
    return simulation, before, cast(Any, protocol).most


def selective_total(core: SelectiveTotal) -> list[Kept]:
    return [
        Kept("buffers", core.receipt.held_bytes),
        Kept("waiting", size_of(each.payload for each in core.transmission.pending)),
        Kept("under way", size_of(each.multicast.payload for each in core.transmission.sent)),
    ]


def test_selective_total_names_a_member_that_has_crashed_until_it_goes_on_without() -> None:
    simulation, before, most = one_channel(Crash(from_=AWAY_FROM, sites=("c",), forever=True), 6.0, 30.0)
    for reason in before.values():
        assert reason == "c has not accepted what was sent"
    for site in ("a", "b"):
        assert reasons(simulation, site) == ""
    # What two senders have under way at once is half of a receiver's buffers; a quarter may wait at its source.
    assert most["under way"] <= BOUND / 4 + SIZE
    assert most["waiting"] <= BOUND / 4 + SIZE


def test_selective_total_names_a_member_whose_application_is_slow_and_holds_no_more_than_its_buffers() -> None:
    simulation, before, most = one_channel(SlowReader(from_=AWAY_FROM, sites=("c",), seconds=2.0), 11.0, 60.0)
    for reason in before.values():
        assert reason == "the buffers of c are full: its application is slow"
    assert BOUND / 2 <= most["buffers"] <= BOUND + len(ABC["g"]) * SIZE
    for site in simulation.sites:
        assert reasons(simulation, site) == ""
