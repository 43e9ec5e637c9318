"""What a replica without a state keeps until it has one: the calls that were delivered since, in order."""

from __future__ import annotations

from collections import deque

from ordercast.core import UsageError
from ordercast.node.replica_messages import Call, Want

BACKLOG_BYTES_MAX = 1 << 29
"""Beyond, something is wrong, and memory is short."""

CALL_BYTES = 500
"""What a call takes in memory beside its own bytes, about."""


class Backlog:
    """Calls that wait for a state. Whoever gives one must have applied everything before `needed_from`."""

    def __init__(self) -> None:
        self.needed_from = 0
        """The first delivery that this process has."""
        self._calls: deque[tuple[int, Call | Want, int]] = deque()
        self._bytes = 0

    def begin(self, offset: int) -> None:
        """Deliveries go on here, and what lies before was lost: forget all calls."""
        self.needed_from = offset
        self._calls.clear()
        self._bytes = 0

    def add(self, offset: int, call: Call | Want, size: int) -> None:
        """Keep a call of so many bytes, or a question that may change the state; `UsageError` when there is no end to
        them."""
        self._bytes += size + CALL_BYTES
        if self._bytes > BACKLOG_BYTES_MAX:
            raise UsageError(
                f"no replica has given its state in {len(self._calls)} calls, which take {self._bytes} bytes here: "
                f"start one that has it, then start this process again"
            )
        self._calls.append((offset, call, size))

    def pop(self) -> tuple[int, Call | Want] | None:
        """The next call and its place in the order; None when there is no more."""
        if not self._calls:
            return None
        offset, call, size = self._calls.popleft()
        self._bytes -= size + CALL_BYTES
        return offset, call

    def __len__(self) -> int:
        return len(self._calls)
