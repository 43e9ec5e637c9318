"""The sequencer's part: give each message its place, and keep it until every destination has it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import msgspec

from ordercast.core import AddressMemo, GroupId, InvariantViolation, MessageId, Multicast, Part, SiteId
from ordercast.core.effects import Send
from ordercast.core.events import Arrival
from ordercast.protocols.classic.sequencer.packets import (
    Accepted,
    Acknowledge,
    Announce,
    Held,
    Ordered,
    Placed,
    Request,
    Sequenced,
    State,
    Submit,
)
from ordercast.protocols.parts.numbered import MeasuredOutgoing

if TYPE_CHECKING:
    from ordercast.protocols.classic.sequencer.protocol import Sequencer

Link = MeasuredOutgoing[Ordered]
"""What was sent to one destination; its numbers are link numbers."""


class Route(msgspec.Struct, frozen=True):
    """Where the messages of one address go."""

    sites: tuple[SiteId, ...]
    """The destinations, in order of names."""
    links: tuple[Link, ...]
    """Theirs."""
    numbers: tuple[count[int], ...]
    """Their link numbers."""
    others: tuple[SiteId, ...]
    """The destinations without the sequencer."""
    place: int | None
    """Which of the destinations the sequencer is; None when it is not one of them."""


class Center(Part):
    """The one site that orders; at the others it has nothing to do."""

    packets = (Submit, Request, Acknowledge)
    timers = ("announce", "report")
    records = (Sequenced,)

    def __init__(self, core: Sequencer) -> None:
        self._core = core
        self.number = 0
        self.accepted: dict[SiteId, MessageId] = {}
        """Source -> its last message that has a place."""
        self.links: dict[SiteId, Link] = {site: MeasuredOutgoing(site) for site in core.context.sites}
        self._early: dict[SiteId, dict[MessageId | None, Submit]] = {}
        """Source -> submissions that wait for the one before them, or for room, by the name of the one before."""
        self._unreported: dict[SiteId, int] = {}
        """Source -> submissions accepted since it was told."""
        self._routes: AddressMemo[Route] = AddressMemo(self._find_route)
        self._room_messages = self._room_bytes = 0
        """Each history has room for so many more, whatever is acknowledged: a bound that spares looking at all of them
        for every message."""
        self._announcing = False
        self._full: set[SiteId] = set()
        """The destinations that are named as those for which everyone waits."""

    # ------------------------------------------------------------------ submissions
    def on_submit(self, source: SiteId, submit: Submit, arrival: Arrival) -> None:
        """Order it if it is the source's next, keep it if it is early, answer it if it is old."""
        core = self._core
        multicast = submit.multicast
        message = multicast.id
        if message.source != source:
            return
        last = self.accepted.get(source)
        if last is not None and message <= last:
            core.branch("duplicate-submission")
            core.send((source,), Accepted(last))
            return
        is_next = self._is_next(last, submit)
        route = self._routes[multicast.groups, multicast.destinations]
        if is_next and (self._room_messages > 0 < self._room_bytes or self._has_room(route)):
            self.order(multicast, route)
            if source not in route.sites:
                self._report(source)
        else:
            early = self._early.get(source, {})
            if is_next or self._has_place(early, last):
                core.branch("early-submission")
                early[submit.previous] = submit
                self._early[source] = early
        if source in self._early:
            self._order_early()

    def _has_place(self, early: dict[MessageId | None, Submit], last: MessageId | None) -> bool:
        """Whether one more can be kept that is not the next one. (The next one is always kept: the others wait for
        it.)"""
        if len(early) >= self._core.options.window_messages and last is not None:
            # A source that has lost its log begins anew, and what it had said before never gets its turn.
            for previous in [key for key, submit in early.items() if submit.multicast.id <= last]:
                del early[previous]
        return len(early) < self._core.options.window_messages

    def _order_early(self) -> None:
        """Order what was kept, as far as it is its turn and there is room; one message of each source at a time, so
        that none takes all the room."""
        progress = True
        while progress:
            progress = False
            for source, early in tuple(self._early.items()):
                following = self._following(source, early)
                if following is None:
                    continue
                route = self.route(following.multicast)
                if self._has_room(route):
                    del early[following.previous]
                    if not early:
                        del self._early[source]
                    self.order(following.multicast, route)
                    if source not in route.sites:
                        self._report(source)
                    progress = True

    def _following(self, source: SiteId, early: dict[MessageId | None, Submit]) -> Submit | None:
        """The source's next message, if it is here and waits for room only."""
        last = self.accepted.get(source)
        following = early.get(last) or early.get(None)
        return following if following is not None and self._is_next(last, following) else None

    @staticmethod
    def _is_next(last: MessageId | None, submit: Submit) -> bool:
        """Whether no message of this source is missing before it.

        A source that has lost its log begins a new chain: it names no previous message, and its incarnation is new.
        """
        if submit.previous is None:
            return last is None or submit.multicast.id.incarnation > last.incarnation
        return submit.previous == last

    def _has_room(self, route: Route) -> bool:
        """Whether no destination has left so much unacknowledged that nothing more can be kept for it.

        Each destination that has is an obstacle of its own, which only its acknowledgements remove. (With one for all:
        c, in one group, is down and named; a message to another group finds room and takes the name back.)
        """
        core, options = self._core, self._core.options
        full = [link.to for link in route.links if self._is_full(link)]
        if full:
            core.branch("history-full")
            self._full.update(full)
            for site in full:
                core.block(f"history of {site}", f"the history is full: waiting for {site}")
            return False
        self._room_messages = options.history_messages_max - max(len(link.kept) for link in self.links.values())
        self._room_bytes = options.history_bytes_max - max(link.kept_bytes for link in self.links.values())
        return True

    def _is_full(self, link: Link) -> bool:
        options = self._core.options
        return len(link.kept) >= options.history_messages_max or link.kept_bytes >= options.history_bytes_max

    def route(self, multicast: Multicast) -> Route:
        """Where a message goes."""
        return self._routes[multicast.groups, multicast.destinations]

    def _find_route(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> Route:
        here = self._core.site
        sites = self._core.find_sites(groups, destinations)
        return Route(
            sites,
            tuple([self.links[site] for site in sites]),
            tuple([self.links[site].numbers for site in sites]),
            tuple([site for site in sites if site != here]),
            sites.index(here) if here in sites else None,
        )

    def order(self, multicast: Multicast, route: Route) -> None:
        """Give a message its place and send it out. The place is stable before anyone hears of it.

        (Else: 7 is sent to b, not yet logged; crash; the sequencer comes back and gives 7 to another message.)
        """
        core = self._core
        number = self.number = self.number + 1
        links = tuple(map(next, route.numbers))
        ordered = Ordered(number, links, multicast)
        if core.context.stable:
            core.append(Sequenced(ordered))
        self.accepted[multicast.id.source] = multicast.id
        self._keep(ordered, route)
        if len(multicast.payload) >= core.direct_bytes:
            core.branch("direct")
            core.send(
                route.others,
                Placed(number, links, multicast.id, multicast.groups, multicast.destinations),
            )
        elif route.others:
            core.outbox.append(Send(route.others, ordered))
        if route.place is not None:
            core.destination.take(links[route.place], ordered)
        if not self._announcing:
            self._announcing = True
            core.set_timer("announce", core.options.announce_seconds)

    def _keep(self, ordered: Ordered, route: Route) -> None:
        """Until every destination has acknowledged it."""
        size = len(ordered.multicast.payload)
        self._room_messages -= 1
        self._room_bytes -= size
        for link in route.links:  # `link.keep` written out: a call for every message and destination
            link.kept.append(ordered)
            link.kept_bytes += size

    def _report(self, source: SiteId) -> None:
        """Tell a source soon that its messages have their places; a destination sees them ordered anyway."""
        core = self._core
        unreported = self._unreported.get(source, 0) + 1
        if unreported >= core.options.acknowledge_every:
            core.send((source,), Accepted(self.accepted[source]))
            unreported = 0
        elif unreported == 1:
            core.set_timer(("report", source), core.options.retransmit_seconds / 4)
        self._unreported[source] = unreported

    def on_report_timeout(self, source: SiteId) -> None:
        """Tell the source what is accepted."""
        if self._unreported.get(source):
            self._unreported[source] = 0
            self._core.send((source,), Accepted(self.accepted[source]))

    # ------------------------------------------------------------------ destinations
    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """Send again what a destination is missing."""
        core = self._core
        if core.site == core.sequencer and sender in self.links:
            for _, ordered in self.links[sender].asked_for(packet.missing):
                core.branch("resent")
                core.send((sender,), ordered)

    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        """A destination no longer needs what it has."""
        if self._core.site == self._core.sequencer and sender in self.links:
            self.acknowledge(sender, packet.consumed)

    def acknowledge(self, site: SiteId, consumed: int) -> None:
        """Forget what a destination no longer needs, and use the room."""
        link = self.links[site]
        link.acknowledge(consumed)
        if site in self._full and not self._is_full(link):
            self._full.discard(site)
            self._core.block(f"history of {site}", "")
        if self._early:
            self._order_early()

    def on_announce_timeout(self) -> None:
        """Tell the destinations that are behind what there is."""
        core = self._core
        behind = [site for site, link in self.links.items() if link.kept]
        for site in behind:
            if site == core.site:
                # Its own application may have taken less than acknowledge_every, and the history be full of that.
                core.destination.hear_of(self.links[site].highest)
            else:
                core.branch("announced")
                core.send((site,), Announce(self.links[site].highest))
        if self._full:
            self._tell_the_held()
        self._announcing = bool(behind)
        if behind:
            core.set_timer("announce", core.options.announce_seconds)

    def _tell_the_held(self) -> None:
        """Tell each source whose next message finds no room whom that waits for: of itself it sees only that nothing
        is accepted."""
        core = self._core
        for source, early in self._early.items():
            following = self._following(source, early)
            if following is not None and source != core.site:
                by = tuple([link.to for link in self.route(following.multicast).links if self._is_full(link)])
                if by:
                    core.send((source,), Held(by))

    def history(self) -> tuple[Ordered, ...]:
        """Everything that some destination has not acknowledged, in order."""
        kept = {ordered.number: ordered for link in self.links.values() for ordered in link.kept}
        return tuple(kept[number] for number in sorted(kept))

    # ------------------------------------------------------------------ after a crash
    def restore(self, state: State) -> None:
        """How far each destination was, and what some of them had not acknowledged."""
        self.number = state.number
        self.accepted = dict(state.accepted)
        for site, highest, acknowledged in state.links:
            self.links[site].restore(highest, acknowledged)
        for ordered in state.history:
            for link, link_number in zip(self.route(ordered.multicast).links, ordered.links, strict=True):
                if link_number > link.acknowledged:
                    link.keep(ordered)

    def recall_sequenced(self, record: Sequenced) -> None:
        """A place that was given; where the sequencer is a destination, the message was delivered too."""
        ordered = record.ordered
        multicast, route = ordered.multicast, self.route(ordered.multicast)
        self.number = ordered.number
        self.accepted[multicast.id.source] = multicast.id
        for numbers in route.numbers:
            next(numbers)
        self._keep(ordered, route)
        if route.place is not None:
            self._core.destination.replay(ordered.links[route.place], ordered.number, multicast)

    def resume(self) -> None:
        """Whoever is behind hears of it."""
        self._announcing = True
        self._core.set_timer("announce", self._core.options.announce_seconds)

    def check_invariants(self) -> None:
        """What is kept for a destination has the link numbers between what it has and the highest one."""
        for site, link in self.links.items():
            link.check_invariants()
            given = [ordered.links[self.route(ordered.multicast).sites.index(site)] for ordered in link.kept]
            if given != list(range(link.acknowledged + 1, link.highest + 1)):
                raise InvariantViolation(f"{given} kept for {site}: {link.acknowledged} to {link.highest}")
