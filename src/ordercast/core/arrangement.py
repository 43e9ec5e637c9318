"""What others must know of a protocol beside its contract. It stands in the protocol's own folder, as data and small
functions: how campaigns attack it, what it makes of a live machine, of clusters and of groups, and a line for the
documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

import msgspec

from ordercast.core.identifiers import GroupId, SiteId
from ordercast.core.randomness import log_uniform

Groups = Mapping[GroupId, tuple[SiteId, ...]]

OptionValues = dict[str, Any]
"""Names of the protocol's own options -> values, as a configuration would give them."""

TIMEOUT_MIN = 0.03
"""With fifty messages pending, a question for each of them every 30 ms is a sixth of what a slow medium takes."""


class Situation(msgspec.Struct, frozen=True):
    """A run of a campaign, as far as the options that are drawn for it may depend on it."""

    random: Random
    sites: tuple[SiteId, ...]
    members: tuple[SiteId, ...]
    """The sites that are in a group."""
    round_trip: float
    """Seconds there and back, without faults."""
    somebody_dies: bool
    """Whether sites crash that never come back."""
    sources: tuple[SiteId, ...] = ()
    """The sites that multicast."""
    phi_n: float = 0.0
    """What the run promises: seconds that a packet takes at the most,"""
    phi_p: float = 0.0
    """and that a site takes for an operation."""

    def rarely(self, usual: int, low: int, high: int) -> int:
        """The default, or in one run of three something small. Where somebody dies, the default: what is kept for the
        dead grows until a bound is reached, and tiny bounds are for runs in which everyone comes back."""
        if self.somebody_dies:
            return usual
        return self.random.randint(low, high) if self.random.random() < 1 / 3 else usual

    def seconds(self, low: float, high: float) -> float:
        """A time, its order of magnitude uniform."""
        return round(log_uniform(self.random, low, high), 4)

    def timeout(self, high: float) -> float:
        """A time to wait for an answer: sometimes too short, so that the answer comes after the second question, but
        not so short that questions fill the network."""
        return self.seconds(max(TIMEOUT_MIN, self.round_trip / 2), max(high, self.round_trip))


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """How a campaign attacks the protocol."""

    options: Callable[[Situation], OptionValues]
    """Which option values to try, defaults and tiny values alike: small windows, logs and timeouts reach the branches
    that a default of thousands never would in a run of a few dozen messages."""
    settle: float
    """Seconds that the protocol needs at the most, once everything works and nothing is under way, to finish what was
    begun. Packets that the last fault delayed come before that."""
    quiet: float | None = None
    """Seconds after which a run is over although it might settle for longer, when nothing was delivered, installed or
    answered in them and nobody waits; a run in which a claim does not hold then is repeated with all of its time. For
    protocols that talk for ever, half of whose events would be there to show that nothing more happens. None: every
    run settles as long as it may."""
    networks: Mapping[str, int] | None = None
    """Kinds of network and their weights; None: those that every protocol is tried on."""
    channels: bool = False
    """Whether the protocol broadcasts on channels, with a TTL: then wide-area networks have hops for each two regions,
    and regions that lose packets as a whole."""
    modes: tuple[OptionValues, ...] = ()
    """Options with which the contract is another one: each run has one of them. None: the defaults."""
    unheard_seconds: float | None = None
    """A site that is not heard for so long is left out, and never gets what it has missed: in large runs packets are
    lost, and sites paused, for a part of this time only, and again and again. None: nobody is left out, or whoever is
    gets everything later."""
    sites_max: int | None = None
    """More sites than usual, in one run of sixteen and never in calm ones, for many sites make many events; None: the
    usual few."""
    sources_max: int | None = None
    """Sites that multicast, at the most; None: any number."""
    layout: Callable[[Random], Groups] | None = None
    """Draws the groups, for protocols whose promises depend on how groups overlap; None: as for every protocol."""
    majorities: Callable[[Groups], Iterable[tuple[SiteId, ...]]] | None = None
    """The sets of sites of which a minority may die each; None: all sites are one."""
    deaths: Callable[[Random, Groups, OptionValues, float], Iterable[tuple[SiteId, float, int]]] | None = None
    """Who crashes for good in a run of so many seconds, when, and after how many more packets: for protocols whose
    contract allows `successive_deaths`."""
    long: OptionValues = {}
    """Options that a run of a thousand messages has besides: of what is caught up with a few messages at a time, one
    that has lost a thousand would never see the end."""
    orders: Callable[[Groups, OptionValues], Mapping[GroupId, SiteId]] | None = None
    """Which site orders each group at first, for protocols that make an exception for what it alone has delivered."""
    repairable: Callable[[OptionValues, Groups], bool] = lambda _options, _groups: True
    """Whether a site that has lost its log can be given everything back with these options, for protocols whose
    contract `repairs`."""


class Capacity(msgspec.Struct, frozen=True):
    """What the machine of a live process offers. A message is a bundle there, of tens of kilobytes."""

    processes: int
    bundle_bytes: int
    """The size of a bundle at the most."""
    window: int
    """Bundles that a source may have under way, so that those of all sources fit into a receiver's buffer."""
    ahead: int
    """Bundles that may be sent ahead of the slowest reader: they fit into its buffer and its queue."""


def no_options(_about: object) -> OptionValues:
    """For protocols that keep their defaults."""
    return {}


def no_warnings(_groups: Groups, _options: OptionValues) -> Iterable[str]:
    """For protocols that any groups suit."""
    return ()


class Arrangement(msgspec.Struct, frozen=True, kw_only=True):
    """All that a protocol's folder says to the rooms around it."""

    order: str
    """One line for the documents: the order in which messages are delivered."""
    crash: str
    """One line for the documents: whom the crash of a site makes wait."""
    campaign: Tuning
    live: Callable[[Capacity], OptionValues]
    """The options that a live process takes where its user has given none; `no_options`: the protocol's defaults."""
    listed: OptionValues = {}
    """Besides, in a cluster whose file lists its processes."""
    unlisted: OptionValues = {}
    """Besides, in a cluster that no file lists: what makes the contract a dynamic one, and what suits that."""
    clusters: Callable[[float], OptionValues] = no_options
    """The options for processes in clusters that are so many seconds apart, for protocols that can make use of it."""
    warnings: Callable[[Groups, OptionValues], Iterable[str]] = no_warnings
    """What an operator should know about these groups, with these options, before the start; one sentence each."""
