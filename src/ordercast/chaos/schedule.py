"""What happens to a cluster, and when: drawn from a seed, so that it can be drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from ordercast.core import SiteId, UsageError


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """SIGKILL, and a new start after a while; after infinitely many seconds: never."""

    at: float
    process: SiteId
    seconds: float


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """SIGSTOP, and SIGCONT after a while: longer than any time-out."""

    at: float
    process: SiteId
    seconds: float


class Partition(msgspec.Struct, frozen=True, tag="partition"):
    """These processes and the others do not reach each other for a while."""

    at: float
    side: tuple[SiteId, ...]
    seconds: float


class Start(msgspec.Struct, frozen=True, tag="start"):
    """A process that does not start with the others: it comes now, with nothing."""

    at: float
    process: SiteId
    seconds: float = 0.0


Action = Kill | Pause | Partition | Start


class Plan(msgspec.Struct, frozen=True):
    """A whole run."""

    seconds: float
    actions: tuple[Action, ...]
    loss: float = 0.0
    duplication: float = 0.0
    delay_seconds: float = 0.0


def draw_plan(
    seed: int,
    processes: Sequence[SiteId],
    seconds: float,
    kills: int,
    pauses: int,
    partitions: int,
    loss: float,
    duplication: float,
    delay_seconds: float,
) -> Plan:
    """So many faults of each kind at random moments, each for a random time; a process is down or stopped once at a
    time."""
    if seconds <= 0 or min(kills, pauses, partitions) < 0:
        raise UsageError("chaos needs a positive time, and numbers of faults that are 0 or more")
    if partitions and len(processes) < 2:
        raise UsageError("one process alone cannot be partitioned")
    random = Random(f"ordercast chaos {seed}")
    names = sorted(processes)
    down_max = min(4.0, seconds / 4)
    free_at = dict.fromkeys(names, 0.0)
    actions: list[Action] = []
    kinds: list[type[Kill] | type[Pause]] = [Kill] * kills + [Pause] * pauses
    random.shuffle(kinds)
    moments = sorted(random.uniform(0.05, 0.85) * seconds for _ in kinds)
    for kind, moment in zip(kinds, moments, strict=True):
        process = random.choice([name for name in names if free_at[name] == min(free_at.values())])
        at = max(moment, free_at[process])
        lasts = random.uniform(0.2, 1.0) * down_max
        free_at[process] = at + lasts + 0.5
        actions.append(kind(at, process, lasts))
    for _ in range(partitions):
        side = random.sample(names, random.randint(1, len(names) - 1))
        actions.append(
            Partition(random.uniform(0.05, 0.85) * seconds, tuple(sorted(side)), random.uniform(0.2, 1.0) * down_max)
        )
    actions.sort(key=lambda action: action.at)
    end = max([seconds, *(action.at + action.seconds for action in actions)])
    return Plan(end, tuple(actions), loss, duplication, delay_seconds)
