"""The propagation graph with `entry = "root"` and with bypass edges, and the times that it promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from ordercast.check import choose, judge
from ordercast.core import Bounds, MessageId, Multicast, UsageError
from ordercast.core.contract import as_it_stands
from ordercast.core.events import MulticastRequested, Started
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.propagation_graph.packets import Acknowledge, Null, Submit
from ordercast.protocols.propagation_graph.passage import Passage
from ordercast.protocols.propagation_graph.repair import Repair
from ordercast.protocols.propagation_graph.routes import Routes, make_routes
from ordercast.sim import Simulation
from ordercast.sim.change import Change
from ordercast.sim.faults import Delay
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from ordercast.spark.experiments.bounded_delivery import run_bounds
from ordercast.spark.experiments.experiment import Point
from tests.protocols.classic_runs import Hand, sent

FIGURES = {
    "3.4": {"α1": tuple("abde"), "α2": tuple("bcf"), "α3": tuple("defg")},
    "3.5": {"α1": tuple("abde"), "α2": tuple("bcfg"), "α3": tuple("defgh")},
}
TWO_TREES: Mapping[str, tuple[str, ...]] = {"g": ("a", "b", "c"), "h": ("b", "c", "d"), "i": ("y", "z")}
"""b is above a, c and d; y above z; x is in no group."""
ORDERS = ("source-order", "causal-order")


def violated(
    groups: Mapping[str, tuple[str, ...]],
    seeds: range,
    protocol: type[PropagationGraph] = PropagationGraph,
    at_once: tuple[int, ...] = (1,),
    changes: tuple[Change, ...] = (),
    **options: object,
) -> Counter[str]:
    """The properties that are violated, each with the number of seeds; packets overtake each other. `at_once`: the
    numbers of groups that messages have."""
    found: Counter[str] = Counter()
    for seed in seeds:
        simulation = Simulation(
            protocol,
            groups,
            PointToPoint(0.0001, 0.001),
            seed=seed,
            options=PropagationGraphOptions(**options),  # type: ignore[arg-type]
            faults=[Delay(from_=0.0, to=None, rate=0.5, seconds=0.05)],
            workloads=[
                Workload(sources=("x", "b"), groups=tuple(groups), choose=number, rate=100.0, count=30)
                for number in at_once
            ],
            changes=changes,
            duration=2.0,
            settle=5.0,
        ).execute()
        names = choose(dict.fromkeys((*PropagationGraph.contract.guarantees, *ORDERS)))
        verdicts = judge(simulation.header(), simulation.table(), names)
        found.update(name for name, verdict in verdicts.items() if verdict.verdict == "violated")
    return found


def hand(site: str, groups: Mapping[str, tuple[str, ...]] = TWO_TREES, **options: object) -> Hand:
    sites = tuple(sorted({"x"}.union(*groups.values())))
    made = Hand(PropagationGraph, site, groups, sites, PropagationGraphOptions(**options))  # type: ignore[arg-type]
    made.step(Started())
    return made


def message(source: str, number: int, *groups: str) -> Multicast:
    return Multicast(MessageId(source, 0, number), groups, b"m")


# ---------------------------------------------------------------------- entry at the root
def test_one_source_and_causes_are_in_order_across_groups_where_all_enters_at_roots() -> None:
    assert set(violated(FIGURES["3.4"], range(4))) == {*ORDERS}
    assert violated(FIGURES["3.4"], range(4), entry="root") == {}


def test_roots_of_two_trees_keep_the_order_of_what_causes_what() -> None:
    assert violated(TWO_TREES, range(4), entry="root") == {}


def test_what_enters_by_one_root_is_taken_before_anything_goes_to_another() -> None:
    """Else: s multicasts m1 by r1, then m2 by r2; q delivers m2 and multicasts m3 by r1, which is there before m1."""
    source = hand("x", entry="root")
    assert sent(source.step(MulticastRequested(message("x", 1, "h"))))[0][0] == ("b",)
    waiting = sent(source.step(MulticastRequested(message("x", 2, "i"))))
    assert waiting == [(("b",), Null(1))], "whether it is taken is asked at once"
    assert sent(source.step(MulticastRequested(message("x", 3, "g")))) == []
    taken = sent(source.receive("b", Acknowledge(1)))
    assert [(to, packet) for to, packet in taken if isinstance(packet, Submit)] == [
        (("y",), Submit(1, message("x", 2, "i")))
    ]


def test_a_message_stays_within_one_tree_where_it_enters_at_a_root() -> None:
    with pytest.raises(UsageError, match="g and i are in different trees"):
        hand("x", entry="root").step(MulticastRequested(message("x", 1, "g", "i")))
    hand("x").step(MulticastRequested(message("x", 1, "g", "i")))


def test_all_of_a_tree_enters_at_its_root() -> None:
    groups = {"g": ("a", "b"), "h": ("b", "c"), "i": ("c", "d")}
    options = PropagationGraphOptions(entry="root", prefer=("b", "c"))
    ways = make_routes(groups, options).ways
    assert {ways[(name,), None].entry for name in groups} == {"b"}
    assert ways[("i",), None].onward["b"] == ("c",)


# ---------------------------------------------------------------------- bypass edges
@pytest.mark.parametrize("figure", FIGURES)
def test_with_bypass_edges_any_two_sites_agree_and_all_together_may_not(figure: str) -> None:
    assert set(violated(FIGURES[figure], range(10), bypass=True)) - {*ORDERS} == {"acyclic-order"}


class SeveralGroups(PropagationGraph):
    """With bypass edges, too, a message may have several groups."""

    contract = replace(PropagationGraph.contract, adapted=as_it_stands)


def test_with_bypass_edges_a_message_to_several_groups_breaks_even_what_two_sites_agree_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Figure 3.4: b takes m2 to α2, then m12 to α1 and α2; m2 goes b -> f, m12 goes b -> d -> f and is there first."""
    monkeypatch.setattr(Routes, "check_groups", lambda _routes, _groups: None)
    # Routes are kept: with a preference these are those of no other test.
    found = violated(FIGURES["3.4"], range(6), SeveralGroups, (1, 2), bypass=True, prefer=("b",))
    assert found["multiple-group-order"]


