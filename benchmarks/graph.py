"""How long the PG generator takes, and how fast a core of the propagation graph takes messages.

    python benchmarks/graph.py

Each figure is the best of several, in seconds of this process: the machine may have other things to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from ordercast.core import Context, MessageId, Multicast
from ordercast.core.events import Consumed, Received, Started
from ordercast.graphs.choice import Ties
from ordercast.graphs.design import METHODS, design
from ordercast.graphs.metrics import measure
from ordercast.graphs.random_groups import draw_groups, site_names
from ordercast.graphs.topology import Grid
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.propagation_graph.packets import Acknowledge, Submit

REPEAT = 3
DEMANDED = {(1000, 400, 5): 0.3, (10_000, 5000, 5): 10.0}
"""Sites, groups, size -> seconds that the generator may take at most."""
MESSAGES = 20_000


def best(function: Callable[[], object]) -> float:
    """Seconds of processor time, the best of several."""
    taken = []
    for _ in range(REPEAT):
        began = time.process_time()
        function()
        taken.append(time.process_time() - began)
    return min(taken)


def time_generators() -> None:
    for (sites, groups, size), demanded in DEMANDED.items():
        drawn = draw_groups(Random(1), sites, groups, size)
        seconds = best(lambda drawn=drawn: design(drawn, "most-groups", Ties()))  # type: ignore[misc]
        graph = design(drawn, "most-groups", Ties())
        measuring = best(lambda graph=graph: measure(graph))  # type: ignore[misc]
        verdict = "ok" if seconds < demanded else "TOO SLOW"
        print(
            f"{sites:>6} sites, {groups:>5} groups of {size}: {seconds:.3f} s (demanded {demanded:g} s: {verdict}), "
            f"metrics {measuring:.3f} s, deepest site {max(graph.level.values())}"
        )
    drawn = draw_groups(Random(1), 1000, 400, 5)
    grid = Grid(site_names(1000))
    for method in METHODS:
        seconds = best(lambda method=method: design(drawn, method, Ties(random=Random(1)), grid))  # type: ignore[misc]
        print(f"  1000 sites, 400 groups of 5, {method}: {seconds:.3f} s")


def time_core() -> None:
    """A root with three children, two overlapping groups: what each bundle costs it, effects not carried out."""
    groups = {"g": ("a", "b", "c"), "h": ("a", "c", "d")}
    sites = ("a", "b", "c", "d", "x")

    def run() -> None:
        core = PropagationGraph(Context("a", groups, sites, PropagationGraphOptions(), Random(0)))
        core.step(0.0, Started())
        for number in range(1, MESSAGES + 1):
            multicast = Multicast(MessageId("x", 0, number), ("g",) if number % 2 else ("h",), b"")
            core.step(0.0, Received("x", Submit(number, multicast)))
            if not number % 32:
                core.step(0.0, Consumed(32))
                for child in ("b", "c", "d"):
                    core.step(0.0, Received(child, Acknowledge(core.outgoing[child].highest)))
            core.outbox.clear()

    seconds = best(run)
    each = 1e6 * seconds / MESSAGES
    print(f"core: {MESSAGES / seconds:,.0f} bundles a second at a root with three children ({each:.2f} µs each)")


if __name__ == "__main__":
    time_generators()
    time_core()
