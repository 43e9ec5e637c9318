"""3.5, and what 2(c) leaves open: the orders that bypass edges take, and that entry at the root gives."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.style import dress, styles
from ordercast.spark.experiments import Experiment, Measure
from ordercast.spark.experiments.order_options import CLAIMED, MODES, ORDERS

_COLUMNS = tuple(order.replace("-", "_") for order in ORDERS)


def experiment(fast: bool) -> Experiment:
    """So many runs of the campaign for each mode."""
    runs = 60 if fast else 400
    return Experiment(
        name="spauster-order-options",
        grid={"mode": tuple(MODES)},
        function="ordercast.spark.experiments.order_options:run_mode",
        measures=[Measure(name) for name in (*_COLUMNS, CLAIMED)],
        repetitions_min=runs,
        repetitions_max=runs,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What is kept, and what is not."""
    rows = data.set_index("mode")

    def count(mode: str, column: str) -> int:
        return round(float(rows.loc[mode, column]) * int(rows.loc[mode, "repetitions"]))

    def told(mode: str, *columns: str) -> str:
        violated = ", ".join(f"{column.replace('_', '-')} in {count(mode, column)}" for column in columns)
        return f"{int(rows.loc[mode, 'repetitions'])} runs violate {violated}"

    across = ("source_order", "causal_order")
    return [
        Check(
            "entry = root keeps the order of each source, and causal order, across groups",
            not any(count("entry = root", column) for column in across),
            told("entry = root", *across),
        ),
        Check(
            "where messages enter at their primary destinations, neither is kept",
            all(count("default", column) for column in across),
            told("default", *across),
        ),
        Check(
            "with bypass edges any two sites agree (3.5), and yet the order goes round in a circle",
            count("bypass", "multiple_group_order") == 0 and count("bypass", "acyclic_order") > 0,
            told("bypass", "multiple_group_order", "acyclic_order"),
        ),
        Check(
            "whatever is claimed with an option holds",
            not any(count(mode, CLAIMED) for mode in MODES),
            "; ".join(f"{mode}: {count(mode, CLAIMED)}" for mode in MODES) + " runs violate a claim",
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """The share of runs that violate each order."""
    axes = figure.subplots()
    for place, ((_, row), (colour, _marker)) in enumerate(zip(data.iterrows(), styles(), strict=False)):
        at = [column + 0.25 * (place - 1) for column in range(len(ORDERS))]
        axes.bar(at, [100 * float(row[column]) for column in _COLUMNS], 0.22, color=colour, label=str(row["mode"]))
    axes.set_xticks(range(len(ORDERS)), ORDERS)
    dress(axes, "runs in which an order is violated", "", "%")


ARTEFACT = Artefact(
    name="spauster-order-options",
    title="Orders that an option takes or gives",
    paper="Spauster 1991, 2.1 and 3.5",
    says="""
3.5: a bypass edge leads around a site that would send on what is not its own, where that keeps multiple group ordering,
which is about two messages at a time. Of one source's messages to different groups the thesis says nothing.
""",
    made="""
Runs of the campaign of `propagation-graph`, with its faults and with sites that come and go, each of them three times:
as it is, with `entry = "root"`, and with `bypass = true` (messages to one group each). A column is the share of the
runs in which the order is violated; `claims` is that of the runs in which anything is that the protocol claims with
these options.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
)
