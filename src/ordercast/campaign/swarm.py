"""Swarm faults: which kinds are on in a run, and how hard each of them hits (after Groce et al. 2012, swarm testing).

Each kind is on with probability one half: rare mixtures happen that way, and a kind that would hide another one
(a partition hides duplication) is often absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

import msgspec

from ordercast.core import SiteId, log_uniform
from ordercast.sim.faults import (
    AnyFault,
    BurstLoss,
    Crash,
    Cut,
    Delay,
    Duplication,
    Loss,
    Outage,
    Partition,
    Pause,
    Skew,
    SlowReader,
    TornLog,
)
from ordercast.sim.network_table import BroadcastTable, NetworkTable

LOSS_RATE_MAX = 0.3
DUPLICATION_RATE_MAX = 0.5
DELAY_SECONDS_MAX = 5.0


class Arena(msgspec.Struct, frozen=True):
    """Where faults are drawn for."""

    random: Random
    sites: tuple[SiteId, ...]
    fragile: tuple[SiteId, ...]
    """The sites to which something may happen; the others must not fail (assumption A1 of Spauster 6.4.2)."""
    duration: float
    delay_max: float = DELAY_SECONDS_MAX
    """Extra seconds on the way at the most, for delayed packets and for second copies."""
    links: tuple[tuple[str, str], ...] = ()
    """Links between servers that may fail, where the network has any."""
    faults_max: int = 3
    """So many of one kind in a run at the most: the run is short, and a fourth would cover the others."""

    def window(self) -> tuple[float, float | None]:
        """From when to when: mostly within the workload, so that traffic after the fault shows what it did."""
        random = self.random
        begin = random.uniform(0.0, 0.6 * self.duration)
        # Some last until the heal, for that is a moment of its own.
        if random.random() < 0.15:
            return round(begin, 3), None
        return round(begin, 3), round(min(begin + random.uniform(0.1, 0.5) * self.duration, 0.85 * self.duration), 3)

    def outage(self) -> tuple[float, float]:
        """From when to when a site is away: from a blink to longer than any timeout of a detector."""
        begin = self.random.uniform(0.0, 0.6 * self.duration)
        return round(begin, 3), round(begin + log_uniform(self.random, 0.01, 0.3 * self.duration), 3)

    def some_sites(self) -> tuple[SiteId, ...]:
        """All sites (written as none), or a few."""
        return () if self.random.random() < 0.5 else self.sample(self.sites, len(self.sites) - 1)

    def victims(self) -> tuple[SiteId, ...]:
        """One site, sometimes several at once."""
        return self.sample(self.fragile, 1 if self.random.random() < 0.7 else len(self.fragile))

    def sample(self, sites: tuple[SiteId, ...], most: int) -> tuple[SiteId, ...]:
        """From one to `most` of the sites."""
        return tuple(sorted(self.random.sample(sites, self.random.randint(1, min(most, len(sites))))))

    def delay(self) -> float:
        """Extra seconds on the way, short ones as likely as long ones."""
        return round(log_uniform(self.random, min(0.002, self.delay_max / 4), self.delay_max), 6)


def _loss(arena: Arena) -> AnyFault:
    begin, end = arena.window()
    rate = round(arena.random.uniform(0.03, LOSS_RATE_MAX), 3)
    return Loss(from_=begin, to=end, sites=arena.some_sites(), rate=rate)


def _burst_loss(arena: Arena) -> AnyFault:
    begin, end = arena.window()
    random = arena.random
    rate, length = round(random.uniform(0.02, 0.15), 3), round(random.uniform(2.0, 20.0), 1)
    return BurstLoss(from_=begin, to=end, sites=arena.some_sites(), rate=rate, length=length)


def _duplication(arena: Arena) -> AnyFault:
    begin, end = arena.window()
    rate = round(arena.random.uniform(0.05, DUPLICATION_RATE_MAX), 3)
    return Duplication(from_=begin, to=end, sites=arena.some_sites(), rate=rate, seconds=arena.delay())


def _delay(arena: Arena) -> AnyFault:
    begin, end = arena.window()
    rate = round(arena.random.uniform(0.1, 1.0), 3)
    return Delay(from_=begin, to=end, sites=arena.some_sites(), rate=rate, seconds=arena.delay())


def _cut(arena: Arena) -> AnyFault:
    begin, end = arena.window()
    sites = arena.sample(arena.sites, len(arena.sites) - 1)
    others = tuple(site for site in arena.sites if site not in sites)
    peers = arena.sample(others, len(others))
    return Cut(from_=begin, to=end, sites=sites, peers=peers)


def _partition(arena: Arena) -> AnyFault:
    begin, end = arena.window()
    # One site alone half of the time: it is what most detectors see first.
    part = arena.sample(arena.sites, 1 if arena.random.random() < 0.5 else len(arena.sites) - 1)
    return Partition(from_=begin, to=end, parts=(part,))


def _crash(arena: Arena) -> AnyFault:
    begin, end = arena.outage()
    return Crash(from_=begin, to=end, sites=arena.victims())


def _torn_log(arena: Arena) -> AnyFault:
    begin, end = arena.outage()
    return TornLog(from_=begin, to=end, sites=arena.victims())


def _pause(arena: Arena) -> AnyFault:
    begin, end = arena.outage()
    return Pause(from_=begin, to=end, sites=arena.victims())


def _skew(arena: Arena) -> AnyFault:
    begin, end = arena.window()
    random = arena.random
    drift, jump = round(random.uniform(-0.3, 0.3), 3), round(random.choice((0.0, random.uniform(-10.0, 10.0))), 3)
    return Skew(from_=begin, to=end, sites=arena.victims(), drift=drift, jump=jump)


def _slow_reader(arena: Arena) -> AnyFault:
    begin, end = arena.window()
    seconds = round(log_uniform(arena.random, 0.01, 1.0), 3)
    return SlowReader(from_=begin, to=end, sites=arena.victims(), seconds=seconds)


def _outage(arena: Arena) -> AnyFault:
    begin, end = arena.window()
    random = arena.random
    if random.random() < 0.3:
        # With all its links, and the hosts behind it: a source that is cut off, say.
        server = random.choice(sorted({server for link in arena.links for server in link}))
        return Outage(from_=begin, to=end, servers=(server,))
    return Outage(from_=begin, to=end, links=tuple(sorted(random.sample(arena.links, min(3, len(arena.links))))))


_DRAWERS: dict[str, Callable[[Arena], AnyFault]] = {
    "loss": _loss,
    "burst-loss": _burst_loss,
    "duplication": _duplication,
    "delay": _delay,
    "cut": _cut,
    "partition": _partition,
    "crash": _crash,
    "torn-log": _torn_log,
    "pause": _pause,
    "skew": _skew,
    "slow-reader": _slow_reader,
    "outage": _outage,
}


def draw_kinds(random: Random, kinds: Iterable[str]) -> tuple[str, ...]:
    """Each kind is off with probability one half; an empty set is drawn again."""
    candidates = tuple(kinds)
    while candidates:
        chosen = tuple(kind for kind in candidates if random.random() < 0.5)
        if chosen:
            return chosen
    return ()


def draw_faults(arena: Arena, kinds: Iterable[str]) -> Iterator[AnyFault]:
    """Some faults of each kind."""
    for kind in kinds:
        for _ in range(arena.random.randint(1, arena.faults_max)):
            yield _DRAWERS[kind](arena)


def draw_deaths(arena: Arena, dying: Iterable[SiteId]) -> Iterator[AnyFault]:
    """Each of these sites crashes at some time, and never comes back."""
    for site in dying:
        yield Crash(from_=round(arena.random.uniform(0.0, 0.8 * arena.duration), 3), sites=(site,), forever=True)


def round_trip(table: NetworkTable, sites: tuple[SiteId, ...]) -> float:
    """Seconds there and back. (For a broadcast medium, the model's own bound counts frames that are never there.)"""
    return 0.001 if isinstance(table, BroadcastTable) else 2 * table.make(sites).latency_max()
