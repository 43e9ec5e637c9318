"""The central sequencer: three roles at each site, one of them at one site only."""

from __future__ import annotations

from typing import cast

from ordercast.core import EVERY_FAULT, TOTAL_ORDER, Context, Contract, GroupId, Multicast, Protocol, SiteId, UsageError
from ordercast.core.effects import Replay
from ordercast.core.events import (
    Arrival,
    Consumed,
    MulticastRequested,
    Recovered,
    Started,
    TimerFired,
)
from ordercast.protocols.classic.sequencer.arrangement import ARRANGEMENT
from ordercast.protocols.classic.sequencer.center import ROUTES_MAX, Center
from ordercast.protocols.classic.sequencer.options import SequencerOptions
from ordercast.protocols.classic.sequencer.packets import (
    Accepted,
    Acknowledge,
    Announce,
    Delivered,
    DeliveredOwn,
    Ordered,
    Placed,
    Request,
    Sequenced,
    State,
    Submit,
    Submitted,
)
from ordercast.protocols.classic.sequencer.receiver import Receiver
from ordercast.protocols.classic.sequencer.source import Source


class Sequencer(Protocol):
    """All messages go through one site, which gives them their order (Spauster 2.4, after Kaashoek et al. 1989)."""

    contract = Contract(
        name="sequencer",
        title="one site orders everything: cheap, total order across groups, blocks while that site is down",
        paper="Spauster 1991, 2.4 (Kaashoek, Tanenbaum, Hummel, Bal 1989; Publishing: Cheriton, Zwaenepoel 1985)",
        guarantees=TOTAL_ORDER,
        faults=EVERY_FAULT,
        crash="everyone waits while the sequencer is down, or when its history is full of a crashed destination's",
        branches=(
            "duplicate-submission",
            "early-submission",
            "resubmitted",
            "blocked",
            "history-full",
            "old",
            "gap",
            "requested",
            "resent",
            "announced",
            "direct",
            "body-late",
        ),
        options=SequencerOptions,
    )
    arrangement = ARRANGEMENT
    packets = (Submit, Accepted, Ordered, Placed, Request, Announce, Acknowledge)
    records = (Submitted, Sequenced, Delivered, DeliveredOwn, State)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(SequencerOptions, context.options)
        self.sequencer = self.options.sequencer or context.members(tuple(context.groups))[0]
        if self.sequencer not in context.sites:
            raise UsageError(f"option sequencer: there is no site {self.sequencer!r}")
        self.direct_bytes = self.options.direct_bytes
        """Messages from this size on are sent to their destinations by the source itself."""
        self._places: dict[tuple[tuple[GroupId, ...], tuple[SiteId, ...] | None], int | None] = {}
        self.source = Source(self)
        self.receiver = Receiver(self)
        self.center = Center(self)

    # ------------------------------------------------------------------ events
    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.source.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """To the sequencer, also when that is here: the same window and the same order for everyone."""
        self.source.multicast(event.multicast)

    def on_timer_fired(self, event: TimerFired) -> None:
        """One of the roles' timers."""
        match event.timer:
            case "submit":
                self.source.on_submit_timeout()
            case "request":
                self.receiver.on_request_timeout()
            case "announce":
                self.center.on_announce_timeout()
            case ("report", str(source)):
                self.center.on_report_timeout(source)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.receiver.on_consumed(event.count)

    # ------------------------------------------------------------------ messages; what a site may not say is ignored
    def on_submit(self, sender: SiteId, packet: Submit, arrival: Arrival) -> None:
        """At the sequencer; at a destination, which gets large messages from their sources."""
        if packet.multicast.id.source != sender:
            return
        if self.site == self.sequencer:
            self.center.on_submit(sender, packet)
            return
        place = self._place(packet.multicast.groups, packet.multicast.destinations)
        if place is not None:
            self.receiver.on_body(place, packet.multicast)

    def on_placed(self, sender: SiteId, packet: Placed, arrival: Arrival) -> None:
        """At a destination."""
        place = self._place(packet.groups, packet.destinations)
        if sender == self.sequencer and place is not None:
            self.receiver.on_placed(packet.links[place], packet)

    def _place(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> int | None:
        """Which of the destinations this site is; None when it is not one of them."""
        address = (groups, destinations)
        if address not in self._places:
            if len(self._places) >= ROUTES_MAX:
                self._places.clear()
            sites = self.context.members(groups) if destinations is None else destinations
            self._places[address] = sites.index(self.site) if self.site in sites else None
        return self._places[address]

    def on_accepted(self, sender: SiteId, packet: Accepted, arrival: Arrival) -> None:
        """At a source."""
        if sender == self.sequencer:
            self.source.on_accepted(packet.through)

    def on_ordered(self, sender: SiteId, packet: Ordered, arrival: Arrival) -> None:
        """At a destination: its own link number tells where the message belongs."""
        multicast = packet.multicast
        place = self._places.get((multicast.groups, multicast.destinations))
        if place is None:
            place = self._place(multicast.groups, multicast.destinations)
        if sender == self.sequencer and place is not None:
            self.receiver.on_ordered(packet.links[place], packet)

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """At the sequencer."""
        if self.site == self.sequencer:
            self.center.on_request(sender, packet.missing)

    def on_announce(self, sender: SiteId, packet: Announce, arrival: Arrival) -> None:
        """At a destination."""
        if sender == self.sequencer:
            self.receiver.on_announce(packet.highest)

    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        """At the sequencer."""
        if self.site == self.sequencer:
            self.center.on_acknowledge(sender, packet.consumed)

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold, at the most."""
        return len(self.source.pending) + max(len(link.kept) for link in self.center.links.values())

    def checkpoint_state(self) -> State:
        """All three roles."""
        center = self.center
        return State(
            submissions=tuple((submit.multicast, submit.previous) for submit in self.source.pending.values()),
            last_submitted=self.source.last_submitted,
            delivered_link=self.receiver.delivered,
            number=center.number,
            accepted=tuple(center.accepted.items()),
            links=tuple((site, link.highest, link.acknowledged) for site, link in center.links.items()),
            history=center.history(),
        )

    def on_recovered(self, event: Recovered) -> None:
        """Take up all three roles where the log left them, and say everything again that may not have been heard."""
        if isinstance(event.checkpoint, State):
            self._restore(event.checkpoint)
        for record in event.records:
            if isinstance(record, Submitted):
                self.source.remember(Submit(record.multicast, record.previous))
            elif isinstance(record, Sequenced):
                link = self.center.recall(record.ordered)
                if link is not None:
                    self._replay(link, record.ordered.number, record.ordered.multicast)
            elif isinstance(record, Delivered):
                self._replay(record.link, record.number, record.multicast)
            elif isinstance(record, DeliveredOwn):
                self._replay(record.link, record.number, self.source.pending[record.message].multicast)
        self.source.give_credit()
        self.source.resume()
        if self.site == self.sequencer:
            self.center.resume()
        self.declare_recovered()

    def _replay(self, link: int, number: int, multicast: Multicast) -> None:
        self.receiver.restore(link)
        if multicast.id.source == self.site:
            self.source.forget(multicast.id)
        self.outbox.append(Replay(multicast, (number,), self.sequencer))

    def _restore(self, state: State) -> None:
        for multicast, previous in state.submissions:
            self.source.remember(Submit(multicast, previous))
        self.source.last_submitted = state.last_submitted
        self.receiver.restore(state.delivered_link)
        self.center.restore(state)

    def check_invariants(self) -> None:
        """Of the roles that the site plays."""
        self.receiver.check_invariants()
        if self.site == self.sequencer:
            self.center.check_invariants()
