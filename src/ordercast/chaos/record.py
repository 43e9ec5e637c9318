"""What has happened in a run so far: told to people as it happens, and judged in the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from ordercast.core import SiteId

Tell = Callable[[float, str], None]
"""Called with the seconds since the start and one line for people."""


class Refusal(msgspec.Struct, frozen=True):
    """Somebody was not let in."""

    at: float
    who: str
    after: str
    """What had been done to it."""
    why: str
    """Its own words, or those of who refused it."""


class Absence(msgspec.Struct, frozen=True):
    """A process was away for a large part of the run."""

    process: SiteId
    seconds: float
    delivered: int
    """What those who went on delivered meanwhile, at the most."""
    blocked: tuple[str, ...]
    """What those who did not go on said."""


class Strike(msgspec.Struct, frozen=True):
    """A fault that has really struck, or a process that came or left, on the clock of the traces."""

    kind: str
    processes: tuple[SiteId, ...]
    began: float
    ended: float


class Record:
    """One run's."""

    def __init__(self, tell: Tell) -> None:
        self.happened: Counter[str] = Counter()
        """How often each kind of fault has really struck."""
        self.problems: list[str] = []
        """What went wrong with the processes themselves."""
        self.refusals: list[Refusal] = []
        self.strikes: list[Strike] = []
        """Kills, pauses and partitions; and who has come and gone, which is no fault."""
        self.forgotten: list[SiteId] = []
        """Who has come back with an older log that nobody refused."""
        self.absences: list[Absence] = []
        self.flooded: Counter[str] = Counter()
        """Datagrams of floods that have left, by kind."""
        self.began = time.monotonic()
        self._tell = tell

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self.began

    def say(self, words: str) -> None:
        """One line for people."""
        self._tell(self.seconds, words)

    @contextmanager
    def striking(self, kind: str, *processes: SiteId) -> Iterator[None]:
        """A fault lasts as long as this."""
        began = time.time()
        try:
            yield
        finally:
            self.strikes.append(Strike(kind, processes, began, time.time()))

    def refused(self, who: str, after: str, why: str) -> None:
        """Somebody was not let in."""
        self.refusals.append(Refusal(round(self.seconds, 2), who, after, why))
        self.say(f"{who} is refused after {after}: {why}")

    def problem(self, words: str) -> None:
        """Something is wrong."""
        self.problems.append(words)
        self.say(words)
