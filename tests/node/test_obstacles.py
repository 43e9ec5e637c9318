"""Reasons to wait are told when they have lasted, and taken back when the last of them is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from ordercast.node.obstacles import BLOCKED_SECONDS, Obstacles


class Patience:
    """The timer of an event loop, in the test's hands."""

    def __init__(self) -> None:
        self.function: Callable[[], None] | None = None
        self.seconds = 0.0

    def call_later(self, seconds: float, function: Callable[[], None]) -> Patience:
        self.seconds, self.function = seconds, function
        return self

    def cancel(self) -> None:
        self.function = None

    def end(self) -> None:
        assert self.function is not None
        self.function()


class Told:
    """Obstacles, and what the application has heard of them."""

    def __init__(self, *unread: str) -> None:
        self.patience = Patience()
        self.words: list[str] = []
        loop = cast(asyncio.AbstractEventLoop, self.patience)
        self.obstacles = Obstacles(loop, "a", lambda: list(unread), self.words.append)


def test_a_short_wait_is_no_news() -> None:
    told = Told()
    told.obstacles.change("center", "waiting for c")
    assert told.patience.seconds == BLOCKED_SECONDS
    told.obstacles.change("center", "")
    assert told.patience.function is None
    assert told.words == []


def test_what_lasts_is_told_with_every_change_until_all_is_gone() -> None:
    told = Told()
    told.obstacles.change("center", "waiting for c")
    told.patience.end()
    told.obstacles.change("source", "nothing is accepted")
    told.obstacles.change("center", "")
    told.obstacles.change("source", "")
    assert told.words == [
        "waiting for c",
        "waiting for c; nothing is accepted",
        "nothing is accepted",
        "",
    ]
    assert told.obstacles.told == ""


def test_a_group_that_nobody_has_joined_is_named() -> None:
    told = Told("g", "h")
    told.obstacles.change("center", "waiting for a")
    told.patience.end()
    assert told.words == ["waiting for a; process a has not joined g, where its deliveries wait"]


def test_nothing_is_told_after_the_end() -> None:
    told = Told()
    told.obstacles.change("center", "waiting for c")
    told.obstacles.stop()
    assert told.patience.function is None
