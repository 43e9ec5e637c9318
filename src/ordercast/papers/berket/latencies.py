"""How long deliveries took, summed up, and read from a simulated run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ordercast.sim import Simulation

QUANTILES = (5, 25, 50, 75, 95, 99)
MEASURES = ("least_ms", "mean_ms", "largest_ms", *(f"q{share:02}_ms" for share in QUANTILES))


def summary(milliseconds: Sequence[float]) -> dict[str, float | None]:
    """The least, the mean, the largest, and the quantiles from which a distribution is drawn."""
    if len(milliseconds) < 2:
        return dict.fromkeys(MEASURES)
    cuts = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return {
        "least_ms": min(milliseconds),
        "mean_ms": statistics.fmean(milliseconds),
        "largest_ms": max(milliseconds),
        **{f"q{share:02}_ms": cuts[share - 1] for share in QUANTILES},
    }


def simulated(simulation: Simulation, begin: float, end: float, service: str, *, to_the_last: bool) -> list[float]:
    """Milliseconds from the multicast of each message in an interval to its deliveries with a service, or to the last
    of them."""
    rows = simulation.table().select(["kind", "message", "time", "service"]).to_pylist()
    begun = {row["message"]: row["time"] for row in rows if row["kind"] == "multicast" and begin <= row["time"] < end}
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] == "deliver" and row["service"] == service and row["message"] in begun:
            found.setdefault(row["message"], []).append(1000 * (row["time"] - begun[row["message"]]))
    if to_the_last:
        return [max(each) for each in found.values()]
    return [latency for each in found.values() for latency in each]
