"""Log lines of a process: in JSON on demand, and never a flood.

Whoever can make a node write a line can make it write many: a peer with a wrong key, a disk that is full. So the same
line is written a few times, and then counted.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TextIO

LINES_A_SECOND = 10
"""Of all lines together, in any second. What is more is counted, and told with the next line that is written."""

KINDS_MAX = 1_000
"""Kinds of lines that are told apart; one kind is one place in the program."""

SAME_SECONDS = 10.0
SAME_MAX = 5
"""Lines of one kind in so many seconds."""


class NoFloods(logging.Filter):
    """Lets through what is worth reading, and counts the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._written: deque[float] = deque(maxlen=LINES_A_SECOND)
        """When the last lines were."""
        self._since: dict[str, tuple[float, int]] = {}
        """Kind -> when its count began, and the count."""
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written; how many were not since the last one is in its `left_out`."""
        now = self._clock()
        is_flood = len(self._written) == LINES_A_SECOND and now - self._written[0] < 1.0
        if not self._is_wanted(f"{record.name} {record.levelno} {record.msg}", now) or is_flood:
            self._left_out += 1
            return False
        self._written.append(now)
        record.left_out = self._left_out
        if self._left_out:
            record.msg = f"{record.getMessage()} ({self._left_out} lines like this or others were left out)"
            record.args = ()
            self._left_out = 0
        return True

    def _is_wanted(self, kind: str, now: float) -> bool:
        began, count = self._since.get(kind, (now, 0))
        if now - began >= SAME_SECONDS:
            began, count = now, 0
        if kind not in self._since and len(self._since) >= KINDS_MAX:
            del self._since[next(iter(self._since))]
        self._since[kind] = (began, count + 1)
        return count < SAME_MAX


class JsonLines(logging.Formatter):
    """One JSON object a line: `time` (seconds since 1970), `level`, `logger`, `message`, `left_out`, `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if left_out := getattr(record, "left_out", 0):
            line["left_out"] = left_out
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to(stream: TextIO, verbose: bool, as_json: bool) -> None:
    """Let everything that is logged in this process go to a stream, in one of the two forms."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(NoFloods())
    logging.basicConfig(handlers=[handler], level=logging.INFO if verbose else logging.WARNING)
