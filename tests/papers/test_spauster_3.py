"""Spauster 1991, chapter 3 and Figure 4.1: the worked examples of the PG generator."""

from __future__ import annotations

from ordercast.graphs.balance import balance
from ordercast.graphs.bypass import Dependence, add_bypasses, keeps_order
from ordercast.graphs.choice import Ties
from ordercast.graphs.generator import generate
from ordercast.graphs.graph import Graph, read_groups
from ordercast.graphs.metrics import measure

FIGURE_3_2 = {
    "α1": "cd",
    "α2": "abc",
    "α3": "bcde",
    "α4": "def",
    "α5": "ef",
    "α6": "bg",
    "α7": "ch",
    "α8": "dj",
}
PREFERENCE = ("d", "c", "e")
"""c and d are both in four groups; the figure has d above c, c above b, e above f."""


def make(groups: dict[str, str], *prefer: str) -> Graph:
    return generate(read_groups(groups), ties=Ties(prefer))


def tree(graph: Graph) -> dict[str, str]:
    """Site -> its children, where there are any."""
    return {site: "".join(children) for site, children in graph.children.items() if children}


def extra(graph: Graph) -> dict[str, str]:
    """Group -> its extra nodes, where there are any."""
    return {group: "".join(cost.extra) for group, cost in measure(graph).groups.items() if cost.extra}


def test_figure_3_1_one_root_merges_two_groups() -> None:
    graph = make({"α": "abcd", "β": "cdef"})
    assert tree(graph) == {"c": "abdef"}
    assert graph.primary == {"α": "c", "β": "c"}


def test_figures_3_2_and_3_3_the_tree_of_eight_groups() -> None:
    graph = make(FIGURE_3_2, *PREFERENCE)
    assert graph.roots == ("d",)
    assert tree(graph) == {"d": "cej", "c": "abh", "e": "f", "b": "g"}
    primary = {"α1": "d", "α2": "c", "α3": "d", "α4": "d", "α5": "e", "α6": "b", "α7": "c", "α8": "d"}
    assert graph.primary == primary
    assert extra(graph) == {}


def test_figure_3_2_needs_the_preference() -> None:
    assert make(FIGURE_3_2).roots == ("c",)


def test_section_3_3_a_ninth_group_leaves_the_tree_and_makes_c_an_extra_node() -> None:
    graph = make({**FIGURE_3_2, "α9": "da"}, *PREFERENCE)
    assert tree(graph) == tree(make(FIGURE_3_2, *PREFERENCE))
    assert extra(graph) == {"α9": "c"}


def test_section_3_4_d_sends_to_c_and_e_and_c_to_b() -> None:
    onward = make(FIGURE_3_2, *PREFERENCE).next_hops("α3")
    assert onward == {"d": ("c", "e"), "c": ("b",), "b": (), "e": ()}


def test_figure_3_4_an_edge_from_b_to_f_bypasses_d() -> None:
    graph = make({"α1": "abde", "α2": "bcf", "α3": "defg"})
    assert tree(graph) == {"b": "acd", "d": "efg"}
    assert extra(graph) == {"α2": "d"}
    independent = add_bypasses(graph)
    assert independent.graph.bypass == {("α2", "f"): "b"}
    assert tree(independent.graph) == tree(graph)
    assert extra(independent.graph) == {}
    assert independent.left == ()


def test_figure_3_5_the_subtree_of_g_becomes_a_child_of_f() -> None:
    graph = make({"α1": "abde", "α2": "bcfg", "α3": "defgh"})
    assert tree(graph) == {"b": "acd", "d": "efgh"}
    assert extra(graph) == {"α2": "d"}
    independent = add_bypasses(graph)
    assert independent.graph.bypass == {("α2", "f"): "b"}
    assert tree(independent.graph) == {"b": "acd", "d": "efh", "f": "g"}
    assert extra(independent.graph) == {}
    assert keeps_order(independent.graph)


def test_figure_3_6_independence_is_impossible_and_the_generator_says_why() -> None:
    graph = make({"α1": "abc", "α2": "abd", "α3": "acd", "α4": "bcd"})
    assert tree(graph) == {"a": "b", "b": "cd"}
    independent = add_bypasses(graph)
    assert independent.left == (Dependence("b", "α3", "α1 and α3 would be merged at a and again at c"),)
    assert independent.graph.bypass == {}
    assert tree(independent.graph) == tree(graph)


def test_figure_4_1_a_star_whose_load_can_be_traded_for_depth() -> None:
    graph = make({"α": "abcde", "β": "bfgh", "γ": "ab"})
    star = measure(graph)
    assert tree(graph) == {"b": "acdefgh"}
    assert (star.load["b"], star.load["a"], star.mean_depth) == (11, 2, 1.0)
    for bound in (8, 7, 6):
        balanced = balance(graph, bound)
        metrics = measure(balanced.graph)
        assert balanced.over == {}
        assert metrics.max_load == bound
        assert metrics.mean_depth > star.mean_depth
        assert metrics.mean_extra == 0
        assert balanced.graph.primary == graph.primary
    # Three messages in and at least one out for each group.
    assert balance(graph, 5).over == {"b": 6}
