"""Symmetric timestamps: two roles at each site, and one clock that is told."""

from __future__ import annotations

from typing import cast

import msgspec

from ordercast.core import (
    EVERY_FAULT,
    TOTAL_ORDER,
    AddressMemo,
    AtRest,
    Context,
    Contract,
    GroupId,
    LamportClock,
    Multicast,
    Protocol,
    SiteId,
    UsageError,
    WireError,
)
from ordercast.core.events import Consumed, MulticastRequested, Recovered, Started
from ordercast.protocols.classic.lamport.arrangement import ARRANGEMENT
from ordercast.protocols.classic.lamport.asking import Asking
from ordercast.protocols.classic.lamport.destination import Destination
from ordercast.protocols.classic.lamport.options import LamportOptions
from ordercast.protocols.classic.lamport.packets import Sent, State
from ordercast.protocols.classic.lamport.source import Source
from ordercast.protocols.classic.lamport.ticking import Ticking


class Address(msgspec.Struct, frozen=True):
    """Where a message goes."""

    ranks: tuple[int, ...]
    """Of the destinations, ascending."""
    others: tuple[SiteId, ...]
    """The destinations without this site."""
    index: int
    """The place of this site among the destinations; -1 when it is none."""


class Lamport(Protocol):
    """Sources stamp their messages with a logical clock; a message is delivered when every clock has passed it."""

    contract = Contract(
        name="lamport",
        title="logical timestamps: no site is special, causal order too, everyone waits for everyone",
        paper="Spauster 1991, 2.2 (Lamport 1978)",
        guarantees=(*TOTAL_ORDER, "causal-order"),
        faults=EVERY_FAULT,
        crash="everyone waits while a potential source is down: nobody knows what it may still have to say",
        branches=(
            "old",
            "early",
            "requested",
            "resent",
            "ticked",
            "answered",
            "asked",
            "window-full",
            "blocked",
            "unblocked",
            "reserved",
            "recovered-unsent",
        ),
        options=LamportOptions,
        at_rest=lambda sites, groups, options: AtRest(entries=45 + 8 * sites, credit=options.window_messages),
        explicit_destinations=True,
    )
    arrangement = ARRANGEMENT
    parts = (Source, Destination, Ticking, Asking)
    records = (State,)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(LamportOptions, context.options)
        self.ranks = {site: rank for rank, site in enumerate(context.sites)}
        self.rank = self.ranks[self.site]
        for site in self.options.sources:
            if site not in self.ranks:
                raise UsageError(f"option sources: there is no site {site!r}")
        sources = self.options.sources or context.sites
        self.waited_for = tuple(sorted({self.ranks[site] for site in sources if site != self.site}))
        """Ranks of the other potential sources."""
        self.source_ranks = frozenset(self.ranks[site] for site in sources)
        self.is_source = self.site in sources
        self.clock = LamportClock()
        self.source = self.attach(Source(self))
        self.destination = self.attach(Destination(self))
        self.ticking = self.attach(Ticking(self))
        self.asking = self.attach(Asking(self))
        self._addresses: AddressMemo[Address] = AddressMemo(self._find_address)

    # ------------------------------------------------------------------ events
    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.source.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Stamp and send."""
        multicast = event.multicast
        if not self.is_source:
            raise UsageError(f"{self.site} is not among the sources {', '.join(self.options.sources)}")
        address = self.address(multicast)
        if not address.ranks:
            raise UsageError("a multicast needs at least one destination")
        data = self.source.multicast(multicast)
        if address.index >= 0:
            self.destination.take(self.rank, data.numbers[address.index], data)
        self.send(address.others, data)
        for rank in address.ranks:
            self.ticking.announced[rank] = data.time
        self.ticking.tick_soon()
        self.asking.keep_asking()
        self.destination.deliver_what_is_due()

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.destination.on_consumed(event.count)

    # ------------------------------------------------------------------ addresses
    def address(self, multicast: Multicast) -> Address:
        """Where a message goes."""
        return self._addresses[multicast.groups, multicast.destinations]

    def _find_address(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> Address:
        if any(group not in self.context.groups for group in groups):
            raise WireError(f"unknown group in {groups}")
        sites = sorted(set(self.context.members(groups) if destinations is None else destinations))
        if any(site not in self.ranks for site in sites):
            raise WireError(f"unknown site among the destinations {sites}")
        return Address(
            tuple(self.ranks[site] for site in sites),
            tuple(site for site in sites if site != self.site),
            sites.index(self.site) if self.site in sites else -1,
        )

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold."""
        return len(self.source.pending)

    def checkpoint_state(self) -> State:
        """Both roles."""
        links, streams = self.source.links, self.destination.streams
        return State(
            reserved=self.ticking.reserved,
            last_key=self.destination.last_key,
            delivered=tuple(stream.delivered for stream in streams),
            highest=tuple(link.highest for link in links),
            taken=tuple(link.acknowledged for link in links),
            kept=tuple(under_way.data for under_way in self.source.pending.values()),
        )

    def on_recovered(self, event: Recovered) -> None:
        """Read the log; say everything again that may not have been heard, at the place where it was first said."""
        # What lies a window back everyone has taken, or will ask for: only the last moment may never have been said.
        self.source.certain = sum(isinstance(record, Sent) for record in event.records) - self.options.window_messages
        super().on_recovered(event)
        self.destination.deliver_what_is_due()

    def restore(self, state: State) -> None:
        """Both roles."""
        self.ticking.reserved = state.reserved
        self.source.restore(state)
        self.destination.restore(state)

    def resume(self) -> None:
        """Ask everyone for what there is."""
        # A time that was heard and never told is not reserved. (Else: a hears of time 1, delivers that message, crashes
        # before it tells its clock, and stamps its next message with 1 as well: b has it before the other one.)
        self.clock.observe(max(self.ticking.reserved, self.destination.last_key[0]))
        self.destination.resume()
        self.source.forget_taken(self.rank, self.destination.streams[self.rank].taken)
        self.source.give_credit()
        self.ticking.send_tick((rank for rank in range(len(self.ranks)) if rank != self.rank), reply=True)
        self.asking.keep_asking()
