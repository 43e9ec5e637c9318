"""One cell of Table 2.1 (Spauster 1991) as a run of an experiment; what a cell is: `ordercast.campaign.matrix`."""

from __future__ import annotations

from ordercast.campaign.draw import Draw
from ordercast.campaign.matrix import ALGORITHMS, NETWORKS, ORDERS, Algorithm
from ordercast.campaign.outcome import run_draw
from ordercast.check import choose
from ordercast.protocols import find_protocol
from ordercast.spark.experiments.experiment import Point

__all__ = ["ALGORITHMS", "NETWORKS", "ORDERS", "Algorithm", "label", "measure_of", "run_cell"]


def label(algorithm: Algorithm) -> str:
    """What the table calls it, and which protocol of ours it is."""
    return f"{algorithm.name} ({algorithm.protocol})" if algorithm.protocol else algorithm.name


_BY_LABEL = {label(algorithm): algorithm for algorithm in ALGORITHMS}


def measure_of(order: str) -> str:
    """The measure that has the verdicts about an order."""
    return order.replace("-", "_")


def run_cell(point: Point, seed: int) -> dict[str, float | None]:
    """For each order: 1 when the run violates it, 0 when it holds, nothing when nothing in the run could violate it."""
    algorithm = _BY_LABEL[str(point["algorithm"])]
    draw = Draw(find_protocol(algorithm.protocol), seed, str(point["network"]), algorithm.sources)
    verdicts = run_draw(draw, choose(ORDERS)).verdicts
    words = {"violated": 1.0, "holds": 0.0}
    # A core that crashes has no verdicts, and keeps no order.
    return {measure_of(order): words.get(verdicts[order].verdict) if order in verdicts else 1.0 for order in ORDERS}
