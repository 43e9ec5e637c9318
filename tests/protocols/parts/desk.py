"""The desk of one part: it stands in for the core around it and writes down all that the part wants done, in order."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from ordercast.core import Context


class Desk:
    """A host that does nothing, and knows what it would have done."""

    def __init__(self, site: str = "a", sites: tuple[str, ...] = ("a", "b", "c"), incarnation: int = 0) -> None:
        self.site = site
        self.now = 0.0
        self.done: list[Any] = []
        """(to, packet) for a send, (timer, seconds) for a timer that is set, ("cancel", timer), or a record."""
        self.branches: Counter[str] = Counter()
        options: Any = None
        self.context = Context(site, {"g": sites}, sites, options, Random(0), incarnation=incarnation)

    def send(self, to: tuple[str, ...], packet: Any) -> None:
        self.done.append((to, packet))

    def append(self, record: Any) -> None:
        self.done.append(record)

    def set_timer(self, timer: str, seconds: float) -> None:
        self.done.append((timer, seconds))

    def cancel_timer(self, timer: str) -> None:
        self.done.append(("cancel", timer))

    def branch(self, name: str) -> None:
        self.branches[name] += 1

    def take(self) -> list[Any]:
        """What it has wanted since the last time."""
        done, self.done = self.done, []
        return done
