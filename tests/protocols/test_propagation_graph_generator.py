"""The PG generator, its heuristics and metrics, against definitions written down once more, without regard to speed."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from ordercast.core import UsageError
from ordercast.graphs.balance import balance
from ordercast.graphs.bypass import add_bypasses, keeps_order
from ordercast.graphs.choice import HEURISTICS, Heuristic, Ties
from ordercast.graphs.design import METHODS, design
from ordercast.graphs.generator import generate
from ordercast.graphs.graph import Graph, Groups, graph_of_parents, read_groups
from ordercast.graphs.metrics import centralised_load, delay, measure, two_phase_load
from ordercast.graphs.random_groups import draw_groups, site_names
from ordercast.graphs.spanning import minimum_spanning_tree, shortest_path_tree
from ordercast.graphs.topology import Grid, Links

SEEDS = range(60)


def random_groups(seed: int) -> Groups:
    """From dense to sparse, sometimes with groups of one and equal groups."""
    random = Random(seed)
    sites = site_names(random.randint(2, 40))
    return read_groups(
        {
            f"g{number}": random.sample(sites, random.randint(1, min(6, len(sites))))
            for number in range(random.randint(1, 14))
        }
    )


# ---------------------------------------------------------------------- Appendix I, word for word
def appendix(groups: Groups) -> tuple[dict[str, str | None], dict[str, str]]:
    """Parents and primary destinations by the pseudo-code, its misprints corrected; ties by name."""
    unmarked_groups = {group: frozenset(members) for group, members in groups.items()}
    unmarked_sites = {site for members in groups.values() for site in members}
    parent: dict[str, str | None] = {}
    primary: dict[str, str] = {}

    def most_frequent(candidates: set[str], among: dict[str, frozenset[str]]) -> str:
        return min(candidates, key=lambda site: (-sum(site in members for members in among.values()), site))

    def new_subtree(subroot: str) -> None:
        unmarked_sites.discard(subroot)
        mine = {group for group, members in unmarked_groups.items() if subroot in members}
        intersecters = {site for site in unmarked_sites if any(site in unmarked_groups[group] for group in mine)}
        for group in mine:
            primary[group] = subroot
            del unmarked_groups[group]
        partitions: list[set[str]] = []
        for group, members in unmarked_groups.items():
            met = [
                partition for partition in partitions if any(unmarked_groups[other] & members for other in partition)
            ]
            partitions = [partition for partition in partitions if partition not in met]
            partitions.append({group}.union(*met))
        concerned = [
            {group: unmarked_groups[group] for group in partition}
            for partition in partitions
            if any(unmarked_groups[group] & intersecters for group in partition)
        ]
        inside = {site for partition in concerned for members in partition.values() for site in members}
        for site in intersecters - inside:
            parent[site] = subroot
            unmarked_sites.discard(site)
        for partition in concerned:
            child = most_frequent(intersecters & frozenset.union(*partition.values()), partition)
            parent[child] = subroot
            new_subtree(child)

    while unmarked_groups:
        root = most_frequent({site for members in unmarked_groups.values() for site in members}, unmarked_groups)
        parent[root] = None
        new_subtree(root)
    return parent, primary


@pytest.mark.parametrize("seed", SEEDS)
def test_the_generator_does_what_the_appendix_says(seed: int) -> None:
    groups = random_groups(seed)
    parent, primary = appendix(groups)
    graph = generate(groups)
    assert dict(graph.parent) == parent
    assert dict(graph.primary) == primary


# ---------------------------------------------------------------------- what every graph must be
def ancestors(graph: Graph, site: str) -> list[str]:
    path = [site]
    while (above := graph.parent[path[-1]]) is not None:
        path.append(above)
    return path


def check_graph(graph: Graph) -> None:
    """PG1 and PG2 of 3.3: one primary destination, and one path from it to each member (in a forest: it is above)."""
    assert set(graph.primary) == set(graph.groups)
    places = {site: place for place, site in enumerate(graph.parent)}
    for site, above in graph.parent.items():
        assert above is None or places[above] < places[site]
    for group, members in graph.groups.items():
        assert all(graph.primary[group] in ancestors(graph, member) for member in members)


@pytest.mark.parametrize("heuristic", HEURISTICS)
@pytest.mark.parametrize("seed", range(20))
def test_every_heuristic_makes_a_graph_with_the_three_properties(heuristic: Heuristic, seed: int) -> None:
    groups = random_groups(seed)
    sites = sorted({site for members in groups.values() for site in members})
    graph = generate(groups, heuristic, Ties(random=Random(seed)), Grid(sites))
    check_graph(graph)
    assert sorted(graph.parent) == sites
    # PG3: the primary destination is a member.
    assert all(graph.primary[group] in members for group, members in groups.items())


@pytest.mark.parametrize("seed", range(20))
def test_random_ties_follow_the_seed_alone(seed: int) -> None:
    groups = random_groups(seed)
    first, second = (generate(groups, ties=Ties(random=Random(7))) for _ in range(2))
    assert list(first.parent.items()) == list(second.parent.items())


def test_ties_at_random_give_several_graphs() -> None:
    groups = read_groups({"g": "abcdef"})
    assert len({generate(groups, ties=Ties(random=Random(seed))).roots for seed in range(40)}) == 6


def test_a_random_child_may_be_any_site_of_the_partition_or_only_an_intersecter() -> None:
    # Whichever root of g is drawn, h hangs below it by c alone.
    groups = read_groups({"g": "abc", "h": "cde"})
    found: dict[str, set[str]] = {"random": set(), "random-intersecter": set()}
    for heuristic in found:
        for seed in range(60):
            graph = design(groups, heuristic, Ties(random=Random(seed)))
            if graph.roots[0] in "ab":
                found[heuristic] |= {child for child in graph.children[graph.roots[0]] if graph.primary["h"] == child}
    assert found == {"random": set("cde"), "random-intersecter": {"c"}}


# ---------------------------------------------------------------------- metrics
@pytest.mark.parametrize("seed", range(30))
def test_the_metrics_are_what_their_definitions_say(seed: int) -> None:
    groups = random_groups(seed)
    graph = generate(groups, "random", Ties(random=Random(seed)))
    metrics = measure(graph)
    load = dict.fromkeys(graph.parent, 0)
    for group, members in groups.items():
        paths = []
        for member in members:
            path = ancestors(graph, member)
            paths.append(path[: path.index(graph.primary[group]) + 1])
        sites = {site for path in paths for site in path}
        edges = {(path[place + 1], path[place]) for path in paths for place in range(len(path) - 1)}
        cost = metrics.groups[group]
        assert cost.depth == max(len(path) - 1 for path in paths)
        assert cost.extra == tuple(sorted(sites - set(members)))
        assert cost.messages == 1 + len(edges) == len(members) + len(cost.extra)
        assert cost.forwarding == len({sender for sender, _ in edges})
        load[graph.primary[group]] += 1
        for sender, receiver in edges:
            load[sender] += 1
            load[receiver] += 1
        assert delay(graph, group, 0.001, 0.01) <= cost.delay_max(0.001, 0.01) + 1e-12
    assert dict(metrics.load) == load


def test_load_of_the_other_two_solutions() -> None:
    groups = read_groups({"g": "abc", "h": "cd"})
    assert centralised_load(groups, "c") == (1 + 2) + (1 + 1)
    assert centralised_load(groups, "a") == (1 + 2) + (1 + 2)
    assert two_phase_load(groups) == 6


# ---------------------------------------------------------------------- topologies
@pytest.mark.parametrize("count", [1, 2, 5, 9, 12, 23])
def test_the_distance_on_a_grid_is_that_of_its_links(count: int) -> None:
    sites = site_names(count)
    grid = Grid(sites)
    links = [(site, other, weight) for site in sites for other, weight in grid.neighbours(site)]
    if links:
        general = Links(links)
        assert all(general.distance(a, b) == grid.distance(a, b) for a, b in combinations(sites, 2))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(8))
def test_every_method_makes_a_correct_graph_on_any_network(method: str, seed: int) -> None:
    random = Random(seed)
    groups = random_groups(seed)
    sites = sorted({site for members in groups.values() for site in members} | {"relay"})
    network = Links(
        (site, random.choice(sites[:place]), random.choice((1.0, 1.0, 2.5)))
        for place, site in enumerate(sites)
        if place
    )
    graph = design(groups, method, Ties(random=random), network)
    check_graph(graph)
    metrics = measure(graph, network)
    for group, cost in metrics.groups.items():
        far = max(network.distance(graph.primary[group], member) for member in groups[group])
        assert cost.path is not None
        assert cost.path >= far - 1e-9


def test_a_shortest_path_tree_is_as_near_to_its_root_as_the_network_allows() -> None:
    groups = draw_groups(Random(1), 60, 20, 5)
    grid = Grid(site_names(60))
    graph = shortest_path_tree(groups, grid, Ties(random=Random(2)))
    assert len(graph.roots) == 1
    assert all(graph.level[site] == grid.distance(graph.roots[0], site) for site in graph.parent)


@pytest.mark.parametrize("method", ["prim", "kruskal"])
def test_a_minimum_spanning_tree_is_minimal_and_its_root_has_all_neighbours_it_can_have(method: str) -> None:
    groups = read_groups({"g": "abc", "h": "ad"})
    network = Links([("a", "b", 1), ("a", "c", 1), ("b", "c", 1), ("a", "d", 3), ("c", "d", 2)])
    graph = minimum_spanning_tree(groups, network, Ties(random=Random(3)), "prim" if method == "prim" else "kruskal")
    assert graph.children == {"a": ("b", "c"), "b": (), "c": ("d",), "d": ()}


@pytest.mark.parametrize(("sites", "prim", "kruskal"), [(100, 12.0, 18.0), (225, 18.0, 28.0)])
def test_prims_tree_of_a_grid_is_shallower_than_kruskals(sites: int, prim: float, kruskal: float) -> None:
    """Prim's grows by any link of its border, each time anew; with a number for each link, drawn once, it would be the
    tree of random weights, as Kruskal's is."""
    grid, found = Grid(site_names(sites)), {}
    for method in ("prim", "kruskal"):
        random = Random(sites)
        graphs = (
            minimum_spanning_tree(draw_groups(random, sites, 20, 5), grid, Ties(random=random), method)
            for _ in range(30)
        )
        paths = [measure(graph, grid).mean_path for graph in graphs]
        found[method] = sum(path for path in paths if path is not None) / len(paths)
    assert found == {"prim": pytest.approx(prim, rel=0.1), "kruskal": pytest.approx(kruskal, rel=0.1)}


