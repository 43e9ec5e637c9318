"""The delivery services (4.6 to 4.9), by name: what each makes of what comes, and what it promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, ClassVar

from ordercast.core import IntervalSet, InvariantViolation, SiteId
from ordercast.protocols.intergroup.packets import Data
from ordercast.protocols.intergroup.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.protocol import InterGroup

DEFAULT_SERVICE = "group-timestamp"
NO_SERVICE = "none"
"""What an application has chosen for the sources that it has left out: nothing of theirs is delivered."""

RECEIVED_INTERVALS_MAX = 1024
"""Gaps of one source that are remembered for an application that may ask for them."""


class Service:
    """What one receiver has chosen in one group."""

    name: str
    reliable: bool = False
    """Whether its sources are followed: whatever they send is asked for until it comes."""
    promises: ClassVar[tuple[str, ...]] = ()
    """The properties that hold for what is delivered with it."""
    follows_group: bool = False
    """Whether it only delivers what has its turn among all senders (`settle`), and `take` and `advance` do nothing."""

    certified: bool = False
    """Whether each delivery has an order key: timestamp and sender."""

    def __init__(self, core: InterGroup, group: ProcessGroup, sources: frozenset[SiteId] | None) -> None:
        # Each packet asks for these, and Python finds an object's own attributes sooner than those of its class.
        self.name, self.reliable = self.name, self.reliable
        self.follows_group, self.certified = self.follows_group, self.certified
        self._core = core
        self._group = group
        self.sources = sources
        """Whose messages are meant; None: everyone's."""

    def means(self, sender: SiteId) -> bool:
        """Whether the application wants what a sender sends."""
        return self.sources is None or sender in self.sources

    def arrive(self, stream: Stream, data: Data) -> None:
        """A message has come as it was first sent. What is followed waits for its turn instead."""

    def arrive_again(self, stream: Stream, data: Data) -> None:
        """A message was retransmitted for somebody."""

    def take(self, stream: Stream, data: Data) -> None:
        """A message of an active source has its turn in the order of its source."""

    def settle(self, stream: Stream, data: Data) -> None:
        """A message has its turn among those of all senders, where views change. With any service, what comes through
        a proxy is delivered then. (When it comes: c sees m, its proxy fails, and m is not in the view; c multicasts m2;
        m's source says m again, and m has a later place than m2, which it has caused.)"""
        if data.proxied is not None:
            self._core.hand_over(self._group, stream, data, self)

    def advance(self) -> None:
        """Some sender's time has passed on."""

    def stop_waiting(self) -> None:
        """What waits without reliability has waited for long enough."""

    def close(self) -> Iterator[tuple[Stream, Data]]:
        """The service ends; what it has taken and not delivered, in its order."""
        return iter(())


class Unreliable(Service):
    """Unreliable, unordered (4.6): what the network brings, as often as it brings it."""

    name = "unreliable"

    def arrive(self, stream: Stream, data: Data) -> None:
        """Deliver it."""
        if self.sources is None or stream.sender in self.sources:
            self._core.hand_over(self._group, stream, data, self)


class UnreliableSource(Service):
    """Unreliable, in the order of each source (4.9): what comes too late is discarded."""

    name = "unreliable-source"
    promises = ("no-duplication", "source-order")

    def arrive(self, stream: Stream, data: Data) -> None:
        """Deliver it unless a later one has been delivered."""
        if data.seq <= stream.delivered:
            self._core.branch("too-late")
        elif self.means(stream.sender):
            self._core.hand_over(self._group, stream, data, self)


