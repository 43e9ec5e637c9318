"""One broadcast at one host: what it has, what it knows of the others, and its place in the host parent graph."""

from __future__ import annotations

from collections.abc import Mapping

from ordercast.core import IntervalSet, Multicast, SiteId
from ordercast.protocols.broadcast_tree.info import NOTHING, Numbers, highest, union, with_number
from ordercast.protocols.broadcast_tree.packets import StreamId


class Stream:
    """State only; what happens to it is in the parts of the core."""

    def __init__(
        self, stream: StreamId, index: int, site: SiteId, members: tuple[SiteId, ...], ranks: Mapping[SiteId, int]
    ) -> None:
        self.id = stream
        self.index = index
        """Its place among the streams of this host; names its timer."""
        self.site = site
        self.is_source = stream.source == site
        self.is_destination = site in members
        self.others = tuple(sorted({stream.source, *members} - {site}))
        """The other hosts that take part: destinations and source."""
        self._ranks = ranks
        # --- messages
        self.info = IntervalSet()
        """INFO_i: the numbers of all messages that this host ever had."""
        self._numbers: Numbers | None = NOTHING
        self.kept: dict[int, Multicast] = {}
        """The messages themselves, until every host has taken them."""
        self.kept_bytes = 0
        """Their payloads."""
        self.floor = 0
        self.delivered = 0
        """With order = "source": the last number delivered."""
        self.taken = IntervalSet()
        """The numbers that the application has taken; at a source that is no destination, that need none."""
        # --- what is known of others
        self.map: dict[SiteId, Numbers] = {}
        """MAP_i, of other hosts."""
        self.told: dict[SiteId, int] = {}
        """Host -> the greatest number of the INFO sets that it has told. What is missing below is a gap; a number that
        is known because the host has sent the message says nothing about those before it."""
        self.taken_by: dict[SiteId, int] = {}
        self.pointers: dict[SiteId, SiteId | None] = {}
        """p_i, of other hosts."""
        self.stamps: dict[SiteId, int] = {}
        """Host -> stamp of the newest control packet that told its parent."""
        # --- the host parent graph
        self.parent: SiteId | None = None
        """p_i[i]."""
        self.declared = False
        """Whether the parent has yet to answer."""
        self.patience = 1
        """NP2 is so many times as long as it was at first."""
        self.silent_periods = 0
        """Of PA, in which the parent was not heard."""
        self.refused: set[SiteId] = set()
        """Who was told, since the last exchange, that it is not the parent."""
        self.children: set[SiteId] = set()
        self._neighbours: tuple[SiteId, ...] | None = None
        self.sent: dict[SiteId, tuple[IntervalSet, IntervalSet, IntervalSet]] = {}
        """Host -> what it was sent in this period of gap filling; in the last one; and before, without an INFO set
        since that would tell whether it came."""

    # ------------------------------------------------------------------ messages
    def has(self, number: int) -> bool:
        """Whether this host has, or had, the message."""
        return number in self.info

    @property
    def highest(self) -> int:
        """max of INFO_i."""
        return self.info.highest or 0

    def add(self, number: int, multicast: Multicast) -> None:
        """Keep a message."""
        self.info.add(number)
        self._numbers = None
        self.kept[number] = multicast
        self.kept_bytes += len(multicast.payload)

    def restore(self, numbers: Numbers, floor: int, kept: tuple[tuple[int, Multicast], ...]) -> None:
        """What a checkpoint says."""
        self.info = IntervalSet(numbers)
        self._numbers = None
        self.floor = floor
        self._keep_only(dict(kept))

    @property
    def numbers(self) -> Numbers:
        """INFO_i as it is told to others."""
        if self._numbers is None:
            self._numbers = tuple(self.info.intervals())
        return self._numbers

    @property
    def taken_prefix(self) -> int:
        """All messages up to this one are stable here and done with."""
        return self.taken.first_gap() - 1

    def raise_floor(self, floor: int) -> bool:
        """Forget the messages that every host has taken; whether there were any."""
        if floor <= self.floor:
            return False
        self._keep_only({number: multicast for number, multicast in self.kept.items() if number > floor})
        # Only a host that has lost its log lacks any of these; it does without them, since nobody has them any more.
        self.info.add_range(1, floor)
        self.taken.add_range(1, floor)
        self.delivered = max(self.delivered, floor)
        self._numbers = None
        self.floor = floor
        self._forget_sent()
        return True

    def _forget_sent(self) -> None:
        """What a host was sent need not be known of messages that it has taken. (Else: a host that finds another parent
        leaves the numbers of all that it was sent with the old one, for no period of gap filling ends there again.)"""
        for sets in self.sent.values():
            for numbers in sets:
                numbers.discard_through(self.floor)
        self.sent = {host: sets for host, sets in self.sent.items() if any(sets)}

    def _keep_only(self, kept: dict[int, Multicast]) -> None:
        self.kept = kept
        self.kept_bytes = sum(len(multicast.payload) for multicast in kept.values())

    def common_floor(self) -> int:
        """The messages up to this one every host has said it has taken."""
        floor = self.taken_prefix
        for host in self.others:
            floor = min(floor, self.taken_by.get(host, 0))
        return floor

    def slowest(self) -> SiteId:
        """The host for which most messages are kept."""
        taken = {host: self.taken_by.get(host, 0) for host in self.others} | {self.site: self.taken_prefix}
        return min(taken, key=lambda host: taken[host])

    # ------------------------------------------------------------------ others
    def map_of(self, host: SiteId) -> Numbers:
        """MAP_i[j]."""
        return self.map.get(host, NOTHING)

    def highest_of(self, host: SiteId) -> int:
        """max of MAP_i[j]."""
        return highest(self.map.get(host, NOTHING))

    def has_gaps(self, host: SiteId) -> bool:
        """Whether anything is missing below the greatest number that the host has."""
        known = self.map.get(host, NOTHING)
        return len(known) > 1 or (len(known) == 1 and known[0][0] > self.floor + 1)

    def learn(self, host: SiteId, numbers: Numbers) -> None:
        """UPDATE-MAP: a union, since an older set may come later."""
        self.map[host] = union(self.map.get(host, NOTHING), numbers)
        self.told[host] = max(self.told.get(host, 0), highest(numbers))
        if host in self.sent:
            self.sent[host] = (*self.sent[host][:2], IntervalSet())

    def learn_number(self, host: SiteId, number: int) -> None:
        """Who sends a message has it."""
        self.map[host] = with_number(self.map.get(host, NOTHING), number)

    def next_period(self, host: SiteId) -> None:
        """Another period of gap filling begins."""
        if host in self.sent:
            this, last, before = self.sent[host]
            self.sent[host] = (IntervalSet(), this, before | last)

    def order(self, host: SiteId) -> int:
        """order(j). The source's is the greatest: hosts of its cluster attach to it even when they have all it has."""
        return len(self._ranks) if host == self.id.source else self._ranks[host]

    def forget_host(self, host: SiteId) -> None:
        """The host runs again after a crash, and what it still has it will say."""
        self.map.pop(host, None)
        self.told.pop(host, None)
        self.taken_by.pop(host, None)
        self.pointers.pop(host, None)
        self.sent.pop(host, None)
        self.remove_child(host)

    # ------------------------------------------------------------------ the host parent graph
    def set_parent(self, parent: SiteId | None) -> None:
        """Another parent, or none."""
        self.parent = parent
        self.declared = False
        self.silent_periods = 0
        self._neighbours = None

    def add_child(self, host: SiteId) -> bool:
        """Whether it was none before."""
        if host in self.children:
            return False
        self.children.add(host)
        self._neighbours = None
        return True

    def remove_child(self, host: SiteId) -> bool:
        """Whether it was one."""
        if host not in self.children:
            return False
        self.children.discard(host)
        self._neighbours = None
        return True

    @property
    def neighbours(self) -> tuple[SiteId, ...]:
        """Parent and children, sorted."""
        if self._neighbours is None:
            own = self.children if self.parent is None else {*self.children, self.parent}
            self._neighbours = tuple(sorted(own))
        return self._neighbours

    def leads_to(self, host: SiteId, ancestor: SiteId) -> bool:
        """Whether the pointers that are known lead from one host to another."""
        visited = set()
        at: SiteId | None = host
        while at is not None and at not in visited:
            if at == ancestor:
                return True
            visited.add(at)
            at = self.pointers.get(at)
        return False
