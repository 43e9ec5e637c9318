"""The pipeline itself, timed: what `ordercast verify` does, after its arguments are read and before it prints.

    python benchmarks/pipeline_spark.py MASTER FOLDER REPEAT PROPERTY [PROPERTY …]

prints one JSON object: how long Spark took to start, how long each round took, by the clock and on the cores, and what
was found, of the first run property by property. A folder with one run is judged as one that is too large for a worker.
"""

from __future__ import annotations

import json
import os
import sys
import time

try:
    from benchmarks.pipeline_processes import cpu_seconds
except ModuleNotFoundError:  # run as a file
    from pipeline_processes import cpu_seconds

from ordercast.check import choose
from ordercast.spark.session import open_session
from ordercast.spark.tables import open_trace
from ordercast.spark.verify import session_settings, verify


def main() -> None:
    master, folder, repeat, properties = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    begin = time.perf_counter()
    with open_session("benchmark", master, session_settings(folder)) as spark:
        # The first job of all: before it, not all of Spark has started.
        spark.range(1).count()
        started = time.perf_counter() - begin
        seconds, cpu = [], []
        for _ in range(repeat):
            start, cpu_start = time.perf_counter(), cpu_seconds(os.getpid())
            trace = open_trace(spark, folder)
            large_rows = 0 if len(trace.runs) == 1 else sys.maxsize
            with verify(spark, trace, choose(properties), large_rows) as verification:
                verdicts = verification.collect()
            seconds.append(time.perf_counter() - start)
            cpu.append(cpu_seconds(os.getpid()) - cpu_start)
    outcomes = [verdict.verdict for of_run in verdicts.values() for verdict in of_run.values()]
    print(
        json.dumps(
            {
                "start_seconds": started,
                "seconds": seconds,
                "cpu_seconds": cpu,
                "violations": outcomes.count("violated"),
                "holds": outcomes.count("holds"),
                "verdicts": {
                    name: verdict.verdict for of_run in list(verdicts.values())[:1] for name, verdict in of_run.items()
                },
            }
        )
    )


if __name__ == "__main__":
    main()
