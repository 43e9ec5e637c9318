"""Table 2.1: which algorithm gives which order on which network, found out by campaign."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ordercast.papers.artefact import Artefact, Check
from ordercast.spark.experiments import Experiment, Measure
from ordercast.spark.experiments.order_matrix import ALGORITHMS, NETWORKS, ORDERS, Algorithm, label, measure_of

RUN = tuple(algorithm for algorithm in ALGORITHMS if algorithm.protocol)
QUOTED = tuple(algorithm for algorithm in ALGORITHMS if not algorithm.protocol)


def experiment(fast: bool) -> Experiment:
    """So many random runs, under the faults that the algorithm stands, for each algorithm and network."""
    runs = 30 if fast else 400
    return Experiment(
        name="spauster-table-2-1",
        grid={"algorithm": tuple(label(algorithm) for algorithm in RUN), "network": NETWORKS},
        function="ordercast.spark.experiments.order_matrix:run_cell",
        measures=[Measure(measure_of(order)) for order in ORDERS],
        repetitions_min=runs,
        repetitions_max=runs,
    )


def shape(points: DataFrame) -> DataFrame:
    """One row a cell: in which share of the runs that could tell the order was violated, and what the thesis prints."""
    cells = points.select(
        "algorithm",
        "network",
        "repetitions",
        F.inline(
            F.array(
                *(
                    F.struct(
                        F.lit(order).alias("order"),
                        F.col(measure_of(order)).alias("violated_share"),
                        F.col(f"{measure_of(order)}_half_width").alias("violated_share_half_width"),
                    )
                    for order in ORDERS
                )
            )
        ),
    )
    signs = [
        (label(algorithm), network, order, algorithm.orders[column], algorithm.networks[place])
        for algorithm in RUN
        for place, network in enumerate(NETWORKS)
        for column, order in enumerate(ORDERS)
    ]
    schema = "algorithm string, network string, order string, thesis_order string, thesis_network string"
    thesis = points.sparkSession.createDataFrame(signs, schema)
    return cells.join(thesis, ["algorithm", "network", "order"]).orderBy("algorithm", "network", "order")


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """A check for each sign of the thesis, and for each blank."""
    return [check for algorithm in RUN for check in _checks_of(algorithm, data[data.algorithm == label(algorithm)])]


def _checks_of(algorithm: Algorithm, rows: pd.DataFrame) -> list[Check]:
    found = []
    kept = rows[rows.network.isin(_intended(algorithm))]
    for column, order in enumerate(ORDERS):
        sign = algorithm.orders[column]
        cells = kept[kept.order == order]
        words = {"*": "provides", "†": "provides, if modified,"}.get(sign, "does not provide")
        holds = bool((cells.violated_share == 0).all()) if sign else bool((cells.violated_share > 0).all())
        claim = f"{label(algorithm)} {words} {order.replace('-', ' ')}"
        found.append(Check(claim, holds and len(cells) > 0, _evidence(cells)))
    if not algorithm.networks[NETWORKS.index("point-to-point")]:
        elsewhere = rows[(rows.network == "point-to-point") & (rows.thesis_order != "")]
        found.append(
            Check(
                f"{label(algorithm)} is limited to broadcast networks (blank under point to point; 2.8)",
                bool((elsewhere.violated_share > 0).any()),
                f"orders on point-to-point: {_evidence(elsewhere, by='order')}; ours sends a packet to each site there",
            )
        )
    return found


def _intended(algorithm: Algorithm) -> list[str]:
    return [network for place, network in enumerate(NETWORKS) if algorithm.networks[place]]


def _evidence(cells: pd.DataFrame, by: str = "network") -> str:
    return ", ".join(
        f"{getattr(cell, by)}: violated in {100 * cell.violated_share:.3g} % of {cell.repetitions} runs"
        for cell in cells.itertuples()
    )


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """The table: what the thesis prints, on the colour of what was found."""
    axes = figure.subplots()
    columns = [(network, order) for network in NETWORKS for order in ORDERS]
    names = [label(algorithm) for algorithm in (*RUN, *QUOTED)]
    cells = data.set_index(["algorithm", "network", "order"])
    for y, algorithm in enumerate((*RUN, *QUOTED)):
        for x, (network, order) in enumerate(columns):
            sign = algorithm.orders[ORDERS.index(order)]
            if not algorithm.networks[NETWORKS.index(network)]:
                sign = "not intended"
            if algorithm.protocol:
                share = cells.loc[(label(algorithm), network, order), "violated_share"]
                colour = "#b7e1cd" if share == 0 else "#f4c7c3"
                text = "held" if share == 0 else f"violated in {100 * share:.0f} %"
            else:
                colour, text = "#eeeeee", "quoted"
            axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=colour))
            axes.text(x, y, f"{text}\nthesis: {sign or 'blank'}", ha="center", va="center", fontsize=7)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_xticks(
        range(len(columns)), [f"{order.replace('-order', '')}\n{network}" for network, order in columns], fontsize=7
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


ARTEFACT = Artefact(
    name="spauster-table-2-1",
    title="Which algorithm gives which order on which network",
    paper="Spauster 1991, Table 2.1",
    says="""
| algorithm | single source | multiple source | multiple group | broadcast | point to point |
| --- | --- | --- | --- | --- | --- |
| sequence numbers | * | | | * | * |
| timestamps | * | * | * | * | * |
| token-passing | * | * | † | * | |
| sequencer | * | * | † | * | ‡ |
| publishing | * | * | † | * | ‡ |
| two-phase | * | * | * | * | ‡ |
| Total | * | * | * | * | |

\\* provided as is; † provided if modified; ‡ provided, but not intended for point-to-point networks.
""",
    made="""
Each algorithm runs on each kind of network, with random groups that overlap, several sources and the faults that it
stands (its contract), and the judges say whether an order was violated. A star holds when no run violates the
order; a blank under an order holds when some run does. Where the thesis prints †, ours is the modified algorithm:
one sequencer, one token for all groups. Publishing is the sequencer with sources in no group. Total is specified
elsewhere (Melliar-Smith, Moser, Agrawala 1990) and not built here: its row is quoted. `ordercast protocols
--matrix` has counterexamples.

Where it differs: the blank of token-passing under point to point is a statement about design. Ours sends its
acknowledgements to each site in turn where there is no broadcast, and the orders hold there as well.
""",
    experiment=experiment,
    shape=shape,
    draw=draw,
    checks=checks,
    figure_inches=(10.0, 5.5),
)
