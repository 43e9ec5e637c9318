"""A standalone cluster of Spark on this machine, one of whose two workers is killed in the middle of whatever it does.

    python benchmarks/standalone.py [--rows 5000000] [--runs 100] [--messages 1000000] [--only verify stream] [--json]

A master and two workers with a processor each are started as processes (PySpark from a package index brings no scripts
for that). `ordercast verify`, `ordercast measure` and a campaign run twice each: undisturbed, and while a worker is
killed with its executor (SIGKILL) in the middle of the time that the first one took; both must print the same. Then a
stream goes from a group into a table and into another group, while a worker is killed: every message has to be there
once, in order. The killed worker is started again before the next one begins.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pipeline_processes import kill_tree
from pipeline_traces import Shape, write_traces
from streams import OTHERS, Keeper, Killed, files_of_table, judge, start_queries, write_configuration

from ordercast.spark.java import prepare_environment
from ordercast.spark.session import open_session

START_SECONDS_MAX = 120.0
VOLATILE = ("seconds", "elapsed", "rate")
"""What of a document two runs need not have in common."""
WORKERS = 2


class Standalone:
    """One master and its workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = Path(pyspark.__file__).parent
        before = dict(os.environ)
        prepare_environment()
        self._environment = {**os.environ, "SPARK_HOME": str(self._home), "SPARK_LOCAL_IP": "127.0.0.1"}
        os.environ.clear()
        os.environ.update(before)
        # What a machine of the cluster does not have: the package comes with the session.
        self._environment.pop("PYTHONPATH", None)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0
        log = self._start("master", "master.Master")
        self.url = self._await(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for number in range(WORKERS):
            self.start_worker(number)

    def _start(self, name: str, kind: str, *words: str) -> Path:
        self._starts += 1
        log = self._folder / f"{name}-{self._starts}.log"
        host = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *host, *words]
        with log.open("wb") as output:
            self._running[name] = subprocess.Popen(
                command, stdout=output, stderr=output, env=self._environment, cwd=self._folder
            )
        return log

    def _await(self, log: Path, pattern: str) -> str:
        give_up = time.monotonic() + START_SECONDS_MAX
        while not (found := re.search(pattern, log.read_text(errors="replace"))):
            if time.monotonic() > give_up:
                raise SystemExit(f"{log} does not say {pattern}")
            time.sleep(0.1)
        return found[found.re.groups]

    def start_worker(self, number: int) -> None:
        room = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / "work"))
        log = self._start(f"worker-{number}", "worker.Worker", *room, self.url)
        self._await(log, "Successfully registered with master")

    def kill_worker(self, number: int) -> None:
        """With its executors and what these have started."""
        process = self._running.pop(f"worker-{number}")
        kill_tree(process.pid)
        process.wait()

    def stop(self) -> None:
        for process in self._running.values():
            kill_tree(process.pid)
            process.wait()


@contextmanager
def standalone() -> Iterator[Standalone]:
    with tempfile.TemporaryDirectory(prefix="ordercast-standalone-", ignore_cleanup_errors=True) as name:
        cluster = Standalone(Path(name))
        try:
            yield cluster
        finally:
            cluster.stop()


def ask(cluster: Standalone, words: list[str], after: float | None) -> tuple[Any, float]:
    """What a command prints, and how long it takes; a worker dies after so many seconds."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "ordercast", *words, "--master", cluster.url, "--json"], stdout=subprocess.PIPE
    )
    if after is not None:
        time.sleep(after)
        if process.poll() is not None:
            raise SystemExit(f"{words[0]} ended before a worker was killed")
        cluster.kill_worker(0)
    output, _ = process.communicate()
    if process.returncode not in (0, 1) or not output:
        raise SystemExit(f"{words} ended with {process.returncode}")
    seconds = time.monotonic() - began
    if after is not None:
        cluster.start_worker(0)
    return without_times(json.loads(output)), seconds


def without_times(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: without_times(value) for name, value in document.items() if not name.startswith(VOLATILE)}
    return [without_times(each) for each in document] if isinstance(document, list) else document


def compare(cluster: Standalone, words: list[str]) -> dict[str, Any]:
    expected, calm = ask(cluster, words, None)
    found, hurt = ask(cluster, words, calm / 2)
    return {"same": found == expected, "seconds": calm, "seconds_with_kill": hurt}


def stream(cluster: Standalone, messages: int) -> dict[str, Any]:
    """From a group into a table and a group; a worker dies when a part has been read."""
    with tempfile.TemporaryDirectory(prefix="ordercast-streams-") as name:
        folder = Path(name)
        config = write_configuration(folder)
        words = [sys.executable, "-m", "ordercast", "node", "--config", str(config), "--process"]
        nodes = [Killed(*words, each) for each in OTHERS]
        keeper = Keeper(config)
        try:
            for _ in range(0, messages, 50_000):
                keeper.send(min(50_000, messages))
            began = time.monotonic()
            with open_session("streams", cluster.url, {"spark.sql.shuffle.partitions": "2"}) as spark:
                queries = start_queries(spark, folder, to_the_end=True)
                while not all(query.recentProgress for query in queries):
                    time.sleep(0.05)
                if not any(query.isActive for query in queries):
                    raise SystemExit("the queries ended before a worker was killed")
                cluster.kill_worker(0)
                for query in queries:
                    query.awaitTermination()
                files = files_of_table(spark, folder)
            seconds = time.monotonic() - began
            cluster.start_worker(0)
            truth = keeper.taken("in")
            while len(keeper.taken("out")) < len(truth) and time.monotonic() - began < seconds + 30:
                time.sleep(0.1)
            faults = judge(files, truth, keeper.taken("out"))
            return {"same": not any(faults.values()), "messages": len(truth), "seconds_with_kill": seconds, **faults}
        finally:
            for node in nodes:
                node.kill(again=False)
            keeper.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000, help="deliveries of the trace")
    parser.add_argument("--runs", type=int, default=100, help="of the campaign")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of the stream")
    parser.add_argument("--only", nargs="*", choices=("verify", "measure", "campaign", "stream"))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="ordercast-standalone-") as name, standalone() as cluster:
        trace = str(write_traces(Path(name), Shape(asked.rows, 50, 10)))
        campaign = ["simulate", "--campaign", str(asked.runs), "--protocol", "sequencer"]
        steps: dict[str, Callable[[], dict[str, Any]]] = {
            "verify": lambda: compare(cluster, ["verify", trace]),
            "measure": lambda: compare(cluster, ["measure", trace]),
            "campaign": lambda: compare(cluster, campaign),
            "stream": lambda: stream(cluster, asked.messages),
        }
        for step, work in steps.items():
            if asked.only is None or step in asked.only:
                figures[step] = work()
                if not asked.json:
                    print(f"{step:10}", *(f"{label}={value}" for label, value in figures[step].items()), flush=True)
    if asked.json:
        print(json.dumps(figures))
    return int(not all(each["same"] for each in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