class OnRequest(Service):
    """Application-level framing (4.9): each message once, as it comes; the application says what it misses."""

    name = "on-request"
    promises = ("no-duplication",)

    def __init__(self, core: InterGroup, group: ProcessGroup, sources: frozenset[SiteId] | None) -> None:
        super().__init__(core, group, None)
        self._received: dict[SiteId, IntervalSet] = {}

    def arrive(self, stream: Stream, data: Data) -> None:
        """Deliver it unless it has been."""
        received = self._received.get(stream.sender)
        if received is None:
            # What came before the first one, with whatever service, is no gap.
            received = self._received[stream.sender] = IntervalSet([(0, max(stream.delivered, data.seq - 1))])
        if received.add(data.seq):
            self._core.repair.note_arrived(self._group, stream, data.seq)
            self._core.hand_over(self._group, stream, data, self)
            intervals = list(received.intervals())
            if len(intervals) > RECEIVED_INTERVALS_MAX:
                received.add_range(0, intervals[1][0])

    def arrive_again(self, stream: Stream, data: Data) -> None:
        """The same: somebody has asked for it, this application perhaps."""
        if stream.sender in self._received:
            self.arrive(stream, data)

    def missing(self, sender: SiteId) -> IntervalSet:
        """What has not come of a sender, below the highest number that has."""
        received = self._received.get(sender)
        if received is None or received.highest is None:
            return IntervalSet()
        return received.missing(1, received.highest)

    def give_up(self, sender: SiteId, first: int) -> None:
        """Nobody has what is before this number any more."""
        if sender in self._received:
            self._received[sender].add_range(0, first - 1)


class ReliableSource(Service):
    """Reliable, in the order of each source (4.7, Figure 4.2): no message of an active source is left out."""

    name = "reliable-source"
    reliable = True
    promises = ("no-duplication", "source-order", "reliable-source-order", "view-termination")

    def take(self, stream: Stream, data: Data) -> None:
        """Deliver it: it has its turn."""
        self._core.hand_over(self._group, stream, data, self)


class TimestampOrder:
    """Figure 4.4: what has its turn in the order of its source waits until nothing earlier can come of anyone.

    Each group has one, or all groups of a process share one, so that they are delivered in one order.
    """

    def __init__(self) -> None:
        self._queue: list[tuple[int, SiteId, str, int, Stream, Data]] = []
        """By timestamp, then by sender."""
        self._services: dict[str, GroupTimestamp] = {}
        """By group; those that are about to begin hold the others up, too."""
        self._last: tuple[int, SiteId] = (0, "")

    def join(self, group: str, service: GroupTimestamp) -> None:
        """A group's messages stand in this order from now on."""
        self._services[group] = service

    def leave(self, group: str) -> list[tuple[Stream, Data]]:
        """They no longer do; those that wait, in order."""
        self._services.pop(group, None)
        left = sorted(entry for entry in self._queue if entry[2] == group)
        if left:
            self._queue = [entry for entry in self._queue if entry[2] != group]
            heapify(self._queue)
        return [(entry[4], entry[5]) for entry in left]

    def put(self, group: str, stream: Stream, data: Data) -> None:
        """A message has its turn in the order of its source."""
        heappush(self._queue, (data.timestamp, stream.sender, group, data.seq, stream, data))

    def advance(self) -> None:
        """Deliver what nothing can come before."""
        queue = self._queue
        if not queue:
            return
        horizon = min([service.horizon() for service in self._services.values()])
        while queue and queue[0][0] <= horizon:
            timestamp, sender, group, _, stream, data = heappop(queue)
            if (timestamp, sender) <= self._last:
                raise InvariantViolation(f"{timestamp} of {sender} is delivered after {self._last}")
            self._last = (timestamp, sender)
            self._services[group].deliver(stream, data)

    def oldest(self, group: str) -> int | None:
        """The earliest timestamp that waits of a group."""
        return min((entry[0] for entry in self._queue if entry[2] == group), default=None)


