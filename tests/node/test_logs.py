"""Log lines: in JSON on demand, and never a flood."""

from __future__ import annotations

import json
import logging
import sys

from ordercast.node.logs import KINDS_MAX, LINES_A_SECOND, SAME_MAX, SAME_SECONDS, JsonLines, NoFloods


def record(message: str, *arguments: object, error: bool = False) -> logging.LogRecord:
    info = sys.exc_info() if error else None
    return logging.LogRecord("ordercast.node", logging.WARNING, __file__, 1, message, arguments, info)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_flood_of_one_kind_is_counted_and_told_with_the_next_line() -> None:
    clock = Clock()
    floods = NoFloods(clock)
    written = [floods.filter(record("dropped from %s", index)) for index in range(1000)]
    assert sum(written) == SAME_MAX
    other = record("something else")
    assert floods.filter(other)
    assert other.getMessage() == f"something else ({1000 - SAME_MAX} lines like this or others were left out)"
    clock.now = SAME_SECONDS
    assert floods.filter(record("dropped from %s", "again"))


def test_at_most_ten_lines_a_second_are_written_whatever_they_say() -> None:
    clock = Clock()
    floods = NoFloods(clock)
    times = []
    for index in range(10_000):
        clock.now = index / 500
        if floods.filter(record(f"line {index}")):
            times.append(clock.now)
    assert len(times) == 20 * LINES_A_SECOND
    # Wherever a second begins.
    assert all(later - first >= 1.0 for first, later in zip(times, times[LINES_A_SECOND:], strict=False))
    assert len(floods._since) <= KINDS_MAX


def test_a_line_of_json_has_what_a_machine_wants_to_know() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        line = json.loads(JsonLines().format(record("dropped from %s", "b\n", error=True)))
    assert (line["level"], line["logger"], line["message"]) == ("warning", "ordercast.node", "dropped from b\n")
    assert "ValueError: no" in line["error"]
