"""What a change of the propagation graph costs: packets, and how long a site stands still (Spauster 5.2)."""

from __future__ import annotations

import pytest

from ordercast.core import Multicast, SiteId, random_stream
from ordercast.graphs import draw_groups
from ordercast.protocols.propagation_graph import PropagationGraph
from ordercast.protocols.propagation_graph.passage import Passage
from ordercast.sim import Simulation
from ordercast.sim.change import Change
from ordercast.sim.networks import PointToPoint

LATENCY = 1.0
PROCESSING = 1e-6
"""So little that only delays count."""


class Watch:
    """When each site closed a graph, how deep that was, and how long it stood still."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.depths: dict[int, int] = {}
        self.stops: dict[tuple[SiteId, int], float] = {}
        closed: dict[SiteId, float] = {}
        note_closed, begin = Passage.note_closed, Passage.begin

        def watch_close(passage: Passage, multicast: Multicast) -> None:
            core = passage._core
            self.depths[core.number] = depth(core)
            closed[core.site] = core.now
            note_closed(passage, multicast)

        def watch_open(passage: Passage, sender: SiteId, multicast: Multicast) -> object:
            core = passage._core
            made = begin(passage, sender, multicast)
            self.depths[core.number] = depth(core)
            if core.site in closed:
                self.stops[core.site, core.number] = core.now - closed.pop(core.site)
            return made

        patch.setattr(Passage, "note_closed", watch_close)
        patch.setattr(Passage, "begin", watch_open)


def depth(core: PropagationGraph) -> int:
    """Of the tree that Close and Open go down."""
    parent, deepest = core.routes.parent, 0
    for start in parent:
        site, level = parent[start], 0
        while site is not None:
            site, level = parent[site], level + 1
        deepest = max(deepest, level)
    return deepest


def change(sites: int, joins: int, patch: pytest.MonkeyPatch) -> tuple[Watch, int]:
    """Some who are in no group yet join one, at once; what happened, and how many packets there were."""
    watch = Watch(patch)
    groups = draw_groups(random_stream(1, "cost", sites), sites, max(2, sites // 4), 4)
    first = next(iter(groups))
    late = tuple(f"z{number}" for number in range(joins))
    simulation = Simulation(
        PropagationGraph,
        groups,
        PointToPoint(PROCESSING, LATENCY),
        changes=[Change(kind="join", at=1.0, sites=late, group=first)],
        options=PropagationGraph.contract.options(retransmit_seconds=1000.0, blocked_seconds=10000.0),
        duration=100.0,
        settle=1.0,
    ).execute()
    rows = simulation.table().to_pylist()
    assert sum(row["kind"] == "join" for row in rows) == joins
    return watch, sum(row["kind"] == "send" for row in rows)


@pytest.mark.parametrize("joins", [1, 10])
@pytest.mark.parametrize("sites", [5, 20, 50])
def test_no_site_stands_still_longer_than_both_graphs_are_deep_and_two_delays(
    sites: int, joins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, _packets = change(sites, joins, monkeypatch)
    assert watch.stops
    for (site, graph), seconds in watch.stops.items():
        delays = watch.depths[graph - 1] + watch.depths[graph] + 2
        assert seconds <= delays * (LATENCY + 300 * PROCESSING), (site, graph)


def test_the_packets_of_a_change_grow_with_the_sites_and_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        small = change(20, 1, patch)[1]
    with monkeypatch.context() as patch:
        large = change(100, 1, patch)[1]
    assert large / small < 1.5 * 100 / 20
