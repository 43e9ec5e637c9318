"""SCALATOM: whoever is away is given up, the others go on, and it returns behind what they have forgotten."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ordercast.core.effects import Deliver, EnterGroup, ExitGroup, Replay
from ordercast.core.events import Consumed, Recovered, TimerFired
from ordercast.protocols.parts.consensus_packets import Decide, Propose, Value
from ordercast.protocols.parts.kept_packets import Settled
from ordercast.protocols.parts.multicast import Data
from ordercast.protocols.scalatom import Scalatom, ScalatomOptions
from ordercast.protocols.scalatom.packets import AddressState, Gone, Resumption, Skipped
from ordercast.runtime import Instance
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Fault, Loss, Partition, SlowReader
from ordercast.sim.networks import PointToPoint
from ordercast.sim.site import SimulatedSite
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, broken_claims, delivered, sent
from tests.protocols.scalatom_runs import THREE, data, deliver_first, hand, kinds, message, stamps

SMALL = ScalatomOptions(window_messages=8, kept_messages_max=16, blocked_seconds=0.4)
FIVE: dict[str, tuple[str, ...]] = {"g": ("a", "b", "c", "d", "e")}


class Watched:
    """A run, and what the applications of its sites saw: deliveries, and where they went on."""

    def __init__(self, groups: dict[str, tuple[str, ...]], faults: list[Fault], **keywords: Any) -> None:
        self.groups = groups
        self.seen: dict[str, list[tuple[str, tuple[str, ...], Any]]] = {}
        sources = keywords.pop("sources", ("a",))
        options = keywords.pop("options", SMALL)
        protocol = keywords.pop("protocol", Scalatom)
        workload = Workload(sources=sources, groups=tuple(groups), choose=1, rate=40.0, count=320)
        self.simulation = Simulation(
            protocol,
            groups,
            PointToPoint(latency=0.005),
            options=options,
            faults=faults,
            workloads=[workload],
            duration=10.0,
            settle=20.0,
            application=self._on_delivery,
            **keywords,
        )
        for name, site in self.simulation.sites.items():
            self._listen(name, site)

    def _on_delivery(self, site: str, time: float, effect: Deliver | Replay) -> None:
        multicast = effect.multicast
        self.seen.setdefault(site, []).append((type(effect).__name__, multicast.groups, multicast.id))

    def _listen(self, name: str, site: SimulatedSite) -> None:
        def enter_group(instance: Instance, effect: EnterGroup) -> None:
            self.seen.setdefault(name, []).append(("EnterGroup", (effect.group,), effect.offset))

        site.enter_group = enter_group  # type: ignore[method-assign]

    def delivered(self, site: str) -> int:
        return sum(kind == "Deliver" for kind, _, _ in self.seen[site])

    def check(self) -> Counter[str]:
        """All claims hold; every site has the group's order, from 0 or from where it entered, without any other gap."""
        assert broken_claims(self.simulation) == {}
        for group, members in self.groups.items():
            orders = {site: [row for row in self.seen.get(site, ()) if group in row[1]] for site in members}
            whole = next(rows for rows in orders.values() if not any(kind == "EnterGroup" for kind, _, _ in rows))
            order = list(dict.fromkeys(what for _, _, what in whole))
            for site, rows in orders.items():
                place = 0
                for kind, _, what in rows:
                    if kind == "EnterGroup":
                        place = max(place, what)
                    elif kind == "Deliver" or order[place : place + 1] == [what]:
                        assert order[place] == what, f"{site} delivers {what} at the offset {place} of {group}"
                        place += 1
                assert place == len(order), f"{site} ends at the offset {place} of {group}"
        return self.simulation.branches


def away(site: str, kind: str, begin: float = 1.0, end: float = 6.0) -> Fault:
    if kind == "crash":
        return Crash(from_=begin, to=end, sites=(site,))
    return Partition(from_=begin, to=end, parts=((site,),))


class Forgetful(Scalatom):
    """Takes a checkpoint every few records, which a short run would never reach."""

    checkpoint_records = 8


@pytest.mark.parametrize("protocol", [Scalatom, Forgetful])
@pytest.mark.parametrize("kind", ["crash", "partition"])
@pytest.mark.parametrize("groups", [{"g": ("a", "b", "c")}, FIVE], ids=["three", "five"])
def test_the_others_go_on_without_one_that_is_away_for_several_bounds(
    groups: dict[str, tuple[str, ...]], kind: str, protocol: type[Scalatom]
) -> None:
    run = Watched(groups, [away("c", kind)], protocol=protocol)
    branches = run.check()
    assert branches["given-up"]
    assert branches["skipped"]
    assert run.delivered("a") == 320
    assert run.delivered("c") < 320 - 5 * 16


