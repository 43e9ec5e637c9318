"""Processes that come and go in a plan: a few become many and few again, and some are killed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from operator import itemgetter
from random import Random

import msgspec

from ordercast.chaos.schedule import MARGIN_SECONDS, Action, Join, Kill, Leave, Partition, Pause, Plan
from ordercast.core import GroupId, SiteId, UsageError

FOUNDERS = 2
"""How many are there from the start, as a rule: the first ones by name. The first of all never leaves, so that there is
always somebody to kill."""

AT_HOME_SECONDS = 2.0
"""How long a process is in the group before it is hurt, and after that before it leaves."""


class Cast:
    """Who is in which groups: those whom the groups name, and whoever takes the place of one who has left."""

    def __init__(self, groups: Mapping[GroupId, Sequence[SiteId]], founders: int) -> None:
        self._groups = groups
        self._places = sorted({site for members in groups.values() for site in members})
        self.founders = self._places[:founders]
        if len(self._places) <= founders:
            raise UsageError(
                f"--changes with {len(self._places)} processes: {founders} are there from the start, and more must come"
            )
        for group, members in groups.items():
            if not set(self.founders) & set(members):
                raise UsageError(
                    f"--changes: {group} has none of those who are there from the start ({', '.join(self.founders)}), "
                    f"so nobody would keep its books"
                )
        self.place: dict[SiteId, SiteId] = {name: name for name in self.founders}
        """Everybody who ever comes -> whom of those named it stands for."""

    @property
    def most(self) -> int:
        """How many there are at a time, at the most."""
        return len(self._places)

    def groups_of(self, name: SiteId) -> list[GroupId]:
        """Of one who comes."""
        return [group for group, members in self._groups.items() if self.place[name] in members]

    def add(self, here: Sequence[SiteId]) -> SiteId:
        """Somebody new, in the first place that is free, under a name that nobody had before."""
        taken = {self.place[name] for name in here}
        free = next(place for place in self._places if place not in taken)
        before = sum(place == free for place in self.place.values())
        name = f"{free}-{before + 1}" if before else free
        self.place[name] = free
        return name

    def may_leave(self, here: Sequence[SiteId]) -> list[SiteId]:
        """Those without whom every group still has somebody, who has its books."""
        return [
            name
            for name in here[1:]
            if all(
                any(group in self.groups_of(other) for other in here if other != name) for group in self.groups_of(name)
            )
        ]

    def groups(self) -> dict[GroupId, tuple[SiteId, ...]]:
        """Group -> all who are ever in it."""
        return {
            group: tuple(sorted(name for name, place in self.place.items() if place in members))
            for group, members in self._groups.items()
        }


class Changes(msgspec.Struct, frozen=True):
    """A plan, and who is in which group in the course of it."""

    plan: Plan
    groups: dict[GroupId, tuple[SiteId, ...]]


def draw_changes(
    seed: int,
    seconds: float,
    changes: int,
    groups: Mapping[GroupId, Sequence[SiteId]],
    kills: int,
    pauses: int,
    loss: float,
    duplication: float,
    founders: int = FOUNDERS,
    partitions: int = 0,
    pause_seconds: float = 0.0,
    in_memory: bool = False,
) -> Changes:
    """So many processes come, and as many leave: up to as many as the groups name at a time, and in the end as many as
    there were. A pause lasts `pause_seconds`; 0: some seconds, drawn. Where books are `in_memory` alone, kills are one
    after the other."""
    if seconds <= 0 or min(kills, pauses, partitions) < 0:
        raise UsageError("chaos needs a positive time, and numbers of faults that are 0 or more")
    if changes < 2 or changes % 2:
        raise UsageError(f"--changes {changes}: whoever comes leaves again, so it is an even number, 2 or more")
    cast = Cast(groups, founders)
    random = Random(f"ordercast changes {seed}")
    actions: list[Action] = []
    here = list(cast.founders)
    stays: dict[SiteId, tuple[float, float]] = dict.fromkeys(here, (0.0, inf))
    for index, comes in enumerate(_draw_steps(random, changes // 2, cast.most - founders)):
        at = seconds * (0.05 + 0.85 * (index + random.uniform(0.0, 0.9)) / changes)
        if comes:
            name = cast.add(here)
            stays[name] = (at, inf)
            here.append(name)
            actions.append(Join(at, name))
        else:
            name = random.choice(cast.may_leave(here))
            stays[name] = (stays[name][0], at)
            here.remove(name)
            actions.append(Leave(at, name))
    actions += _draw_hurt(random, seconds, stays, [Kill] * kills + [Pause] * pauses, pause_seconds, in_memory)
    actions += _draw_partitions(random, seconds, stays, partitions)
    actions.sort(key=lambda action: action.at)
    end = max([seconds, *(action.at + action.seconds for action in actions)])
    return Changes(Plan(end, tuple(actions), loss, duplication), cast.groups())


def _draw_steps(random: Random, comings: int, most: int) -> list[bool]:
    """Whether each change is a coming: first as many as there may be, then at random."""
    steps = [True] * min(comings, most)
    here, left = len(steps), comings - len(steps)
    while here or left:
        comes = left > 0 and here < most and (not here or random.random() < 0.5)
        here += 1 if comes else -1
        left -= comes
        steps.append(comes)
    return steps


def _draw_hurt(
    random: Random,
    seconds: float,
    stays: dict[SiteId, tuple[float, float]],
    kinds: list[type[Kill] | type[Pause]],
    pause_seconds: float,
    evenly: bool,
) -> list[Action]:
    """Each strikes somebody who is in the group for a while before and after it. Kills strike at any moment, or all of
    the time `evenly`, and each is over when half of the time until the next one is. (Of 24 at any moments of two
    minutes several strike at once, and with all who have books in memory these are gone.)"""
    actions: list[Action] = []
    free_at = dict.fromkeys(stays, 0.0)
    random.shuffle(kinds)
    moments = sorted(random.uniform(0.1, 0.8) * seconds for _ in kinds)
    hurt = list(zip(kinds, moments, strict=True))
    longest = dict.fromkeys(kinds, min(4.0, seconds / 4))
    if evenly and Kill in kinds:
        distance = seconds / kinds.count(Kill)
        longest[Kill] = min(longest[Kill], distance / 2)
        hurt = [each for each in hurt if each[0] is not Kill]
        hurt += [(Kill, (index + 0.5) * distance) for index in range(kinds.count(Kill))]
        hurt.sort(key=itemgetter(1))
    for kind, moment in hurt:
        lasts = random.uniform(0.2, 1.0) * longest[kind]
        if kind is Pause and pause_seconds:
            lasts = pause_seconds
        there = [
            name
            for name, (came, leaves) in stays.items()
            if max(came + AT_HOME_SECONDS, free_at[name]) <= moment <= leaves - lasts - AT_HOME_SECONDS
        ]
        name = random.choice(there or [next(iter(stays))])
        at = max(moment, free_at[name])
        free_at[name] = at + lasts + MARGIN_SECONDS
        actions.append(kind(at, name, lasts))
    return actions


def _draw_partitions(
    random: Random, seconds: float, stays: dict[SiteId, tuple[float, float]], partitions: int
) -> list[Action]:
    """Each cuts off fewer than half of those who are there all the time that it lasts; one after the other."""
    actions: list[Action] = []
    for index in range(partitions):
        lasts = random.uniform(0.5, 1.0) * min(8.0, seconds / 4 / partitions)
        at = seconds * (0.2 + 0.6 * (index + random.uniform(0.0, 0.3)) / partitions)
        there = [name for name, (came, leaves) in stays.items() if came + AT_HOME_SECONDS <= at < at + lasts <= leaves]
        side = random.sample(there, random.randint(1, max(1, (len(there) - 1) // 2)))
        actions.append(Partition(at, tuple(sorted(side)), lasts))
    return actions
