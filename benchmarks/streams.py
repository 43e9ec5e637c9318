"""A stream from a group into a table and into another group, while its query and its nodes are killed.

    python benchmarks/streams.py [--kills 20] [--node-kills 10] [--rate 50000] [--json]
    python benchmarks/streams.py --rows 1000000      # nobody is killed: rows a second, beside their bounds

One process of three multicasts numbers to the group `in`, and remembers what it delivers. A Spark application of two
queries reads them: one writes a table, the other the group `out`. It is killed with everything below it (SIGKILL), and
so are the two nodes that it reads from, in turn. In the end the table must have every message of `in` once, each file
of it in the order of the offsets, and `out` the same messages in the same order.

`--rows` measures, in rows a second, the source beside `batches()` of a node in the same group and beside a Python
source of the same rows that are made on the spot; and the sink, fed by Spark's rate source, beside a Python sink that
takes the same rows and lets them go, and beside the same runs without Spark.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pipeline_processes import kill_tree
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)

import ordercast
from ordercast.net.ports import free_ports
from ordercast.spark.session import open_session
from ordercast.spark.source.data_source import sink_options
from ordercast.spark.source.group import BATCH_ROWS, DELIVERIES
from ordercast.spark.source.sink import Rows, multicast_rows, pack, take_rows
from ordercast.wire.keys import create_key_file

KEEPER, OTHERS = "c", ("a", "b")
"""Members are asked by name, so Spark reads from the others while they live."""
PAYLOAD_BYTES = 100
SEND_SECONDS = 0.05
READY_SECONDS_MAX = 600.0
BATCHES, WARM_BATCHES = 6, 2
"""Of a stream that is measured; the first ones do not count."""
_NUMBER = ">i8"

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def write_configuration(folder: Path) -> Path:
    """Three processes with logs, in both groups, which keep what they deliver."""
    create_key_file(folder / "cluster.key")
    names = [*OTHERS, KEEPER]
    lines = [
        'cluster = "streams"',
        'protocol = "three-step"',
        'key_file = "cluster.key"',
        'log_directory = "log"',
        f'control = "unix:{folder}/{{process}}.sock"',
        f"history_bytes = {1 << 31}",
        "[processes]",
        *(f'{name} = "127.0.0.1:{port}"' for name, port in zip(names, free_ports(len(names)), strict=True)),
        "[groups]",
        *(f"{group} = {json.dumps(names)}" for group in ("in", "out")),
    ]
    path = folder / "cluster.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


class Keeper:
    """The process that multicasts numbers, and knows in which order they were delivered."""

    def __init__(self, config: Path) -> None:
        self._node = ordercast.open_synchronous(config, KEEPER)
        self._node.__enter__()
        self._taken: dict[str, list[Numbers]] = {"in": [], "out": []}
        self.rows_taken = 0
        for group in self._taken:
            # Whoever does not take what it gets holds the others up.
            threading.Thread(target=self._take, args=(group,), daemon=True).start()
        self.sent = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.rate = 0.0

    def _take(self, group: str) -> None:
        for batch in self._node.join(group).batches():
            self._taken[group].append(_numbers(batch.payloads))
            self.rows_taken += len(batch)

    def taken(self, group: str) -> Numbers:
        """The numbers in a group, in its order."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self._taken[group]])

    def send(self, count: int) -> None:
        """So many, at once."""
        payloads = [_payload(number) for number in range(self.sent, self.sent + count)]
        self._node.multicast_many(payloads[:-1], ["in"])
        self._node.multicast(payloads[-1], ["in"], confirm=True)
        self.sent += count

    def begin(self, rate: float) -> None:
        """At a rate, until `end`."""
        self.rate = rate
        self._thread.start()

    def _send(self) -> None:
        began, first = time.monotonic(), self.sent
        while not self._ending.wait(SEND_SECONDS):
            owed = int((time.monotonic() - began) * self.rate) - (self.sent - first)
            if owed > 1:
                self.send(min(owed, 50_000))

    def end(self) -> int:
        """How many there were."""
        self._ending.set()
        self._thread.join()
        return self.sent

    def close(self) -> None:
        self._ending.set()
        self._node.__exit__(None, None, None)


def _payload(number: int) -> bytes:
    return number.to_bytes(8, "big") + bytes(PAYLOAD_BYTES - 8)


def _numbers(payloads: Iterable[bytes]) -> Numbers:
    joined = b"".join([payload[:8] for payload in payloads])
    return np.frombuffer(joined, dtype=_NUMBER).astype(np.int64)


# ------------------------------------------------------------------ the application that is killed
def start_queries(spark: SparkSession, folder: Path, *, to_the_end: bool) -> list[Any]:
    """Into the table and into the group."""
    config = str(folder / "cluster.toml")
    options = {"config": config, "group": "in", "startingOffset": "earliest", "maxOffsetsPerTrigger": "200000"}
    trigger: dict[str, Any] = {"availableNow": True} if to_the_end else {"processingTime": "500 milliseconds"}
    read = spark.readStream.format("ordercast").options(**options).load()
    table = read.writeStream.format("parquet").option("path", str(folder / "table"))
    out = read.select("payload").writeStream.format("ordercast").option("config", config).option("group", "out")
    return [
        writer.option("checkpointLocation", str(folder / f"checkpoint-{name}")).trigger(**trigger).start()
        for name, writer in (("table", table), ("out", out))
    ]


