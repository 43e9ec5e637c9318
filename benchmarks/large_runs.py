"""One run that is too large for a worker, judged: what it costs, and whether one wrong row in it is found.

    python benchmarks/large_runs.py [--rows 10000000] [--plant far-swap missing …] [--folder traces] [--json]

A run of so many deliveries at 50 sites with order keys, and seven claims. Then the same run again with one thing wrong
at a site, for each `--plant`: the claims that are violated must be those that are named beside it here, and no others.
Each run is judged in a process of its own. CPU is time on all cores, Java's and the workers' included; GB what the
process and its children have resident at the worst moment (driver and executors are one Java process here, and the
workers of Python).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pipeline import SITES_OF_ONE_RUN, Result, measure, spark_command
from pipeline_traces import Shape, write_traces

from ordercast.trace.write import write_part

CLAIMS = (
    *("integrity", "no-duplication", "uniform-agreement"),
    *("multiple-group-order", "acyclic-order", "order-equivalence", "source-order"),
)
ORDERS = {"multiple-group-order", "acyclic-order", "order-equivalence"}
ABOUT = ("message", "source", "source_seq", "groups", "order_key")
"""What moves with a message when deliveries are swapped; seq and time stay."""

GAP = 10
"""Messages between two multicasts that are more than the latency of the first site apart."""

Change = Callable[[pa.Table, np.ndarray], pa.Table]
"""From the rows of a file, and the places of the first site's deliveries in it, to the rows with something wrong."""


def swapped(table: pa.Table, one: int, two: int, names: tuple[str, ...] = ABOUT) -> pa.Table:
    order = np.arange(len(table))
    order[[one, two]] = order[[two, one]]
    for name in names:
        table = table.set_column(table.schema.get_field_index(name), name, table.column(name).take(pa.array(order)))
    return table


def with_value(table: pa.Table, place: int, name: str, value: str | float) -> pa.Table:
    chosen = pa.array(np.arange(len(table)) == place)
    column = pc.if_else(chosen, pa.scalar(value, table.schema.field(name).type), table.column(name))
    return table.set_column(table.schema.get_field_index(name), name, column)


def doubled(table: pa.Table, there: np.ndarray) -> pa.Table:
    last = int(there[-1])
    again = table.slice(int(there[1000]), 1)
    for name in ("seq", "time"):
        value = table.column(name)[last].as_py() + 0.5
        again = with_value(again, 0, name, int(value + 1) if name == "seq" else value)
    # Behind the last row of its site, if that is the last row of the file; else the next site's rows follow as before.
    return pa.concat_tables([table.slice(0, last + 1), again, table.slice(last + 1)])


def neighbours(table: pa.Table, there: np.ndarray) -> pa.Table:
    """Two of one group, so that other sites have both, of two sources, and so far apart that the second one is
    delivered before it is multicast."""
    near = table.take(pa.array(there[1000:3000]))
    group, source, place = (near.column(name).to_pylist() for name in ("groups", "source", "order_key"))
    at = next(
        number
        for number in range(len(place) - 1)
        if group[number] == group[number + 1]
        and source[number] != source[number + 1]
        and place[number + 1][0] - place[number][0] > GAP
    )
    return swapped(table, there[1000 + at], there[1001 + at])


PLANTED: dict[str, tuple[Change, set[str]]] = {
    "neighbours-swapped": (neighbours, {*ORDERS, "integrity"}),
    "far-swap": (
        lambda table, there: swapped(table, there[1000], there[-1000]),
        {*ORDERS, "source-order", "integrity"},
    ),
    "far-swap-under-keys": (
        lambda table, there: swapped(table, there[1000], there[-1000], ABOUT[:-1]),
        {*ORDERS, "source-order", "integrity"},
    ),
    "missing": (
        lambda table, there: pa.concat_tables([table.slice(0, there[1000]), table.slice(there[1000] + 1)]),
        {"uniform-agreement"},
    ),
    "doubled": (doubled, {"no-duplication"}),
    "made-up": (
        lambda table, there: with_value(table, there[1000], "message", "nobody:0:1"),
        {"integrity", "uniform-agreement"},
    ),
    "too-early": (lambda table, there: with_value(table, there[1000], "time", -1.0), {"integrity"}),
}


def plant(folder: Path, name: str, root: Path) -> Path:
    """The same trace with one thing wrong; only the file that changes is written."""
    target = root / f"{folder.name}-{name}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, copy_function=os.link)
    part = min((target / "events").iterdir())
    table = pq.read_table(part)
    first = pc.equal(table.column("site"), table.column("site")[0])
    there = np.flatnonzero(pc.and_(first, pc.equal(table.column("kind"), "deliver")).to_numpy())
    part.unlink()
    write_part(PLANTED[name][0](table, there).combine_chunks(), part)
    return target


def judge(folder: Path, arguments: argparse.Namespace) -> Result:
    return measure(spark_command("local[2]", folder, 1, *CLAIMS), arguments.memory * 1e9, arguments.seconds)


def describe(name: str, result: Result, expected: set[str]) -> str:
    if "fate" in result:
        return f"{name:24}{result['fate']}"
    violated = {claim for claim, verdict in result["verdicts"].items() if verdict == "violated"}
    right = "right" if violated == expected else f"WRONG: {sorted(violated)}"
    seconds, cpu, peak = result["seconds"][0], result["cpu_seconds"][0], result["peak_bytes"] / 1e9
    return f"{name:24}{seconds:8.1f}{cpu:8.1f}{peak:7.2f}   {right}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="deliveries")
    parser.add_argument("--plant", nargs="*", choices=sorted(PLANTED), default=[], help="what is made wrong")
    parser.add_argument("--only-planted", action="store_true", help="leave out the run that is right")
    parser.add_argument("--memory", type=float, default=18.0, help="GB that judging may take")
    parser.add_argument("--seconds", type=float, default=1800.0, help="that judging may take")
    parser.add_argument("--folder", type=Path, help="where the traces are kept for the next time")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ordercast-benchmark-") as temporary:
        root = arguments.folder or Path(temporary)
        folder = write_traces(root, Shape(arguments.rows, 1, SITES_OF_ONE_RUN))
        results: Result = {}
        if not arguments.json:
            print(f"{arguments.rows:,} deliveries at {SITES_OF_ONE_RUN} sites, {len(CLAIMS)} claims")
            print(f"{'':24}{'s':>8}{'CPU s':>8}{'GB':>7}")
        for name in [*([] if arguments.only_planted else ["nothing wrong"]), *arguments.plant]:
            trace = plant(folder, name, root) if name in PLANTED else folder
            results[name] = judge(trace, arguments)
            if not arguments.json:
                expected = PLANTED[name][1] if name in PLANTED else set()
                print(describe(name, results[name], expected), flush=True)
            if trace != folder:
                shutil.rmtree(trace)
        if arguments.json:
            print(json.dumps(results))


if __name__ == "__main__":
    main()
