"""The destination's part: streams without gaps from each site, and one queue in the order of the timestamps."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Multicast, Part, SiteId, WireError
from ordercast.core.effects import Deliver, Replay
from ordercast.core.events import Arrival
from ordercast.protocols.classic.lamport.packets import Data, Delivered, Request, State, Tick
from ordercast.protocols.parts.numbered import Incoming, Intervals

if TYPE_CHECKING:
    from ordercast.protocols.classic.lamport.protocol import Lamport


class Stream(Incoming[Data]):
    """What has come from one site; what is released is in the queue."""

    __slots__ = ("delivered", "known", "reported", "taken", "tick_number", "tick_time")

    def __init__(self, early_max: int) -> None:
        super().__init__(early_max)
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

    def hear_clock(self, time: int, number: int) -> None:
        """The site's clock says `time`, and everything before that has come when everything up to `number` has.

        (Believed at once: the message with the number is lost on the way, and something with a later timestamp is
        delivered before it.)
        """
        if number > self.released:
            if time > self.tick_time:
                self.tick_time, self.tick_number = time, number
        elif time > self.known:
            self.known = time

    def pass_time(self, time: int) -> None:
        """The message that was just released is of this time."""
        if time > self.known:
            self.known = time
        if self.tick_time > self.known and self.released >= self.tick_number:
            self.known = self.tick_time

    def check_invariants(self) -> None:
        """What the application has taken was delivered, and that was released."""
        super().check_invariants()
        if not self.taken <= self.delivered <= self.released <= self.announced:
            raise InvariantViolation(
                f"{self.taken} taken, {self.delivered} delivered, {self.released} here of {self.announced}"
            )


class Destination(Part):
    """A site to which messages are addressed."""

    packets = (Data,)
    records = (Delivered,)

    def __init__(self, core: Lamport) -> None:
        self._core = core
        # A source never has more than its window under way, and the slack of a log that is being synced.
        self.streams = [Stream(2 * core.options.window_messages) for _ in core.context.sites]
        """By rank of the site."""
        self.own: dict[int, Multicast] = {}
        """After a crash: by timestamp, the messages of this site that the log has and that were not delivered here."""
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
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """A message of another site, or of our own that we have sent ourselves after a crash and know."""
        core = self._core
        address = core.address(packet.multicast)
        if packet.multicast.id.source != sender or address.index < 0 or sender not in core.ranks:
            raise WireError(f"{sender} sent a message that is not its own, or not for {core.site}")
        if len(packet.numbers) != len(address.ranks):
            raise WireError(f"{sender} does not know the destinations of its message")
        if sender == core.site:
            return
        rank = core.ranks[sender]
        if rank not in core.source_ranks:
            raise WireError(f"{sender} is not among the sources, and nobody waits for its clock")
        core.ticking.observe(packet.time)
        if self.take(rank, packet.numbers[address.index], packet):
            core.asking.hear_news(rank)
            core.asking.keep_asking()
            self.deliver_what_is_due()

    def take(self, rank: int, number: int, data: Data) -> bool:
        """Queue it if it is next, keep it if it is early, ignore it if it is old; whether it was news."""
        stream = self.streams[rank]
        if number <= stream.released or number in stream.early:
            self._core.branch("old")
            return False
        if number == stream.released + 1:
            if data.time <= stream.known:
                # What is later in the order may be delivered already.
                raise WireError(
                    f"{data.multicast.id} has the timestamp {data.time}, which its source's clock has passed"
                )
            stream.released = number
            self._queue(rank, stream, data)
            if stream.early:
                self._release(rank, stream)
            stream.announce(stream.released)
        else:
            self._core.branch("early")
            self.hear_of(rank, number - 1)
            stream.keep(number, data)
        return True

    def _release(self, rank: int, stream: Stream) -> None:
        """Queue what came early and has its turn."""
        for following in stream.release():
            if following.time <= stream.known:
                # As above. It counts as not having come.
                stream.released -= 1
                return
            self._queue(rank, stream, following)

    def _queue(self, rank: int, stream: Stream, data: Data) -> None:
        stream.pass_time(data.time)
        heappush(self.queue, (data.time, rank, data.multicast))

    def hear_clock(self, rank: int, tick: Tick) -> bool:
        """A site's clock says something; whether it was news."""
        stream = self.streams[rank]
        known = stream.known
        number = tick.highest[self._core.rank]
        stream.hear_clock(tick.time, number)
        self.hear_of(rank, number)
        return stream.known > known

    def hear_of(self, rank: int, highest: int) -> None:
        """A site has sent us messages up to a number: ask at once for those of which we had not heard."""
        stream = self.streams[rank]
        if highest > stream.announced:
            missing = stream.missing(stream.announced + 1, highest)
            stream.announce(highest)
            if missing:
                self.request(rank, missing)

    def request(self, rank: int, missing: Intervals) -> None:
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
                core.source.forget_taken(rank, stream.taken)
            elif stream.taken - stream.reported >= core.options.acknowledge_every:
                much.add(rank)
        if much:
            core.ticking.send_tick(sorted(much))
        core.asking.keep_asking()

    # ------------------------------------------------------------------ whom it waits for
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

    # ------------------------------------------------------------------ after a crash
    def restore(self, state: State) -> None:
        """What was delivered, and which of our own messages were not."""
        core = self._core
        self.last_key = state.last_key
        for stream, delivered in zip(self.streams, state.delivered, strict=True):
            stream.delivered = delivered
        self.own = {
            data.time: data.multicast
            for data in state.kept
            if core.address(data.multicast).index >= 0 and (data.time, core.rank) > state.last_key
        }

    def recall_delivered(self, record: Delivered) -> None:
        """What was delivered in one step."""
        core = self._core
        for time, rank, multicast in record.deliveries:
            message = self.own.pop(time) if multicast is None else multicast
            core.outbox.append(Replay(message, self.count(time, rank), core.context.sites[rank]))
            self.streams[rank].known = time

    def resume(self) -> None:
        """What was not delivered must come again, but for our own messages."""
        rank = self._core.rank
        for stream in self.streams:
            stream.restore(stream.delivered)
            stream.taken = stream.reported = stream.delivered
        for time, multicast in self.own.items():
            heappush(self.queue, (time, rank, multicast))
        mine = self.streams[rank]
        mine.restore(mine.delivered + len(self.own))
        self.own = {}

    def check_invariants(self) -> None:
        """Streams have no gaps up to what is released; nothing waits that is due, or that should have been before."""
        for stream in self.streams:
            stream.check_invariants()
        if self.queue and self.queue[0][:2] <= self.last_key:
            raise InvariantViolation(f"{self.queue[0][:2]} waits, and {self.last_key} is delivered")
        if self.queue and self.queue[0][0] <= self.horizon():
            raise InvariantViolation(f"{self.queue[0][2].id} is due and not delivered")
        if len(self.queue) != sum(stream.released - stream.delivered for stream in self.streams):
            raise InvariantViolation("the queue does not hold what was received and not delivered")
