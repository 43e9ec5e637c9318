"""What waits for a full socket buffer is bounded, in datagrams and in bytes."""

from __future__ import annotations

from ordercast.net.transport import BACKLOG_BYTES_MAX, BACKLOG_MAX
from tests.net.test_disturbance import common


def overflow_after(size: int) -> int:
    """How many datagrams of a size wait before the next is dropped."""
    with common() as way:
        transport = way.transport
        count = 0
        while not transport.counters["send-overflow"]:
            transport._queue(bytes(size), None, way.listener.getsockname())
            count += 1
        return count - 1


def test_many_small_datagrams_wait_and_fewer_large_ones() -> None:
    assert overflow_after(10) == BACKLOG_MAX
    assert overflow_after(1 << 20) == BACKLOG_BYTES_MAX >> 20