def be_application(folder: Path) -> None:
    """Until it is killed."""
    with open_session("streams", "local[2]", {"spark.sql.shuffle.partitions": "2"}) as spark:
        queries = start_queries(spark, folder, to_the_end=False)
        while all(query.isActive for query in queries):
            if all(query.lastProgress for query in queries):
                (folder / "runs").touch()
            time.sleep(0.1)
        for query in queries:
            if query.exception() is not None:
                raise SystemExit(str(query.exception()))


def finish(folder: Path) -> list[str]:
    """Read and write what is left; the files of the table."""
    with open_session("streams", "local[2]", {"spark.sql.shuffle.partitions": "2"}) as spark:
        for query in start_queries(spark, folder, to_the_end=True):
            query.awaitTermination()
        return files_of_table(spark, folder)


def files_of_table(spark: SparkSession, folder: Path) -> list[str]:
    """Those that count."""
    return [name.removeprefix("file://") for name in spark.read.parquet(str(folder / "table")).inputFiles()]


def judge(files: Sequence[str], truth: Numbers, out: Numbers) -> dict[str, Any]:
    """What is wrong, in numbers; all of them are 0 where nothing is."""
    parts = [pq.read_table(name, columns=["offset", "payload"]).combine_chunks() for name in files]
    offsets = [part.column("offset").to_numpy() for part in parts]
    every = np.concatenate([np.zeros(0, dtype=np.int64), *offsets])
    numbers = np.concatenate(
        [np.zeros(0, dtype=np.int64), *(_numbers(part.column("payload").to_pylist()) for part in parts)]
    )
    times = np.bincount(every[every < len(truth)], minlength=len(truth))
    both = min(len(out), len(truth))
    return {
        "missing": int((times == 0).sum()),
        "twice": int((times > 1).sum()) + int((every >= len(truth)).sum()),
        "wrong": int((truth[every[every < len(truth)]] != numbers[every < len(truth)]).sum()),
        "files_out_of_order": sum(bool((np.diff(part) <= 0).any()) for part in offsets),
        "out_missing_or_twice": int(len(np.setxor1d(out, truth)) + len(out) - len(np.unique(out))),
        "out_of_order": int((out[:both] != truth[:both]).sum()),
    }


class Killed:
    """A process that is started again whenever it has been killed."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=subprocess.DEVNULL)

    def check(self) -> None:
        """It does not end by itself."""
        if self._process.poll() not in (None, -signal.SIGKILL):
            raise SystemExit(f"{self._command} ended by itself with {self._process.returncode}")

    def kill(self, *, again: bool = True) -> None:
        """With all its descendants."""
        if again:
            self.check()
        kill_tree(self._process.pid)
        self._process.wait()
        if again:
            self._process = self._start()


def endure(kills: int, node_kills: int, rate: float, seed: int) -> dict[str, Any]:
    """Kill, and judge what is there in the end."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="ordercast-streams-") as name:
        folder = Path(name)
        config = write_configuration(folder)
        nodes = [
            Killed(sys.executable, "-m", "ordercast", "node", "--config", str(config), "--process", each)
            for each in OTHERS
        ]
        keeper = Keeper(config)
        application = Killed(sys.executable, __file__, "--application", str(folder))
        began = time.monotonic()
        try:
            keeper.begin(rate)
            moments = ["application"] * kills + ["node"] * node_kills
            draw.shuffle(moments)
            turn = 0
            for number, victim in enumerate(moments, 1):
                if victim == "application":
                    await_file(folder / "runs", application)
                    time.sleep(draw.uniform(0, 3))
                    application.kill()
                else:
                    time.sleep(draw.uniform(0, 3))
                    nodes[turn % 2].kill()
                    turn += 1
                print(f"{number} of {len(moments)}: {victim} killed, {keeper.sent} sent", file=sys.stderr, flush=True)
            await_file(folder / "runs", application)
            application.kill(again=False)
            sent, seconds = keeper.end(), time.monotonic() - began
            files = finish(folder)
            truth, out = keeper.taken("in"), keeper.taken("out")
            return {
                "messages": sent,
                "rate": round(sent / seconds),
                "kills": kills,
                "node_kills": node_kills,
                "delivered": len(truth),
                **judge(files, truth, out),
            }
        finally:
            application.kill(again=False)
            for node in nodes:
                node.kill(again=False)
            keeper.close()


def await_file(path: Path, application: Killed) -> None:
    """Until it is there; then it is gone again."""
    give_up = time.monotonic() + READY_SECONDS_MAX
    while not path.exists():
        application.check()
        if time.monotonic() > give_up:
            raise SystemExit(f"the application has read nothing in {READY_SECONDS_MAX:g} s")
        time.sleep(0.1)
    path.unlink()


