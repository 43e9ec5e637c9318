"""Has the union of all sites' delivery orders a cycle?

Stronger than pairwise order: three sites can agree pair by pair on all that they have in common, and still
run in a circle.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Ints
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness


def judge_acyclic_order(facts: Facts) -> Finding:
    obliged = any(len(messages) > 1 for messages in facts.deliveries.first.messages)
    components = facts.cycles.components
    if not components:
        return Finding(obliged)
    graph = facts.cycles.graph()
    return Finding(obliged, [_cycle_witness(facts, graph, component) for component in components[:WITNESSES_MAX]])


def _cycle_witness(facts: Facts, whole: csr_array, component: Ints) -> Witness:
    graph = whole[component][:, component]
    # Every node of the component lies on a cycle: a shortest way from one node to one of its predecessors closes one.
    reached, previous = breadth_first_order(graph, 0, directed=True)
    predecessors = set(graph.tocsc()[:, [0]].nonzero()[0].tolist())
    node = next(place for place in reached.tolist() if place in predecessors)
    way = [node]
    while way[-1] != 0:
        way.append(int(previous[way[-1]]))
    cycle = [int(component[place]) for place in reversed(way)]
    sites, messages = _shortened(facts, cycle)
    names = [facts.columns.message_name(message) for message in messages]
    steps = [
        f"{facts.columns.sites[site]} delivers {name} before {names[(place + 1) % len(names)]}"
        for place, (site, name) in enumerate(zip(sites, names, strict=True))
    ]
    around = tuple(facts.columns.sites[site] for site in dict.fromkeys(sites))
    return Witness(around, tuple(names), ", ".join(steps))


def _shortened(facts: Facts, cycle: list[int]) -> tuple[list[int], list[int]]:
    """The same cycle with stretches at one site taken in one step: per step the site, and where it starts."""
    row = facts.deliveries.first.row
    sites: list[int] = []
    messages: list[int] = []
    closed = np.array([*cycle, cycle[0]])
    place = 0
    while place < len(cycle):
        # How far each site's own order carries from here.
        there = row[:, closed[place:]]
        forward = (there[:, 1:] > there[:, :-1]) & (there[:, 1:] >= 0) & (there[:, :-1] >= 0)
        steps = np.where(forward.all(axis=1), forward.shape[1], np.argmin(forward, axis=1))
        site = int(np.argmax(steps))
        sites.append(site)
        messages.append(int(closed[place]))
        place += int(steps[site])
    return sites, messages
