"""Symmetric timestamps: two roles at each site, one clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from ordercast.core import (
    EVERY_FAULT,
    TOTAL_ORDER,
    Context,
    Contract,
    GroupId,
    InvariantViolation,
    LamportClock,
    Multicast,
    Protocol,
    SiteId,
    UsageError,
    WireError,
)
from ordercast.core.events import (
    Arrival,
    Consumed,
    MulticastRequested,
    Recovered,
    Started,
    TimerFired,
)
from ordercast.protocols.classic.lamport.arrangement import ARRANGEMENT
from ordercast.protocols.classic.lamport.asking import Asking
from ordercast.protocols.classic.lamport.destination import Destination
from ordercast.protocols.classic.lamport.options import LamportOptions
from ordercast.protocols.classic.lamport.packets import Data, Delivered, Request, Reserved, Sent, State, Tick
from ordercast.protocols.classic.lamport.source import Source

RESERVE_TICKS = 1024
"""Clock ticks reserved with one record: a thousandth of a log write for each message. A crash skips at most so many."""
ADDRESSES_MAX = 1024
"""Addresses whose destinations are remembered; all combinations of ten groups."""


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
        explicit_destinations=True,
    )
    arrangement = ARRANGEMENT
    packets = (Data, Tick, Request)
    records = (Reserved, Sent, Delivered, State)
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
        self.is_source = self.site in sources
        self.clock = LamportClock()
        self.reserved = 0
        """No clock value above this has left the site."""
        self.source = Source(self)
        self.destination = Destination(self)
        self.asking = Asking(self)
        self.announced = [0] * len(context.sites)
        """By rank, the last clock value sent to a site. What is lost it asks for."""
        self._ticking = False
        self._addresses: dict[tuple[tuple[GroupId, ...], tuple[SiteId, ...] | None], Address] = {}

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
            self.destination.on_data(self.rank, data)
        self.send(address.others, data)
        for rank in address.ranks:
            self.announced[rank] = data.time
        self.tick_soon()
        self.asking.keep_asking()
        self.destination.deliver_what_is_due()

    def on_timer_fired(self, event: TimerFired) -> None:
        """It is time to tell the clock, or to ask for what does not come."""
        if event.timer == "tick":
            self.on_tick_timeout()
        else:
            self.asking.on_interval_timeout()

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.destination.on_consumed(event.count)

    # ------------------------------------------------------------------ messages
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """A message of another site, or of our own that we have sent ourselves after a crash and know."""
        address = self.address(packet.multicast)
        if packet.multicast.id.source != sender or address.index < 0 or sender not in self.ranks:
            raise WireError(f"{sender} sent a message that is not its own, or not for {self.site}")
        if len(packet.numbers) != len(address.ranks):
            raise WireError(f"{sender} does not know the destinations of its message")
        if sender == self.site:
            return
        rank = self.ranks[sender]
        self.observe(packet.time)
        if self.destination.on_data(rank, packet):
            self.asking.hear_news(rank)
            self.asking.keep_asking()
            self.destination.deliver_what_is_due()

    def on_tick(self, sender: SiteId, packet: Tick, arrival: Arrival) -> None:
        """The clock of another site, and what it has taken from us."""
        if sender not in self.ranks or sender == self.site:
            raise WireError(f"{sender} is not another site of the system")
        if len(packet.highest) != len(self.ranks) or len(packet.taken) != len(self.ranks):
            raise WireError(f"{sender} does not know the sites of the system")
        rank = self.ranks[sender]
        self.observe(packet.time)
        # Both, whatever the first one says.
        if self.destination.on_tick(rank, packet) | self.source.on_taken(rank, packet.taken[self.rank]):
            self.asking.hear_news(rank)
        if packet.reply:
            self.branch("answered")
            self.send_tick((rank,))
        self.destination.deliver_what_is_due()

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """Another site is missing messages."""
        if sender not in self.ranks:
            raise WireError(f"{sender} is not a site of the system")
        self.source.on_request(self.ranks[sender], packet.missing)

    # ------------------------------------------------------------------ the clock
    def observe(self, time: int) -> None:
        """Take note of a time; those who do not know that ours has passed it hear of it soon.

        The clock runs when something is multicast, and not when times are told, so telling them comes to an end.
        """
        if time > self.clock.time:
            self.clock.observe(time)
            self.tick_soon()

    def tick_soon(self) -> None:
        """Tell the clock to those who do not know it, a little later: more may come."""
        if not self._ticking and self.is_source and min(self._announced_to_others()) < self.clock.time:
            self._ticking = True
            self.set_timer("tick", self.options.tick_seconds)

    def _announced_to_others(self) -> list[int]:
        return self.announced[: self.rank] + self.announced[self.rank + 1 :] or [self.clock.time]

    def on_tick_timeout(self) -> None:
        """Tell the clock to everyone to whom no message has told it meanwhile."""
        self._ticking = False
        behind = [rank for rank, time in enumerate(self.announced) if time < self.clock.time and rank != self.rank]
        if behind:
            self.branch("ticked")
            self.send_tick(behind)

    def send_tick(self, ranks: Iterable[int], reply: bool = False) -> None:
        """Tell some sites the clock, the heads of our streams, and what we have taken."""
        self.reserve()
        streams = self.destination.streams
        tick = Tick(
            self.clock.time,
            tuple([link.highest for link in self.source.links]),
            tuple([stream.taken for stream in streams]),
            reply,
        )
        to = []
        for rank in ranks:
            self.announced[rank] = self.clock.time
            streams[rank].reported = streams[rank].taken
            to.append(self.context.sites[rank])
        self.send(tuple(to), tick)

    def reserve(self) -> None:
        """The clock is about to be read to others: after a crash it must be at least there.

        (Else: 9 is told to b, which delivers a message with the timestamp 8; crash; the clock begins at 5 and the next
        message comes with 6.)
        """
        if self.clock.time > self.reserved:
            self.branch("reserved")
            self.reserved = self.clock.time + RESERVE_TICKS
            self.append(Reserved(self.reserved))

    # ------------------------------------------------------------------ addresses
    def address(self, multicast: Multicast) -> Address:
        """Where a message goes."""
        key = (multicast.groups, multicast.destinations)
        known = self._addresses.get(key)
        if known is None:
            if any(group not in self.context.groups for group in multicast.groups):
                raise WireError(f"unknown group in {multicast.groups}")
            sites = sorted(set(self.context.destinations(multicast)))
            if any(site not in self.ranks for site in sites):
                raise WireError(f"unknown site among the destinations {sites}")
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            known = self._addresses[key] = Address(
                tuple(self.ranks[site] for site in sites),
                tuple(site for site in sites if site != self.site),
                sites.index(self.site) if self.site in sites else -1,
            )
        return known

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold."""
        return len(self.source.pending)

    def checkpoint_state(self) -> State:
        """Both roles."""
        links, streams = self.source.links, self.destination.streams
        return State(
            reserved=self.reserved,
            last_key=self.destination.last_key,
            delivered=tuple(stream.delivered for stream in streams),
            highest=tuple(link.highest for link in links),
            taken=tuple(link.taken for link in links),
            kept=tuple(outgoing.data for outgoing in self.source.pending.values()),
        )

    def on_recovered(self, event: Recovered) -> None:
        """Read the log; say everything again that may not have been heard, at the place where it was first said.

        At its place, and to ourselves as well: what the log has of the last moment before the crash may never have left
        the site. (Sent behind the replays: our message was stamped, then another delivered, both only in the log; now
        the application would see a delivery first and then a message of its own with an earlier timestamp.)
        """
        source, destination = self.source, self.destination
        own: dict[int, Multicast] = {}
        if isinstance(event.checkpoint, State):
            own = self._restore(event.checkpoint)
        # What lies a window back everyone has taken, or will ask for: only the last moment may never have been said.
        certain = sum(isinstance(record, Sent) for record in event.records) - self.options.window_messages
        for record in event.records:
            if isinstance(record, Reserved):
                self.reserved = record.time
            elif isinstance(record, Sent):
                data = source.number(record.time, record.multicast)
                address = self.address(record.multicast)
                if address.index >= 0:
                    own[record.time] = record.multicast
                certain -= 1
                if certain < 0:
                    self.branch("recovered-unsent")
                    self.send(tuple(self.context.sites[rank] for rank in address.ranks), data)
            elif isinstance(record, Delivered):
                for time, rank, multicast in record.deliveries:
                    destination.replay(time, rank, own.pop(time) if multicast is None else multicast)
        self.clock.observe(self.reserved)
        destination.resume(own)
        source.on_taken(self.rank, destination.streams[self.rank].taken)
        source.give_credit()
        self.send_tick((rank for rank in range(len(self.ranks)) if rank != self.rank), reply=True)
        self.asking.keep_asking()
        self.declare_recovered()
        destination.deliver_what_is_due()

    def _restore(self, state: State) -> dict[int, Multicast]:
        """The state of a checkpoint; our own messages that were not delivered here."""
        self.reserved = state.reserved
        self.destination.last_key = state.last_key
        for stream, delivered in zip(self.destination.streams, state.delivered, strict=True):
            stream.delivered = delivered
        for link, taken in zip(self.source.links, state.taken, strict=True):
            link.taken = taken
        for data in state.kept:
            self.source.keep(data)
        for link, highest in zip(self.source.links, state.highest, strict=True):
            link.highest = highest
        return {
            data.time: data.multicast
            for data in state.kept
            if self.address(data.multicast).index >= 0 and (data.time, self.rank) > state.last_key
        }

    def check_invariants(self) -> None:
        """Of both roles; and the clock has not run away from what is reserved."""
        self.source.check_invariants()
        self.destination.check_invariants()
        if max(self.announced) > self.reserved:
            raise InvariantViolation(f"{max(self.announced)} was told, and only {self.reserved} is reserved")
