"""One run of the experiments of Spauster's chapter 4: random groups, propagation graphs of them, their measures."""

from __future__ import annotations

from collections import Counter
from random import Random

from ordercast.core import random_stream
from ordercast.graphs import (
    Grid,
    Groups,
    Ties,
    centralised_load,
    design,
    draw_groups,
    measure,
    minimum_spanning_tree,
    read_groups,
    site_names,
    two_phase_load,
)
from ordercast.spark.experiments import Point

RANDOM_METHODS = ("most-groups", "random", "random-intersecter")
"""Graphs 4.6 and 4.7: Heuristic I, and the two readings of a random graph."""
TOPOLOGY_METHODS = ("most-groups", "most-groups-near", "nearest", "spanning-tree", "kruskal", "shortest-path")
"""Graphs 4.8 to 4.14: Heuristics I, II and III, minimum spanning trees by Prim's and by Kruskal's rule, shortest path
tree."""
SIZE_MIN = 2
"""Of groups whose size is drawn: in a group of one there is nothing to order, and its depth of 0 says nothing."""


def column(measure_name: str, method: str) -> str:
    """The measure of one method among several of the same run."""
    return f"{measure_name}_{method.replace('-', '_')}"


def _groups(point: Point, random: Random) -> Groups:
    return draw_groups(random, int(point["sites"]), int(point["groups"]), int(point["group_size"]))


def run_heuristic(point: Point, seed: int) -> dict[str, float | None]:
    """Depth, extra nodes and load of Heuristic I (Graphs 4.1 to 4.5), and the load of the other two solutions."""
    random = random_stream(seed, "groups")
    return _measures(_groups(point, random), random)


def run_exponential(point: Point, seed: int) -> dict[str, float | None]:
    """The same for groups whose sizes are distributed exponentially, with the point's size as their mean (4.1.2)."""
    random = random_stream(seed, "groups")
    names = site_names(int(point["sites"]))
    mean = float(point["group_size"])
    sizes = [max(SIZE_MIN, min(len(names), round(random.expovariate(1 / mean)))) for _ in range(int(point["groups"]))]
    groups = read_groups({f"g{number:03}": random.sample(names, size) for number, size in enumerate(sizes)})
    fixed = _groups(point, random)
    return {
        **_measures(groups, random),
        "mean_size": sum(sizes) / len(sizes),
        "depth_fixed": measure(design(fixed, "most-groups", Ties(random=random))).mean_depth,
    }


def _measures(groups: Groups, random: Random) -> dict[str, float | None]:
    metrics = measure(design(groups, "most-groups", Ties(random=random)))
    frequency = Counter(site for members in groups.values() for site in members)
    # The centre that has least to send: of those in most groups.
    centre = min(frequency, key=lambda site: (-frequency[site], site))
    return {
        "depth": metrics.mean_depth,
        "extra": metrics.mean_extra,
        "load": metrics.max_load,
        "load_two_phase": two_phase_load(groups),
        "load_centralized": centralised_load(groups, centre),
    }


def run_random(point: Point, seed: int) -> dict[str, float | None]:
    """Depth of Heuristic I and of random graphs of the same groups."""
    random = random_stream(seed, "groups")
    groups = _groups(point, random)
    return {
        column("depth", method): measure(design(groups, method, Ties(random=random))).mean_depth
        for method in RANDOM_METHODS
    }


def run_topology(point: Point, seed: int) -> dict[str, float | None]:
    """Physical depth and extra nodes on a square grid, of all methods for the same groups."""
    random = random_stream(seed, "groups")
    groups = _groups(point, random)
    grid = Grid(site_names(int(point["sites"])))
    ties = Ties(random=random)
    values: dict[str, float | None] = {}
    for method in TOPOLOGY_METHODS:
        if method == "kruskal":
            graph = minimum_spanning_tree(groups, grid, ties, "kruskal")
        else:
            graph = design(groups, method, ties, grid)
        metrics = measure(graph, grid)
        values[column("path", method)] = metrics.mean_path
        values[column("extra", method)] = metrics.mean_extra
    return values