def test_nobody_is_given_up_before_the_bound() -> None:
    run = Watched({"g": ("a", "b", "c")}, [away("c", "crash")], options=ScalatomOptions())
    branches = run.check()
    assert not branches["given-up"]
    assert run.delivered("c") == 320


def test_the_bound_counts_bytes() -> None:
    options = ScalatomOptions(kept_bytes_max=32 * 1124, blocked_seconds=0.4)
    run = Watched({"g": ("a", "b", "c")}, [away("c", "crash")], options=options)
    largest = 0

    def measure(site: str, time: float, effect: Deliver | Replay) -> None:
        nonlocal largest
        core = run.simulation.sites["a"].instances["main"].core
        assert isinstance(core, Scalatom)
        if 2.5 < time < 6.0:
            largest = max(largest, core.entries.bytes_kept)

    run.simulation.application = measure
    assert broken_claims(run.simulation) == {}
    assert run.simulation.branches["given-up"]
    assert 16 * 1124 < largest < 2 * 32 * 1124


def test_a_site_of_one_of_two_cells_is_away() -> None:
    run = Watched({"g": THREE["g"], "h": THREE["h"]}, [away("e", "crash")], sources=("a", "x"))
    assert run.check()["skipped"]
    overlapping = {"g": tuple("abcdef"), "h": tuple("defghi")}
    run = Watched(overlapping, [away("e", "partition"), away("b", "crash")], sources=("a", "x"))
    assert run.check()["skipped"]


@pytest.mark.parametrize("kind", ["crash", "partition"])
def test_a_source_is_away_with_messages_under_way(kind: str) -> None:
    """They are decided without it, and it may send again when it is back."""
    run = Watched({"g": ("a", "b", "c")}, [away("c", kind)], sources=("a", "c"))
    branches = run.check()
    assert branches["skipped"]
    core = run.simulation.sites["c"].instances["main"].core
    assert isinstance(core, Scalatom)
    assert not core.entries
    assert not core.source.is_held_up()


def test_two_of_five_are_away() -> None:
    run = Watched(FIVE, [away("c", "crash"), away("d", "partition", 1.5, 7.0)], sources=("a", "b"))
    assert run.check()["skipped"] >= 2


@pytest.mark.parametrize("after", [0.01, 0.03, 0.05, 0.1, 0.3])
def test_a_site_crashes_while_it_takes_over(after: float) -> None:
    faults = [away("c", "crash"), Crash(from_=6.0 + after, to=6.5 + after, sites=("c",))]
    assert Watched({"g": ("a", "b", "c")}, faults).check()["skipped"]


def test_one_that_has_given_up_crashes_before_the_other_returns() -> None:
    faults = [away("c", "crash"), Crash(from_=5.5, to=5.8, sites=("a",)), Crash(from_=5.8, to=6.1, sites=("b",))]
    assert Watched({"g": ("a", "b", "c")}, faults, protocol=Forgetful).check()["skipped"]


def test_a_site_returns_during_a_partition() -> None:
    """c is with d alone, and then with all."""
    faults = [away("c", "crash", 1.0, 5.0), Partition(from_=4.5, to=6.5, parts=(("c", "d"),))]
    assert Watched(FIVE, faults).check()["skipped"]


def test_a_site_returns_over_a_bad_network() -> None:
    faults = [away("c", "crash"), Loss(from_=0.5, to=9.0, rate=0.2)]
    assert Watched({"g": ("a", "b", "c")}, faults, sources=("a", "b")).check()["skipped"]


def test_whoever_is_there_and_slow_is_waited_for_and_named() -> None:
    faults: list[Fault] = [SlowReader(from_=1.0, to=6.0, sites=("c",), seconds=0.2)]
    run = Watched({"g": ("a", "b", "c")}, faults)
    branches = run.check()
    assert branches["held-up"]
    assert not branches["skipped"]
    assert run.delivered("c") == run.delivered("a")


# ---------------------------------------------------------------------- by hand
def resumption(sequence: int, offset: int = 7, next_instance: int = 5) -> Resumption:
    addresses = (AddressState((0,), next_instance, (), ((next_instance, "b"),)),)
    return Resumption((sequence, message("x", 40)), (("g", offset),), addresses)