# ------------------------------------------------------------------ rows a second
class MadeRows(DataSource):
    """The rows of deliveries, made on the spot: what Spark's way through Python takes by itself."""

    @classmethod
    def name(cls) -> str:
        return "made"

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(DELIVERIES)

    def reader(self, schema: Any) -> DataSourceReader:
        return MadeReader(int(self.options["rows"]))


class MadeReader(DataSourceReader):
    """One partition of them."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        values = ("in", 0, "c:0:1/1", KEEPER, 1, bytes(PAYLOAD_BYTES), 0, None)
        for first in range(0, self._rows, BATCH_ROWS):
            count = min(BATCH_ROWS, self._rows - first)
            columns = [
                pa.repeat(pa.scalar(value, field.type), count) for value, field in zip(values, DELIVERIES, strict=True)
            ]
            yield pa.record_batch(columns, schema=DELIVERIES)


class LettingGo(DataSource):
    """A sink that takes rows as ours does, and lets them go."""

    @classmethod
    def name(cls) -> str:
        return "letting-go"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return LettingGoWriter()


class LettingGoWriter(DataSourceStreamArrowWriter):
    """Of one query."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return take_rows(iterator)


def rows_a_second(reading: Any, name: str, checkpoint: Path, options: dict[str, str]) -> float:
    """Of a stream that is written to a sink, without its first micro-batches."""
    writer = reading.writeStream.format(name).options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    while len(done := [each for each in query.recentProgress if each["numInputRows"]]) < BATCHES:
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        time.sleep(0.1)
    query.stop()
    counted = done[WARM_BATCHES:BATCHES]
    return (
        sum(each["numInputRows"] for each in counted)
        / sum(each["durationMs"]["triggerExecution"] for each in counted)
        * 1000
    )


def measure(rows: int) -> dict[str, Any]:
    """Rows a second."""
    with tempfile.TemporaryDirectory(prefix="ordercast-streams-") as name:
        folder = Path(name)
        config = write_configuration(folder)
        nodes = [
            Killed(sys.executable, "-m", "ordercast", "node", "--config", str(config), "--process", each)
            for each in OTHERS
        ]
        keeper = Keeper(config)
        try:
            figures: dict[str, Any] = {"rows": rows}
            keeper.send(1000)
            began, taken = time.perf_counter(), keeper.rows_taken
            keeper.send(rows)
            figures["batches"] = (keeper.rows_taken - taken) / (time.perf_counter() - began)
            options = {"config": str(config), "group": "in"}
            with open_session("streams", "local[2]") as spark:
                spark.dataSource.register(MadeRows)
                spark.dataSource.register(LettingGo)
                few = rows // (BATCHES + 1)
                stream = spark.readStream.format("ordercast").options(
                    **options, startingOffset="earliest", maxOffsetsPerTrigger=str(few)
                )
                figures["source_stream"] = rows_a_second(stream.load(), "noop", folder / "checkpoint-source", {})
                for label, read in (
                    ("source", spark.read.format("ordercast").options(**options)),
                    ("made", spark.read.format("made").option("rows", rows)),
                ):
                    for _ in range(2):
                        began = time.perf_counter()
                        read.load().write.format("noop").mode("overwrite").save()
                        figures[label] = rows / (time.perf_counter() - began)
                packs = pack([_payload(number) for number in range(rows)])
                sink = {"config": str(config), "group": "out"}
                began = time.perf_counter()
                multicast_rows(sink_options(sink, "bound"), [Rows(0, packs)], 0)
                figures["runs"] = rows / (time.perf_counter() - began)
                rated = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", few).load()
                made = rated.selectExpr(f"CAST(lpad(CAST(value AS STRING), {PAYLOAD_BYTES}, '0') AS BINARY) AS payload")
                # Java compiles what both take for a while.
                rows_a_second(made, "letting-go", folder / "checkpoint-warm", {})
                figures["sink"] = rows_a_second(made, "ordercast", folder / "checkpoint-sink", sink)
                figures["letting_go"] = rows_a_second(made, "letting-go", folder / "checkpoint-rate", {})
            for measured, bound in (
                *(("source", "batches"), ("source", "made"), ("source_stream", "batches")),
                *(("sink", "letting_go"), ("sink", "runs")),
            ):
                figures[f"{measured}_of_{bound}"] = figures[measured] / figures[bound]
            return figures
        finally:
            for node in nodes:
                node.kill(again=False)
            keeper.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--node-kills", type=int, default=10)
    parser.add_argument("--rate", type=float, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--application", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.application:
        be_application(asked.application)
        return 0
    # Whoever is ended takes along what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    figures = measure(asked.rows) if asked.rows else endure(asked.kills, asked.node_kills, asked.rate, asked.seed)
    if asked.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:22} {value:,.2f}" if isinstance(value, float) else f"{name:22} {value:,}")
    faults = ("missing", "twice", "wrong", "files_out_of_order", "out_missing_or_twice", "out_of_order")
    return int(any(figures.get(name) for name in faults))


if __name__ == "__main__":
    sys.exit(main())
