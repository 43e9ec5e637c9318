"""Which site comes next: the heuristics of Spauster 3.3, 4.3 and 4.4, and what they do when sites are equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, get_args

import msgspec

from ordercast.core import SiteId, UsageError
from ordercast.graphs.topology import Topology

Heuristic = Literal["most-groups", "most-groups-near", "nearest", "random", "random-intersecter"]
HEURISTICS: tuple[Heuristic, ...] = get_args(Heuristic)
NEED_TOPOLOGY = ("most-groups-near", "nearest")
"""Heuristics II and III of 4.4."""
AT_RANDOM = ("random", "random-intersecter")
"""The two readings of "children are chosen randomly from each partition" (4.3)."""

WHOLE_PARTITION = ("nearest", "random")
"""May choose any site of a partition; the others choose an intersecter."""


class Ties(msgspec.Struct, frozen=True):
    """What decides between sites that a heuristic finds equal.

    Figure 3.2 needs d before c, c before b and e before f: no rule about names gives that, so it can be said.
    """

    prefer: tuple[SiteId, ...] = ()
    """The first of these that is among the equal ones; none of them: see `random`."""
    random: Random | None = None
    """Draw from this; None: the lowest name."""


class Situation(msgspec.Struct, frozen=True):
    """What there is to choose from. Sites are numbers, in the order of their names."""

    parent: int | None
    """None when a root is chosen."""
    partition: Sequence[int]
    """All of it, for those that want it (`WHOLE_PARTITION`)."""
    intersecters: Sequence[int]
    """Those of the partition that share a group with the parent."""


Choose = Callable[[Situation], int]


def make_choice(
    heuristic: Heuristic, names: Sequence[SiteId], degree: Sequence[int], ties: Ties, topology: Topology | None
) -> Choose:
    """The function that chooses; `degree` tells, at any time, in how many unmarked groups each site is.

    (All unmarked groups of a site lie in one partition, so this is also how often it occurs in its partition.)
    """
    if heuristic not in HEURISTICS:
        raise UsageError(f"there is no heuristic {heuristic!r}; known: {', '.join(HEURISTICS)}")
    if heuristic in AT_RANDOM:
        return _at_random(heuristic, ties)
    pick = _breaker(names, ties)
    if heuristic == "most-groups":

        def most_groups(situation: Situation) -> int:
            candidates = situation.intersecters
            most = max(degree[site] for site in candidates)
            return pick([site for site in candidates if degree[site] == most])

        return most_groups
    if topology is None:
        raise UsageError(f"the heuristic {heuristic!r} needs a topology")
    where = topology

    def best(situation: Situation) -> int:
        if situation.parent is None:
            most = max(degree[site] for site in situation.partition)
            return pick([site for site in situation.partition if degree[site] == most])
        above = names[situation.parent]
        keys: dict[int, tuple[float, ...]]
        if heuristic == "nearest":
            # Restricted to intersecters, Heuristic III often does not outperform Heuristic II, and the thesis says
            # that it does.
            sharing = frozenset(situation.intersecters)
            keys = {
                site: (where.distance(above, names[site]), site not in sharing, -degree[site])
                for site in situation.partition
            }
        else:
            keys = {site: (-degree[site], where.distance(above, names[site])) for site in situation.intersecters}
        least = min(keys.values())
        return pick([site for site, key in keys.items() if key == least])

    return best


def _breaker(names: Sequence[SiteId], ties: Ties) -> Callable[[list[int]], int]:
    numbers = {name: number for number, name in enumerate(names)}
    # A preferred site that is in no group is nowhere to be chosen.
    preferred = [numbers[name] for name in ties.prefer if name in numbers]

    def pick(equal: list[int]) -> int:
        if len(equal) == 1:
            return equal[0]
        for site in preferred:
            if site in equal:
                return site
        return min(equal) if ties.random is None else ties.random.choice(sorted(equal))

    return pick


def _at_random(heuristic: Heuristic, ties: Ties) -> Choose:
    if ties.random is None or ties.prefer:
        raise UsageError(f"the heuristic {heuristic!r} draws every site at random: give it a seed, and no preference")
    draw = ties.random

    def choose(situation: Situation) -> int:
        whole = situation.parent is None or heuristic == "random"
        return draw.choice(sorted(situation.partition if whole else situation.intersecters))

    return choose
