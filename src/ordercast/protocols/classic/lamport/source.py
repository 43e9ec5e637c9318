"""The source's part: a numbered stream of messages to each destination, kept until it is taken there."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Multicast
from ordercast.core.effects import Credit
from ordercast.protocols.classic.lamport.packets import Data, Sent

if TYPE_CHECKING:
    from ordercast.protocols.classic.lamport.protocol import Lamport


class Outgoing:
    """A message under way."""

    __slots__ = ("born_tick", "data", "untaken")

    def __init__(self, data: Data, tick: int) -> None:
        self.data = data
        self.untaken = 0
        """By how many destinations."""
        self.born_tick = tick


class Link:
    """The stream of messages to one site."""

    __slots__ = ("highest", "kept", "taken")

    def __init__(self) -> None:
        self.highest = 0
        """The number of the last message."""
        self.taken = 0
        """The number up to which the site needs nothing any more."""
        self.kept: deque[Outgoing] = deque()
        """The messages with the numbers taken + 1 … highest."""


class Source:
    """A site that multicasts, member or not."""

    def __init__(self, core: Lamport) -> None:
        self._core = core
        self.links = [Link() for _ in core.context.sites]
        """By rank of the site."""
        self.pending: dict[int, Outgoing] = {}
        """Timestamp -> what is not yet taken by the application of every destination."""

    def multicast(self, multicast: Multicast) -> Data:
        """Log a message with a new timestamp. The log knows it before anyone hears of it.

        (Else: t is sent to b, crash; the source begins the next message to b with the same number.)
        """
        core = self._core
        core.clock.tick()
        core.reserve()
        core.append(Sent(core.clock.time, multicast))
        if len(self.pending) + 1 == core.options.window_messages:
            core.branch("window-full")
        return self.number(core.clock.time, multicast)

    def number(self, time: int, multicast: Multicast) -> Data:
        """Give a message the next number at each destination, and keep it."""
        links = self.links
        ranks = self._core.address(multicast).ranks
        data = Data(time, tuple(links[rank].highest + 1 for rank in ranks), multicast)
        self.keep(data)
        return data

    def keep(self, data: Data) -> None:
        """Remember a message for those who have not taken it."""
        outgoing = Outgoing(data, self._core.asking.tick)
        for rank, number in zip(self._core.address(data.multicast).ranks, data.numbers, strict=True):
            link = self.links[rank]
            link.highest = number
            if number > link.taken:
                link.kept.append(outgoing)
                outgoing.untaken += 1
        if outgoing.untaken:
            self.pending[data.time] = outgoing

    def on_taken(self, rank: int, taken: int) -> bool:
        """A destination needs nothing up to a number any more; whether that was news."""
        link = self.links[rank]
        if taken <= link.taken or taken > link.highest:
            return False
        finished = False
        for _ in range(taken - link.taken):
            outgoing = link.kept.popleft()
            outgoing.untaken -= 1
            if not outgoing.untaken:
                del self.pending[outgoing.data.time]
                finished = True
        link.taken = taken
        if finished:
            self.give_credit()
        return True

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        self._core.outbox.append(Credit(max(0, self._core.options.window_messages - len(self.pending))))

    def on_request(self, rank: int, missing: tuple[tuple[int, int], ...]) -> None:
        """Send again what a destination is missing."""
        core = self._core
        link = self.links[rank]
        for first, last in missing:
            for number in range(max(first, link.taken + 1), min(last, link.highest) + 1):
                core.branch("resent")
                core.send((core.context.sites[rank],), link.kept[number - link.taken - 1].data)

    def is_unanswered(self, rank: int) -> bool:
        """Whether a site has left something untaken for more than an interval."""
        kept = self.links[rank].kept
        return bool(kept) and self._core.asking.tick - kept[0].born_tick >= 2

    def whom_we_wait_for(self) -> str:
        """The reason why the application may not send; empty when it may, or has not waited for long."""
        core = self._core
        if len(self.pending) < core.options.window_messages:
            return ""
        oldest = next(iter(self.pending.values()))
        if core.asking.seconds(core.asking.tick - oldest.born_tick) < core.options.blocked_seconds:
            return ""
        slow = next(rank for rank, link in enumerate(self.links) if link.kept and link.kept[0] is oldest)
        return f"the window is full: site {core.context.sites[slow]} has not taken {oldest.data.multicast.id}"

    def check_invariants(self) -> None:
        """What is kept for a site is exactly what lies between what it has taken and the highest number."""
        for rank, link in enumerate(self.links):
            if len(link.kept) != link.highest - link.taken:
                site = self._core.context.sites[rank]
                raise InvariantViolation(f"{len(link.kept)} kept for {site}: {link.taken} to {link.highest}")
        if sum(len(link.kept) for link in self.links) != sum(outgoing.untaken for outgoing in self.pending.values()):
            raise InvariantViolation("the streams and the window do not hold the same messages")
