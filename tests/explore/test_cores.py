"""Steps of cores that are looked up are those that would be taken."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from ordercast.core.events import Event
from ordercast.explore.cores import Cores, Reaction
from ordercast.explore.site import REFUSED, Sites, Step
from ordercast.explore.world import clock_at
from ordercast.explore.worlds import find_world

RUNS, ACTIONS = 10, 80
WORLDS = (
    *("lease", "primary", "consensus", "link", "detector"),
    *("sequencer", "token", "fan-3", "lamport", "scalatom", "propagation-graph", "intergroup", "selective-total"),
)


class Forgetful(Cores):
    """Looks nothing up."""

    def react(self, number: int, key: Any, event: Event, now: float, delivered: tuple[Any, ...]) -> Reaction:
        return self._step(number, event, now, delivered)[0]


class Walk:
    """A random run."""

    def __init__(self, sites: Sites, seed: int) -> None:
        self._sites = sites
        self._world = sites.world
        self._random = Random(seed)
        self._now = 0.0
        self._flying: list[int] = []
        self._locals: list[int] = []
        for site in range(len(sites.world.sites)):
            step = sites.start(site)
            self._locals.append(step.after)
            self._flying += step.sends

    def go_on(self) -> tuple[Any, ...]:
        """One action, and what came of it, spelled out."""
        site = self._random.randrange(len(self._locals))
        chance = self._random.random()
        if chance < 0.5 and self._flying:
            packet = self._flying.pop(self._random.randrange(len(self._flying)))
            site = self._sites.packets[packet].receiver
            step = self._sites.receive(self._locals[site], packet, self._clock(site))
        elif chance < 0.75:
            step = self._fire(site)
        elif chance < 0.95:
            step = self._sites.request(self._locals[site], self._clock(site))
        else:
            step = self._sites.crash(self._locals[site], None, self._clock(site))
        if step is REFUSED:
            return (site, "refused")
        self._flying += step.sends
        self._locals[site] = step.after
        sent = [self._sites.packets[packet] for packet in step.sends]
        seen = self._sites.observations[step.after]
        # Functions are others in each core, and look alike without their addresses.
        contents = re.sub(r" at 0x[0-9a-f]+", "", repr(self._sites.contents(step.after)))
        return (site, contents, sent, step.problem, step.timers, len(step.cuts), seen)

    def _fire(self, site: int) -> Step:
        local = self._locals[site]
        timers = self._sites.locals[local].timers
        if not timers:
            return REFUSED
        timer, due = self._random.choice(timers)
        if self._world.rates is not None:
            self._now = max(self._now, round(due / self._world.rates[site], 9))
        clock = self._clock(site)
        return self._sites.fire(local, timer, max(clock, due) if self._world.reads_clock else clock)

    def _clock(self, site: int) -> float:
        return clock_at(self._sites.locals[self._locals[site]].clock, site, self._now, self._world)


@pytest.mark.parametrize("name", WORLDS)
def test_what_is_looked_up_is_what_would_be_done(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = find_world(name, 3, 2)
    remembers = Sites(world)
    monkeypatch.setattr("ordercast.explore.site.Cores", Forgetful)
    forgets = Sites(world)
    for seed in range(RUNS):
        looked_up, taken = Walk(remembers, seed), Walk(forgets, seed)
        for _ in range(ACTIONS):
            assert looked_up.go_on() == taken.go_on()
    assert remembers.cores.steps_taken < forgets.cores.steps_taken


def test_a_step_that_asks_for_no_time_is_taken_once_for_all_times() -> None:
    sites = Sites(find_world("lease", 2, 1))
    asker, grantor = sites.start(0).after, sites.start(1).after
    request = sites.request(asker, 0.0)
    (packet,) = request.sends
    before = sites.cores.steps_taken
    grants = [sites.receive(grantor, packet, now) for now in (0.25, 0.5, 0.75)]
    assert sites.cores.steps_taken == before + 1
    # What it has set runs out later all the same.
    assert [sites.locals[step.after].timers for step in grants] == [
        (("lease-grant", now + 1.0),) for now in (0.25, 0.5, 0.75)
    ]
    # Whoever asks notes when that was.
    later = sites.request(asker, 0.25)
    assert sites.cores.steps_taken == before + 2
    assert sites.locals[later.after].core != sites.locals[request.after].core


def test_a_message_that_nobody_can_know_of_after_a_crash_was_never_multicast() -> None:
    sites = Sites(find_world("lamport", 2, 1))
    step = sites.request(sites.start(0).after, 0.0)
    # First it reserves times, and then it logs the message.
    before, *later = step.cuts
    assert before.own == ()
    assert all(cut.own for cut in later)
    assert sites.locals[step.after].own


def test_who_has_not_joined_a_channel_does_not_hear_what_is_broadcast_there() -> None:
    sites = Sites(find_world("intergroup", 2, 1))
    a, b = sites.start(0), sites.start(1)
    spoken = [packet for packet in a.sends if sites.packets[packet].receiver == 1 and sites.packets[packet].channel]
    assert all(sites.receive(b.after, packet, 0.0).after != b.after for packet in spoken)
    # Whoever has crashed stays out.
    crashed = sites.crash(b.after, None, 0.0).after
    assert all(sites.receive(crashed, packet, 0.0).after == crashed for packet in spoken)
