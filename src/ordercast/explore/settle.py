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


class Begun(NamedTuple):
    """How far sites come that are left alone for a while."""

    locals: list[int]
    packets: list[int]
    actions: tuple[tuple[Any, ...], ...]
    problem: str | None


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

    def begin(self, locals_: tuple[int, ...], packets: tuple[int, ...], seconds: float) -> Begun:
        """Leave the sites alone for so long."""
        run = _Run(self._sites, list(locals_), 0.0, frozenset())
        problem = run.pass_time(packets, seconds)
        return Begun(run.locals, run.under_way(), tuple(run.actions), problem)

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
        self.locals = locals_
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
        """Until nothing is missing; what is missing in the end."""
        for packet in packets:
            self._send(packet)
        end = self._now + self._world.settle_seconds
        missing = self._missing()
        for _ in range(STEPS_MAX):
            if missing is None or not self._goes_on(end):
                return missing
            problem, is_news = self._happen()
            if problem is not None:
                return problem
            if is_news:
                missing = self._missing()
        return missing

    def pass_time(self, packets: tuple[int, ...], seconds: float) -> str | None:
        """For so long; what goes wrong."""
        for packet in packets:
            self._send(packet)
        end = self._now + seconds
        problem = None
        while problem is None and self._goes_on(end):
            problem, _ = self._happen()
        return problem

    def under_way(self) -> list[int]:
        """The packets that have not arrived yet, in the order in which they would."""
        return [what for _, _, _, (kind, what) in sorted(self._queue) if kind == "packet"]

    def _goes_on(self, end: float) -> bool:
        return bool(self._queue) and self._queue[0][0] <= end

    def _happen(self) -> tuple[str | None, bool]:
        """What is next: what is wrong then, and whether a judge sees anything new."""
        self._now, number, site, (kind, what) = heapq.heappop(self._queue)
        if site in self._dead:
            return None, False
        local = self.locals[site]
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
            return None, False
        return step.problem, self._apply(site, step)

    def _apply(self, site: int, step: Step) -> bool:
        before = self.locals[site]
        self.locals[site] = step.after
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
        seen = tuple([observations[local] for local in self.locals])
        return self._world.safe(seen, self._now) or self._world.done(seen, self._now, self._dead)
