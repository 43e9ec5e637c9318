"""A run that is left alone: everything works, nothing more is begun, and time passes. Does it come to an end?"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, NamedTuple

from ordercast.explore.site import Sites, Step

LATENCY = 0.01
"""Seconds that a packet takes."""
STEPS_MAX = 4000
"""Of one run; a world that needs more is not a small one."""


class Stuck(NamedTuple):
    """A run that does not come to its end."""

    problem: str
    actions: tuple[tuple[Any, ...], ...]
    """What happened while it was left alone: ("deliver", packet, clock) and ("fire", site, timer, clock)."""
    dead: frozenset[int]


class Settling:
    """Lets runs go on from any state."""

    def __init__(self, sites: Sites, losses: bool) -> None:
        self._sites = sites
        self._losses = losses
        self._turn = 0

    def run(self, locals_: tuple[int, ...], packets: tuple[int, ...], now: float) -> Stuck | None:
        """What is missing in the end: when everything that is under way arrives; when all of it is lost; and when
        somebody, another one each time, is down for good."""
        found = self._run("stuck", locals_, packets, now, frozenset())
        if found is None and self._losses and packets:
            found = self._run("stuck after a loss", locals_, (), now, frozenset())
        if found is None and self._sites.world.may_die:
            self._turn = (self._turn + 1) % len(locals_)
            words = f"stuck without site {self._turn + 1}"
            found = self._run(words, locals_, packets, now, frozenset((self._turn,)))
        return found

    def _run(
        self, words: str, locals_: tuple[int, ...], packets: tuple[int, ...], start: float, dead: frozenset[int]
    ) -> Stuck | None:
        run = _Run(self._sites, list(locals_), start, dead)
        missing = run.go(packets)
        return None if missing is None else Stuck(f"{words}: {missing}", tuple(run.actions), dead)


class _Run:
    def __init__(self, sites: Sites, locals_: list[int], start: float, dead: frozenset[int]) -> None:
        self._sites = sites
        self._world = sites.world
        self._locals = locals_
        self._now = start
        self._dead = dead
        self.actions: list[tuple[Any, ...]] = []
        self._order = count()
        self._queue: list[tuple[float, int, int, Any]] = []
        self._due: dict[tuple[int, Any], int] = {}
        for site, local in enumerate(locals_):
            state = sites.locals[local]
            for timer, due in state.timers:
                if self._world.rates is not None:
                    wait = due / self._world.rates[site] - start
                else:
                    wait = due - state.clock if self._world.reads_clock else due
                self._set(site, timer, max(0.0, wait))

    def _set(self, site: int, timer: Any, wait: float) -> None:
        number = next(self._order)
        self._due[site, timer] = number
        heapq.heappush(self._queue, (self._now + wait, number, site, ("timer", timer)))

    def go(self, packets: tuple[int, ...]) -> str | None:
        for packet in packets:
            self._send(packet)
        end = self._now + self._world.settle_seconds
        missing = self._missing()
        for _ in range(STEPS_MAX):
            if missing is None or not self._queue or self._queue[0][0] > end:
                return missing
            self._now, number, site, (kind, what) = heapq.heappop(self._queue)
            if site in self._dead:
                continue
            local = self._locals[site]
            # The clocks of sites go on from where each of them stands.
            rate = self._world.rates[site] if self._world.rates is not None else 1.0
            clock = round(self._now * rate, 9)
            if self._world.reads_clock:
                clock = max(clock, self._sites.locals[local].clock)
            elif self._world.rates is None:
                clock = 0.0
            if kind == "packet":
                step = self._sites.receive(local, what, clock)
                self.actions.append(("deliver", what, clock))
            elif self._due.get((site, what)) == number:
                del self._due[site, what]
                step = self._sites.fire(local, what, clock)
                self.actions.append(("fire", site, what, clock))
            else:
                continue
            if step.problem is not None:
                return step.problem
            if self._apply(site, step):
                missing = self._missing()
        return missing

    def _apply(self, site: int, step: Step) -> bool:
        before = self._locals[site]
        self._locals[site] = step.after
        for timer, wait in step.timers:
            if wait is None:
                self._due.pop((site, timer), None)
            else:
                rate = self._world.rates[site] if self._world.rates is not None else 1.0
                self._set(site, timer, wait / rate)
        for packet in step.sends:
            self._send(packet)
        observations = self._sites.observations
        return observations[before] != observations[step.after]

    def _send(self, packet: int) -> None:
        receiver = self._sites.packets[packet].receiver
        heapq.heappush(self._queue, (self._now + LATENCY, next(self._order), receiver, ("packet", packet)))

    def _missing(self) -> str | None:
        observations = self._sites.observations
        seen = tuple([observations[local] for local in self._locals])
        return self._world.safe(seen, self._now) or self._world.done(seen, self._now, self._dead)
