"""Qualified majorities need no search over time: every pair of quorums of every division into groups is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ordercast.protocols.parts.quorum import Quorum


def _divisions(sites: tuple[str, ...]) -> Iterator[list[tuple[str, ...]]]:
    """All ways to divide sites into groups."""
    if not sites:
        yield []
        return
    first, others = sites[0], sites[1:]
    for size in range(len(sites)):
        for with_first in combinations(others, size):
            rest = tuple(site for site in others if site not in with_first)
            for division in _divisions(rest):
                yield [(first, *with_first), *division]


def check_quorums(count: int, kind: type[Quorum] = Quorum) -> tuple[int, str | None]:
    """How many pairs were looked at, and what is wrong with one of them: two quorums that share no site in a group, or
    all sites together that are none."""
    sites = tuple("abcdefgh"[:count])
    subsets = [frozenset(each) for size in range(count + 1) for each in combinations(sites, size)]
    checked = 0
    for division in _divisions(sites):
        quorum = kind(division)
        if not quorum.is_met(frozenset(sites)):
            return checked, f"all sites of {division} are no quorum"
        met = [subset for subset in subsets if quorum.is_met(subset)]
        for one in met:
            for other in met:
                checked += 1
                if any(not (one & other & set(group)) for group in division):
                    return checked, f"{sorted(one)} and {sorted(other)} are quorums of {division} and share too little"
    return checked, None
