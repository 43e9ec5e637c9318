"""The broadcast medium of Spauster 4.2 (an Ethernet): one frame at a time, and everyone hears it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import SiteId, UsageError
from ordercast.sim.networks.base import Network

if TYPE_CHECKING:
    from ordercast.sim.site.processor import Processor

_FRAMES_IN_FRONT_MAX = 256
"""A frame waits for those in front of it; beyond this many the medium is overloaded, and phi_n does not cover it."""


class BroadcastMedium(Network):
    """A frame takes T, to one site or to all; there is just one frame on the medium at a time."""

    one_frame_for_all = True

    def __init__(self, frame: float = 0.0001) -> None:
        super().__init__()
        if frame < 0:
            raise UsageError("the frame time of a broadcast network is 0 or more")
        self._frame = frame
        self._free_at = 0.0

    def depart(self, sender: Processor) -> float:
        """Wait until the medium is free, then occupy it for T."""
        self._free_at = max(sender.cursor, self._free_at) + self._frame
        return self._free_at

    def latency(self, sender: SiteId, receiver: SiteId) -> float:
        """Everyone has it when the frame is out."""
        return 0.0

    def latency_max(self) -> float:
        """The frame, and the frames that may be in front of it."""
        return self._frame * _FRAMES_IN_FRONT_MAX

    def processing_seconds(self) -> float:
        """The sender's interface does the work."""
        return 0.0
