"""How long the others stood still when a process was killed, and until they had a view without it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ordercast.chaos.record import Strike
from ordercast.cli.chaos.waits import (
    View,
    delivery_times,
    describe_views,
    describe_waits,
    find_views,
    find_waits,
    read_views,
    views_text,
    waits_text,
)
from ordercast.trace.schema import Event

GROUPS = {"g": ("a", "b", "c"), "h": ("a", "b", "c", "d")}
KILL = Strike("kill", ("a",), 100.0, 102.0)
DELIVERIES = {
    "a": [50.0, 130.0],
    "b": [99.0, 99.9, 100.1, 100.7, 101.0, 109.0],
    "c": [99.0, 99.9, 100.05, 100.95, 101.0, 105.5, 130.0],
    "d": [1.0],
}


def test_a_kill_costs_the_longest_silence_of_the_slowest_of_its_fellows() -> None:
    steady = {site: [*times[:5], *(101.0 + 0.1 * step for step in range(60))] for site, times in DELIVERIES.items()}
    (wait,) = find_waits(GROUPS, [KILL], steady.__getitem__)
    assert (wait.killed, wait.slowest, wait.seconds, wait.alone) == ("a", "c", 0.9, True)


def test_a_silence_counts_to_its_end_and_one_that_begins_later_does_not_count() -> None:
    (wait,) = find_waits(GROUPS, [KILL], DELIVERIES.__getitem__)
    assert (wait.slowest, wait.seconds) == ("b", 8.0)


def test_whoever_delivers_nothing_more_has_waited_all_the_time() -> None:
    (wait,) = find_waits(GROUPS, [KILL], lambda _: [99.0])
    assert wait.seconds == 5.0


@pytest.mark.parametrize(
    ("strike", "slowest", "alone"),
    [
        (Strike("pause", ("b",), 98.0, 99.0), "c", False),
        (Strike("partition", ("c", "d"), 104.0, 106.0), "b", False),
        (Strike("kill", ("c",), 90.0, 96.5), "b", True),
    ],
)
def test_whoever_is_hurt_itself_at_that_time_is_not_counted(strike: Strike, slowest: str, alone: bool) -> None:
    *_, wait = find_waits(GROUPS, [KILL, strike], DELIVERIES.__getitem__)
    assert (wait.killed, wait.slowest, wait.alone) == ("a", slowest, alone)


def test_whoever_has_not_come_back_from_its_own_kill_does_not_wait_for_another() -> None:
    own = Strike("kill", ("b",), 90.0, 94.5)
    *_, waited = find_waits(GROUPS, [KILL, own], DELIVERIES.__getitem__)
    assert waited.slowest == "b"
    back_later = {**DELIVERIES, "b": [89.0, 109.0]}
    *_, waited = find_waits(GROUPS, [KILL, own], back_later.__getitem__)
    assert waited.slowest == "c"


@pytest.mark.parametrize("change", [Strike("join", ("b",), 108.0, 109.0), Strike("leave", ("b",), 40.0, 41.0)])
def test_whoever_comes_later_or_has_left_before_does_not_wait(change: Strike) -> None:
    (wait,) = find_waits(GROUPS, [KILL, change], DELIVERIES.__getitem__)
    assert (wait.slowest, wait.alone) == ("c", True)


def test_people_hear_of_the_kills_that_struck_alone() -> None:
    later = Strike("kill", ("b",), 120.0, 121.0)
    document = describe_waits(find_waits(GROUPS, [KILL, later], DELIVERIES.__getitem__))
    assert document is not None
    assert (document["alone"], document["worst_seconds"]) == (2, 10.0)
    assert waits_text(document).endswith("the others stood still for 9.00 s (median), 10.00 s at the most")
    assert describe_waits([]) is None


def test_the_times_are_read_from_the_traces(tmp_path: Path) -> None:
    rows = [Event("run", "a", 0, 10.0, "multicast"), *(Event("run", "a", n, 10.0 + n, "deliver") for n in (1, 2))]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "events.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, rows)) + b"\n")
    assert delivery_times(tmp_path)("a") == [11.0, 12.0]


def installed(*views: tuple[float, str]) -> list[View]:
    return [View(time, ("g",), frozenset(members.split())) for time, members in views]


VIEWS = {
    "a#1": installed((90.0, "a#1 b#1 c#1")),
    "b#1": installed((90.0, "a#1 b#1 c#1"), (101.2, "b#1 c#1"), (104.0, "a#2 b#1 c#1")),
    "c#1": installed((90.0, "a#1 b#1 c#1"), (100.5, "a#1 b#1 c#1 d#1"), (101.4, "b#1 c#1 d#1")),
    "d#1": installed((100.5, "a#1 b#1 c#1 d#1"), (109.0, "b#1 c#1 d#1")),
}
"""Whoever is started again is another process, and d has come after the kill."""


def test_a_kill_costs_the_time_until_the_last_of_the_others_has_a_view_without_it() -> None:
    (found,) = find_views([KILL], VIEWS)
    assert (found.killed, found.last, found.seconds, found.alone) == ("a", "c#1", 1.4, True)


def test_whoever_is_hurt_itself_meanwhile_or_never_had_the_killed_process_in_a_view_does_not_count() -> None:
    (found,) = find_views([KILL, Strike("pause", ("c",), 101.0, 111.0)], VIEWS)
    assert (found.last, found.seconds, found.alone) == ("b#1", 1.2, False)
    assert find_views([Strike("kill", ("d",), 95.0, 96.0)], VIEWS) == []


def test_people_hear_of_the_median_and_the_worst_of_the_views() -> None:
    document = describe_views(find_views([KILL, Strike("kill", ("b",), 101.3, 102.0)], VIEWS))
    assert document is not None
    assert views_text(document).endswith("after 1.40 s (median of 1 kills), 1.40 s at the most")
    assert describe_views([]) is None


def test_views_are_read_from_the_traces(tmp_path: Path) -> None:
    row = Event("run", "a#1", 0, 10.0, "view", groups=["g"], view="1", members=["a#1", "b#1"])
    (tmp_path / "a#1").mkdir()
    (tmp_path / "a#1" / "events.jsonl").write_bytes(msgspec.json.encode(row) + b"\n")
    assert read_views(tmp_path) == {"a#1": [View(10.0, ("g",), frozenset({"a#1", "b#1"}))]}
