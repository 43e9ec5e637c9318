"""`ordercast watch` beside clusters that keep their promises, and beside one that does not.

    python benchmarks/watching.py planted [--rate 300]        a member delivers two messages in the other order
    python benchmarks/watching.py chaos [--seconds 600]       nobody does; processes are killed, paused and cut off
    python benchmarks/watching.py state [--rows 3000000]      100,000 deliveries a second, and one member lags

`planted` counts the micro-batches that ended after the rows were there, up to the one that told of them. `chaos` is
`ordercast chaos` with a watch beside it, which must say nothing; `--seconds 3600` is an hour of it. `state` writes the
trace of a cluster with 100,000 deliveries a second, one of whose members is behind by some seconds, and measures what
the query keeps of it. `--json` prints one document.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

import ordercast
from ordercast.net.ports import free_ports
from ordercast.runtime.instance import Instance
from ordercast.spark.session import open_session
from ordercast.spark.watch import Outlets, begin_watch
from ordercast.trace.read import read_runs
from ordercast.trace.schema import Run
from ordercast.watch import Alert, Settings
from ordercast.wire.keys import create_key_file

NAMES = ("a", "b", "c")
VICTIM = "b"
INTERVAL_SECONDS = 1.0
CALM_SECONDS = 10.0
"""Before something is planted: the query is warm, and has said nothing."""
PATIENCE_SECONDS = 60.0
DELIVERIES_A_SECOND = 100_000
SITES = 5
LAG_SECONDS = 9.0
"""By which one member is behind in the trace that is made."""


# ------------------------------------------------------------------ a cluster
def write_configuration(folder: Path) -> Path:
    create_key_file(folder / "cluster.key")
    lines = [
        *('cluster = "watching"', 'protocol = "three-step"', 'key_file = "cluster.key"', 'trace_directory = "trace"'),
        "[processes]",
        *(f'{name} = "127.0.0.1:{port}"' for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True)),
        f"[groups]\nall = {json.dumps(NAMES)}\n",
    ]
    path = folder / "cluster.toml"
    path.write_text("\n".join(lines))
    return path


def be_member(config: Path, name: str, rate: float) -> None:
    """Until it is killed: multicast, and deliver; two bundles in the other order when the file `plant` is there."""
    plant = config.parent / "plant"
    deliver, held = Instance._deliver, []

    def deliver_otherwise(instance: Instance, effect: Any) -> None:
        if not held and plant.exists():
            held.append(effect)
            return
        deliver(instance, effect)
        if len(held) == 1:
            deliver(instance, held[0])
            held.append(None)
            (config.parent / "planted").touch()

    if name == VICTIM:
        Instance._deliver = deliver_otherwise  # type: ignore[method-assign]
    with ordercast.open_synchronous(config, name) as node:
        threading.Thread(target=deque, args=(node.join("all").batches(), 0), daemon=True).start()
        while True:
            node.multicast(bytes(100), ["all"])
            time.sleep(1 / rate)


class Watching:
    """A query of this process, and what it said."""

    def __init__(self, spark: Any, trace: Path, folder: Path, interval_seconds: float | None) -> None:
        self.alerts: list[tuple[float, Alert]] = []
        runs = read_runs(str(trace))
        outlets = Outlets(lambda alert: self.alerts.append((time.time(), alert)))
        self.query = begin_watch(
            *(spark, str(trace), runs, Settings(), outlets),
            checkpoint=str(folder / "checkpoint"),
            interval_seconds=interval_seconds,
        )

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            if self.query.exception() is not None:
                raise SystemExit(str(self.query.exception()))
            if condition():
                return True
            time.sleep(0.05)
        return False

    def ends(self) -> list[float]:
        """When the micro-batches ended that had rows, in seconds since 1970."""
        return [
            _seconds(each["timestamp"]) + each["durationMs"]["triggerExecution"] / 1000
            for each in self.query.recentProgress
            if each["numInputRows"]
        ]

    @property
    def state_bytes(self) -> int:
        """The most that its state has taken."""
        return max(
            (
                each["stateOperators"][0]["memoryUsedBytes"]
                for each in self.query.recentProgress
                if each["stateOperators"]
            ),
            default=0,
        )


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def find_planted(rate: float) -> dict[str, Any]:
    """How soon it is told."""
    with tempfile.TemporaryDirectory(prefix="ordercast-watching-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        config = write_configuration(folder)
        words = [
            sys.executable,
            __file__,
            "planted",
            "--config",
            str(config),
            "--rate",
            str(rate / len(NAMES)),
            "--member",
        ]
        members = [subprocess.Popen([*words, each]) for each in NAMES]
        try:
            with open_session("watching", "local[2]", {"spark.sql.shuffle.partitions": "2"}) as spark:
                while not all((folder / "trace" / each / "runs.jsonl").exists() for each in NAMES):
                    time.sleep(0.1)
                watching = Watching(spark, folder / "trace", folder, INTERVAL_SECONDS)
                if not watching.wait(lambda: len(watching.ends()) >= 3, PATIENCE_SECONDS):
                    raise SystemExit("the query does not get going")
                watching.wait(lambda: False, CALM_SECONDS)
                before = len(watching.alerts)
                (folder / "plant").touch()
                if not watching.wait((folder / "planted").exists, PATIENCE_SECONDS):
                    raise SystemExit("nothing was planted")
                planted = (folder / "planted").stat().st_mtime
                if not watching.wait(lambda: len(watching.alerts) > before, PATIENCE_SECONDS):
                    raise SystemExit("it was not told")
                told, alert = watching.alerts[before]
                # The one that told of it may not have ended yet.
                batches = 1 + sum(planted < end < told for end in watching.ends())
                state_bytes = watching.state_bytes
                watching.query.stop()
            return {
                "micro_batches": batches,
                "seconds": told - planted,
                "property": alert.property,
                "false_alerts": before,
                "state_bytes": state_bytes,
            }
        finally:
            for member in members:
                member.kill()
                member.wait()


# ------------------------------------------------------------------ chaos
def watch_chaos(seconds: float, rate: float, seed: int) -> dict[str, Any]:
    """What is said while a cluster is hurt, and what the judges say of it."""
    with tempfile.TemporaryDirectory(prefix="ordercast-watching-", ignore_cleanup_errors=True) as name:
        kept = Path(name) / "kept"
        minutes = max(1, round(seconds / 60))
        hurt = subprocess.Popen(
            [
                *(sys.executable, "-m", "ordercast", "chaos", "--processes", "3", "--seconds", str(seconds)),
                *("--kills", str(minutes), "--pauses", str(minutes // 2), "--partitions", str(minutes // 2)),
                *("--rate", str(rate), "--seed", str(seed), "--keep", str(kept), "--json"),
            ],
            stdout=subprocess.PIPE,
        )
        try:
            with open_session("watching", "local[2]", {"spark.sql.shuffle.partitions": "2"}) as spark:
                while not list(kept.glob("trace/*/runs.jsonl")):
                    if hurt.poll() is not None:
                        raise SystemExit("the cluster has ended")
                    time.sleep(0.1)
                watching = Watching(spark, kept / "trace", Path(name), INTERVAL_SECONDS)
                while not watching.wait(lambda: hurt.poll() is not None, 60):
                    print(f"{len(watching.alerts)} alerts", file=sys.stderr, flush=True)
                watching.query.processAllAvailable()
                watching.query.stop()
                rows = sum(each["numInputRows"] for each in watching.query.recentProgress)
                state_bytes = watching.state_bytes
            assert hurt.stdout is not None
            print(hurt.stdout.read().decode()[:2000], file=sys.stderr)
            said = [alert.property for _, alert in watching.alerts]
            return {
                "seconds": seconds,
                "chaos_exit": hurt.returncode,
                "rows_of_last_batches": rows,
                "alerts": {each: said.count(each) for each in sorted(set(said))},
                "state_bytes": state_bytes,
            }
        finally:
            if hurt.poll() is None:
                hurt.terminate()
                hurt.wait()


# ------------------------------------------------------------------ much at a time
def write_much(folder: Path, deliveries: int) -> Path:
    """The trace of so many deliveries; the last site is behind the others."""
    sites = [f"s{number}" for number in range(SITES)]
    claims = ["integrity", "no-duplication", "multiple-group-order", "uniform-agreement"]
    messages, apart = deliveries // SITES, SITES / DELIVERIES_A_SECOND
    for number, site in enumerate(sites):
        own = folder / "trace" / site
        own.mkdir(parents=True)
        run = Run(run="much", groups={"all": sites}, guarantees=claims, protocol="benchmark")
        (own / "runs.jsonl").write_bytes(msgspec.json.encode(run) + b"\n")
        late = LAG_SECONDS if number == SITES - 1 else 0.001 * number
        rows = [
            (when, f'"kind":"multicast","message":"{site}:0:{of}","source":"{site}","source_seq":{of},"groups":["all"]')
            for of, when in ((message // SITES + 1, message * apart) for message in range(number, messages, SITES))
        ]
        for message in range(messages):
            source, of = sites[message % SITES], message // SITES + 1
            name = f'"message":"{source}:0:{of}","source":"{source}","source_seq":{of}'
            rows.append((message * apart + 0.01 + late, f'"kind":"deliver",{name},"groups":["all"],"delivery":1'))
        rows.sort(key=lambda row: row[0])
        with (own / "events.jsonl").open("w") as file:
            for seq, (when, rest) in enumerate(rows):
                file.write(f'{{"run":"much","site":"{site}","seq":{seq},"time":{when:.6f},"incarnation":0,{rest}}}\n')
    return folder / "trace"


def weigh_state(deliveries: int) -> dict[str, Any]:
    """What is kept, and how fast it is looked at."""
    with tempfile.TemporaryDirectory(prefix="ordercast-watching-", ignore_cleanup_errors=True) as name:
        trace = write_much(Path(name), deliveries)
        with open_session("watching", "local[2]", {"spark.sql.shuffle.partitions": "2"}) as spark:
            began = time.monotonic()
            watching = Watching(spark, trace, Path(name), None)
            watching.query.awaitTermination()
            seconds = time.monotonic() - began
            state_bytes, batches = watching.state_bytes, len(watching.ends())
        return {
            "deliveries": deliveries,
            "of_trace_seconds": deliveries / DELIVERIES_A_SECOND,
            "seconds": seconds,
            "state_bytes": state_bytes,
            "micro_batches": batches,
            "alerts": len(watching.alerts),
        }


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("planted", "chaos", "state"))
    parser.add_argument("--rate", type=float, help="messages a second; of each process, under chaos")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--config", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--member", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    if asked.member:
        be_member(asked.config, asked.member, asked.rate)
        return 0
    if asked.what == "planted":
        figures = find_planted(asked.rate or 300.0)
        is_right = figures["micro_batches"] <= 2 and not figures["false_alerts"]
    elif asked.what == "chaos":
        figures = watch_chaos(asked.seconds, asked.rate or 20.0, asked.seed)
        is_right = not figures["alerts"] and not figures["chaos_exit"]
    else:
        figures = weigh_state(asked.rows)
        is_right = figures["state_bytes"] < 200e6 and not figures["alerts"]
    if asked.json:
        print(json.dumps(figures))
    else:
        for label, value in figures.items():
            print(f"{label:22} {value:,.2f}" if isinstance(value, float) else f"{label:22} {value}")
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