def returned(site: str = "a", sequence: int = 50) -> Hand:
    """A site that stamped x's second message, was away, and has skipped."""
    first = hand(site)
    first.receive("x", data(1, "x", 2))
    again = hand(site, incarnation=1)
    again.step(Recovered((*(e.record for e in first.log), Skipped(resumption(sequence)))))
    return again


def test_a_skip_is_logged_before_it_is_told_and_said_again_after_a_crash() -> None:
    again = hand("a", incarnation=1)
    effects = again.step(Recovered((Skipped(resumption(50)),)))
    assert [e for e in effects if isinstance(e, ExitGroup | EnterGroup)] == [ExitGroup("g"), EnterGroup("g", 7)]
    core = again.core
    assert isinstance(core, Scalatom)
    assert core.ordering.clock > 50
    assert core.histories.offsets == {"g": 7}


def test_a_message_of_before_the_absence_is_dropped_when_somebody_says_that_it_is_gone() -> None:
    a = returned()
    core = a.core
    assert isinstance(core, Scalatom)
    gone = Gone(9, (message("x", 2),), (50, message("x", 40)))
    # Not when it may stand behind what was skipped.
    a.receive("b", Gone(8, (message("x", 2),), (60, message("x", 41))))
    assert message("x", 2) in core.entries
    a.receive("b", gone)
    assert message("x", 2) not in core.entries


def test_a_decision_that_was_skipped_delivers_nothing() -> None:
    a = returned()
    effects = a.receive("b", Decide(9, (2, 0), Value("b", ((message("x", 2), 20),))))
    assert delivered(effects) == []
    assert isinstance(a.core, Scalatom)
    assert message("x", 2) not in a.core.entries


def test_nobody_takes_a_proposal_with_a_message_that_has_its_number() -> None:
    """x is over at b. c was away, and proposes it again in a later batch: else it gets a second number."""
    x, y = message("x", 1), message("x", 2)
    b = hand("b")
    b.receive("x", data(1, "x", 1))
    b.receive("a", stamps(1, (x, 1, 1), count=1, promise=9))
    b.receive("a", Decide(2, (1, 0), Value("a", ((x, 1),))))
    effects = b.receive("c", Propose(3, (2, 0), 0, Value("c", ((x, 5), (y, 6)))))
    assert "Ack" not in kinds(effects)
    assert [packet.instance for _, packet in sent(effects) if isinstance(packet, Decide)] == [(1, 0)]
    assert "Ack" in kinds(b.receive("c", Propose(4, (2, 0), 0, Value("c", ((y, 6),)))))


def test_a_history_with_a_hole_does_not_count_before_the_site_is_past_it() -> None:
    """b has given a up, c has not: what b says is complete lacks what c has."""
    x = message("x", 1)
    a = hand("a")
    core = a.core
    assert isinstance(core, Scalatom)
    a.receive("x", data(1, "x", 1))
    core.histories.mates["b"].resumption = resumption(50)
    a.receive("b", stamps(1, (x, 1, 1), count=1, promise=99))
    assert delivered(a.receive("b", Decide(2, (1, 0), Value("b", ((x, 1),))))) == []
    assert delivered(a.receive("c", stamps(3, (x, 1, 1), count=1, promise=99))) == [x]


def test_a_floor_is_not_relied_upon_by_a_site_that_is_not_as_far() -> None:
    """x has given a up, and calls its first message finished; b keeps that one for a."""
    a = hand("a")
    core = a.core
    assert isinstance(core, Scalatom)
    second = Data(1, data(2, "x", 2).multicast, (0, 2), ((7, message("x", 1)),))
    a.receive("x", second)
    assert not core.multicast.is_finished(message("x", 1))
    a.receive("b", stamps(1, (message("x", 1), 1, 1)))
    assert message("x", 1) in core.entries


def test_nothing_is_forgotten_that_a_majority_has_not_taken() -> None:
    """b and c are silent. If a forgot what it alone has taken, they would go on without it when a is gone."""
    options = ScalatomOptions(window_messages=1, kept_messages_max=1)
    a = Hand(Scalatom, "a", {"g": ("a", "b", "c")}, ("a", "b", "c", "x"), options)
    core = a.core
    assert isinstance(core, Scalatom)
    x = message("x", 1)
    deliver_first(a)
    a.step(Consumed(1))
    core.detector.suspected.update("bc")
    for _ in range(3):
        a.step(TimerFired("watch"))
    assert x in core.entries
    a.receive("b", Settled(3, (x,), (7, x)))
    core.detector.suspected.add("c")
    a.step(TimerFired("watch"))
    assert x not in core.entries
    assert core.absence.given_up == {"c": (7, x)}
