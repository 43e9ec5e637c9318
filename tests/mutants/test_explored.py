"""Broken rules of safety must be found by a search of a small world: those that take seconds in every run of the tests,
the others in `make mutants`."""

from __future__ import annotations

import pytest

from ordercast.explore.counterexample import explain
from ordercast.explore.replay import Replay
from ordercast.explore.search import Search
from tests.mutants.explored import PLANTED, Planted


@pytest.mark.parametrize(
    "planted",
    [pytest.param(each, id=str(each), marks=[] if each.quickly else [pytest.mark.mutants]) for each in PLANTED],
)
def test_a_search_finds_the_broken_rule_and_its_counterexample_goes_wrong_again(planted: Planted) -> None:
    world = planted.find_world()
    search = Search(world)
    found = search.run()
    assert found.problem is not None, f"{found.states} states and nothing: {planted}"
    print(f"{planted}: {found.problem}; {found.states} states, {found.seconds:.1f} s, {len(found.path)} actions")
    assert not found.problem.startswith("crash"), found.problem
    example = explain(world, search.sites, found, planted.messages)
    again = Replay(world, example).run()
    assert again is not None
    assert again.partition(":")[0] in example.problem
