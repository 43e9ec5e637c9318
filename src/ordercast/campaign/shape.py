"""How large a run is: a few sites for seconds, or a dozen and more of them for minutes.

A large run is another one than the usual run of its seed, drawn by a stream of its own; it takes as much time as fifty
usual ones, so a campaign has them only when it is asked for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from random import Random

import msgspec
from msgspec.structs import replace

from ordercast.campaign.swarm import Arena
from ordercast.core import GroupId, SiteId, Tuning, log_uniform
from ordercast.core.arrangement import Groups
from ordercast.sim.faults import AnyFault, BurstLoss, Crash, Loss, Pause


class Shape(msgspec.Struct, frozen=True):
    """Bounds of what is drawn."""

    stream: str
    """The name of the random stream."""
    sites_max: int
    """Unless a protocol is made for more."""
    groups: tuple[GroupId, ...]
    """Their names; as many of them as are drawn."""
    messages: tuple[int, int]
    """Of a run, all sources together: enough for gaps, windows and inversions, few enough for the time."""
    seconds: tuple[float, float]
    """Of faults and workload."""
    faults_max: int
    """So many of one kind at the most: one more would cover the others."""
    settle_factor: float = 1.0
    """Times as long as usual to settle: all that waits for a slow one waits for it one after the other."""
    sites_min: int = 2


USUAL = Shape("campaign", 6, ("g", "h", "i"), (12, 48), (6.0, 12.0), 3)
LARGE = Shape("large campaign", 20, tuple("ghijklmn"), (60, 240), (60.0, 180.0), 8, settle_factor=3.0, sites_min=12)

CROWD_SETTLE_FACTOR = 1.5
"""Times as long as usual to settle in a usual run of a protocol that is made for more sites, when it has them: forty
hosts that exchange what they have every five seconds need one exchange more than six."""
SMALL_GROUP_MAX = 6
"""Sites of a group, for protocols whose promises depend on how groups overlap."""
REPEATED_MAX = 3
"""Sites that crash again and again."""


def draw_large_sites(random: Random) -> tuple[SiteId, ...]:
    """A dozen or more."""
    return tuple(f"s{number:02}" for number in range(random.randint(LARGE.sites_min, LARGE.sites_max)))


def draw_large_groups(random: Random, sites: tuple[SiteId, ...], tuning: Tuning) -> Groups:
    """For protocols that draw their own groups: one of all where only the root of a tree may fail, else small ones that
    overlap in a site or two."""
    if tuning.deaths is not None:
        return {LARGE.groups[0]: sites}
    names = LARGE.groups[: random.randint(1, len(LARGE.groups))]
    return {name: tuple(sorted(random.sample(sites, random.randint(2, SMALL_GROUP_MAX)))) for name in names}


def draw_repeated_crashes(arena: Arena) -> Iterator[AnyFault]:
    """One to three sites that crash again and again, as a process does that its supervisor starts each time."""
    random = arena.random
    for site in random.sample(arena.fragile, random.randint(1, min(REPEATED_MAX, len(arena.fragile)))):
        pause = log_uniform(random, 2.0, 30.0)
        moment = random.uniform(0.0, pause)
        while moment < 0.8 * arena.duration:
            down = log_uniform(random, 0.05, 5.0)
            yield Crash(from_=round(moment, 3), to=round(moment + down, 3), sites=(site,))
            moment += down + pause * random.uniform(0.5, 1.5)


def let_everyone_be_heard(faults: Iterable[AnyFault], unheard_seconds: float, duration: float) -> Iterator[AnyFault]:
    """Lose packets, and hold sites up, in the first third of each stretch of so many seconds only.

    Else a site is left out that the contract does not leave out: in a run of minutes a window of losses lasts longer
    than any silence, several of them lose nine packets of ten together, and a pause is no shorter either. (A third,
    for a clock that runs fast counts a silence that is a quarter shorter, and whoever has nothing to say speaks twice
    in what is left of it at the least.)
    """
    for fault in faults:
        if not isinstance(fault, Loss | BurstLoss | Pause):
            yield fault
            continue
        end = duration if fault.to is None else fault.to
        first, last = int(fault.from_ / unheard_seconds), ceil(end / unheard_seconds)
        for stretch in range(first, last):
            begin = stretch * unheard_seconds
            from_, to = max(fault.from_, begin), min(end, begin + unheard_seconds / 3)
            if from_ < to:
                yield replace(fault, from_=round(from_, 3), to=round(to, 3))
                if isinstance(fault, Pause):
                    break