CHANGES = (
    Change(kind="join", at=0.05, sites=("p",), group="α2"),
    Change(kind="leave", at=0.1, sites=("g",), group="α3"),
    Change(kind="join", at=0.15, sites=("c",), group="α1"),
)


def test_a_graph_with_bypass_edges_ends_when_close_has_come_by_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else f, which has the Close from d, does not take what b has sent it before by the bypass."""
    found = violated(FIGURES["3.4"], range(4), changes=CHANGES, bypass=True)
    assert not set(found) - {*ORDERS, "acyclic-order"}
    monkeypatch.setattr(Passage, "find_unended", lambda _passage: [])
    assert violated(FIGURES["3.4"], range(2), changes=CHANGES, bypass=True)["uniform-agreement"]


def test_a_message_to_several_groups_is_refused_where_there_are_bypass_edges() -> None:
    with pytest.raises(UsageError, match="goes to one group"):
        hand("x", FIGURES["3.4"], bypass=True).step(MulticastRequested(message("x", 1, "α1", "α2")))


# ---------------------------------------------------------------------- times
def test_times_are_promised_where_no_buffer_can_fill_and_no_graph_be_closed() -> None:
    promise = PropagationGraph.contract.promised
    options = PropagationGraphOptions(retransmit_seconds=1.0, history_messages_max=100, history_bytes_max=1000)
    few = Bounds(phi_p=0.01, phi_n=0.1, messages=64, payload_bytes=1000)
    assert promise(few, options) == {name: pytest.approx(2 + 4 * 0.01 + 3 * 0.1) for name in ("P4", "Q3")}
    assert promise(replace(few, messages=65), options)["P4"] == pytest.approx(2 + 6 * 0.01 + 5 * 0.1)
    for more in ({"messages": 101}, {"payload_bytes": 1001}, {"changes": True}):
        assert promise(replace(few, **more), options) == {}
    assert promise(few, replace(options, reader_messages_max=63)) == {}


POINT: Point = {"protocol": "propagation-graph", "phi_n": 0.05, "processing": 0.0001, "loss": 0.2, "delta": 0.2}


def test_nothing_comes_later_than_protocol_4_promises_and_the_judges_would_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """7.2.1, with the last step that the printed sum forgets."""
    kept = run_bounds(POINT, 1)
    assert 0.5 < (kept["p4_share"] or 0) <= 1
    assert 0.5 < (kept["q3_share"] or 0) <= 1

    def look_late(repair: Repair) -> None:
        if not repair._looking:
            repair._looking = True
            repair._core.set_timer("look", 3 * repair._core.options.retransmit_seconds)

    monkeypatch.setattr(Repair, "look_soon", look_late)
    late = run_bounds(POINT, 1)
    assert (late["p4_share"] or 0) > 1
    assert (late["q3_share"] or 0) > 1


# ---------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delivery": "loose"}, "delivery is atomic or non-atomic, not 'loose'"),
        ({"entry": "top"}, "entry is primary or root, not 'top'"),
        ({"entry": "root", "bypass": True}, "bypass goes around sites"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        PropagationGraphOptions(**options)  # type: ignore[arg-type]