def test_prims_tree_is_the_same_every_time_where_nothing_is_random() -> None:
    groups, grid = draw_groups(Random(1), 36, 5, 4), Grid(site_names(36))
    graph = minimum_spanning_tree(groups, grid, Ties())
    assert graph == minimum_spanning_tree(groups, grid, Ties())


def test_heuristic_2_breaks_ties_by_distance_and_heuristic_3_prefers_the_nearest() -> None:
    # Below a: c and d are equally frequent in the partition; d is nearer. e is nearest, and in one group only.
    groups = read_groups({"g": "acd", "h": "acd", "i": "ab", "j": "cdx", "k": "cdx", "l": "xe", "m": "ab", "n": "ab"})
    network = Links([("a", "e", 1), ("e", "d", 1), ("d", "c", 1), ("c", "b", 1), ("b", "x", 9)])
    assert generate(groups).children["a"] == ("b", "c")
    assert generate(groups, "most-groups-near", Ties(), network).children["a"] == ("b", "d")
    assert generate(groups, "nearest", Ties(), network).children["a"] == ("b", "e")


# ---------------------------------------------------------------------- bypass and balance
@pytest.mark.parametrize("seed", SEEDS)
def test_bypasses_keep_order_and_never_add_an_extra_node(seed: int) -> None:
    graph = generate(random_groups(seed))
    assert keeps_order(graph)
    independent = add_bypasses(graph)
    assert keeps_order(independent.graph)
    before, after = measure(graph).groups, measure(independent.graph).groups
    for group, cost in after.items():
        assert set(cost.extra) <= set(before[group].extra)
    # Whatever is still an extra node is explained, and nothing else is.
    assert {(each.site, each.group) for each in independent.left} == {
        (site, group) for group, cost in after.items() for site in cost.extra
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_balanced_graph_is_correct_and_brings_nobody_above_the_bound(seed: int) -> None:
    graph = generate(random_groups(seed))
    before = measure(graph)
    for bound in (2, 4, max(1, before.max_load - 1)):
        balanced = balance(graph, bound)
        check_graph(balanced.graph)
        after = measure(balanced.graph)
        assert balanced.over == {site: load for site, load in sorted(after.load.items()) if load > bound}
        assert all(load <= max(bound, before.load[site]) for site, load in after.load.items())
        assert all(set(cost.extra) <= set(before.groups[group].extra) for group, cost in after.groups.items())


# ---------------------------------------------------------------------- the edges of the input
def test_a_group_without_members_is_refused() -> None:
    with pytest.raises(UsageError, match="group 'h' has no members"):
        read_groups({"g": ["a"], "h": []})
    with pytest.raises(UsageError, match="no groups"):
        read_groups({})


def test_one_group_is_a_star() -> None:
    graph = generate(read_groups({"g": "cab"}))
    assert graph.children == {"a": ("b", "c"), "b": (), "c": ()}


def test_a_group_of_one_is_a_tree_of_one() -> None:
    graph = generate(read_groups({"g": "a"}))
    metrics = measure(graph)
    assert graph.parent == {"a": None}
    assert (metrics.mean_depth, metrics.mean_extra, metrics.max_load) == (0, 0, 1)


def test_equal_groups_share_their_primary_destination_and_the_star() -> None:
    graph = generate(read_groups({"g": "abc", "h": "abc", "i": "abc"}))
    assert set(graph.primary.values()) == {"a"}
    assert measure(graph).load == {"a": 9, "b": 3, "c": 3}


def test_groups_that_share_nothing_are_trees_of_their_own_the_busiest_first() -> None:
    graph = generate(read_groups({"g": "ab", "h": "cd", "i": "cd"}))
    assert graph.roots == ("c", "a")


def test_five_hundred_groups_on_one_site_are_a_star_there() -> None:
    groups = read_groups({f"g{number:03}": ("hub", f"s{number:03}", f"t{number:03}") for number in range(500)})
    graph = generate(groups)
    assert graph.roots == ("hub",)
    assert measure(graph).load["hub"] == 1500
    assert measure(balance(graph, 1200).graph).max_load == 1200


def test_a_chain_of_two_thousand_groups_is_no_deeper_than_python_can_go() -> None:
    groups = read_groups({f"g{number:04}": (f"s{number:04}", f"s{number + 1:04}") for number in range(2000)})
    graph = generate(groups)
    assert max(graph.level.values()) == 1999
    assert keeps_order(graph)


def test_parents_of_ones_own_must_hold_each_group_together() -> None:
    groups = read_groups({"g": "ab", "h": "bc"})
    graph = graph_of_parents(groups, {"a": "r", "b": "r", "c": "b"})
    assert graph.primary == {"g": "r", "h": "b"}
    assert measure(graph).groups["g"].extra == ("r",)
    with pytest.raises(UsageError, match="group 'h': b and c are in different trees"):
        graph_of_parents(groups, {"a": "b"})
    with pytest.raises(UsageError, match="circle"):
        graph_of_parents(groups, {"a": "b", "b": "c", "c": "a"})


def test_what_a_method_needs_is_asked_for() -> None:
    groups = read_groups({"g": "ab"})
    with pytest.raises(UsageError, match="needs a topology"):
        design(groups, "nearest", Ties())
    with pytest.raises(UsageError, match="needs a topology"):
        design(groups, "spanning-tree", Ties())
    with pytest.raises(UsageError, match="draws every site at random"):
        design(groups, "random", Ties())
    with pytest.raises(UsageError, match="known: most-groups"):
        design(groups, "best", Ties())
    with pytest.raises(UsageError, match="no link of site 'a'"):
        design(groups, "spanning-tree", Ties(), Links([("b", "c", 1)]))
