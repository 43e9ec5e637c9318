"""The disk's own rate: processes that append to a file each and sync, with nothing above.

python benchmarks/live_disk.py [--chunk-bytes 65000 1000000 8000000] [--seconds 2] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from live_figures import Result

# A file starts anew when it has grown so far, so that a fast disk does not fill up.
FILE_BYTES_MAX = 256 << 20


def log_folder() -> Path:
    """Where `ordercast bench` puts its logs."""
    return Path(tempfile.gettempdir())


def append(path: Path, chunk_bytes: int, seconds: float, connection: Connection) -> None:
    chunk = os.urandom(chunk_bytes)
    opened = os.open(path, os.O_CREAT | os.O_WRONLY)
    written = position = 0
    syncs = []
    connection.send("ready")
    connection.recv()
    began = before = time.perf_counter()
    while before - began < seconds:
        if position + chunk_bytes > FILE_BYTES_MAX:
            position = os.lseek(opened, 0, os.SEEK_SET)
            os.ftruncate(opened, 0)
        position += os.write(opened, chunk)
        os.fdatasync(opened)
        written += chunk_bytes
        now = time.perf_counter()
        syncs.append(now - before)
        before = now
    os.close(opened)
    connection.send((written / (before - began), statistics.median(syncs)))


def measure(folder: Path, chunk_bytes: int, seconds: float, processes: int) -> Result:
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="ordercast-benchmark-", dir=folder) as temporary:
        connections, writers = [], []
        for index in range(processes):
            ours, theirs = context.Pipe()
            words = (Path(temporary) / str(index), chunk_bytes, seconds, theirs)
            writers.append(context.Process(target=append, args=words, daemon=True))
            writers[-1].start()
            theirs.close()
            connections.append(ours)
        for connection in connections:
            connection.recv()
        for connection in connections:
            connection.send("go")
        reports = [connection.recv() for connection in connections]
        for writer in writers:
            writer.join()
    return {
        "bytes_per_second": sum(rate for rate, _ in reports),
        "sync_ms": 1e3 * statistics.median(sync for _, sync in reports),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunk-bytes", type=int, nargs="*", default=[65_000, 1_000_000, 8_000_000])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--folder", type=Path, default=log_folder())
    arguments = parser.parse_args()
    for chunk_bytes in arguments.chunk_bytes:
        figures = measure(arguments.folder, chunk_bytes, arguments.seconds, arguments.processes)
        print(json.dumps({"chunk_bytes": chunk_bytes} | figures), flush=True)


if __name__ == "__main__":
    main()
