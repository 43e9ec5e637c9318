"""What protocols that order by cells say alike to the rooms around them."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from ordercast.core import Capacity, OptionValues, SiteId
from ordercast.core.arrangement import Groups
from ordercast.protocols.parts.cells import Cells


def layout(random: Random) -> Groups:
    """Groups of three that share nothing, three that share pairwise one site each, and others in between."""
    layouts: tuple[tuple[str, ...], ...] = (
        ("abc", "def", "ghi"),
        ("abc", "cde", "efa"),
        ("abc",),
        ("abcde",),
        ("abc", "def"),
        ("abcd", "bcde"),
        ("abcdef", "defghi"),
        ("abcd", "ab"),
    )
    names = ("g", "h", "i")
    return {name: tuple(members) for name, members in zip(names, random.choice(layouts), strict=False)}


def majorities(groups: Groups) -> Iterable[tuple[SiteId, ...]]:
    """In each cell a majority must live."""
    return Cells(groups).cells


def live(capacity: Capacity) -> OptionValues:
    """The options of a live process that depend on its machine."""
    return {
        "window_messages": capacity.window,
        # Often enough that nobody waits for news of what everyone has.
        "acknowledge_every": max(1, capacity.window // 4),
    }


def warnings(groups: Groups, _options: OptionValues) -> Iterable[str]:
    """The cells that tolerate no failure."""
    return Cells(groups).warnings()
