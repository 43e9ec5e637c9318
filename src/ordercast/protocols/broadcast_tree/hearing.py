"""Whom this host hears, and what control packets tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.broadcast_tree.packets import Adopt, Control, Declare, Detach, Hello, Info, Pointer
from ordercast.protocols.broadcast_tree.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.broadcast_tree.protocol import BroadcastTree


class Hearing(Part):
    """What comes from other hosts."""

    packets = (Control,)
    branches = ("child-lost", "pruned")

    def __init__(self, core: BroadcastTree) -> None:
        self._core = core
        self._heard: set[SiteId] = set()
        """Since half of PA."""
        self._heard_in_exchange: set[SiteId] = set()
        self._silent_exchanges: dict[SiteId, int] = {}
        self._incarnations: dict[SiteId, int] = {}

    # ------------------------------------------------------------------ who is there
    def hear(self, sender: SiteId, arrival: Arrival) -> None:
        """Anything has come from a host."""
        core = self._core
        if sender not in core.ranks:
            raise WireError(f"{sender} is not a site of the system")
        core.clusters.on_arrival(sender, arrival)
        self._heard.add(sender)
        self._heard_in_exchange.add(sender)
        self._silent_exchanges[sender] = 0

    def take_heard(self) -> set[SiteId]:
        """Who was heard since the last time that this was asked."""
        heard, self._heard = self._heard, set()
        return heard

    def is_reachable(self, site: SiteId) -> bool:
        """Whether the host was heard lately."""
        return self._silent_exchanges.get(site, 0) < self._core.options.silent_exchanges_max

    def count_silence(self) -> None:
        """At each exchange between clusters: who was not heard over several of these is away, until heard again."""
        core = self._core
        for site in core.context.sites:
            silent = 0 if site in self._heard_in_exchange else self._silent_exchanges.get(site, 0) + 1
            self._silent_exchanges[site] = silent
            if silent == core.options.silent_exchanges_max:
                for stream in core.streams.values():
                    if stream.remove_child(site):
                        core.branch("child-lost")
                    if stream.parent == site:
                        core.attachment.lose_parent(stream)
        self._heard_in_exchange.clear()

    # ------------------------------------------------------------------ what they say
    def on_control(self, sender: SiteId, packet: Control, arrival: Arrival) -> None:
        """One by one."""
        self.hear(sender, arrival)
        core = self._core
        incarnation = packet.stamp >> 40
        known = self._incarnations.get(sender, incarnation)
        if incarnation < known:
            return
        self._incarnations[sender] = incarnation
        core.clusters.on_timestamps(sender, packet)
        if incarnation > known:
            for stream in core.streams.values():
                stream.forget_host(sender)
        for item in packet.items:
            if isinstance(item, Hello):
                core.exchange.answer_hello(sender)
            else:
                self._on_item(sender, item, packet.stamp)
        if incarnation > known:
            for stream in core.streams.values():
                if stream.parent == sender and stream.highest_of(sender) < stream.highest:
                    core.attachment.lose_parent(stream)

    def _on_item(self, sender: SiteId, item: Info | Pointer | Declare | Adopt | Detach, stamp: int) -> None:
        core = self._core
        stream = core.streams.named(item.stream)
        if sender not in stream.others:
            raise WireError(f"{sender} takes no part in the broadcasts of {stream.id.source}")
        match item:
            case Info():
                self.on_info(sender, stream, item, stamp)
            case Pointer():
                core.attachment.note_pointer(sender, stream, item.parent, stamp)
            case Declare():
                core.attachment.on_declare(sender, stream, item, stamp)
            case Adopt():
                core.attachment.on_adopt(sender, stream)
            case Detach():
                core.attachment.on_detach(sender, stream, stamp)

    def on_info(self, sender: SiteId, stream: Stream, info: Info, stamp: int) -> None:
        """UPDATE-MAP, and UPDATE-PARENT-POINTERS in the same packet; the gaps of a child are filled at once."""
        core = self._core
        stream.learn(sender, info.numbers)
        stream.taken_by[sender] = max(info.taken, stream.taken_by.get(sender, 0))
        core.attachment.note_pointer(sender, stream, info.parent, stamp)
        if stream.raise_floor(info.floor):
            core.branch("pruned")
            core.delivery.note_floor(stream, sender)
        if sender in stream.children:
            core.gaps.fill(stream, sender)
        core.attachment.on_news(stream, sender)
