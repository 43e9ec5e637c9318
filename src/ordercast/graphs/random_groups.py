"""Random groups, as chapter 4 of Spauster's thesis draws them."""

from __future__ import annotations

from random import Random

from ordercast.core import SiteId, UsageError
from ordercast.graphs.graph import Groups

SITES_MAX = 1_000_000
"""More names than this are a mistyped number."""


def site_names(count: int) -> list[SiteId]:
    """s0000, s0001 …"""
    return [f"s{number:04}" for number in range(count)]


def draw_groups(random: Random, sites: int, groups: int, size: int) -> Groups:
    """Groups of one size, uniform without replacement; two may be equal."""
    if not 1 <= sites <= SITES_MAX:
        raise UsageError(f"the number of sites is from 1 to {SITES_MAX:,}, not {sites:,}")
    if not 1 <= groups <= SITES_MAX:
        raise UsageError(f"the number of groups is from 1 to {SITES_MAX:,}, not {groups:,}")
    if not 1 <= size <= sites:
        raise UsageError(f"the size of a group is from 1 to the {sites} sites, not {size}")
    names = site_names(sites)
    digits = len(str(groups - 1))
    return {f"g{number:0{digits}}": tuple(sorted(random.sample(names, size))) for number in range(groups)}
