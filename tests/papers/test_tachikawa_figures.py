"""Tachikawa and Takizawa, Figures 8 to 10: the formulas, and whether verdicts follow the runs (few of them, without
Spark)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, stdev

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.registry import find_artefact
from ordercast.papers.tachikawa import formulas
from ordercast.spark.experiments.experiment import Point, find_function

N, L = 10, 100


def points(artefact: Artefact, repetitions: int, wanted: Callable[[Point], bool]) -> pd.DataFrame:
    """What an experiment comes to, as the pipeline would aggregate it, from a few runs of some points."""
    experiment = artefact.experiment(True)
    run = find_function(experiment.function)
    rows = []
    for point in filter(wanted, experiment.points()):
        runs = pd.DataFrame([run(point, experiment.seed(point, at)) for at in range(repetitions)])
        row: dict[str, object] = {**point, "repetitions": repetitions}
        for name in runs.columns:
            values = [float(value) for value in runs[name] if value is not None]
            row[name] = fmean(values)
            row[f"{name}_half_width"] = 2.0 * stdev(values) / len(values) ** 0.5
            row[f"{name}_min"], row[f"{name}_max"] = min(values), max(values)
        rows.append(row)
    return pd.DataFrame(rows)


def verdicts(artefact: Artefact, data: pd.DataFrame) -> dict[str, bool]:
    figure = Figure()
    FigureCanvasAgg(figure)
    artefact.draw(data, figure)
    return {check.claim: check.holds for check in artefact.checks(data)}


# ---------------------------------------------------------------------- section 5 in closed form
def test_the_printed_f_makes_retransmissions_quadratic_and_the_corrected_one_linear() -> None:
    printed = [formulas.selective(formulas.received_by_all_printed(0.005, N, d)) for d in (5, 10)]
    corrected = [formulas.selective(formulas.received_by_all(0.005, N, d)) for d in (5, 10)]
    assert printed[1] / printed[0] == pytest.approx(4, rel=0.02)
    assert corrected[1] / corrected[0] == pytest.approx(2, rel=0.02)
    assert printed[1] == corrected[1], "they agree where every process is a destination"


def test_go_back_n_is_the_expected_rest_behind_the_first_loss() -> None:
    assert formulas.go_back_n(1.0, L) == 0.0
    assert formulas.go_back_n(0.0, L) == 1.0
    assert formulas.go_back_n(0.5, 2) == pytest.approx((0.5 * 2 + 0.25 * 1) / 2)


def test_the_printed_cost_is_below_a_fifth_for_eight_processes_and_not_for_ten() -> None:
    assert formulas.processing_printed(0.001, 8, 8, L) == pytest.approx(0.173, abs=0.001)
    assert formulas.processing_printed(0.001, 10, 10, L) == pytest.approx(0.235, abs=0.001)


# ---------------------------------------------------------------------- measured
@pytest.fixture(scope="module")
def losses() -> pd.DataFrame:
    return points(find_artefact("tachikawa-retransmissions"), 8, lambda point: point["f"] in (0.005, 0.02))


def test_the_runs_agree_with_the_corrected_formula_and_not_with_the_printed_one(losses: pd.DataFrame) -> None:
    found = verdicts(find_artefact("tachikawa-retransmissions"), losses)
    refuted = [claim for claim, holds in found.items() if not holds]
    assert set(refuted) <= {"R_S/L = 1 - F with F = (1 - f d/n)^d (printed)"}
    assert len(found) == 5


def test_other_data_lead_to_another_verdict(losses: pd.DataFrame) -> None:
    artefact = find_artefact("tachikawa-retransmissions")
    claim = "the selective scheme sends fewer messages again than go-back-n (Figures 8 and 9)"
    assert verdicts(artefact, losses)[claim]
    worse = losses.assign(again=losses.again.where(losses.recovery == "go-back-n", 1.5))
    assert not verdicts(artefact, worse)[claim]


def test_the_bound_of_go_back_n_says_what_it_allows_and_which_point_uses_most_of_it(losses: pd.DataFrame) -> None:
    artefact = find_artefact("tachikawa-retransmissions")
    claim = "R_G/L of (2), with the corrected F, is an upper bound (to within two 95 % intervals and 0.002)"

    def bound(half_widths: float) -> Check:
        data = losses.copy()
        data["again_half_width"] = 0.05
        data["again"] = data.again_corrected + half_widths * 0.05
        return next(check for check in artefact.checks(data) if check.claim == claim)

    assert bound(2.0).holds
    assert not bound(2.1).holds
    assert "± 0.0500 against" in bound(2.0).evidence


def test_sorting_costs_less_than_the_corrected_formula_allows(losses: pd.DataFrame) -> None:
    artefact = find_artefact("tachikawa-processing")
    data = losses[losses.recovery == "selective"].copy()
    data.loc[data.f == 0.005, "f"] = 0.001  # a part of the grid without the f of the text's claim
    found = verdicts(artefact, data)
    assert found["the cost grows with f"]
    assert not verdicts(artefact, data.assign(work=2.0))["the corrected formula is an upper bound"]


def test_slow_receivers_overrun_and_the_selective_scheme_sends_less_again() -> None:
    artefact = find_artefact("tachikawa-overrun")
    data = points(artefact, 2, lambda point: point["ratio"] != 2.0)
    assert all(verdicts(artefact, data).values())
    assert not all(verdicts(artefact, data.assign(undelivered_max=1.0)).values())
