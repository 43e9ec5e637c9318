"""A packet on its way to one site: what the event queue, a busy site and the interface of a slow one hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ordercast.core import SiteId
from ordercast.core.events import Arrival
from ordercast.trace.interface import Envelope

if TYPE_CHECKING:
    from ordercast.sim.site import SimulatedSite


class Flight(msgspec.Struct, frozen=True, eq=False):
    """One packet for one receiver. Copies of a frame that everyone hears have the same number and envelope."""

    number: int
    envelope: Envelope
    arrival: Arrival
    """What the receiver can see of the way."""
    receiver: SimulatedSite
    origin: SiteId
    """Where the sender is, as networks and faults call it."""

    def drop(self, reason: str) -> None:
        """It is lost on the way."""
        self.receiver.drop(self, reason)
