"""Delivery that goes on without failed sites (Spauster 7.1.1, 7.3): `delivery = "non-atomic"`."""

from __future__ import annotations

import tomllib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from ordercast.campaign.draw import Draw, draw_scenario
from ordercast.campaign.outcome import Outcome, run_draw, run_scenario
from ordercast.check import judge
from ordercast.core import Context, MessageId, Multicast, Packet, UsageError, WireError
from ordercast.core.effects import (
    Append,
    Blocked,
    DeclareFailed,
    EnterGroup,
    ExitGroup,
    InstallView,
    Recall,
    Replay,
    Send,
)
from ordercast.core.events import MulticastRequested, Received, Recovered, Started, TimerFired
from ordercast.protocols import find_protocol
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.propagation_graph.contract import RELAXED_BRANCHES
from ordercast.protocols.propagation_graph.packets import Null
from ordercast.protocols.propagation_graph.records import Submitted
from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph, Listed
from ordercast.protocols.propagation_graph.relaxed.history import Held
from ordercast.protocols.propagation_graph.relaxed.merging import merge
from ordercast.protocols.propagation_graph.relaxed.packets import (
    Back,
    Begin,
    Collect,
    Grant,
    History,
    Propose,
    Refused,
    Renew,
    Share,
    Stable,
    Took,
)
from ordercast.protocols.propagation_graph.relaxed.records import Dropped, Placed
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import AnyFault, Crash, Cut, Loss, Partition, Pause
from ordercast.sim.networks import PointToPoint
from ordercast.sim.scenario import parse_scenario

FIGURE_7_1 = {"alpha": ["a", "b", "c", "d", "e"], "beta": ["c", "d", "e"], "gamma": ["a", "b"]}
FIGURE_GROUPS = tuple((group, tuple(members)) for group, members in sorted(FIGURE_7_1.items()))
MODE = {"delivery": "non-atomic"}
SEEDS = range(12)
RARE = {
    *("kept-an-earlier-choice", "tail-kept", "nobody-there", "merged", "lower-ballot", "outvoted", "behind"),
    *("held-for-absent", "absent-given-up", "gap-given-up", "share-ended-behind", "fetched-ahead", "ready"),
    *("founded", "pointed-on"),
}
"""What a few dozen runs need not reach."""


class Relaxed(PropagationGraph):
    """All runs of its campaigns are non-atomic."""

    arrangement = replace(
        PropagationGraph.arrangement, campaign=replace(PropagationGraph.arrangement.campaign, modes=(MODE,))
    )


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run_draw(Draw(Relaxed, seed)).outcome for seed in SEEDS]


def test_what_is_claimed_holds_under_every_fault(outcomes: list[Outcome]) -> None:
    assert not [(outcome.seed, outcome.violations) for outcome in outcomes if outcome.violations]
    assert not [outcome.seed for outcome in outcomes if outcome.vacuous]


def test_every_branch_is_reached(outcomes: list[Outcome]) -> None:
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.branches)
    assert not [branch for branch in RELAXED_BRANCHES if not counts[branch] and branch not in RARE]


def test_calm_runs_never_reorganise() -> None:
    for seed in range(20):
        scenario = draw_scenario(Relaxed, seed, calm=True)
        trial = run_scenario(replace(scenario, options=dict(MODE)))
        assert not trial.outcome.violations
        assert not {"share-ended", "entered", "stopped", "suspected"} & {
            branch for branch, count in trial.outcome.branches.items() if count
        }


def _run(*faults: AnyFault, seed: int = 7) -> Simulation:
    workload = Workload(sources=("a", "d"), groups=("alpha", "beta", "gamma"), choose=1, count=60, rate=10.0)
    return Simulation(
        find_protocol("propagation-graph"),
        groups=FIGURE_7_1,
        network=PointToPoint(processing=0.0001, latency=0.001),
        workloads=[workload],
        faults=list(faults),
        options=PropagationGraphOptions(delivery="non-atomic"),
        seed=seed,
        settle=20.0,
    ).execute()


def _deliveries(run: Simulation, site: str) -> list[tuple[float, str]]:
    rows = run.table().to_pylist()
    return [(row["time"], row["message"]) for row in rows if row["kind"] == "deliver" and row["site"] == site]


