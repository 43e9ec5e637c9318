"""Rodrigues, Guerraoui, Schiper 1998, Table 2: communication steps and packets of one multicast to d processes, in runs
without failures and suspicions.

The paper counts d + (d-1)² packets for the R-multicast, d(d-1) for the timestamps, 2(d-1) + (d-1)² for the consensus,
and (d-1)² for the histories. The terms without the histories sum to 3(d-1)² + 4(d-1) + 1; the table leaves out the 1.
Histories stay inside the groups: the sum of |g|(|g|-1).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ordercast.protocols.scalatom import Scalatom, ScalatomOptions
from ordercast.sim import Simulation
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload

L = 0.01
PAPER = ScalatomOptions(batch_messages_max=1, relay_eagerly=True)


def groups_of(count: int, size: int) -> dict[str, tuple[str, ...]]:
    return {f"g{g}": tuple(f"s{g}{number}" for number in range(size)) for g in range(count)}


def rows_of_run(count: int, size: int, options: ScalatomOptions, messages: int = 1) -> list[dict[str, Any]]:
    simulation = Simulation(
        Scalatom,
        groups_of(count, size),
        PointToPoint(processing=0.0, latency=L),
        options=options,
        workloads=[
            Workload(
                sources=("source",),
                groups=tuple(groups_of(count, size)),
                rate=0.5 / L,
                count=messages,
                arrivals="regular",
            )
        ],
        duration=2.0,
        settle=1.0,
    ).execute()
    return simulation.table().to_pylist()


def steps(rows: list[dict[str, Any]], place: int) -> float:
    """Communication steps until everyone has delivered the message at that place."""
    begun = sorted((row["time"], row["message"]) for row in rows if row["kind"] == "multicast")
    time, message = begun[place]
    return (max(row["time"] for row in rows if row["kind"] == "deliver" and row["message"] == message) - time) / L


@pytest.mark.parametrize(("count", "size"), [(1, 3), (1, 5), (2, 3), (3, 3), (2, 4)])
def test_six_steps_and_the_packets_of_table_2(count: int, size: int) -> None:
    rows = rows_of_run(count, size, PAPER)
    d = count * size
    assert steps(rows, 0) == pytest.approx(6)
    packets = Counter(row["packet"] for row in rows if row["kind"] == "send" and row["messages"] is not None)
    assert packets == {
        "Data": d + d * (d - 1),
        "Stamps": d * (d - 1),
        "Propose": d - 1,
        "Ack": d - 1,
        "Decide": (d - 1) + (d - 1) * (d - 2),
        "History": count * size * (size - 1),
    }
    # The sum of the paper's terms, and d-1 more: this source is not a destination, so one more relays the message.
    assert packets.total() - packets["History"] == 3 * (d - 1) ** 2 + 4 * (d - 1) + 1 + (d - 1)
    assert packets["History"] <= d * (d - 1)


def test_on_demand_nobody_relays_and_it_takes_six_steps_all_the_same() -> None:
    rows = rows_of_run(2, 3, ScalatomOptions())
    packets = Counter(row["packet"] for row in rows if row["kind"] == "send" and row["messages"] is not None)
    assert steps(rows, 0) == pytest.approx(6)
    assert packets == {"Data": 6, "Stamps": 30, "Propose": 5, "Ack": 5, "Decide": 5, "History": 12}


def test_five_steps_while_new_messages_keep_coming() -> None:
    """In brackets in the table: the histories go with the timestamps of later messages."""
    options = ScalatomOptions(batch_messages_max=1, history_seconds=2 * L)
    rows = rows_of_run(2, 3, options, messages=40)
    assert steps(rows, 20) == pytest.approx(5)
    assert not [row for row in rows if row["kind"] == "send" and row["packet"] == "History" and row["time"] < 0.6]
    # The last one finds no later packet.
    assert steps(rows, 39) > 6
