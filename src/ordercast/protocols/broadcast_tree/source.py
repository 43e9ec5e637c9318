"""The source: numbers its messages, and how many of them may be under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Multicast, Part
from ordercast.core.effects import Credit
from ordercast.protocols.broadcast_tree.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.broadcast_tree.protocol import BroadcastTree


class Source(Part):
    """A host that multicasts, member or not."""

    timers = ("breath",)
    branches = ("window-full", "window-open")

    def __init__(self, core: BroadcastTree) -> None:
        self._core = core
        self._lately = 0
        """Own messages since the breath began."""
        self._bytes_max = core.options.kept_bytes_max
        """This source's share of what every host may keep."""

    def multicast(self, multicast: Multicast) -> None:
        """Number it, keep it, and send it to the children."""
        core = self._core
        known = len(core.streams.own)
        stream = core.streams.find(core.site, core.streams.epoch, multicast.groups)
        number = self.next_number(stream)
        core.propagation.store(stream, number, multicast, core.site)
        core.propagation.propagate(stream, number, multicast, core.site)
        if len(core.streams.own) > known:
            core.exchange.tell_info(stream, stream.others)
        if not self._lately:
            core.set_timer("breath", core.options.breath_seconds)
        self._lately += 1
        self.give_credit()

    def next_number(self, stream: Stream) -> int:
        """The source's numbers go on after a crash."""
        return stream.highest + 1

    def on_breath_timeout(self) -> None:
        """The next one begins."""
        self._lately = 0
        self.give_credit()

    def find_share(self) -> None:
        """By how many sources messages are kept here: when one begins, and at every exchange.

        (With a bound for each source alone: one host is away, and the others keep as much of every source.)
        """
        own = self._core.site
        sources = {stream.id.source for stream in self._core.streams.values() if stream.kept} | {own}
        self._bytes_max = max(1, self._core.options.kept_bytes_max // len(sources))

    def give_credit(self) -> None:
        """Tell the application how much it may send, and why it is no more.

        Until every host has taken a message, and said so, several exchanges pass. Who collects messages while others
        are under way should not wait for that: what left a breath ago is shown as one message at the most.
        """
        core = self._core
        own, options = core.streams.own, core.options
        if not own:
            return
        waiting = {stream: stream.highest - stream.floor for stream in own}
        total = sum(waiting.values())
        room = options.kept_messages_max - total
        if sum(stream.kept_bytes for stream in own) >= self._bytes_max:
            room = 0
        breath = options.burst_messages - (self._lately or min(total, 1, options.burst_messages - 1))
        core.outbox.append(Credit(max(0, min(room, breath))))
        reason = ""
        if room <= 0:
            stream = max(own, key=lambda stream: (stream.kept_bytes, waiting[stream]))
            reason = f"the window is full: site {stream.slowest()} has taken least of {', '.join(stream.id.groups)}"
        if reason != core.obstacle("window"):
            core.branch("window-full" if reason else "window-open")
            core.block("window", reason)
