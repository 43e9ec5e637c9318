"""Spauster's Table 2.1, found out instead of believed: which algorithm keeps which order on which network.

The thesis says what each algorithm provides and for which networks it is intended. Here each of them runs under its
faults, with several sources, and the judges say what was kept: in how many runs, or in which run it was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ordercast.campaign.draw import Draw, Sources
from ordercast.campaign.outcome import run_draw
from ordercast.campaign.workers import work
from ordercast.check import choose
from ordercast.protocols import find_protocol

ORDERS = ("single-source-order", "multiple-source-order", "multiple-group-order")
NETWORKS = ("broadcast", "point-to-point")
RUNS = 100
"""For each algorithm and network: a fan is caught within ten."""

MEANINGS = {
    "*": "provided as is",
    "†": "provided if modified",
    "‡": "provided, but not intended for point-to-point network",
    "": "not provided, or not intended for that network",
}
"""What the thesis' signs mean."""


class Algorithm(msgspec.Struct, frozen=True):
    """A row of Table 2.1."""

    name: str
    protocol: str
    """Ours; empty when we have none, and the thesis is all there is."""
    orders: tuple[str, str, str]
    """What the thesis prints under single source, multiple source and multiple group ordering."""
    networks: tuple[str, str]
    """And under broadcast and point to point."""
    sources: Sources = "several"


ALGORITHMS = (
    Algorithm("Sequence numbers", "fan-1", ("*", "", ""), ("*", "*")),
    Algorithm("Sequence numbers", "fan-3", ("*", "", ""), ("*", "*")),
    Algorithm("Timestamps", "lamport", ("*", "*", "*"), ("*", "*")),
    Algorithm("Token-passing", "token", ("*", "*", "†"), ("*", "")),
    Algorithm("Sequencer", "sequencer", ("*", "*", "†"), ("*", "‡")),
    Algorithm("Publishing", "sequencer", ("*", "*", "†"), ("*", "‡"), "outside"),
    Algorithm("Two-phase", "two-phase", ("*", "*", "*"), ("*", "‡")),
    Algorithm("Total", "", ("*", "*", "*"), ("*", "")),
)


class Cell(msgspec.Struct, frozen=True):
    """One order, on one network."""

    held: int = 0
    """Runs in which it could have been violated and was not."""
    violated: int = 0
    replay: str = ""
    """What to type to see the first violation."""
    why: str = ""

    @property
    def verdict(self) -> str:
        """In one word."""
        return "violated" if self.violated else "held" if self.held else "vacuous"


class Row(msgspec.Struct, frozen=True):
    """What was found about one algorithm."""

    algorithm: Algorithm
    cells: dict[str, dict[str, Cell]]
    """Network -> order -> what was found; empty for an algorithm that is only quoted."""

    def violations(self) -> Iterator[tuple[str, str, Cell]]:
        """Network, order and cell of what did not hold."""
        for network, cells in self.cells.items():
            for order, cell in cells.items():
                if cell.violated:
                    yield network, order, cell

    def broken_claims(self) -> list[str]:
        """Orders that our protocol claims and that were violated."""
        if not self.algorithm.protocol:
            return []
        claims = find_protocol(self.algorithm.protocol).contract.guarantees
        return [order for _, order, _ in self.violations() if order in claims]


Job = tuple[int, str, int]
"""Row, network, seed."""


class _Result(msgspec.Struct, frozen=True):
    job: Job
    verdicts: dict[str, tuple[str, str]]
    """Order -> verdict and, for a violation, why."""


def find_matrix(
    runs: int = RUNS,
    *,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Run everything; the same result whatever the number of processes."""
    jobs = [
        (place, network, seed)
        for seed in range(runs)
        for place, algorithm in enumerate(ALGORITHMS)
        if algorithm.protocol
        for network in NETWORKS
    ]
    results = []
    for result in work(_run, jobs, workers):
        results.append(result)
        on_progress(len(results), len(jobs))
    results.sort(key=lambda result: result.job)
    cells: dict[tuple[int, str, str], Cell] = {}
    for result in results:
        place, network, seed = result.job
        for order in ORDERS:
            key = (place, network, order)
            cells[key] = _count(cells.get(key, Cell()), *result.verdicts[order], _draw(place, network, seed))
    return [
        Row(
            algorithm,
            {network: {order: cells[place, network, order] for order in ORDERS} for network in NETWORKS}
            if algorithm.protocol
            else {},
        )
        for place, algorithm in enumerate(ALGORITHMS)
    ]


def _draw(place: int, network: str, seed: int) -> Draw:
    algorithm = ALGORITHMS[place]
    return Draw(find_protocol(algorithm.protocol), seed, network, algorithm.sources)


def _run(job: Job) -> _Result:
    trial = run_draw(_draw(*job), choose(ORDERS))
    # A core that crashes keeps no order; a campaign tells more about it.
    crash = {violation.why for violation in trial.outcome.violations if violation.property not in ORDERS}
    found: dict[str, tuple[str, str]] = {}
    for order in ORDERS:
        verdict = trial.verdicts.get(order)
        if verdict is None:
            found[order] = ("violated", " ".join(sorted(crash)))
        else:
            found[order] = (verdict.verdict, "" if verdict.first is None else verdict.first.why)
    return _Result(job, found)


def _count(cell: Cell, verdict: str, why: str, draw: Draw) -> Cell:
    if verdict == "holds":
        return msgspec.structs.replace(cell, held=cell.held + 1)
    if verdict != "violated":
        return cell
    first = {} if cell.violated else {"replay": draw.replay, "why": why}
    return msgspec.structs.replace(cell, violated=cell.violated + 1, **first)


def as_json(rows: list[Row], runs: int, seconds: float) -> dict[str, Any]:
    """The document of `ordercast protocols --matrix --json`."""
    return {
        "table": "Spauster 1991, Table 2.1",
        "runs": runs,
        "meanings": MEANINGS,
        "rows": [
            {
                "algorithm": row.algorithm.name,
                "protocol": row.algorithm.protocol or None,
                "quoted": not row.algorithm.protocol,
                "sources": row.algorithm.sources,
                "thesis": {
                    **dict(zip(ORDERS, row.algorithm.orders, strict=True)),
                    **dict(zip(NETWORKS, row.algorithm.networks, strict=True)),
                },
                "found": {
                    network: {
                        order: {
                            "verdict": cell.verdict,
                            "held": cell.held,
                            "violated": cell.violated,
                            "replay": cell.replay or None,
                            "why": cell.why or None,
                        }
                        for order, cell in cells.items()
                    }
                    for network, cells in row.cells.items()
                },
            }
            for row in rows
        ],
        "seconds": round(seconds, 3),
    }
