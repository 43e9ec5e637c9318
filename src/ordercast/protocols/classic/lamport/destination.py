"""The destination's part: streams without gaps from each site, and one queue in the order of the timestamps."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Multicast, SiteId
from ordercast.core.effects import Deliver, Replay
from ordercast.protocols.classic.lamport.packets import Data, Delivered, Request, Tick

if TYPE_CHECKING:
    from ordercast.protocols.classic.lamport.protocol import Lamport


class Stream:
    """What has come from one site."""

    __slots__ = ("delivered", "early", "highest", "known", "received", "reported", "taken", "tick_number", "tick_time")

    def __init__(self) -> None:
        self.received = 0
        """Everything up to this number is here."""
        self.highest = 0
        """The highest number that we have heard of."""
        self.early: dict[int, Data] = {}
        """Above a gap."""
        self.known = 0
        """No message with a timestamp up to this will come any more."""
        self.tick_time = 0
        self.tick_number = 0
        """The latest clock value that waits for messages up to a number."""
        self.delivered = 0
        self.taken = 0
        """By the application."""
        self.reported = 0
        """Of that the site was told."""

    def on_tick(self, time: int, number: int) -> None:
        """The site's clock says `time`, and everything before that has come when everything up to `number` has.

        (Believed at once: the message with the number is lost on the way, and something with a later timestamp is
        delivered before it.)
        """
        if number > self.received:
            if time > self.tick_time:
                self.tick_time, self.tick_number = time, number
        elif time > self.known:
            self.known = time

    def accept(self, number: int, time: int) -> None:
        """The next message is here."""
        self.received = number
        if time > self.known:
            self.known = time
        if self.tick_time > self.known and number >= self.tick_number:
            self.known = self.tick_time

    def missing(self, first: int, last: int) -> tuple[tuple[int, int], ...]:
        """The numbers of first … last that have not come, as intervals."""
        intervals: list[tuple[int, int]] = []
        start = max(first, self.received + 1)
        for number in sorted(number for number in self.early if start <= number <= last):
            if number > start:
                intervals.append((start, number - 1))
            start = number + 1
        if start <= last:
            intervals.append((start, last))
        return tuple(intervals)


class Destination:
    """A site to which messages are addressed."""

    def __init__(self, core: Lamport) -> None:
        self._core = core
        self.streams = [Stream() for _ in core.context.sites]
        """By rank of the site."""
        self.last_key = (0, 0)
        """Timestamp and rank of the last message delivered."""
        self.queue: list[tuple[int, int, Multicast]] = []
        """A heap by timestamp and rank. It holds at most a window of each source, because a source sends no more until
        we have taken it."""
        self._given: deque[int] = deque()
        """Ranks of the sources of what was handed to the application and not taken yet, in order."""
        self._head: Multicast | None = None
        self._head_tick = 0

    # ------------------------------------------------------------------ what comes
    def on_data(self, rank: int, data: Data) -> bool:
        """Take it if it is next, keep it if it is early, ignore it if it is old; whether it was news."""
        core = self._core
        stream = self.streams[rank]
        number = data.numbers[core.address(data.multicast).index]
        if number <= stream.received or number in stream.early:
            core.branch("old")
            return False
        if number == stream.received + 1:
            self._accept(rank, stream, number, data)
            while stream.early and (following := stream.early.pop(stream.received + 1, None)) is not None:
                self._accept(rank, stream, stream.received + 1, following)
            stream.highest = max(stream.highest, stream.received)
        else:
            core.branch("early")
            # A source never has more than its window under way, and the slack of a log that is being synced.
            if len(stream.early) < 2 * core.options.window_messages:
                stream.early[number] = data
            self.hear_of(rank, number - 1)
            stream.highest = max(stream.highest, number)
        return True

    def _accept(self, rank: int, stream: Stream, number: int, data: Data) -> None:
        stream.accept(number, data.time)
        heappush(self.queue, (data.time, rank, data.multicast))

    def on_tick(self, rank: int, tick: Tick) -> bool:
        """A site's clock says something; whether it was news."""
        stream = self.streams[rank]
        known = stream.known
        number = tick.highest[self._core.rank]
        stream.on_tick(tick.time, number)
        self.hear_of(rank, number)
        return stream.known > known

    def hear_of(self, rank: int, highest: int) -> None:
        """A site has sent us messages up to a number: ask at once for those of which we had not heard."""
        stream = self.streams[rank]
        if highest > stream.highest:
            missing = stream.missing(stream.highest + 1, highest)
            stream.highest = highest
            if missing:
                self.request(rank, missing)

    def request(self, rank: int, missing: tuple[tuple[int, int], ...]) -> None:
        """Ask a site for what is missing."""
        core = self._core
        core.branch("requested")
        core.send((core.context.sites[rank],), Request(missing))
        core.asking.keep_asking()

    # ------------------------------------------------------------------ delivery
    def deliver_what_is_due(self) -> None:
        """Deliver everything that nothing can come before any more: every potential source's clock has passed it.

        The record is written first, one for all, so no crash delivers a message twice. Messages are not logged before
        they are delivered: until then their sources keep them for us.
        """
        queue = self.queue
        core = self._core
        if not queue or queue[0][0] > (horizon := self.horizon()):
            return
        due: list[tuple[int, int, Multicast]] = []
        while queue and queue[0][0] <= horizon:
            due.append(heappop(queue))
        own = core.rank
        core.append(Delivered(tuple((time, rank, None if rank == own else message) for time, rank, message in due)))
        for time, rank, multicast in due:
            core.outbox.append(Deliver(multicast, self.count(time, rank), core.context.sites[rank]))
            self._given.append(rank)

    def horizon(self) -> int:
        """The timestamp up to which everything has come."""
        streams = self.streams
        return min([streams[rank].known for rank in self._core.waited_for], default=self._core.clock.time)

    def count(self, time: int, rank: int) -> tuple[int, int]:
        """A message is delivered; its key in the total order."""
        key = (time, rank)
        if key <= self.last_key:
            raise InvariantViolation(f"{key} is delivered after {self.last_key}")
        self.last_key = key
        self.streams[rank].delivered += 1
        return key

    def on_consumed(self, count: int) -> None:
        """The application has taken deliveries; their sources hear of it with the next tick, or when it is much.

        The count may include replays that the application had not seen before a crash, so it can exceed what we know.
        """
        core = self._core
        much: set[int] = set()
        for _ in range(min(count, len(self._given))):
            rank = self._given.popleft()
            stream = self.streams[rank]
            stream.taken += 1
            if rank == core.rank:
                core.source.on_taken(rank, stream.taken)
            elif stream.taken - stream.reported >= core.options.acknowledge_every:
                much.add(rank)
        if much:
            core.send_tick(sorted(much))
        core.asking.keep_asking()

    # ------------------------------------------------------------------ recovery, blocking
    def replay(self, time: int, rank: int, multicast: Multicast) -> None:
        """A delivery in the log."""
        core = self._core
        core.outbox.append(Replay(multicast, self.count(time, rank), core.context.sites[rank]))
        self.streams[rank].known = time

    def resume(self, own: dict[int, Multicast]) -> None:
        """The log is read: what was not delivered must come again, but for our own messages."""
        core = self._core
        for stream in self.streams:
            stream.received = stream.highest = stream.taken = stream.reported = stream.delivered
        for time, multicast in own.items():
            heappush(self.queue, (time, core.rank, multicast))
        mine = self.streams[core.rank]
        mine.received = mine.highest = mine.delivered + len(own)

    def waits_for(self, rank: int) -> bool:
        """Whether the first message in the queue waits for a site's clock."""
        return bool(self.queue) and rank in self._core.waited_for and self.streams[rank].known < self.queue[0][0]

    def whom_we_wait_for(self) -> str:
        """The reason why nothing is delivered although something waits; empty when it does not wait for long."""
        core = self._core
        head = self.queue[0][2] if self.queue else None
        if head is not self._head:
            self._head, self._head_tick = head, core.asking.tick
        if head is None or core.asking.seconds(core.asking.tick - self._head_tick) < core.options.blocked_seconds:
            return ""
        silent: SiteId = core.context.sites[min(core.waited_for, key=lambda rank: self.streams[rank].known)]
        return f"site {silent} has not said that its clock has passed the timestamp of {head.id}"

    def check_invariants(self) -> None:
        """Streams have no gaps up to `received`; nothing waits that is due, or that should have been before."""
        for rank, stream in enumerate(self.streams):
            if not stream.taken <= stream.delivered <= stream.received <= stream.highest:
                raise InvariantViolation(
                    f"the numbers of the stream from {self._core.context.sites[rank]} are mixed up"
                )
            if stream.early and min(stream.early) <= stream.received + 1:
                raise InvariantViolation(f"{min(stream.early)} waits although {stream.received} is here")
        if self.queue and self.queue[0][:2] <= self.last_key:
            raise InvariantViolation(f"{self.queue[0][:2]} waits, and {self.last_key} is delivered")
        if self.queue and self.queue[0][0] <= self.horizon():
            raise InvariantViolation(f"{self.queue[0][2].id} is due and not delivered")
        if len(self.queue) != sum(stream.received - stream.delivered for stream in self.streams):
            raise InvariantViolation("the queue does not hold what was received and not delivered")
