"""The desk of one cell's epochs: one site of five, and all that the part asks of it, answered by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordercast.core import MessageId
from ordercast.core.events import Arrival
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.primary_packets import Place, Promise, Resumption, Start, Started
from tests.protocols.parts.desk import Desk

CELL = ("a", "b", "c", "d", "e")
HERE = Arrival()
M1, M2, M3 = (Place(MessageId("a", 0, number), number) for number in (1, 2, 3))


class Detector:
    """Suspects whom it is told to."""

    def __init__(self) -> None:
        self.suspected: set[str] = set()
        self.watched: list[str] = []
        self.begun: list[str] = []

    def watch(self, site: str) -> None:
        self.watched.append(site)
        self.begun.append(site)

    def unwatch(self, site: str) -> None:
        self.watched.remove(site)


class Cell(Desk):
    """One site of five, its host and what that has of the places."""

    def __init__(self, site: str = "b", places_max: int = 0) -> None:
        super().__init__(site, (*CELL, "x"))
        self.detector = Detector()
        self.base = 0
        self.places: tuple[Place, ...] = ()
        self.clock = 0
        self.needed = True
        self.missing: set[MessageId] = set()
        self.asked: list[str] = []
        self.behind: list[Any] = []
        self.on_behind: Callable[[], None] = lambda: None
        self.resumption: Any = None
        host: Any = self
        detector: Any = self.detector
        self.primary = Primary(host, CELL, detector, host, retry_seconds=0.5, places_max=places_max)

    # ------------------------------------------------------------------ what the part asks
    def report(self) -> tuple[int, tuple[Place, ...], int]:
        return self.base, self.places, self.clock

    def has_bodies(self, holder: str, places: tuple[Place, ...]) -> bool:
        self.asked.append(holder)
        return not any(place.message in self.missing for place in places)

    def is_needed(self) -> bool:
        return self.needed

    def log_bodies(self, places: tuple[Place, ...]) -> None:
        self.done.append(("bodies", places))

    def install(self, started: Started) -> None:
        self.base, self.places, self.clock = started.base, started.places, started.clock
        self.done.append("installed")

    def on_epoch_started(self) -> None:
        self.done.append("goes on")

    def resumption_for(self, site: str) -> Any:
        return self.resumption

    def check_resumption(self, sender: str, resumption: Resumption) -> None:
        self.done.append(("checked", sender))

    def go_behind(self, resumption: Resumption) -> None:
        self.behind.append(resumption)
        self.on_behind()

    # ------------------------------------------------------------------ what comes
    def promised(self, sender: str, epoch: int, *places: Place, started: int = 0, **others: Any) -> None:
        clock = others.pop("clock", places[-1].timestamp if places else 0)
        packet = Promise(epoch, started, others.pop("base", 0), places, clock, **others)
        self.primary.on_promise(sender, packet, HERE)

    def started(self, sender: str, epoch: int, *places: Place, **others: Any) -> None:
        clock = others.pop("clock", places[-1].timestamp if places else 0)
        self.primary.on_start(sender, Start(epoch, others.pop("base", 0), places, clock, **others), HERE)

    def suspect(self, *sites: str) -> None:
        self.detector.suspected.update(sites)

    @property
    def epochs(self) -> tuple[int, int]:
        return self.primary.started, self.primary.promised

    def sent(self, kind: type[Any]) -> list[tuple[tuple[str, ...], Any]]:
        """What it has sent of one kind, since the last `take`."""
        return [each for each in self.take() if isinstance(each, tuple) and isinstance(each[1], kind)]


def collecting(*reporters: str) -> Cell:
    """b is to start epoch 1, and these have reported that they have nothing."""
    cell = Cell("b")
    for site in reporters:
        cell.promised(site, 1)
    return cell
