"""What a change of the propagation graph costs: packets, and how long a site stands still (Spauster 5.2)."""

from __future__ import annotations

import pytest

from ordercast.papers.spauster.change_cost_runs import run_change


def change(sites: int, joins: int) -> dict[str, float | None]:
    """Some who are in no group yet join one, at once."""
    return run_change({"algorithm": "propagation graph", "sites": sites, "joins": joins}, 1)


@pytest.mark.parametrize("joins", [1, 10])
@pytest.mark.parametrize("sites", [5, 20, 50])
def test_no_site_stands_still_longer_than_both_graphs_are_deep_and_two_delays(sites: int, joins: int) -> None:
    cost = change(sites, joins)
    assert cost["graphs"]
    assert 0 < (cost["stop_share"] or 0) <= 1.001


def test_the_packets_of_a_change_grow_with_the_sites_and_not_faster() -> None:
    small, large = change(20, 1), change(100, 1)
    assert (large["packets"] or 0) / (small["packets"] or 1) < 1.5 * 100 / 20
