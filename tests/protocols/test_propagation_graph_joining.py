"""Sites come into groups and leave them while delivery goes on without others (Spauster 7.3 (5))."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ordercast.core import MessageId, Multicast, UsageError
from ordercast.core.effects import Effect, EnterGroup, ExitGroup, Replay
from ordercast.core.events import JoinRequested, LeaveRequested, MulticastRequested, Recovered, Started, TimerFired
from ordercast.protocols import find_protocol
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.propagation_graph.packets import Ask, Presence, Unchanged
from ordercast.protocols.propagation_graph.records import Wished
from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph, Listed
from ordercast.protocols.propagation_graph.relaxed.packets import Back, Begin, Collect, Refused, Renew, Share
from ordercast.protocols.propagation_graph.relaxed.records import Entered, Placed, Running
from ordercast.protocols.propagation_graph.rosters import Wish
from ordercast.sim import Simulation, Workload
from ordercast.sim.change import Change
from ordercast.sim.faults import AnyFault, Crash
from ordercast.sim.networks import PointToPoint
from tests.protocols.classic_runs import Hand, sent

GROUPS: Mapping[str, tuple[str, ...]] = {"g": ("a", "b", "c")}
SITES = ("a", "b", "c")
BEFORE = (0, SITES)
ALL = (("g", SITES),)
WITHOUT_C = Graph(1, "a", ("a", "b"), (), (("g", ("a", "b")),), lineup=(BEFORE, (1, ("a", "b"))))
C_LEAVES = Graph(1, "a", SITES, (), (("g", ("a", "b")),), leaving=("c",))
MESSAGE = Multicast(MessageId("a", 0, 1), ("g",), b"m")


def hand(site: str, incarnation: int = 0) -> Hand:
    """A site of the configuration; a is the manager."""
    chosen = PropagationGraphOptions(delivery="non-atomic")
    return Hand(PropagationGraph, site, GROUPS, SITES, chosen, incarnation=incarnation)


def started(site: str) -> Hand:
    made = hand(site)
    made.step(Started())
    return made


def core(made: Hand) -> RelaxedGraph:
    assert isinstance(made.core, RelaxedGraph)
    return made.core


def moves(effects: list[Effect]) -> list[type]:
    return [type(effect) for effect in effects if isinstance(effect, EnterGroup | ExitGroup | Replay)]


# ---------------------------------------------------------------------- who has left
def test_whoever_left_while_it_was_behind_is_told_so_and_not_taken_for_a_stranger() -> None:
    site = started("b")
    site.receive("a", Begin(WITHOUT_C))
    assert (("c",), Begin(WITHOUT_C)) in sent(site.receive("c", Collect(0, 9)))
    assert (("c",), Begin(WITHOUT_C)) in sent(site.receive("c", Back(0, True)))


def test_whoever_hears_of_a_graph_without_it_is_out() -> None:
    site = started("c")
    assert ExitGroup in moves(site.receive("a", Begin(WITHOUT_C)))
    assert core(site).is_outside
    with pytest.raises(UsageError, match="join a group"):
        site.step(MulticastRequested(Multicast(MessageId("c", 0, 1), ("g",))))


def test_whoever_has_left_tells_one_that_is_out_who_goes_on() -> None:
    """a is out; b and c, whom it knows, have left; p goes on."""
    away = Graph(4, "p", ("p",), ("a",), (("g", ("a", "p")),), lineup=(BEFORE, (3, ("a", "p"))))
    left = started("c")
    left.receive("b", Begin(away))
    pointer = (("a",), Presence(4, "p", 2, False))
    assert pointer in sent(left.receive("a", Back(0, True)))
    out = hand("a", incarnation=1)
    out.step(Recovered((Placed(MESSAGE, "a", 1),)))
    out.receive("c", pointer[1])
    assert any("p" in to for to, packet in sent(out.step(TimerFired("watch"))) if isinstance(packet, Back))


def test_a_site_takes_part_until_the_graph_with_which_it_leaves_runs() -> None:
    site = started("c")
    assert ExitGroup not in moves(site.receive("a", Begin(C_LEAVES)))
    site.receive("a", Renew(1, 1, False))
    assert moves(site.receive("a", Share(1, 1, 0.9, True))) == [ExitGroup]
    assert not core(site).is_outside
    with pytest.raises(UsageError, match="leaves its last one"):
        site.step(MulticastRequested(Multicast(MessageId("c", 0, 1), ("g",))))


def test_whoever_is_on_its_way_out_when_it_is_started_again_is_out_before_it_joins_again() -> None:
    site = hand("c", incarnation=1)
    site.step(Recovered((Wished("g", False), Entered(C_LEAVES, True))))
    assert ExitGroup not in moves(site.step(LeaveRequested("g")))
    with pytest.raises(UsageError, match="join it again when it has left"):
        site.step(JoinRequested("g"))
    following = Graph(2, "a", SITES, (), (("g", ("a", "b")),), returned=("c",), leaving=("c",))
    assert moves(site.receive("a", Begin(following))) == [ExitGroup]


def test_what_was_taken_before_a_crash_comes_before_the_site_is_out_of_the_group() -> None:
    site = hand("c", incarnation=1)
    site.step(Recovered((Placed(MESSAGE, "a", 1),)))
    order = (Listed(MESSAGE.id, ("g",), 1, "", 1, ("a",)),)
    site.receive("a", Begin(Graph(1, "a", SITES, (), (("g", ("a", "b")),), order=order, leaving=("c",))))
    assert ExitGroup not in moves(site.receive("a", Renew(1, 1, True)))
    assert moves(site.receive("a", Share(1, 1, 0.9, True))) == [Replay, ExitGroup]


def test_whoever_leaves_multicasts_nothing_after_a_crash_either() -> None:
    site = hand("c", incarnation=1)
    site.step(Recovered((Wished("g", False), Entered(C_LEAVES, True), Running(1))))
    with pytest.raises(UsageError, match="leaves its last one"):
        site.step(MulticastRequested(Multicast(MessageId("c", 1, 1), ("g",))))


def test_whoever_has_left_and_come_again_counts_as_failed_after_a_crash() -> None:
    site = hand("c", incarnation=1)
    again = Graph(2, "a", SITES, (), ALL, ("c",), lineup=(BEFORE, (1, ("a", "b")), (2, SITES)))
    site.step(Recovered((Entered(WITHOUT_C, True), Entered(again, False), Running(2))))
    assert core(site).shares.has_failed
    assert core(site).counts == {"g": 0}


# ---------------------------------------------------------------------- who comes
def test_whoever_was_let_in_and_does_not_know_it_is_let_in_again() -> None:
    maker = started("a")
    maker.receive("b", Begin(Graph(2, "a", ("a", "b"), ("c", "p"), (("g", (*SITES, "p")),))))
    maker.receive("p", Ask(Wish(("g",)), 2))
    assert "p" in core(maker).watching.back
    present = started("a")
    graph = Graph(2, "a", (*SITES, "p"), (), (("g", (*SITES, "p")),), ("p",))
    present.receive("b", Begin(graph))
    assert (("p",), Begin(graph)) in sent(present.receive("p", Ask(Wish(("g",)), 2)))


def test_whoever_has_given_up_to_join_asks_until_that_is_known() -> None:
    site = started("c")
    site.step(JoinRequested("n"))
    site.step(LeaveRequested("n"))
    given_up = Wish((), ("n",))
    assert (("a",), Ask(given_up, 0)) in sent(site.step(TimerFired("change")))
    site.receive("a", Unchanged(given_up))
    assert not sent(site.step(TimerFired("change")))
    maker = started("a")
    assert (("c",), Unchanged(given_up)) in sent(maker.receive("c", Ask(given_up, 0)))


def test_somebody_who_was_let_in_all_the_same_leaves_again() -> None:
    site = started("c")
    site.step(JoinRequested("n"))
    site.step(LeaveRequested("n"))
    site.receive("a", Unchanged(Wish((), ("n",))))
    effects = site.receive("a", Begin(Graph(1, "a", SITES, (), (*ALL, ("n", ("c",))))))
    assert (("a",), Ask(Wish((), ("n",)), 1)) in sent(effects)


def test_what_follows_a_graph_is_decided_by_its_sites_and_not_by_those_who_are_new() -> None:
    site = started("b")
    new = ((0, SITES), (3, ("a", "b", "p")))
    effects = site.receive("p", Collect(3, 9, new))
    assert [packet for _to, packet in sent(effects) if not isinstance(packet, Refused)]
    assert core(site).acceptor.lineup == new


# ---------------------------------------------------------------------- all of it
def _run(changes: list[Change], *faults: AnyFault, rejoin: str = "skip") -> Simulation:
    return Simulation(
        find_protocol("propagation-graph"),
        groups={"g": ("a", "b", "c", "d"), "h": ("b", "c", "d")},
        network=PointToPoint(processing=0.0001, latency=0.001),
        workloads=[Workload(sources=("a", "b"), groups=("g", "h"), choose=1, count=80, rate=10.0)],
        faults=list(faults),
        changes=changes,
        options=PropagationGraphOptions(delivery="non-atomic", manager="c", rejoin=rejoin),
        seed=3,
        settle=20.0,
    ).execute()


@pytest.mark.parametrize("rejoin", ["skip", "rollback"])
@pytest.mark.parametrize("manager_dies_at", [1.99, 2.0, 2.01, 2.5])
def test_a_site_comes_and_another_one_goes_although_the_manager_dies_meanwhile(
    manager_dies_at: float, rejoin: str
) -> None:
    run = _run(
        [Change(kind="join", at=2.0, sites=("p",), group="g"), Change(kind="leave", at=2.0, sites=("d",), group="h")],
        Crash(from_=manager_dies_at, sites=("c",), forever=True),
        rejoin=rejoin,
    )
    rows = run.table().to_pylist()
    had = {
        site: [row["message"] for row in rows if row["kind"] == "deliver" and row["site"] == site and row["time"] > 6.0]
        for site in "abdp"
    }
    of_g = {row["message"] for row in rows if row["kind"] == "multicast" and row["groups"] == ["g"]}
    assert of_g & {*had["a"]}
    assert had["p"] == had["a"] == had["d"]
    assert had["b"] != had["d"]
