"""PROPAGATION (section 8): a message is made stable, delivered, and passed on along the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Multicast, Part, SiteId, WireError
from ordercast.core.effects import Replay
from ordercast.core.events import Arrival
from ordercast.protocols.broadcast_tree.info import holds
from ordercast.protocols.broadcast_tree.packets import Data, Stored
from ordercast.protocols.broadcast_tree.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.broadcast_tree.protocol import BroadcastTree


class Propagation(Part):
    """Broadcast messages through one host."""

    packets = (Data,)
    records = (Stored,)
    branches = ("duplicate", "not-from-parent", "recovered-messages")

    def __init__(self, core: BroadcastTree) -> None:
        self._core = core

    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """A broadcast message, new or to fill a gap."""
        core = self._core
        core.hearing.hear(sender, arrival)
        multicast, number = packet.multicast, packet.number
        source = multicast.id.source
        stream = core.streams.find(source, packet.epoch, multicast.groups)
        if sender not in stream.others or number < 1:
            raise WireError(f"{sender} takes no part in the broadcasts of {source} to {multicast.groups}")
        stream.learn_number(sender, number)
        if stream.has(number):
            core.branch("duplicate")
        elif stream.is_source:
            raise WireError(f"{sender} sent a message of {source} that it never numbered")
        elif not self.may_accept(stream, sender, number):
            core.branch("not-from-parent")
            core.attachment.refuse(stream, sender)
        else:
            self.store(stream, number, multicast, sender)
            self.propagate(stream, number, multicast, sender)

    def may_accept(self, stream: Stream, sender: SiteId, number: int) -> bool:
        """What is newer than anything seen comes from the parent only; what fills a gap from anyone.

        So nobody ever has newer messages than its parent, and a host that attaches to one that has more attaches to
        none of its descendants.
        """
        return sender == stream.parent or number < stream.highest

    def store(self, stream: Stream, number: int, multicast: Multicast, sender: SiteId) -> None:
        """Make it stable, then deliver it."""
        core = self._core
        core.append(Stored(stream.id, number, multicast))
        stream.add(number, multicast)
        if len(stream.kept) == 1:
            core.source.find_share()
        core.delivery.deliver(stream, number, sender)

    def propagate(self, stream: Stream, number: int, multicast: Multicast, sender: SiteId) -> None:
        """To parent and children, if they lack it."""
        to = tuple(
            host
            for host in stream.neighbours
            if host not in (sender, stream.id.source) and not holds(stream.map_of(host), number)
        )
        for host in to:
            self._core.gaps.note_sent(stream, host, number)
        self._core.send(to, Data(stream.id.epoch, number, multicast))

    def recall_stored(self, record: Stored) -> None:
        """After a crash: what the log has was delivered, or is now."""
        core = self._core
        stream = core.streams.named(record.stream)
        stream.add(record.number, record.multicast)
        core.delivery.deliver(stream, record.number, None, Replay)
        core.branch("recovered-messages")

    def check_invariants(self) -> None:
        """What is not pruned is kept."""
        for stream in self._core.streams.values():
            if len(stream.kept) != len(stream.info) - stream.floor:
                raise InvariantViolation(f"{self._core.site} keeps {len(stream.kept)} messages of {stream.id.source}")
