"""From many runs to few tasks: each of a second or more, all about equally long."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

TASK_SECONDS = 1.0
"""A task costs Spark 13 ms, and the driver its part of that alone: of 600 runs of 32 ms, one to a task, more than half
of the time was Spark's. With a second to a task it is one hundredth."""
TASK_SECONDS_MIN = 0.2
"""When there is less to do than a second for each processor, it is still better to use them all, down to this."""


def pack(costs: Sequence[float], parallelism: int) -> list[list[int]]:
    """Groups of places in `costs` (estimated seconds), each to be one task; the longest first.

    As many groups for each processor as for any other, for they all end at about the same time then.
    """
    if not costs:
        return []
    total = sum(costs)
    count = int(total / TASK_SECONDS)
    if count >= parallelism:
        count -= count % parallelism
    else:
        count = min(parallelism, max(1, int(total / TASK_SECONDS_MIN)))
    # The longest first, each to the group that has least.
    groups: list[tuple[float, int, list[int]]] = [(0.0, number, []) for number in range(min(count, len(costs)))]
    for place in sorted(range(len(costs)), key=lambda place: (-costs[place], place)):
        seconds, number, places = groups[0]
        places.append(place)
        heapq.heapreplace(groups, (seconds + costs[place], number, places))
    return [places for _, _, places in sorted(groups, key=lambda group: (-group[0], group[1]))]


def spread(count: int, of: int) -> list[int]:
    """So many places, evenly spread over a sequence."""
    return sorted({place * of // count for place in range(count)}) if count < of else list(range(of))
