"""A run that goes wrong: made shorter, and written as a scenario that `ordercast simulate` replays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ordercast.core import UsageError
from ordercast.core.events import Timer
from ordercast.core.tables import toml_text
from ordercast.explore.search import Action, Found
from ordercast.explore.settle import Settling
from ordercast.explore.site import REFUSED, Sites, Step
from ordercast.explore.world import World, clock_at


class Doing(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One step of a counterexample. Packets are numbered as they are sent, from 0."""

    does: str
    """`request`, `deliver`, `again` (deliver, and another copy is still under way), `fire` or `crash`."""
    site: str
    clock: float = 0.0
    packet: int = -1
    kind: str = ""
    """Of the packet, for whoever reads this."""
    sender: str = ""
    """The same."""
    timer: tuple[str | int | float, ...] = ()
    during: str = ""
    """A crash in the middle of this: `request`, `deliver` or `fire`."""
    after: int = -1
    """So many effects later than the first that the step writes, sends or delivers."""


class Counterexample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is needed to see it again."""

    world: str
    sites: int
    messages: int
    problem: str
    dead: tuple[str, ...]
    """Sites that are down for good when the others are left alone."""
    step: tuple[Doing, ...]
    checkpoint: int = 0
    """After so many records logs are summed up; 0: they are not."""


class _Walk:
    """A run along a path, through the states of the sites."""

    def __init__(self, world: World, sites: Sites) -> None:
        self._world = world
        self._sites = sites
        self.now = 0.0
        self.locals: list[int] = []
        self.flying: list[tuple[int, int]] = []
        """The number of each packet under way as it was sent, and what it is."""
        self.doings: list[Doing] = []
        self._sent = 0
        for site in range(len(world.sites)):
            step = sites.start(site)
            self.locals.append(step.after)
            self._send(step.sends)

    def _send(self, packets: tuple[int, ...]) -> None:
        for packet in packets:
            self.flying.append((self._sent, packet))
            self._sent += 1

    def go(self, action: Action) -> str | None:
        """Take one action; what is wrong then. `UsageError` when it is not possible."""
        if action[0] == "wait":
            self._wait()
            return None
        if action[0] == "crash" and len(action) > 2:
            site, _, happened = self._begin(action[2])
            if happened is REFUSED or action[3] >= len(happened.cuts):
                raise UsageError("nothing happens there")
            cut = happened.cuts[action[3]]
            clock = self._clock(site)
            step = self._sites.crash(self.locals[site], cut, clock)
            self.doings[-1] = msgspec.structs.replace(
                self.doings[-1], does="crash", during=self.doings[-1].does, after=action[3]
            )
            self._send(cut.sends)
        elif action[0] == "crash":
            site = action[1]
            step = self._sites.crash(self.locals[site], None, self._clock(site))
            self.doings.append(Doing("crash", self._world.sites[site], self._clock(site)))
        else:
            site, taken, step = self._begin(action)
            if step is REFUSED:
                raise UsageError("the application may not do that now")
            if taken is not None:
                self._leave_behind(taken)
        self.locals[site] = step.after
        self._send(step.sends)
        return step.problem or self._judge()

    def _leave_behind(self, taken: tuple[int, int]) -> None:
        """What has arrived is not under way any more; on one channel what was to be heard before it is lost."""
        at = self.flying.index(taken)
        receiver = self._sites.packets[taken[1]].receiver
        earlier = self.flying[:at]
        if self._world.one_channel:
            earlier = [each for each in earlier if self._sites.packets[each[1]].receiver != receiver]
        self.flying = earlier + self.flying[at + 1 :]

    def _judge(self) -> str | None:
        seen = tuple([self._sites.observations[local] for local in self.locals])
        return self._world.safe(seen, self.now)

    def _clock(self, site: int) -> float:
        return clock_at(self._sites.locals[self.locals[site]].clock, site, self.now, self._world)

    def _begin(self, action: Action) -> tuple[int, tuple[int, int] | None, Step]:
        """What an action does, and the packet that it uses up."""
        if action[0] in ("deliver", "again"):
            found = next((each for each in self.flying if each[1] == action[1]), None)
            if found is None:
                raise UsageError("no such packet is under way")
            flying = self._sites.packets[action[1]]
            site = flying.receiver
            clock = action[2] if len(action) > 2 else self._clock(site)
            step = self._sites.receive(self.locals[site], action[1], clock)
            names = (self._world.sites[flying.sender], type(flying.packet).__name__)
            self.doings.append(
                Doing(action[0], self._world.sites[site], clock, packet=found[0], sender=names[0], kind=names[1])
            )
            return site, found if action[0] == "deliver" else None, step
        if action[0] == "request":
            site = self._world.sources[action[1]]
            clock = self._clock(site)
            self.doings.append(Doing("request", self._world.sites[site], clock))
            return site, None, self._sites.request(self.locals[site], clock)
        return self._fire(action)

    def _fire(self, action: Action) -> tuple[int, None, Step]:
        site, timer = action[1], action[2]
        local = self._sites.locals[self.locals[site]]
        due = dict(local.timers).get(timer)
        if due is None:
            raise UsageError("no such timer is set")
        if len(action) > 3:
            clock = action[3]
        else:
            if self._world.rates is not None and round(due / self._world.rates[site], 9) > self.now:
                raise UsageError("the timer is not due")
            clock = max(self._clock(site), due) if self._world.reads_clock else self._clock(site)
        self.doings.append(Doing("fire", self._world.sites[site], clock, timer=timer_as_tuple(timer)))
        return site, None, self._sites.fire(self.locals[site], timer, clock)

    def _wait(self) -> None:
        rates = self._world.rates
        if rates is None:
            raise UsageError("clocks mean nothing here")
        due = [
            round(at / rates[site], 9)
            for site, local in enumerate(self.locals)
            for _, at in self._sites.locals[local].timers
        ]
        if not due or min(due) <= self.now:
            raise UsageError("a timer is due first")
        self.now = min(due)


def timer_as_tuple(timer: Timer) -> tuple[str | int | float, ...]:
    """A timer as a file has it."""
    return timer if isinstance(timer, tuple) else (timer,)


def _follow(world: World, sites: Sites, path: tuple[Action, ...]) -> tuple[str | None, _Walk]:
    walk = _Walk(world, sites)
    for action in path:
        problem = walk.go(action)
        if problem is not None:
            return problem, walk
    return None, walk


def shorten(world: World, sites: Sites, found: Found) -> tuple[Action, ...]:
    """The path without what is not needed for the same kind of problem."""
    wanted = (found.problem or "").partition(":")[0]
    path = found.path
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(path))):
            shorter = path[:index] + path[index + 1 :]
            if _problem_of(world, sites, shorter, found.stuck is not None).partition(":")[0] == wanted:
                path, changed = shorter, True
    return path


def _problem_of(world: World, sites: Sites, path: tuple[Action, ...], settles: bool) -> str:
    try:
        problem, walk = _follow(world, sites, path)
    except UsageError:
        return ""
    if problem is None and settles:
        packets = tuple(sites.queued(packet for _, packet in walk.flying))
        settling = Settling(sites, losses=True)
        for _ in world.sites if world.may_die else (0,):
            stuck = settling.run(tuple(walk.locals), packets, walk.now)
            if stuck is not None:
                return stuck.problem
    return problem or ""


def explain(world: World, sites: Sites, found: Found, messages: int, checkpoint: int = 0) -> Counterexample:
    """The run that was found, as short as it gets."""
    path = shorten(world, sites, found) if found.stuck is None else found.path
    problem, walk = _follow(world, sites, path)
    dead: frozenset[int] = frozenset()
    if problem is None and found.stuck is not None:
        dead = found.stuck.dead
        for action in found.stuck.actions:
            walk.go(action)
    return Counterexample(
        world.name,
        len(world.sites),
        messages,
        problem or found.problem or "",
        tuple(world.sites[site] for site in sorted(dead)),
        tuple(walk.doings),
        checkpoint,
    )


def write_counterexample(example: Counterexample) -> str:
    """As TOML text."""
    document = msgspec.to_builtins(example)
    steps = document.pop("step")
    return toml_text({"explored": document, "step": [dict(_plain(step)) for step in steps]})


def _plain(step: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in step.items():
        yield key, list(value) if isinstance(value, tuple) else value


def read_counterexample(document: dict[str, Any]) -> Counterexample:
    """From the tables of a file."""
    try:
        return msgspec.convert({**document["explored"], "step": document.get("step", [])}, Counterexample)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"not a counterexample of ordercast explore: {error}") from error