def test_a_manager_at_rest_sends_what_renewals_and_watching_take() -> None:
    outcome = run_draw(Draw(PropagationGraph, 102707)).outcome
    assert outcome.violations == ()
    assert outcome.branches["came-back"]


@pytest.mark.parametrize("seed", range(3))
def test_one_packet_lost_of_twenty_makes_nobody_fail(seed: int) -> None:
    kinds = _run(Loss(from_=0.0, rate=0.05), seed=seed).table().column("kind").to_pylist()
    assert "drop" in kinds
    assert not {"fail", "view"} & {*kinds}


@pytest.mark.parametrize("site", ["a", "c", "e"])
def test_the_others_go_on_when_a_site_dies_for_good(site: str) -> None:
    run = _run(Crash(from_=2.0, sites=(site,), forever=True))
    survivors = [other for other in "abde" if other != site]
    for other in survivors:
        times = [time for time, _ in _deliveries(run, other)]
        after = min(time for time in times if time > 2.0)
        # A suspicion, a lease, and what it takes to stop, choose and begin.
        assert after - 2.0 < 2 * (0.5 + 1.0)
        assert max(times) > 5.0


def test_the_rest_of_the_old_tree_stops_before_the_new_one_delivers() -> None:
    """Figure 7.5, the manager on the small side."""
    run = _run(Partition(from_=2.0, to=8.0, parts=(("a", "b"),)))
    rows = run.table().to_pylist()
    begins = min(row["time"] for row in rows if row["kind"] == "view" and row["view"] == "1")
    stopped = [row["time"] for row in rows if row["kind"] == "fail" and row["site"] in "ab"]
    assert len(stopped) >= 2
    assert max(time for time in stopped if time < 8.0) <= begins
    assert not [time for site in "ab" for time, _ in _deliveries(run, site) if begins <= time < 8.0]


def test_a_stopped_site_counts_as_failed_and_comes_back_behind_what_it_missed() -> None:
    run = _run(Pause(from_=2.0, to=4.0, sites=("c",)))
    rows = [row for row in run.table().to_pylist() if row["site"] == "c"]
    assert [row["kind"] for row in rows if row["kind"] in ("leave", "join")] == ["leave", "join"] * 2
    assert [row for row in rows if row["kind"] == "recover"]
    assert max(time for time, _ in _deliveries(run, "c")) > 4.0


@pytest.mark.parametrize("site", ["a", "c"])
def test_a_stopped_site_says_that_it_has_failed_before_it_finds_what_has_come_meanwhile(site: str) -> None:
    """A live one, whose stop nobody else records, counts as failed from the end of its lease on, and not from a packet
    on that it finds."""
    run = _run(Pause(from_=2.0, to=4.0, sites=(site,)))
    kinds = [row["kind"] for row in run.table().to_pylist() if row["site"] == site]
    assert kinds[kinds.index("awake") + 1] == "fail"


def _listed(*names: str) -> list[Listed]:
    return [Listed(MessageId(name, 0, 1), ("g",), 1, "r", 1) for name in names]


def test_the_order_respects_what_each_site_has_and_then_what_it_lacks() -> None:
    order, possible = merge({"x": _listed("u"), "z": _listed("v")}, lambda _item, site: site == "x")
    assert possible
    assert [item.id.source for item in order] == ["u", "v"]


def test_histories_that_contradict_each_other_have_no_order() -> None:
    assert not merge({"x": _listed("u", "v"), "y": _listed("v", "u")}, lambda _item, _site: True)[1]


def test_a_lease_that_is_too_short_for_the_network_is_told_in_one_line() -> None:
    core = _site("a")
    core.step(0.0, Started())
    for site in "bcde":
        core.step(0.4, Received(site, Grant(0, 1, True)))
    told = [effect.reason for effect in core.outbox if isinstance(effect, Blocked) and effect.by == "lease"]
    assert told == ["lease_seconds = 1 is not above three round trips, of 0.4 s to b"]
    core.outbox.clear()
    core.step(0.5, TimerFired("renew"))
    core.step(0.6, Received("b", Grant(0, 2, True)))
    assert [effect.reason for effect in core.outbox if isinstance(effect, Blocked) and effect.by == "lease"] == [""]


