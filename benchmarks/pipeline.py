"""How fast is verification? Spark beside pandas, Polars, DuckDB and numpy, on the same files, in the same hour.

    python benchmarks/pipeline.py [--rows 1000000 10000000] [--runs 100] [--sites 10]
    python benchmarks/pipeline.py --one-run 10000000          # one run of so many deliveries at 50 sites

The question is the same for all: do every two sites deliver every two messages in the same order (pairwise), and is
there one order that all sites agree with (acyclic)? Every contestant runs in a process of its own, reads the same
Parquet files, and answers several times; the best time counts, the first is shown too. Spark's start is not in it and
printed apart. CPU is time on the cores, which other work on the machine disturbs less. Memory is what the process and
all its children have resident at the worst moment. A contestant that outgrows --memory or --seconds is stopped, and
that is what is reported of it. How to read the figures: docs/pipeline.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

try:
    from benchmarks import pipeline_peers, pipeline_traces
    from benchmarks.pipeline_processes import resident_bytes
except ModuleNotFoundError:  # run as a file
    import pipeline_peers
    import pipeline_traces
    from pipeline_processes import resident_bytes

HERE = Path(__file__).parent
MASTERS = ("local[1]", "local[2]")
POLL_SECONDS = 0.05
SITES_OF_ONE_RUN = 50

Result = dict[str, Any]


def measure(command: list[str], memory_bytes: float, seconds_max: float) -> Result:
    """Run a contestant; its own report, and its peak of memory."""
    start = time.perf_counter()
    peak, fate = 0, ""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True)
        over = threading.Event()

        def watch() -> None:
            nonlocal peak, fate
            while not over.wait(POLL_SECONDS):
                peak = max(peak, resident_bytes(process.pid))
                if peak > memory_bytes:
                    fate = "out of memory"
                elif time.perf_counter() - start > seconds_max:
                    fate = "too slow"
                if fate:
                    os.killpg(process.pid, signal.SIGKILL)
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            process.wait()
        finally:
            over.set()
            watcher.join()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        errors.seek(0)
        report: Result = {"peak_bytes": peak}
        if fate:
            return report | {"fate": fate}
        if process.returncode:
            return report | {"fate": f"failed: {errors.read().strip().splitlines()[-1:]}"}
        return report | json.loads(output.read().splitlines()[-1])


def spark_command(master: str, folder: Path, repeat: int, *properties: str) -> list[str]:
    return [sys.executable, str(HERE / "pipeline_spark.py"), master, str(folder), str(repeat), *properties]


def peer_command(name: str, folder: Path, repeat: int) -> list[str]:
    return [sys.executable, str(HERE / "pipeline_peers.py"), name, str(folder), str(repeat)]


def contest(title: str, folder: Path, prop: str, peers: list[str], arguments: argparse.Namespace) -> dict[str, Result]:
    """All contestants on one question."""
    commands = {f"spark {master}": spark_command(master, folder, arguments.repeat, prop) for master in MASTERS}
    commands |= {name: peer_command(name, folder, arguments.repeat) for name in peers}
    results: dict[str, Result] = {}
    say(f"\n{title}", arguments)
    say(f"{'':28}{'best s':>9}{'first s':>9}{'CPU s':>9}{'rows/s':>13}{'GB':>7}{'start s':>9}", arguments)
    for name, command in commands.items():
        result = results[name] = measure(command, arguments.memory * 1e9, arguments.seconds)
        say(describe(name, result, arguments.deliveries), arguments)
    return results


def describe(name: str, result: Result, rows: int) -> str:
    memory = f"{result['peak_bytes'] / 1e9:7.2f}"
    if "fate" in result:
        return f"{name:28}{result['fate']:>40}{memory}"
    best, first, cpu = min(result["seconds"]), result["seconds"][0], min(result["cpu_seconds"])
    wrong = "" if not result["violations"] else f"   {result['violations']} violations!"
    start = f"{result['start_seconds']:9.1f}" if "start_seconds" in result else ""
    return f"{name:28}{best:9.2f}{first:9.2f}{cpu:9.2f}{rows / best:13,.0f}{memory}{start}{wrong}"


def compare(results: dict[str, Result], arguments: argparse.Namespace) -> Result:
    """Spark on two cores against the fastest of the others, and against itself on one."""
    best = {name: min(result["seconds"]) for name, result in results.items() if "seconds" in result}
    others = {name: seconds for name, seconds in best.items() if not name.startswith("spark")}
    one, two = (best.get(f"spark {master}") for master in MASTERS)
    ratios: Result = {}
    if two is not None and others:
        fastest = min(others, key=others.__getitem__)
        ratios |= {"fastest_peer": fastest, "fastest_peer_by_spark": others[fastest] / two}
        say(f"  {fastest} takes {others[fastest] / two:.2f} times as long as Spark on two cores", arguments)
        tables = {name: seconds for name, seconds in others.items() if name not in ("numpy", "scipy")}
        if tables:
            name = min(tables, key=tables.__getitem__)
            ratios |= {"fastest_table_engine": name, "fastest_table_engine_by_spark": tables[name] / two}
            say(f"  {name} takes {tables[name] / two:.2f} times as long as Spark on two cores", arguments)
    if one is not None and two is not None:
        ratios["one_core_by_two"] = one / two
        say(f"  Spark on one core takes {one / two:.2f} times as long as on two", arguments)
    return ratios


def say(text: str, arguments: argparse.Namespace) -> None:
    print(text, file=sys.stderr if arguments.json else sys.stdout, flush=True)


def many_runs(root: Path, rows: int, arguments: argparse.Namespace) -> Result:
    shape = pipeline_traces.Shape(rows, arguments.runs, arguments.sites)
    folder = pipeline_traces.write_traces(root, shape)
    arguments.deliveries = rows
    where = f"{rows:,} deliveries, {shape.runs} runs, {shape.sites} sites"
    pairwise_peers, acyclic_peers = (
        [name for name in peers if any(part in name for part in arguments.peers or [""])]
        for peers in (pipeline_peers.PAIRWISE, pipeline_peers.ACYCLIC)
    )
    by_pairs = contest(f"{where}: pairwise order", folder, "multiple-group-order", pairwise_peers, arguments)
    pairwise_ratios = compare(by_pairs, arguments)
    acyclic = contest(f"{where}: acyclic order", folder, "acyclic-order", acyclic_peers, arguments)
    acyclic_ratios = compare(acyclic, arguments)
    return {
        "rows": rows,
        "runs": shape.runs,
        "sites": shape.sites,
        "pairwise": by_pairs,
        "pairwise_ratios": pairwise_ratios,
        "acyclic": acyclic,
        "acyclic_ratios": acyclic_ratios,
    }


def one_run(root: Path, rows: int, arguments: argparse.Namespace) -> Result:
    """A run too large for a worker: with order keys, and without."""
    arguments.deliveries = rows
    say(f"\none run of {rows:,} deliveries at {SITES_OF_ONE_RUN} sites: pairwise and acyclic order", arguments)
    results: Result = {"rows": rows, "runs": 1, "sites": SITES_OF_ONE_RUN}
    for name, keys in (("certificate", True), ("merge", False)):
        folder = pipeline_traces.write_traces(root, pipeline_traces.Shape(rows, 1, SITES_OF_ONE_RUN, keys))
        command = spark_command("local[2]", folder, 1, "multiple-group-order", "acyclic-order")
        results[name] = measure(command, arguments.memory * 1e9, arguments.seconds)
        say(describe(f"spark local[2], {name}", results[name], rows), arguments)
    return results


def growth(results: list[Result], arguments: argparse.Namespace) -> Result:
    """How much longer ten times the rows take: ten times, where time is linear in rows."""
    grown: Result = {}
    for question in ("pairwise", "acyclic"):
        for small, large in pairwise(results):
            sizes = [min(each[question]["spark local[2]"].get("seconds", [0.0])) for each in (small, large)]
            if all(sizes):
                factor = (sizes[1] / sizes[0]) / (large["rows"] / small["rows"])
                grown[f"{question} {small['rows']} to {large['rows']}"] = factor
                say(
                    f"{question}: a row takes {factor:.2f} times as long at {large['rows']:,} as at {small['rows']:,}",
                    arguments,
                )
    return grown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000], help="deliveries, in many runs")
    parser.add_argument("--one-run", type=int, nargs="*", default=[], help="deliveries, in one run at 50 sites")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3, help="rounds of every contestant; the best counts")
    parser.add_argument("--peers", nargs="*", help="only those of the others whose name contains one of these")
    parser.add_argument("--memory", type=float, default=18.0, help="GB that a contestant may have")
    parser.add_argument("--seconds", type=float, default=900.0, help="that a contestant may take for all its rounds")
    parser.add_argument("--folder", type=Path, help="where the traces are kept for the next time")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    arguments = parser.parse_args()
    # So that what is being measured ends with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="ordercast-benchmark-") as temporary:
        root = arguments.folder or Path(temporary)
        many = [many_runs(root, rows, arguments) for rows in arguments.rows]
        single = [one_run(root, rows, arguments) for rows in arguments.one_run]
        grown = growth(many, arguments)
    if arguments.json:
        print(json.dumps({"many_runs": many, "one_run": single, "growth": grown}))


if __name__ == "__main__":
    main()
