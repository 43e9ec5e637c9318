"""Table 2.1 of Spauster 1991, found by campaign."""

from __future__ import annotations

import json

import pytest

from ordercast.campaign import read_draw, run_draw
from ordercast.campaign.matrix import ALGORITHMS, NETWORKS, ORDERS, Cell, Row, as_json, find_matrix
from ordercast.check import choose
from ordercast.cli.matrix import markdown


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return find_matrix(4, workers=1)


def found(rows: list[Row], protocol: str) -> Row:
    return next(row for row in rows if row.algorithm.protocol == protocol)


@pytest.mark.campaign
def test_the_fan_is_seen_to_violate_multiple_source_order(rows: list[Row]) -> None:
    violations = [cell for _, order, cell in found(rows, "fan-3").violations() if order == "multiple-source-order"]
    assert violations
    for cell in violations:
        trial = run_draw(read_draw(cell.replay.split()[-1]), choose(ORDERS))
        assert "multiple-source-order" in trial.outcome.properties
        assert trial.verdicts["multiple-source-order"].first is not None
        assert trial.verdicts["single-source-order"].verdict == "holds"


@pytest.mark.campaign
def test_what_the_thesis_says_is_provided_is_provided(rows: list[Row]) -> None:
    for row in rows:
        for network, order, cell in row.violations():
            assert row.algorithm.orders[ORDERS.index(order)] == "", (row.algorithm.name, network, cell)
        assert row.broken_claims() == []


@pytest.mark.campaign
def test_every_cell_but_the_quoted_ones_rests_on_runs(rows: list[Row]) -> None:
    for row in rows:
        cells = [row.cells[network][order] for network in NETWORKS for order in ORDERS if row.cells]
        assert all(cell.verdict != "vacuous" for cell in cells)
        assert bool(cells) == bool(row.algorithm.protocol)


@pytest.mark.campaign
def test_the_document_and_the_page_have_every_algorithm(rows: list[Row]) -> None:
    document = json.loads(json.dumps(as_json(rows, 4, 1.0)))
    assert [row["algorithm"] for row in document["rows"]] == [algorithm.name for algorithm in ALGORITHMS]
    assert document["rows"][-1]["quoted"]
    page = markdown(rows, 4)
    assert all(algorithm.name in page for algorithm in ALGORITHMS)
    assert found(rows, "fan-3").cells["point-to-point"]["multiple-source-order"].replay in page


def test_a_cell_says_what_was_found() -> None:
    assert Cell().verdict == "vacuous"
    assert Cell(held=3).verdict == "held"
    assert Cell(held=3, violated=1).verdict == "violated"
