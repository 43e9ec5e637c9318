"""Small messages inside one cell go to its primary alone, and from there to all, together with their places.

Kaashoek et al. (1989) call the two ways PB (the one that orders broadcasts the message) and BB (the source does, and
the one that orders broadcasts its place). PB is one datagram for each destination instead of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Multicast, Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.multicast import Data

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep


class Forwarding(Part):
    """Which way a message goes."""

    packets = (Data,)
    branches = ("forwarded",)

    def __init__(self, core: ThreeStep) -> None:
        self._core = core
        self._direct_bytes = core.options.direct_bytes

    def _is_small(self, multicast: Multicast, address: Destinations) -> bool:
        """Whether it goes to our cell alone, and costs less when it is carried twice than in packets of its own."""
        return len(multicast.payload) < self._direct_bytes and address.cells == (self._core.ordering.cell,)

    def whom_to_tell_first(self, multicast: Multicast, address: Destinations) -> tuple[SiteId, ...]:
        """Step 1: to whom a message of ours goes. To all where nobody is sure to order it, or we do ourselves."""
        primary = self._core.primary
        if not primary.may_speak or primary.leads or not self._is_small(multicast, address):
            return address.others
        return (primary.primary_of(primary.started),)

    def on_data(self, sender: SiteId, data: Data, arrival: Arrival) -> None:
        """A message; if it may have been sent to us alone, it is remembered as it came. (Without what its source says
        of its earlier messages: the others remember for ever that these are over.)"""
        core, multicast = self._core, data.multicast
        core.multicast.on_data(sender, data, arrival)
        if (
            sender == multicast.id.source
            and sender in core.cellmates
            and self._is_small(multicast, core.addresses.of(multicast))
        ):
            entry = core.entries.get(multicast.id)
            if entry is not None and not entry.place:
                entry.data = data

    def forward(self, to: tuple[SiteId, ...], data: Data) -> None:
        """At the primary: a message leaves with its place."""
        self._core.branch("forwarded")
        self._core.send(to, data)

    def send_again(self) -> None:
        """Somebody else orders now: it may know nothing of our messages.

        (Else: they are asked about after a while, and wait for so long.)
        """
        core = self._core
        for entry in core.ordering.unplaced():
            if entry.message.source == core.site and entry.multicast is not None:
                core.multicast.multicast(entry.multicast, self.whom_to_tell_first(entry.multicast, entry.address))
