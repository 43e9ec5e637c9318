"""Processes that come and go in a plan: a few become many and few again, and some are killed meanwhile."""

from __future__ import annotations

from math import inf
from random import Random

from ordercast.chaos.schedule import MARGIN_SECONDS, Action, Join, Kill, Leave, Pause, Plan
from ordercast.core import SiteId, UsageError

FOUNDERS = ("p1", "p2")
"""Who is there from the start. The first of them never leaves, so that there is always somebody to kill."""

AT_HOME_SECONDS = 2.0
"""How long a process is in the group before it is hurt, and after that before it leaves."""


def draw_changes(
    seed: int, seconds: float, changes: int, most: int, kills: int, pauses: int, loss: float, duplication: float
) -> Plan:
    """So many processes come, and as many leave: up to `most` at a time, and those that there were in the end."""
    if seconds <= 0 or min(kills, pauses) < 0:
        raise UsageError("chaos needs a positive time, and numbers of faults that are 0 or more")
    if changes < 2 or changes % 2:
        raise UsageError(f"--changes {changes}: whoever comes leaves again, so it is an even number, 2 or more")
    if most <= len(FOUNDERS):
        raise UsageError(f"--processes {most}: {len(FOUNDERS)} are there from the start, and more are to come")
    random = Random(f"ordercast changes {seed}")
    actions: list[Action] = []
    here = list(FOUNDERS)
    stays: dict[SiteId, tuple[float, float]] = dict.fromkeys(FOUNDERS, (0.0, inf))
    for index, comes in enumerate(_draw_steps(random, changes // 2, most - len(FOUNDERS))):
        at = seconds * (0.05 + 0.85 * (index + random.uniform(0.0, 0.9)) / changes)
        if comes:
            name = f"p{len(stays) + 1}"
            stays[name] = (at, inf)
            here.append(name)
            actions.append(Join(at, name))
        else:
            name = random.choice(here[1:])
            stays[name] = (stays[name][0], at)
            here.remove(name)
            actions.append(Leave(at, name))
    actions += _draw_hurt(random, seconds, stays, [Kill] * kills + [Pause] * pauses)
    actions.sort(key=lambda action: action.at)
    end = max([seconds, *(action.at + action.seconds for action in actions)])
    return Plan(end, tuple(actions), loss, duplication)


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
    random: Random, seconds: float, stays: dict[SiteId, tuple[float, float]], kinds: list[type[Kill] | type[Pause]]
) -> list[Action]:
    """Each strikes somebody who is in the group for a while before and after it."""
    actions: list[Action] = []
    free_at = dict.fromkeys(stays, 0.0)
    random.shuffle(kinds)
    moments = sorted(random.uniform(0.1, 0.8) * seconds for _ in kinds)
    for kind, moment in zip(kinds, moments, strict=True):
        lasts = random.uniform(0.2, 1.0) * min(4.0, seconds / 4)
        there = [
            name
            for name, (came, leaves) in stays.items()
            if max(came + AT_HOME_SECONDS, free_at[name]) <= moment <= leaves - lasts - AT_HOME_SECONDS
        ]
        name = random.choice(there or [FOUNDERS[0]])
        at = max(moment, free_at[name])
        free_at[name] = at + lasts + MARGIN_SECONDS
        actions.append(kind(at, name, lasts))
    return actions
