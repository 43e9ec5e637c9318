"""A world to be searched: a protocol, a few sites, what their applications want, and what must hold there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgspec

from ordercast.core import GroupId, MessageId, Options, Protocol, SiteId

Observation = Hashable
"""What a judge sees of one site."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much may happen in one run of a search."""

    crashes: int = 1
    timers: int = 3
    """Timers that fire, of all sites together."""
    duplicates: int = 0
    """Packets that arrive a second time."""
    losses: int = 1
    """0: nothing is ever lost; else runs are also left to settle after everything that was under way is lost."""
    states: int = 5_000_000
    seconds: float = 120.0


class Seen(msgspec.Struct, frozen=True):
    """The usual observation: what a site has multicast, and what it has delivered, in order."""

    own: tuple[MessageId, ...]
    delivered: tuple[MessageId, ...]


Safe = Callable[[tuple[Any, ...], float], str | None]
"""What the sites show, and the time where there is one -> what is wrong with it, if anything."""
Done = Callable[[tuple[Any, ...], float, frozenset[int]], str | None]
"""The same with the sites that are down for good -> what is still missing, if anything."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched."""

    name: str
    protocol: type[Protocol]
    sites: tuple[SiteId, ...]
    groups: Mapping[GroupId, tuple[SiteId, ...]]
    options: Options
    sources: tuple[int, ...]
    """The site of each message that is multicast, whenever it likes."""
    observe: Callable[[Protocol, Seen], Observation]
    safe: Safe
    done: Done
    """What must come about when everything works and nothing more is begun."""
    may_die: int = 0
    """So many sites may be down for good."""
    settle_seconds: float = 60.0
    """Within this time it must be done."""
    rates: tuple[float, ...] | None = None
    """For what rests on time: how fast the clock of each site runs. Then a timer fires when it is due, at no other
    time; packets are as late as they like. None: clocks mean nothing, and any timer that is set can fire."""
    reads_clock: bool = False
    """Without rates: whether the core asks how late it is. Then a site's clock stands where its last timer fired."""
    one_channel: bool = False
    """Everyone hears what is broadcast in one order: what a site has not heard when it hears a later frame, it has
    lost."""
    begin_seconds: float = 0.0
    """The search begins when the sites have been left alone for so long, such as to come together first."""
    symmetries: tuple[tuple[int, ...], ...] = ()
    """Renamings of the sites under which nothing changes."""
    limits: Limits = Limits()
    """What suits this world, unless somebody says otherwise."""
    counterexample_judged: bool = True
    """Whether the judges of traces can see what is wrong; not where nothing is delivered."""


def observe_deliveries(_core: Protocol, seen: Seen) -> Seen:
    """For protocols that are judged by what they deliver."""
    return seen


def clock_at(clock: float, site: int, now: float, world: World) -> float:
    """What the clock of a site shows: its own where it stands still between timers, else by its rate."""
    return clock if world.rates is None else round(now * world.rates[site], 9)