def test_who_begins_a_graph_that_was_chosen_without_it_counts_as_failed_before_the_others_deliver() -> None:
    """b and a, the manager, do not hear each other. b chooses a graph without a, and a, which has stopped since, finds
    that choice. What a had delivered before comes again in another order."""
    cut_off = [Cut(from_=0.75, to=5.5, sites=(one,), peers=(other,)) for one, other in ("ab", "ba")]
    run = Simulation(
        find_protocol("propagation-graph"),
        groups={"alpha": tuple("abcde")},
        network=PointToPoint(processing=0.0001, latency=0.01),
        workloads=[
            Workload(sources=(source,), groups=("alpha",), count=1, rate=10.0, arrivals="regular", start=start)
            for source, start in (("d", 1.1), ("c", 1.12))
        ],
        faults=[*cut_off, Cut(from_=1.15, to=1.35, sites=("a",), peers=tuple("cde"))],
        options=PropagationGraphOptions(delivery="non-atomic", lease_seconds=2.0, retransmit_seconds=0.3),
        duration=7.0,
        settle=3.0,
        seed=1,
    ).execute()
    first, others = _deliveries(run, "a"), _deliveries(run, "b")
    assert [message for _, message in first] == [message for _, message in reversed(others)]
    failed = [row["time"] for row in run.table().to_pylist() if row["kind"] == "fail" and row["site"] == "a"]
    assert len(others) == 2
    assert failed[0] < others[0][0]
    assert judge(run.header(), run.table())["R2"].verdict == "holds"


