"""Spauster 1991, Tables 4.1 and 4.2, the propagation column: N and D of each message over random graphs."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.core import random_stream
from ordercast.graphs.graph import Graph, Groups
from ordercast.graphs.metrics import delay, measure
from ordercast.graphs.random_groups import draw_groups
from ordercast.papers.spauster.tables_4_runs import count
from ordercast.protocols.propagation_graph import PropagationGraphOptions
from ordercast.protocols.propagation_graph.routes import make_routes
from ordercast.sim.networks import BroadcastMedium, PointToPoint

T = 0.0005
TOLERANCE = 1e-9


def draw(seed: int) -> tuple[Groups, Graph, dict[str, Any]]:
    """Random groups and one of several graphs of them."""
    random = random_stream(seed, "test")
    sites = random.randint(3, 40)
    groups = draw_groups(random, sites, random.randint(1, 12), random.randint(1, min(8, sites)))
    members = sorted({site for names in groups.values() for site in names})
    options: dict[str, Any] = {
        "prefer": tuple(random.sample(members, len(members) // 2)),
        "load_bound": random.choice((0, 0, 4, 8)),
    }
    return groups, make_routes(groups, PropagationGraphOptions(**options)).graph, options


@pytest.mark.parametrize("seed", range(25))
def test_n_is_n_plus_extra_nodes_and_d_is_below_its_bound(seed: int) -> None:
    groups, graph, options = draw(seed)
    processing, latency = ((0.0001, 0.002), (0.001, 0.001), (0.002, 0.0001))[seed % 3]
    counted = count(groups, "propagation-graph", PointToPoint(processing, latency), seed, **options)
    for group, cost in measure(graph).groups.items():
        packets, seconds = counted[group]
        assert packets == cost.members + len(cost.extra)
        assert seconds <= (cost.depth + 1) * latency + (cost.members + len(cost.extra)) * processing + TOLERANCE
        assert seconds == pytest.approx(delay(graph, group, processing, latency))


@pytest.mark.parametrize("seed", range(15))
def test_on_a_broadcast_medium_n_is_one_and_the_sites_that_send_on(seed: int) -> None:
    groups, graph, options = draw(seed)
    counted = count(groups, "propagation-graph", BroadcastMedium(T), seed, **options)
    for group, cost in measure(graph).groups.items():
        frames, seconds = counted[group]
        assert frames == 1 + cost.forwarding >= cost.depth + 1
        assert (cost.depth + 1) * T - TOLERANCE <= seconds <= frames * T + TOLERANCE
