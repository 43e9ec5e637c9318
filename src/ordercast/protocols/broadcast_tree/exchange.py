"""Exchange of INFO sets and parent pointers, and the packets in which control messages travel together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.protocols.broadcast_tree.info import Numbers
from ordercast.protocols.broadcast_tree.packets import Adopt, Control, Declare, Detach, Hello, Info, Pointer
from ordercast.protocols.broadcast_tree.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.broadcast_tree.protocol import BroadcastTree

AnyItem = Info | Pointer | Declare | Adopt | Detach | Hello

ITEMS_MAX = 16
"""Control messages in a packet: a thousand bytes or so, when INFO sets have few holes. Mostly it is one."""
INTERVALS_MAX = 64
"""Of an INFO set that has more holes, the lower ones and the greatest number are told. To say less than one has is
safe: what others send for it comes twice."""
HELLOS_MAX = 6
"""Half a period of EIC apart at first, then twice as long each time: many hosts that start together should not
flood narrow links. Who is not heard by then is away, and says hello itself when it comes."""


def brief(numbers: Numbers) -> Numbers:
    """An INFO set that fits into a packet."""
    return numbers if len(numbers) <= INTERVALS_MAX else (*numbers[: INTERVALS_MAX - 1], numbers[-1])


class Exchange(Part):
    """What one host tells the others about itself."""

    timers = ("eic", "ein", "epp", "hello", "piggyback")
    branches = ("piggybacked", "pruned")

    def __init__(self, core: BroadcastTree) -> None:
        self._core = core
        self._waiting: dict[SiteId, list[AnyItem]] = {}
        """Control messages that wait for company, by receiver."""
        self._stamp = core.context.incarnation << 40
        self._hellos = 0

    # ------------------------------------------------------------------ what is told
    def on_eic_timeout(self) -> None:
        """EXCHANGE-INFO-CLUSTER. Prune before telling others, so that they hear of it."""
        core = self._core
        core.repeat("eic")
        for stream in core.streams.values():
            self.prune(stream)
            stream.refused.clear()
        self._tell_info_to_those(inside=True)
        core.source.find_share()
        core.source.give_credit()

    def on_ein_timeout(self) -> None:
        """EXCHANGE-INFO-NONCLUSTER."""
        self._core.repeat("ein")
        self._core.hearing.count_silence()
        self.tell_others()

    def tell_others(self) -> None:
        """INFO sets to other clusters."""
        self._tell_info_to_those(inside=False)

    def _tell_info_to_those(self, inside: bool) -> None:
        for stream in self._core.streams.values():
            self.tell_info(stream, (host for host in stream.others if (host in self._core.clusters) == inside))

    def prune(self, stream: Stream) -> None:
        """Forget what every host has taken. What a host says that it has taken is stable there: nobody asks for it
        again after a crash."""
        if stream.raise_floor(stream.common_floor()):
            self._core.branch("pruned")

    def on_epp_timeout(self) -> None:
        """EXCHANGE-PARENT-POINTERS."""
        self._core.repeat("epp")
        for stream in self._core.streams.values():
            pointer = Pointer(stream.id, stream.parent)
            for host in stream.others:
                if host in self._core.clusters:
                    self._enqueue(host, pointer)

    def tell_info(self, stream: Stream, hosts: Iterable[SiteId]) -> None:
        """INFO_i to some hosts, soon."""
        info = self.info(stream)
        for host in hosts:
            self._enqueue(host, info)

    def info(self, stream: Stream) -> Info:
        """What this host says of itself."""
        return Info(stream.id, brief(stream.numbers), stream.taken_prefix, stream.floor, stream.parent)

    def greet(self) -> None:
        """Just started: say so to everyone, and what is in the log."""
        for stream in self._core.streams.values():
            self.tell_info(stream, stream.others)
        self.say_hello()
        self.flush()

    def on_hello_timeout(self) -> None:
        """Not everyone was heard yet, perhaps."""
        self.say_hello()

    def say_hello(self) -> None:
        """To everyone who was not heard yet; again and again for a while.

        (Once: on a network where processes first have to make acquaintance, nobody understands it. A late joiner knows
        nothing of its cluster then, hears first of some host elsewhere, and gets everything over an expensive link.)
        """
        core = self._core
        unheard = [host for host in core.context.sites if host != core.site and not core.clusters.has_heard(host)]
        if unheard and self._hellos < HELLOS_MAX:
            for host in unheard:
                self._enqueue(host, Hello())
            core.set_timer("hello", 2**self._hellos * core.options.eic_seconds / 2)
            self._hellos += 1

    def answer_hello(self, sender: SiteId) -> None:
        """Tell a host that has just started everything that concerns it; at once, so that it can tell how far away this
        one is, where that is measured."""
        for stream in self._core.streams.values():
            if sender in stream.others:
                self._enqueue(sender, self.info(stream))
        items = self._waiting.pop(sender, [])
        if items or self._core.clusters.measures:
            self._send((sender,), items)

    # ------------------------------------------------------------------ packets
    def _enqueue(self, host: SiteId, item: AnyItem) -> None:
        """Send it soon: with others, and not beside an INFO set that says the same."""
        if not self._waiting:
            self._core.set_timer("piggyback", self._core.options.piggyback_seconds)
        waiting = self._waiting.setdefault(host, [])
        if isinstance(item, Pointer | Info):
            # What was to be said about this stream before is older.
            for place, other in enumerate(waiting):
                if isinstance(other, Pointer | Info) and other.stream == item.stream:
                    self._core.branch("piggybacked")
                    if isinstance(item, Info) or isinstance(other, Pointer):
                        waiting[place] = item
                    elif other.parent != item.parent:
                        waiting[place] = self.info(self._core.streams[item.stream])
                    return
        elif waiting:
            self._core.branch("piggybacked")
        waiting.append(item)

    def send_at_once(self, host: SiteId, item: AnyItem) -> None:
        """Send it now, and what waits for the same host with it.

        What waits was said of the host before this: it comes first, and says what is true now.
        """
        waiting = self._waiting.get(host, ())
        self._waiting[host] = [
            self.info(self._core.streams[each.stream]) if isinstance(each, Info) else each
            for each in waiting
            # The stream of an epoch that is over may be gone.
            if not isinstance(each, Pointer) and not (isinstance(each, Info) and each.stream not in self._core.streams)
        ]
        self._waiting[host].append(item)
        self._flush_to(host)

    def _flush_to(self, host: SiteId) -> None:
        items = self._waiting.pop(host, None)
        if items:
            self._send((host,), items)

    def on_piggyback_timeout(self) -> None:
        """What waits has waited for company for long enough."""
        self.flush()

    def flush(self) -> None:
        """Send what waits; who gets the same gets the same packet."""
        waiting, self._waiting = self._waiting, {}
        if self._core.clusters.measures:
            for host, items in waiting.items():
                self._send((host,), items)
            return
        alike: dict[tuple[int, ...], tuple[list[AnyItem], list[SiteId]]] = {}
        for host, items in waiting.items():
            alike.setdefault(tuple(map(id, items)), (items, []))[1].append(host)
        for items, hosts in alike.values():
            self._send(tuple(sorted(hosts)), items)

    def _send(self, hosts: tuple[SiteId, ...], items: list[AnyItem]) -> None:
        times = self._core.clusters.times_for(hosts[0]) if self._core.clusters.measures else (0.0, 0.0, 0.0)
        for start in range(0, max(1, len(items)), ITEMS_MAX):
            self._stamp += 1
            self._core.send(hosts, Control(self._stamp, tuple(items[start : start + ITEMS_MAX]), *times))
