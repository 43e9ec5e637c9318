"""The expanding ring search (2.6.1): ask for a coordinator in the neighbourhood first, then further and further
away."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from ordercast.core import Protocol, SiteId
from ordercast.core.effects import Broadcast
from ordercast.protocols.intergroup.control.options import ControlOptions
from ordercast.protocols.intergroup.control.packets import SEARCH, RingQuery, SearchResponse


class Purpose(Enum):
    """Why a process searches."""

    JOIN = "join"
    """It has no coordinator: it starts, or becomes a child, or has lost the one that it had."""
    LEAVE = "leave"
    """Its coordinator has said that it leaves."""
    LOOK = "look"
    """It is about to become a coordinator, and looks whether one has appeared."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A coordinator that would take the process."""

    site: SiteId
    hops: int
    num_local: int
    num_coords: int


class RingSearch:
    """One search at a time; a new one replaces the old one."""

    def __init__(
        self,
        host: Protocol,
        options: ControlOptions,
        on_found: Callable[[Purpose, Answer], None],
        on_failed: Callable[[Purpose], None],
    ) -> None:
        self._host = host
        self._options = options
        self._on_found = on_found
        self._on_failed = on_failed
        self.number = 0
        """Of the latest search."""
        self._ttl = 0
        self._ttl_max = 0
        self._rings = 0
        self._answers: dict[SiteId, Answer] = {}
        self.purpose: Purpose | None = None
        """None while there is no search."""

    def begin(self, purpose: Purpose) -> None:
        """Search from the smallest ring on; whoever only looks does not look beyond BOUNDARY_TTL."""
        looks = purpose is Purpose.LOOK
        self.purpose = purpose
        self._ttl_max = self._options.boundary_ttl if looks else self._options.system_ttl
        self._ttl = 1
        self._rings = 0
        self.number += 1
        self._answers.clear()
        self._ask()

    def stop(self) -> None:
        """Whatever was sought is not wanted any more."""
        if self.purpose is not None:
            self.purpose = None
            self._answers.clear()
            self._host.cancel_timer("control-ring")

    def on_response(self, sender: SiteId, response: SearchResponse, hops: int) -> None:
        """A coordinator within the ring answers."""
        if self.purpose is None or response.number != self.number:
            return
        if len(self._answers) < self._options.processes_max:
            self._answers[sender] = Answer(sender, hops, response.num_local, response.num_coords)

    def on_timeout(self) -> None:
        """The ring has had its time: take the best answer, or ask further away."""
        purpose = self.purpose
        if purpose is None:
            return
        if self._answers:
            best = self._best()
            self.stop()
            self._on_found(purpose, best)
        elif self._ttl < self._ttl_max:
            self._ttl = min(2 * self._ttl, self._ttl_max)
            self._ask()
        elif purpose is not Purpose.LOOK and self._rings * self._options.ring_seconds < self._options.search_seconds:
            self._ask()
        else:
            self.stop()
            self._on_failed(purpose)

    def _ask(self) -> None:
        self._rings += 1
        self._host.outbox.append(Broadcast(SEARCH, RingQuery(self.number, self._ttl), self._ttl))
        self._host.set_timer("control-ring", self._options.ring_seconds)

    def _best(self) -> Answer:
        """One of the nearest, of those one with room; any of them, or all who search at once would take the same."""
        answers = self._answers.values()
        hops = min(answer.hops for answer in answers)
        nearest = [answer for answer in answers if answer.hops == hops]
        roomy = [answer for answer in nearest if answer.num_local < self._options.local_target_size]
        if not roomy:
            least = min(answer.num_local for answer in nearest)
            roomy = [answer for answer in nearest if answer.num_local == least]
        chosen = self._host.context.random.choice(roomy)
        return Answer(chosen.site, chosen.hops, chosen.num_local, max(answer.num_coords for answer in answers))
