"""The sequencer's part: give each message its place, and keep it until every destination has it."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from ordercast.core import GroupId, InvariantViolation, MessageId, Multicast, SiteId
from ordercast.core.effects import Send
from ordercast.protocols.classic.sequencer.packets import Accepted, Announce, Ordered, Placed, Sequenced, State, Submit

if TYPE_CHECKING:
    from ordercast.protocols.classic.sequencer.protocol import Sequencer


ROUTES_MAX = 4096
"""Addresses that are remembered: all combinations of a dozen groups."""


class Link(msgspec.Struct, eq=False):
    """What was sent to one destination."""

    site: SiteId
    numbers: count[int] = msgspec.field(default_factory=lambda: count(1))
    """Gives the next link number."""
    acknowledged: int = 0
    kept: deque[Ordered] = msgspec.field(default_factory=deque)
    """What is not acknowledged yet: its link numbers follow on `acknowledged` without a gap."""
    kept_bytes: int = 0

    @property
    def highest(self) -> int:
        """The last link number that was given."""
        return self.acknowledged + len(self.kept)

    def acknowledge(self, through: int) -> None:
        """Forget what the destination has."""
        forget = self.kept.popleft
        for _ in range(self.acknowledged, through):
            self.kept_bytes -= len(forget().multicast.payload)
        self.acknowledged = max(self.acknowledged, through)


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


class Center:
    """The one site that orders."""

    def __init__(self, core: Sequencer) -> None:
        self._core = core
        self.number = 0
        self.accepted: dict[SiteId, MessageId] = {}
        """Source -> its last message that has a place."""
        self.links: dict[SiteId, Link] = {site: Link(site) for site in core.context.sites}
        self._early: dict[SiteId, dict[MessageId | None, Submit]] = {}
        """Source -> submissions that wait for the one before them, or for room, by the name of the one before."""
        self._unreported: dict[SiteId, int] = {}
        """Source -> submissions accepted since it was told."""
        self._routes: dict[tuple[tuple[GroupId, ...], tuple[SiteId, ...] | None], Route] = {}
        self._room_messages = self._room_bytes = 0
        """Each history has room for so many more, whatever is acknowledged: a bound that spares looking at all of them
        for every message."""
        self._announcing = False

    # ------------------------------------------------------------------ submissions
    def on_submit(self, source: SiteId, submit: Submit) -> None:
        """Order it if it is the source's next, keep it if it is early, answer it if it is old."""
        core = self._core
        message = submit.multicast.id
        last = self.accepted.get(source)
        if last is not None and message <= last:
            core.branch("duplicate-submission")
            core.send((source,), Accepted(last))
            return
        is_next = self._is_next(last, submit)
        multicast = submit.multicast
        route = self._routes.get((multicast.groups, multicast.destinations)) or self.route(multicast)
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
                last = self.accepted.get(source)
                following = early.get(last) or early.get(None)
                if following is None or not self._is_next(last, following):
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

    @staticmethod
    def _is_next(last: MessageId | None, submit: Submit) -> bool:
        """Whether no message of this source is missing before it.

        A source that has lost its log begins a new chain: it names no previous message, and its incarnation is new.
        """
        if submit.previous is None:
            return last is None or submit.multicast.id.incarnation > last.incarnation
        return submit.previous == last

    def _has_room(self, route: Route) -> bool:
        """Whether no destination has left so much unacknowledged that nothing more can be kept for it."""
        core = self._core
        messages_max, bytes_max = core.options.history_messages_max, core.options.history_bytes_max
        for link in route.links:
            if len(link.kept) >= messages_max or link.kept_bytes >= bytes_max:
                core.branch("history-full")
                core.block("center", f"the history is full: waiting for {link.site}")
                return False
        core.block("center", "")
        self._room_messages = messages_max - max(len(link.kept) for link in self.links.values())
        self._room_bytes = bytes_max - max(link.kept_bytes for link in self.links.values())
        return True

    def route(self, multicast: Multicast) -> Route:
        """Where a message goes."""
        address = (multicast.groups, multicast.destinations)
        route = self._routes.get(address)
        if route is None:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            here, sites = self._core.site, self._core.context.destinations(multicast)
            route = self._routes[address] = Route(
                sites,
                tuple([self.links[site] for site in sites]),
                tuple([self.links[site].numbers for site in sites]),
                tuple([site for site in sites if site != here]),
                sites.index(here) if here in sites else None,
            )
        return route

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
            core.receiver.on_ordered(links[route.place], ordered)
        if not self._announcing:
            self._announcing = True
            core.set_timer("announce", core.options.announce_seconds)

    def _keep(self, ordered: Ordered, route: Route) -> None:
        """Until every destination has acknowledged it."""
        size = len(ordered.multicast.payload)
        self._room_messages -= 1
        self._room_bytes -= size
        for link in route.links:
            link.kept.append(ordered)
            link.kept_bytes += size

    def restore(self, state: State) -> None:
        """After a crash: how far each destination was, and what some of them had not acknowledged."""
        self.number = state.number
        self.accepted = dict(state.accepted)
        for site, highest, acknowledged in state.links:
            self.links[site] = Link(site, count(highest + 1), acknowledged)
        for ordered in state.history:
            for link, link_number in zip(self.route(ordered.multicast).links, ordered.links, strict=True):
                if link_number > link.acknowledged:
                    link.kept.append(ordered)
                    link.kept_bytes += len(ordered.multicast.payload)

    def recall(self, ordered: Ordered) -> int | None:
        """After a crash: a place that was given since; the sequencer's own link number when it is a destination."""
        multicast, route = ordered.multicast, self.route(ordered.multicast)
        self.number = ordered.number
        self.accepted[multicast.id.source] = multicast.id
        for link in route.links:
            next(link.numbers)
        self._keep(ordered, route)
        return None if route.place is None else ordered.links[route.place]

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
    def on_request(self, site: SiteId, missing: tuple[tuple[int, int], ...]) -> None:
        """Send again what a destination is missing."""
        link = self.links[site]
        for first, last in missing:
            for link_number in range(max(first, link.acknowledged + 1), min(last, link.highest) + 1):
                self._core.branch("resent")
                self._core.send((site,), link.kept[link_number - link.acknowledged - 1])

    def on_acknowledge(self, site: SiteId, consumed: int) -> None:
        """A destination no longer needs what it has."""
        link = self.links[site]
        if consumed > link.highest:
            return
        link.acknowledge(consumed)
        if self._early:
            self._order_early()

    def on_announce_timeout(self) -> None:
        """Tell the destinations that are behind what there is."""
        core = self._core
        behind = [site for site, link in self.links.items() if link.kept]
        for site in behind:
            if site == core.site:
                # Its own application may have taken less than acknowledge_every, and the history be full of that.
                core.receiver.on_announce(self.links[site].highest)
            else:
                core.branch("announced")
                core.send((site,), Announce(self.links[site].highest))
        self._announcing = bool(behind)
        if behind:
            core.set_timer("announce", core.options.announce_seconds)

    def resume(self) -> None:
        """After a crash: whoever is behind hears of it."""
        self._announcing = True
        self._core.set_timer("announce", self._core.options.announce_seconds)

    def history(self) -> tuple[Ordered, ...]:
        """Everything that some destination has not acknowledged, in order."""
        kept = {ordered.number: ordered for link in self.links.values() for ordered in link.kept}
        return tuple(kept[number] for number in sorted(kept))

    def check_invariants(self) -> None:
        """What is kept for a destination has the link numbers between what it has and the highest one."""
        for site, link in self.links.items():
            given = [ordered.links[self.route(ordered.multicast).sites.index(site)] for ordered in link.kept]
            if given != list(range(link.acknowledged + 1, link.highest + 1)):
                raise InvariantViolation(f"{given} kept for {site}: {link.acknowledged} to {link.highest}")
