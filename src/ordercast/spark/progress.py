"""How far the jobs of a session have come, told to whoever asks while they run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

POLL_SECONDS = 0.2
"""Five times a second looks alive and costs Java nothing."""

Listener = Callable[[int, int], None]
"""Is told how many tasks are done, and of how many that are known by now."""


@contextlib.contextmanager
def watch(spark: SparkSession, listener: Listener) -> Iterator[None]:
    """Tell the listener, from a thread of its own, how far the jobs begun inside this block have come."""
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()
    known_before = set(tracker.getJobIdsForGroup())

    def follow() -> None:
        finished: dict[int, int] = {}  # stages that need not be asked about again: Spark forgets them some time
        while not over.wait(POLL_SECONDS):
            with contextlib.suppress(Py4JError, OSError, AttributeError):
                done = total = 0
                for job in sorted(set(tracker.getJobIdsForGroup()) - known_before):
                    described = tracker.getJobInfo(job)
                    for stage in described.stageIds if described is not None else ():
                        if stage not in finished:
                            state = tracker.getStageInfo(stage)
                            if state is None:
                                continue
                            if state.numCompletedTasks < state.numTasks:
                                done += state.numCompletedTasks
                                total += state.numTasks
                                continue
                            finished[stage] = state.numTasks
                tasks = sum(finished.values())
                listener(done + tasks, total + tasks)

    thread = threading.Thread(target=follow, name="ordercast-spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        # It may hang in a question to a Java that is gone; it is a daemon, and tells nobody any more.
        thread.join(1.0)
