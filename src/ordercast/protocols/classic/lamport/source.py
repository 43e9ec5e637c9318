"""The source's part: a numbered stream of messages to each destination, kept until it is taken there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Multicast, Part, SiteId, WireError
from ordercast.core.effects import Credit
from ordercast.core.events import Arrival
from ordercast.protocols.classic.lamport.packets import Data, Request, Sent, State
from ordercast.protocols.parts.numbered import Outgoing

if TYPE_CHECKING:
    from ordercast.protocols.classic.lamport.protocol import Lamport


class UnderWay:
    """A message that some destination has not taken."""

    __slots__ = ("born_tick", "data", "untaken")

    def __init__(self, data: Data, tick: int) -> None:
        self.data = data
        self.untaken = 0
        """By how many destinations."""
        self.born_tick = tick


class Source(Part):
    """A site that multicasts, member or not."""

    packets = (Request,)
    records = (Sent,)

    def __init__(self, core: Lamport) -> None:
        self._core = core
        self.links: list[Outgoing[UnderWay]] = [Outgoing() for _ in core.context.sites]
        """By rank of the site."""
        self.pending: dict[int, UnderWay] = {}
        """Timestamp -> what is not yet taken by the application of every destination."""
        self.pending_bytes = 0
        """Of its payloads."""
        self.certain = 0
        """After a crash: how many of the messages that the log still has were certainly said."""

    def multicast(self, multicast: Multicast) -> Data:
        """Log a message with a new timestamp. The log knows it before anyone hears of it.

        (Else: t is sent to b, crash; the source begins the next message to b with the same number.)
        """
        core = self._core
        core.clock.tick()
        core.ticking.reserve()
        core.append(Sent(core.clock.time, multicast))
        if len(self.pending) + 1 == core.options.window_messages:
            core.branch("window-full")
        data = self.number(core.clock.time, multicast)
        if self.pending_bytes >= core.options.window_bytes_max:
            self.give_credit()
        return data

    def number(self, time: int, multicast: Multicast) -> Data:
        """Give a message the next number at each destination, and keep it."""
        links = self.links
        data = Data(time, tuple([next(links[rank].numbers) for rank in self._core.address(multicast).ranks]), multicast)
        self._keep(data)
        return data

    def _keep(self, data: Data) -> None:
        """Remember a message for those who have not taken it."""
        under_way = UnderWay(data, self._core.asking.tick)
        for rank, number in zip(self._core.address(data.multicast).ranks, data.numbers, strict=True):
            link = self.links[rank]
            if number > link.acknowledged:
                link.kept.append(under_way)
                under_way.untaken += 1
        if under_way.untaken:
            self.pending[data.time] = under_way
            self.pending_bytes += len(data.multicast.payload)

    def forget_taken(self, rank: int, taken: int) -> bool:
        """A destination needs nothing up to a number any more; whether that was news."""
        forgotten = self.links[rank].acknowledge(taken)
        finished = False
        for under_way in forgotten:
            under_way.untaken -= 1
            if not under_way.untaken:
                del self.pending[under_way.data.time]
                self.pending_bytes -= len(under_way.data.multicast.payload)
                finished = True
        if finished:
            self.give_credit()
        return bool(forgotten)

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        self._core.outbox.append(Credit(self._room()))

    def _room(self) -> int:
        """How many more messages may be under way."""
        options = self._core.options
        if self.pending_bytes >= options.window_bytes_max:
            return 0
        return max(0, options.window_messages - len(self.pending))

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """Send again what a destination is missing."""
        core = self._core
        if sender not in core.ranks:
            raise WireError(f"{sender} is not a site of the system")
        for _, under_way in self.links[core.ranks[sender]].asked_for(packet.missing):
            core.branch("resent")
            core.send((sender,), under_way.data)

    def is_unanswered(self, rank: int) -> bool:
        """Whether a site has left something untaken for more than an interval."""
        kept = self.links[rank].kept
        return bool(kept) and self._core.asking.tick - kept[0].born_tick >= 2

    def whom_we_wait_for(self) -> str:
        """The reason why the application may not send; empty when it may, or has not waited for long."""
        core = self._core
        if self._room():
            return ""
        oldest = next(iter(self.pending.values()))
        if core.asking.seconds(core.asking.tick - oldest.born_tick) < core.options.blocked_seconds:
            return ""
        slow = next(rank for rank, link in enumerate(self.links) if link.kept and link.kept[0] is oldest)
        return f"the window is full: site {core.context.sites[slow]} has not taken {oldest.data.multicast.id}"

    # ------------------------------------------------------------------ after a crash
    def restore(self, state: State) -> None:
        """How far each stream was, and what is kept for those who had not taken it."""
        for link, highest, taken in zip(self.links, state.highest, state.taken, strict=True):
            link.restore(highest, taken)
        for data in state.kept:
            self._keep(data)

    def recall_sent(self, record: Sent) -> None:
        """A message gets its numbers again, and is said again if it may never have been.

        At its place among the replays, and to ourselves as well: what the log has of the last moment before the crash
        may never have left the site. (Sent behind the replays: our message was stamped, then another delivered, both
        only in the log; now the application would see a delivery first and then a message of its own with an earlier
        timestamp.)
        """
        core = self._core
        data = self.number(record.time, record.multicast)
        address = core.address(record.multicast)
        if address.index >= 0:
            core.destination.own[record.time] = record.multicast
        self.certain -= 1
        if self.certain < 0:
            core.branch("recovered-unsent")
            core.send(tuple([core.context.sites[rank] for rank in address.ranks]), data)

    def check_invariants(self) -> None:
        """What is kept for sites is what the window holds."""
        for link in self.links:
            link.check_invariants()
        if sum(len(link.kept) for link in self.links) != sum(each.untaken for each in self.pending.values()):
            raise InvariantViolation("the streams and the window do not hold the same messages")
