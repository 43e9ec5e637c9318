"""What an artefact is: a table or graph of a paper, how to make it again, and what the paper says about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure
from pyspark.sql import DataFrame

from ordercast.spark.experiments import Experiment, Point

LiveRun = tuple[Point, Mapping[str, float | None]]
"""A point of the grid, and what was measured there."""


@dataclass(frozen=True)
class Check:
    """A claim of the paper, held against the data."""

    claim: str
    holds: bool
    evidence: str
    """Numbers from the data, in a line."""


def keep_as_it_is(points: DataFrame) -> DataFrame:
    """For artefacts whose data are the means of the experiment."""
    return points


@dataclass(frozen=True)
class Artefact:
    """One table or graph. Everything but the texts is computed from the data, the verdict too."""

    name: str
    title: str
    paper: str
    says: str
    """What the paper says, in Markdown."""
    made: str
    """How it is made here, and where that differs from the paper, in Markdown."""
    experiment: Callable[[bool], Experiment]
    """The whole of it, or with True a part of it that is done within a minute."""
    draw: Callable[[pd.DataFrame, Figure], None]
    checks: Callable[[pd.DataFrame], Sequence[Check]]
    live: Callable[[bool], Sequence[LiveRun]] | None = None
    """What is measured on real processes of this machine, when all simulations are done and no task of Spark runs: rows
    beside those of the experiment, with its parameters and measures."""
    shape: Callable[[DataFrame], DataFrame] = keep_as_it_is
    """On Spark: from one row a point, with means and intervals, to the artefact's data."""
    figure_inches: tuple[float, float] = (8.0, 5.0)


def verdict(checks: Sequence[Check]) -> str:
    """What all checks say together."""
    if not checks:
        return "no-claim"
    return "agrees" if all(check.holds for check in checks) else "differs"
