"""Messages that are not over: what this site knows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ordercast.core import MessageId, SiteId
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.consensus_packets import InstanceName
from ordercast.protocols.parts.kept import Kept, KeptMessages
from ordercast.protocols.scalatom.address import Address

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom


class Entry(Kept, eq=False, gc=False):
    """What a destination, or the source, knows of a message until it is over everywhere."""

    address: Address
    index: int = 0
    timestamp: int = 0
    """rec-ts, given here; 0: none."""
    stamps: dict[SiteId, int] = msgspec.field(default_factory=dict)
    """All that is known of the timestamps that the destinations gave."""
    instance: InstanceName = ()
    """The consensus that decided it."""


class Entries(KeptMessages[Entry]):
    """Every message that is not over."""

    make = Entry
    _core: Scalatom

    def note(self, message: MessageId, address: Destinations) -> Entry | None:
        """What we know of a message from now on; None when it is over."""
        before = self.ordinal
        entry = super().note(message, address)
        if entry is not None and self.ordinal > before:
            core = self._core
            if message.source == core.site and message.incarnation < core.loss.life:
                # A message of our life before: no credit comes back with it.
                entry.taken = True
        return entry
