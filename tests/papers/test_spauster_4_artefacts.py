"""Chapter 4 made again: each artefact's claims hold in a small part of its data, and fail in data that contradict them.

Without Spark: runs are made and averaged here. That Spark makes the same of them is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact
from ordercast.papers.registry import ARTEFACTS, find_artefact
from ordercast.papers.spauster.chapter_4_runs import TOPOLOGY_METHODS, column
from ordercast.spark.experiments.experiment import find_function
from ordercast.spark.experiments.precision import half_width

GRAPHS = [name for name in ARTEFACTS if name.startswith(("spauster-graph-4", "spauster-exponential"))]
RUNS = 40


@cache
def small_data(name: str) -> pd.DataFrame:
    """What Spark would make of a few runs of the part of the grid that `--fast` takes."""
    experiment = find_artefact(name).experiment(True)
    function = find_function(experiment.function)
    rows = []
    for point in experiment.points():
        made: list[dict[str, float]] = [
            function(dict(point), experiment.seed(point, number))  # type: ignore[misc]
            for number in range(RUNS)
        ]
        row: dict[str, object] = {**point, "repetitions": RUNS}
        for measure in experiment.measures:
            values = [values[measure.name] for values in made]
            row |= {
                measure.name: float(np.mean(values)),
                f"{measure.name}_half_width": half_width(values),
                f"{measure.name}_min": min(values),
                f"{measure.name}_max": max(values),
            }
        rows.append(row)
    return pd.DataFrame(rows)


def held(artefact: Artefact, data: pd.DataFrame) -> dict[str, bool]:
    return {check.claim: check.holds for check in artefact.checks(data)}


def test_there_is_an_artefact_for_each_graph_of_the_chapter() -> None:
    assert {f"spauster-graph-4-{number}" for number in range(1, 15)} <= set(GRAPHS)
    assert {"spauster-table-4-1", "spauster-table-4-2", "spauster-exponential-sizes"} <= set(ARTEFACTS)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_claims_about_shape_hold_already_in_a_part_of_the_data(name: str) -> None:
    found = held(find_artefact(name), small_data(name))
    wrong = [claim for claim, holds in found.items() if not holds and "95 %" not in claim]
    assert found
    assert wrong == []


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_is_drawn(name: str) -> None:
    figure = Figure()
    find_artefact(name).draw(small_data(name), figure)
    assert figure.axes
    assert all(axes.lines or axes.containers for axes in figure.axes)


def _widen(data: pd.DataFrame) -> None:
    for name in data.columns:
        if name.endswith("_half_width"):
            data[name] = data[name] * 100 + 10


@pytest.mark.parametrize("name", GRAPHS)
def test_wide_intervals_are_not_passed_for_narrow_ones(name: str) -> None:
    data = small_data(name).copy()
    _widen(data)
    found = held(find_artefact(name), data)
    assert [holds for claim, holds in found.items() if "95 % confidence" in claim] == [False]


def _flat(measure: str) -> Callable[[pd.DataFrame], None]:
    def perturb(data: pd.DataFrame) -> None:
        data[measure] = 3.0
        data[f"{measure}_half_width"] = 0.1

    return perturb


def _swap(first: str, second: str) -> Callable[[pd.DataFrame], None]:
    def perturb(data: pd.DataFrame) -> None:
        data[[first, second]] = data[[second, first]].to_numpy()

    return perturb


PATH = {method: column("path", method) for method in TOPOLOGY_METHODS}
EXTRA = {method: column("extra", method) for method in TOPOLOGY_METHODS}


@pytest.mark.parametrize(
    ("name", "perturb", "claim"),
    [
        ("spauster-graph-4-1", _flat("depth"), "many intersections make short bushy trees"),
        ("spauster-graph-4-2", _flat("depth"), "many intersections make short bushy trees"),
        ("spauster-graph-4-3", _flat("extra"), "the curves display the same behavior"),
        ("spauster-exponential-sizes", _swap("depth", "depth_fixed"), "they generally give lower numbers"),
        ("spauster-graph-4-4", _swap("load", "load_centralized"), "the propagation graph strikes a compromise"),
        ("spauster-graph-4-4", _flat("load"), "load is high with short, bushy trees"),
        ("spauster-graph-4-5", _swap("load", "load_centralized"), "for large group sizes the central site"),
        ("spauster-graph-4-6", _swap("depth_most_groups", "depth_random"), "the heuristic yields better trees"),
        ("spauster-graph-4-7", _swap("depth_most_groups", "depth_random"), "the heuristic yields better trees"),
        ("spauster-graph-4-8", _flat(PATH["most-groups"]), "both heuristics decrease"),
        ("spauster-graph-4-8", _flat(PATH["spanning-tree"]), "the depth always increases"),
        ("spauster-graph-4-9", _swap(PATH["most-groups"], PATH["most-groups-near"]), "Heuristic II yields slightly"),
        ("spauster-graph-4-10", _swap(PATH["nearest"], PATH["most-groups-near"]), "Heuristic III outperforms"),
        ("spauster-graph-4-11", _swap(PATH["nearest"], PATH["most-groups-near"]), "Heuristic III outperforms"),
        ("spauster-graph-4-12", _swap(PATH["shortest-path"], PATH["spanning-tree"]), "the shortest path tree is below"),
        ("spauster-graph-4-13", _swap(PATH["shortest-path"], PATH["nearest"]), "by depth alone"),
        ("spauster-graph-4-14", _swap(EXTRA["shortest-path"], EXTRA["nearest"]), "shortest path tree: many more"),
    ],
)
def test_other_data_lead_to_another_verdict(name: str, perturb: Callable[[pd.DataFrame], None], claim: str) -> None:
    data = small_data(name).copy()
    perturb(data)
    found = held(find_artefact(name), data)
    assert not all(holds for each, holds in found.items() if each.startswith(claim))
    assert any(each.startswith(claim) for each in found)