class GroupTimestamp(Service):
    """Reliable, in the order of the timestamps of all senders (4.8, Figures 4.3 and 4.4)."""

    name = "group-timestamp"
    reliable = True
    certified = True
    promises = (
        "no-duplication",
        "source-order",
        "reliable-source-order",
        "causal-order",
        "timestamp-order",
        "reliable-timestamp-order",
        "multiple-source-order",
        "view-termination",
    )

    def __init__(self, core: InterGroup, group: ProcessGroup, sources: frozenset[SiteId] | None) -> None:
        super().__init__(core, group, None)
        self._order = core.order_of(group)
        self._frozen: int | None = None

    def join(self) -> None:
        """The service has begun, or goes on."""
        self._frozen = None
        self._order.join(self._group.name, self)

    def take(self, stream: Stream, data: Data) -> None:
        """It waits for its turn among all."""
        self._order.put(self._group.name, stream, data)

    def advance(self) -> None:
        """Deliver what is due."""
        self._order.advance()

    def horizon(self) -> int:
        """Nothing up to this time is still to come in the group."""
        if self._frozen is not None:
            return self._frozen
        return self._group.passed(self._core.clock.time)

    def freeze(self, time: int) -> None:
        """The service is about to begin, with messages that are all later than this time."""
        self._frozen = time
        self._order.join(self._group.name, self)

    def deliver(self, stream: Stream, data: Data) -> None:
        """It is the next one of all."""
        self._core.hand_over(self._group, stream, data, self)

    def close(self) -> Iterator[tuple[Stream, Data]]:
        """What waits."""
        return iter(self._order.leave(self._group.name))


class UnreliableTimestamp(Service):
    """Unreliable, in the order of the timestamps (4.9): what comes too late is discarded, and nobody waits for what may
    still come for longer than `wait_seconds_max`."""

    name = "unreliable-timestamp"
    certified = True
    promises = ("no-duplication", "source-order", "causal-order", "timestamp-order")

    def __init__(self, core: InterGroup, group: ProcessGroup, sources: frozenset[SiteId] | None) -> None:
        super().__init__(core, group, sources)
        self._queue: list[tuple[int, SiteId, int, Stream, Data]] = []
        self._waiting: frozenset[tuple[int, SiteId]] = frozenset()
        """What waited already when the timer was set."""

    def arrive(self, stream: Stream, data: Data) -> None:
        """It waits, unless a later one has been delivered."""
        key = (data.timestamp, stream.sender)
        if not self.means(stream.sender):
            return
        late = key <= self._group.last_key or data.seq <= stream.delivered
        if late or any(entry[:2] == key for entry in self._queue):
            self._core.branch("too-late")
        else:
            self._put(stream, data)

    def settle(self, stream: Stream, data: Data) -> None:
        """What has come through a proxy waits like all the rest, unless a later one has been delivered."""
        if data.proxied is not None and (data.timestamp, stream.sender) > self._group.last_key:
            self._put(stream, data)

    def _put(self, stream: Stream, data: Data) -> None:
        heappush(self._queue, (data.timestamp, stream.sender, data.seq, stream, data))
        if len(self._queue) > self._core.options.outstanding_messages_max:
            self._deliver_next()
        self.advance()

    def advance(self) -> None:
        """Deliver what nothing earlier was heard of, of anyone."""
        queue = self._queue
        if not queue:
            return
        horizon = self._group.heard(self._core.clock.time)
        while queue and queue[0][0] <= horizon:
            self._deliver_next()
        if queue and not self._waiting:
            self._set_timer()

    def _set_timer(self) -> None:
        self._waiting = frozenset(entry[:2] for entry in self._queue)
        self._core.set_timer(("wait", self._group.name), self._core.options.wait_seconds_max)

    def stop_waiting(self) -> None:
        """What waited when the timer was set has waited for long enough."""
        waiting, self._waiting = self._waiting, frozenset()
        latest = max(waiting, default=(0, ""))
        while self._queue and self._queue[0][:2] <= latest:
            self._core.branch("waited")
            self._deliver_next()
        if self._queue:
            self._set_timer()

    def _deliver_next(self) -> None:
        timestamp, sender, _, stream, data = heappop(self._queue)
        self._group.last_key = (timestamp, sender)
        self._core.hand_over(self._group, stream, data, self)

    def close(self) -> Iterator[tuple[Stream, Data]]:
        """What waits."""
        left, self._queue = sorted(self._queue), []
        return iter([(entry[3], entry[4]) for entry in left])


_CLASSES: tuple[type[Service], ...] = (
    Unreliable,
    UnreliableSource,
    UnreliableTimestamp,
    OnRequest,
    ReliableSource,
    GroupTimestamp,
)

SERVICES: Mapping[str, type[Service]] = {service.name: service for service in _CLASSES}
"""By name, the weakest first."""
