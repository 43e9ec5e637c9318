"""A host of the broadcast tree that is led by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ordercast.core import MessageId, Multicast, Packet
from ordercast.core.effects import Effect
from ordercast.core.events import Arrival, MulticastRequested, Received, Started, TimerFired
from ordercast.protocols.broadcast_tree import BroadcastTree, BroadcastTreeOptions
from ordercast.protocols.broadcast_tree.packets import Adopt, Control, Data, Info, StreamId
from tests.protocols.classic_runs import Hand, sent

SITES = ("a", "b", "c", "d", "s")
GROUPS = {"g": SITES}
STREAM = StreamId("s", 0, ("g",))
FAR = Arrival(cost=1)


def multicast(number: int, source: str = "s", group: str = "g") -> Multicast:
    return Multicast(MessageId(source, 0, number), (group,))


def data(number: int, source: str = "s") -> Data:
    return Data(0, number, multicast(number, source))


def info(*numbers: tuple[int, int], parent: str | None = None, taken: int = 0, floor: int = 0) -> Info:
    return Info(STREAM, numbers, taken, floor, parent)


class Host(Hand):
    """A host whose neighbours are near unless they are said to be far."""

    def __init__(self, site: str = "b", options: BroadcastTreeOptions | None = None, incarnation: int = 0) -> None:
        super().__init__(BroadcastTree, site, GROUPS, SITES, options, incarnation)
        self.stamp = 0
        if not incarnation:
            self.step(Started())

    @property
    def tree(self) -> BroadcastTree:
        assert isinstance(self.core, BroadcastTree)
        return self.core

    @property
    def parent(self) -> str | None:
        return self.tree.streams[STREAM].parent

    @property
    def children(self) -> set[str]:
        return self.tree.streams[STREAM].children

    def hear(self, sender: str, *items: Any, far: bool = False, stamp: int = 0) -> list[Effect]:
        """Control messages in one packet."""
        self.stamp += 1
        return self._arrive(sender, Control(stamp or self.stamp, items), far)

    def get(self, sender: str, number: int, far: bool = False) -> list[Effect]:
        """A broadcast message."""
        return self._arrive(sender, data(number), far)

    def _arrive(self, sender: str, packet: Packet, far: bool) -> list[Effect]:
        return self.step(Received(sender, packet, FAR if far else Arrival()))

    def send(self, number: int, payload: bytes = b"") -> list[Effect]:
        """The application multicasts."""
        return self.step(MulticastRequested(Multicast(MessageId(self.core.site, 0, number), ("g",), payload)))

    def fire(self, timer: Any) -> list[Effect]:
        return self.step(TimerFired(timer))

    def look(self) -> list[tuple[str, object]]:
        """NP1 runs out; who is told what."""
        return told(self.fire("np1"))

    def attached_to(self, parent: str, *numbers: tuple[int, int], far: bool = False) -> Host:
        """This host, after it has attached to a leader that has these numbers."""
        self.hear(parent, info(*numbers), far=far)
        self.look()
        self.hear(parent, Adopt(STREAM), far=far)
        assert self.parent == parent
        return self


def told(effects: Sequence[Effect]) -> list[tuple[str, object]]:
    """Control messages that leave, and to whom."""
    return [
        (host, item)
        for to, message in sent(effects)
        if isinstance(message, Control)
        for host in to
        for item in message.items
    ]


def messages(effects: Sequence[Effect]) -> list[tuple[str, int]]:
    """Broadcast messages that leave, and to whom."""
    return [(host, message.number) for to, message in sent(effects) if isinstance(message, Data) for host in to]
