"""Acyclic order, which pairwise order does not imply."""

import pytest

from tests.check.build import outcome, verdict_of

CYCLE = """
a deliver m1
a deliver m2
b deliver m2
b deliver m3
c deliver m3
c deliver m1
"""


def test_a_cycle_of_three_sites_is_found_where_every_pair_agrees() -> None:
    assert outcome("multiple-group-order", CYCLE) == "vacuous"
    verdict = verdict_of("acyclic-order", CYCLE)
    assert verdict.verdict == "violated"
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert set(verdict.first.sites) == {"a", "b", "c"}
    assert set(verdict.first.messages) == {"m1", "m2", "m3"}
    assert verdict.first.why == "a delivers m1 before m2, b delivers m2 before m3, c delivers m3 before m1"


def test_orders_that_fit_into_one_hold() -> None:
    assert outcome(
        "acyclic-order", "a deliver m1\na deliver m2\nb deliver m2\nb deliver m3\nc deliver m1\nc deliver m3"
    ) == ("holds")


def test_one_site_with_two_messages_is_an_obligation() -> None:
    assert outcome("acyclic-order", "a deliver m1\na deliver m2") == "holds"
    assert outcome("acyclic-order", "a deliver m1\nb deliver m2") == "vacuous"
    assert outcome("acyclic-order", "a deliver m1\na deliver m1") == "vacuous"


def test_each_knot_has_one_witness() -> None:
    rows = "\n".join(
        f"{site} deliver {name}" for site, names in (("a", "m n x y"), ("b", "n m y x")) for name in names.split()
    )
    verdict = verdict_of("acyclic-order", rows)
    assert [set(witness.messages) for witness in verdict.all_witnesses] == [{"m", "n"}, {"x", "y"}]


def test_a_long_way_around_is_told_by_its_turning_points() -> None:
    names = [f"m{number:02d}" for number in range(50)]
    there = "\n".join(f"a deliver {name}" for name in names)
    verdict = verdict_of("acyclic-order", f"{there}\nb deliver m49\nb deliver m00")
    assert verdict.first is not None
    assert verdict.first.sites == ("a", "b")
    assert set(verdict.first.messages) == {"m00", "m49"}


@pytest.mark.parametrize("sites", [127, 128, 255, 256, 257, 512])
def test_a_cycle_is_told_however_many_sites_share_a_step_of_it(sites: int) -> None:
    back = "\n".join(f"b{number:03d} deliver m2\nb{number:03d} deliver m1" for number in range(sites))
    verdict = verdict_of("acyclic-order", f"a deliver m1\na deliver m2\n{back}", groups="")
    assert verdict.first is not None
    assert verdict.first.why == "a delivers m1 before m2, b000 delivers m2 before m1"
