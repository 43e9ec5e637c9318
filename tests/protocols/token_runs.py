"""Runs of the token protocol in which sites are away for long, or lose their log: what each application saw."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from ordercast.core import GroupId, MessageId, SiteId
from ordercast.core.effects import Deliver, Effect, EnterGroup, ExitGroup, Replay
from ordercast.core.events import Event, Recovered
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.records import LogLost
from ordercast.sim import Simulation
from ordercast.sim.faults import Fault
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload

HISTORY_BYTES = 6_000
SMALL = TokenOptions(history_bytes_max=HISTORY_BYTES)


class Delivered(msgspec.Struct, frozen=True):
    """A message reached an application."""

    time: float
    message: MessageId


class Entered(msgspec.Struct, frozen=True):
    """A group goes on behind a gap."""

    offset: int


class Watched(Token):
    """Tells how much it keeps at the most, and can be made to lose its log."""

    bytes_max: ClassVar[Counter[SiteId]] = Counter()
    loses: ClassVar[Mapping[SiteId, int]] = {}
    """Site -> the incarnation that finds no log."""

    def step(self, now: float, event: Event) -> None:
        super().step(now, event)
        self.bytes_max[self.site] = max(self.bytes_max[self.site], self.ledger.bytes)

    def on_recovered(self, event: Recovered) -> None:
        """The simulated disk keeps what was written before the loss; this site does not see it."""
        records, checkpoint = event.records, event.checkpoint
        lost = [at for at, record in enumerate(records) if isinstance(record, LogLost)]
        if self.loses.get(self.site) == self.context.incarnation:
            super().on_recovered(Recovered((), None, lost=True))
        elif lost:
            super().on_recovered(Recovered(records[lost[-1] :], None))
        else:
            super().on_recovered(Recovered(records, checkpoint))


class Story:
    """One run, and what the applications saw of it, site by site and group by group."""

    def __init__(
        self,
        faults: Iterable[Fault],
        *,
        sites: str = "abcde",
        loses: Mapping[SiteId, int] | None = None,
        options: TokenOptions = SMALL,
        rate: float = 10.0,
        seed: int = 0,
        duration: float = 14.0,
        sync_seconds: float = 0.0,
        sources: str = "",
        count: int | None = None,
    ) -> None:
        self.seen: dict[tuple[SiteId, GroupId], list[Delivered | Entered]] = defaultdict(list)
        self.simulation = Simulation(
            type("Watched", (Watched,), {"bytes_max": Counter(), "loses": dict(loses or {})}),
            {"g": tuple(sites), "h": tuple(sites[1:])},
            PointToPoint(),
            seed=seed,
            options=options,
            faults=faults,
            workloads=[
                Workload(
                    sources=tuple(sources or sites), groups=("g", "h"), choose=1, rate=rate, size=100, count=count
                ),
            ],
            duration=duration,
            settle=15.0,
            sync_seconds=sync_seconds,
            application=self._deliver,
        )
        for name, site in self.simulation.sites.items():
            # What the driver is told comes in the order of the deliveries.
            site.enter_group = self._entering(name)  # type: ignore[method-assign]

    def _deliver(self, site: SiteId, time: float, effect: Deliver | Replay) -> None:
        for group in effect.multicast.groups:
            self.seen[site, group].append(Delivered(time, effect.multicast.id))

    def _entering(self, site: SiteId) -> Any:
        def enter(_instance: object, effect: EnterGroup) -> None:
            self.seen[site, effect.group].append(Entered(effect.offset))

        return enter

    # ------------------------------------------------------------------ questions
    def core(self, site: SiteId) -> Token:
        """The core of a site that is up."""
        core = self.simulation.sites[site].instances["main"].core
        assert isinstance(core, Token)
        return core

    def bytes_max(self) -> int:
        """What any site has kept at the most."""
        protocol = self.simulation.protocol
        assert issubclass(protocol, Watched)
        return max(protocol.bytes_max.values())

    def delivered(self, site: SiteId, group: GroupId) -> list[MessageId]:
        """All messages of the group, in order; for a site that never was behind a gap."""
        events = self.seen[site, group]
        assert not any(isinstance(event, Entered) for event in events)
        return [event.message for event in events if isinstance(event, Delivered)]

    def rate(self, site: SiteId, begin: float, end: float) -> float:
        """Deliveries a second in that time."""
        groups = [group for at, group in self.seen if at == site]
        times = [event.time for group in groups for event in self.seen[site, group] if isinstance(event, Delivered)]
        return sum(begin <= time < end for time in times) / (end - begin)

    def gaps(self, site: SiteId, group: GroupId, whole: SiteId) -> int:
        """How many messages of the group the site has missed, compared with one that was there all the time. Before,
        between and behind its gaps it has delivered what that one has, at the same offsets."""
        expected, at, missed = self.delivered(whole, group), 0, 0
        for event in self.seen[site, group]:
            if isinstance(event, Entered):
                assert event.offset >= at, f"{site} goes back from {at} to {event.offset} in {group}"
                missed += event.offset - at
                at = event.offset
            else:
                assert event.message == expected[at], f"{site} delivers {event.message} at {at} in {group}"
                at += 1
        assert at == len(expected), f"{site} has {at} of {len(expected)} in {group}"
        return missed


def moves(effects: Iterable[Effect]) -> list[ExitGroup | EnterGroup | Deliver]:
    """What the application hears, in order."""
    return [effect for effect in effects if isinstance(effect, ExitGroup | EnterGroup | Deliver)]