def test_those_who_are_away_count_for_the_majority() -> None:
    graph = Graph(3, "a", ("a", "b", "c"), ("d", "e"), (("g", ("a", "d")), ("h", ("e",))))
    assert graph.majority == 3
    assert graph.roster().groups == (("g", ("a",)),)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delivery": "sometimes"}, "delivery is atomic or non-atomic"),
        ({"rejoin": "never"}, "rejoin is skip or rollback"),
        ({"drift_max": 1.5}, "drift_max is from 0 to 1"),
        ({"drift_max": -0.1}, "drift_max is from 0 to 1"),
        ({"lease_seconds": 0.0}, "lease_seconds are positive"),
        ({"suspicion_seconds_max": 0.0}, "suspicion_seconds_max and lease_seconds are positive"),
        (MODE | {"bypass": True}, "for atomic delivery"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        PropagationGraphOptions(**options)  # type: ignore[arg-type]


def test_a_run_without_a_log_is_refused_in_one_line() -> None:
    scenario = replace(draw_scenario(Relaxed, 0, calm=True), options=dict(MODE), stable=False)
    with pytest.raises(UsageError, match=r'^\[options\]: delivery = "non-atomic" needs a log; log, or write [^\n]*$'):
        scenario.check()


def _site(name: str, incarnation: int = 0) -> RelaxedGraph:
    groups = {group: tuple(members) for group, members in FIGURE_7_1.items()}
    options = PropagationGraphOptions(delivery="non-atomic")
    core = PropagationGraph(Context(name, groups, tuple("abcde"), options, Random(0), incarnation=incarnation))
    assert isinstance(core, RelaxedGraph)
    return core


def test_an_own_message_that_only_the_log_knows_counts_as_multicast_before_all_that_comes_after_the_crash() -> None:
    core = _site("a", incarnation=1)
    own = Multicast(MessageId("a", 0, 1), ("gamma",), b"")
    other = Multicast(MessageId("d", 0, 1), ("alpha",), b"")
    core.step(0.0, Recovered((Placed(own, "a", 1), Placed(other, "a", 2))))
    assert [effect.multicast for effect in core.outbox if isinstance(effect, Recall)] == [own]


@pytest.mark.parametrize("manager", ["a", "e"])
def test_whoever_gets_no_share_has_failed_when_a_lease_has_passed_and_asks_to_be_let_in(
    manager: str,
) -> None:
    """The others are in a later graph, of which e has not heard."""
    core = _site("e")
    core.step(0.0, Started())
    core.step(0.1, Received("a", Begin(Graph(1, manager, tuple("abcde"), (), core.graph.groups))))
    lease = core.options.lease_seconds
    core.step(0.05 + lease, TimerFired("share-end"))
    assert not core.shares.has_failed
    core.step(0.15 + lease, TimerFired("share-end"))
    assert [effect.since for effect in core.outbox if isinstance(effect, DeclareFailed)] == [0.1 + lease]
    core.outbox.clear()
    core.step(0.2 + lease, TimerFired("watch"))
    assert [effect.to for effect in core.outbox if isinstance(effect, Send) and isinstance(effect.packet, Back)] == [
        ("a", "b", "c", "d")
    ]


def test_there_is_no_checkpoint_while_the_tail_of_the_log_waits() -> None:
    core = _site("a", incarnation=1)
    core.step(0.0, Recovered((Placed(Multicast(MessageId("a", 0, 1), ("gamma",)), "a", 1),)))
    assert core.checkpoint_state() is None
    assert _site("a").checkpoint_state() is not None


def test_a_site_that_has_told_its_history_forgets_nothing_of_it() -> None:
    core = _site("c")
    core.step(0.0, Started())
    parent = core.routes.above["c"][0]
    message = MessageId("a", 0, 1)
    core.history.held[message] = Held(Multicast(message, ("alpha",)), parent, 1)
    core.step(0.1, Received("b", Collect(0, 7)))
    core.step(0.2, Received(parent, Stable(0, ((parent, 1),))))
    assert message in core.history.held


def test_a_source_that_does_not_hear_whether_everybody_has_its_messages_asks_again() -> None:
    core = _site("e")
    core.step(0.0, Started())
    multicast = Multicast(MessageId("e", 0, 1), ("alpha",))
    entry = core.find_entry(multicast)
    assert entry not in (None, "e")
    core.step(0.1, MulticastRequested(multicast))
    core.step(0.2, Received(entry or "", Took(0, 1, 0)))
    core.outbox.clear()
    for time in (0.3, 0.4):
        core.step(time, TimerFired("tidy"))
    assert [effect.to for effect in core.outbox if isinstance(effect, Send) and isinstance(effect.packet, Null)] == [
        (entry,)
    ]
    core.step(0.5, Received(entry or "", Took(0, 1, 1)))
    assert not core.pending.messages


def _sent(core: RelaxedGraph, kind: type) -> list[object]:
    return [effect.packet for effect in core.outbox if isinstance(effect, Send) and isinstance(effect.packet, kind)]


def _enter_graph_without_gamma(core: RelaxedGraph) -> None:
    """d is in graph 1, where a and b, all of gamma, are away."""
    core.step(0.0, Started())
    core.step(0.1, Received("c", Begin(Graph(1, "c", ("c", "d", "e"), ("a", "b"), core.graph.groups))))


def test_a_message_to_members_who_seem_to_be_away_is_dropped_by_nobody_who_may_be_in_an_old_graph() -> None:
    core = _site("d")
    _enter_graph_without_gamma(core)
    multicast = Multicast(MessageId("d", 0, 1), ("gamma",))
    core.step(0.2, MulticastRequested(multicast))
    assert multicast.id in core.pending.messages
    core.outbox.clear()
    core.step(0.3, Received("c", Renew(1, 1, True)))
    core.step(0.4, Received("c", Share(1, 1, 0.9, True)))
    assert multicast.id not in core.pending.messages
    dropped = [effect.record for effect in core.outbox if isinstance(effect, Append)]
    assert Dropped(multicast.id) in dropped


def test_a_message_that_was_dropped_does_not_come_back_from_the_log() -> None:
    core = _site("d", incarnation=1)
    multicast = Multicast(MessageId("d", 0, 1), ("gamma",))
    core.step(0.0, Recovered((Submitted("", multicast), Dropped(multicast.id))))
    assert not core.pending.messages


def test_a_site_that_was_asked_to_replace_a_graph_tells_what_it_has_accepted_as_that_graph() -> None:
    """The ones who had opened it may be dead."""
    core = _site("b")
    core.step(0.0, Started())
    following = Graph(1, "d", ("a", "c", "d"), ("b", "e"), core.graph.groups)
    core.step(0.1, Received("d", Collect(0, 8)))
    core.step(0.2, Received("d", Propose(0, 8, following)))
    core.step(0.3, Received("d", Collect(1, 8)))
    core.outbox.clear()
    core.step(0.4, Received("c", Collect(0, 17)))
    assert [(history.graph, history.accepted) for history in _sent(core, History)] == [(0, following)]  # type: ignore[attr-defined]
    core.outbox.clear()
    core.step(0.5, Received("d", Propose(0, 8, following)))
    assert _sent(core, Refused) == [Refused(0, 1, 17, ((0, tuple("abcde")),))]


def test_whoever_hears_that_a_later_graph_is_replaced_finds_out_what_it_is() -> None:
    core = _site("a")
    core.step(0.0, Started())
    core.coordinator.go_on()
    core.step(0.1, Received("e", Refused(0, 3, 0, ((0, tuple("abcde")),))))
    core.outbox.clear()
    core.coordinator.go_on()
    assert {packet.graph for packet in _sent(core, Collect)} == {2}  # type: ignore[attr-defined]


def test_whoever_hears_of_a_graph_in_which_it_is_not_leaves_it_to_others() -> None:
    core = _site("a")
    core.step(0.0, Started())
    core.coordinator.go_on()
    core.step(0.1, Received("e", Refused(0, 3, 0, ((0, tuple("abcde")), (2, tuple("bcde"))))))
    core.outbox.clear()
    core.coordinator.go_on()
    assert not _sent(core, Collect)
    core.coordinator.go_on()  # it asks about its own graph again, and hears that it is out
    assert {packet.graph for packet in _sent(core, Collect)} == {0}  # type: ignore[attr-defined]


def test_what_the_application_has_seen_before_a_crash_stands_before_the_gap() -> None:
    core = _site("d", incarnation=1)
    own = Multicast(MessageId("a", 0, 1), ("alpha",))
    core.step(0.0, Recovered((Placed(own, "a", 1),)))
    core.outbox.clear()
    core.step(1.0, Received("c", Begin(Graph(2, "c", tuple("cde"), ("a", "b"), core.graph.groups, ("d",)))))
    kinds = [type(effect) for effect in core.outbox if isinstance(effect, Replay | ExitGroup | EnterGroup)]
    assert kinds == [Replay, ExitGroup, EnterGroup, ExitGroup, EnterGroup]


def test_the_log_and_the_status_say_who_is_out_and_why() -> None:
    core = _site("d")
    core.step(0.0, Started())
    core.step(0.2, Received("c", Collect(0, 7)))
    reasons = (("a", "silent for 0.5 s"), ("b", "no answer"))
    graph = Graph(1, "c", ("c", "d", "e"), ("a", "b"), core.graph.groups, reasons=reasons)
    core.outbox.clear()
    core.step(1.6, Received("c", Begin(graph)))
    lines = {effect.groups[0]: effect.line for effect in core.outbox if isinstance(effect, InstallView)}
    assert lines == {
        "alpha": "a is out (silent for 0.5 s); b is out (no answer); graph 1 orders alpha at c; 1.4 s",
        "beta": "",
    }
    standing = core.standing(2.6)
    assert standing["out"] == {
        "a": {"seconds": 1.0, "why": "silent for 0.5 s"},
        "b": {"seconds": 1.0, "why": "no answer"},
    }
    assert (standing["number"], standing["manager"], standing["lease"], standing["delivers"]) == (1, "c", None, False)


def test_grants_for_another_graph_or_of_strangers_give_no_lease() -> None:
    core = _site("a")
    core.step(0.0, Started())
    core.step(0.1, Received("b", Grant(3, 1, True)))
    core.step(0.1, Received("z", Grant(0, 1, True)))
    core.step(0.1, Received("c", Grant(0, 9, True)))
    assert not core.shares.is_held(0.1)


HISTORIES = {
    "a": ["alpha 1", "alpha 2", "alpha 3"],
    "b": ["alpha 1", "alpha 2", "alpha 3"],
    "c": ["alpha 1", "alpha 2", "beta 1", "beta 2", "alpha 3", "beta 3"],
    "d": ["alpha 1", "alpha 2", "beta 1", "alpha 3", "beta 2", "beta 3"],
    "e": ["alpha 1", "alpha 2", "beta 1", "alpha 3", "beta 2", "beta 3"],
}


def _histories(name: str) -> dict[str, list[str]]:
    """What each site has delivered in a golden scenario and not taken back, by group and number."""
    script = (Path(__file__).parents[1] / "scenarios" / f"{name}.txt").read_text()
    scenario = parse_scenario(tomllib.loads(script.partition("\n----\n")[0]), find_protocol, name=name, where=name)
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    had: dict[str, list[str]] = {site: [] for site in "abcde"}
    for row in sorted(scenario.simulation().execute().table().to_pylist(), key=lambda row: (row["time"], row["seq"])):
        if row["kind"] == "multicast":
            group = row["groups"][0]
            counts[group] += 1
            names[row["message"]] = f"{group} {counts[group]}"
        elif row["kind"] == "deliver":
            had[row["site"]].append(names[row["message"]])
        elif row["kind"] == "rollback":
            assert had[row["site"]].pop() == names[row["message"]]  # the latest first
    return had


def test_figures_7_1_to_7_4_have_the_histories_of_the_text() -> None:
    assert _histories("propagation-graph-figure-7-1") == HISTORIES


def test_with_rollback_c_has_in_the_end_what_the_others_have() -> None:
    had = _histories("propagation-graph-figure-7-1-rollback")
    assert had == HISTORIES | {"c": HISTORIES["d"]}


def _listing(count: int) -> tuple[Listed, ...]:
    return tuple(Listed(MessageId("a", 0, number), ("alpha",), 1, "a", number) for number in range(1, count + 1))


@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("z", Collect(0, 9)),
        ("b", Collect(0, 0)),
        ("z", Propose(0, 9, Graph(1, "b", tuple("bcde"), ("a",), ()))),
        ("b", Propose(0, 9, Graph(1, "b", tuple("bcde"), ("a",), (("other", ("a", "z")),)))),
        ("b", Propose(0, 9, Graph(1, "b", tuple("bcde"), ("a",), FIGURE_GROUPS, lineup=((1, ("b",)),)))),
        ("b", Collect(1, 9, tuple((number, ("b",)) for number in range(9)))),
        ("b", Propose(0, 9, Graph(5, "b", tuple("bcde"), ("a",), FIGURE_GROUPS))),
        ("b", Propose(0, 9, Graph(1, "a", tuple("bcde"), ("a",), FIGURE_GROUPS))),
        ("b", Begin(Graph(1, "b", tuple("bcd"), ("a",), FIGURE_GROUPS))),
        ("z", Begin(Graph(1, "b", tuple("bcde"), ("a",), FIGURE_GROUPS))),
        ("b", Begin(Graph(1, "b", tuple("bcde"), ("a",), FIGURE_GROUPS, order=_listing(100_000)))),
        ("b", Took(0, 7, 7)),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_strangers_say_and_what_cannot_be_stops_nobody(sender: str, packet: Packet) -> None:
    core = _site("d")
    core.step(0.0, Started())
    with pytest.raises(WireError):
        core.step(0.1, Received(sender, packet))
    assert not core.is_closed
    assert core.number == 0


def test_histories_of_past_graphs_with_100_000_messages_or_that_contradict_each_other_make_no_graph() -> None:
    def history(taken: tuple[Listed, ...], graph: int = 0, number: int = 0) -> History:
        ballot = core.coordinator._ballot
        return History(graph, ballot, number, True, 0, None, taken, (), (), (), (), 0.0, None)

    core = _site("a")
    core.step(0.0, Started())
    core.coordinator.go_on()
    core.step(0.1, Received("b", history((), graph=7)))
    for taken, number in ((_listing(100_000), 0), ((), 3)):
        with pytest.raises(WireError):
            core.step(0.1, Received("b", history(taken, number=number)))
    assert core.coordinator._histories.keys() == {"a"}
    first, second = _listing(2)
    core.step(0.2, Received("b", history((first, second))))
    core.step(0.2, Received("c", history((second, first))))
    for late in range(6, 9):
        with pytest.raises(WireError, match="no forest"):
            core.step(late / 10, TimerFired("attempt"))
    assert core.number == 0


def test_who_flaps_costs_one_reorganisation_for_each_doubled_patience() -> None:
    core = _site("a")
    core.step(0.0, Started())
    away = Graph(1, "a", tuple("abcd"), ("e",), core.graph.groups)
    core.step(0.1, Received("b", Begin(away)))
    core.watching.drive_soon = lambda: None  # type: ignore[method-assign]
    tried = []
    for tick in range(1, 400):
        core.step(0.1 + tick / 10, Received("e", Back(0, True)))
        if core.watching.back:
            tried.append(tick)
            core.watching.back.clear()
    gaps = [later - earlier for earlier, later in pairwise(tried)]
    assert all(later >= 2 * earlier - 1 for earlier, later in pairwise(gaps[:5]))
    assert len(tried) < 10
