"""The point-to-point network of Spauster 4.1: a send costs the sender P, and takes L to arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import SiteId, UsageError
from ordercast.sim.networks.base import Network

if TYPE_CHECKING:
    from ordercast.sim.site.processor import Processor


class PointToPoint(Network):
    """A multicast to n sites is n packets and takes nP + L until the last has it."""

    def __init__(self, processing: float = 0.0001, latency: float = 0.001) -> None:
        super().__init__()
        if processing < 0 or latency < 0:
            raise UsageError("processing and latency of a point-to-point network are 0 or more")
        self._processing = processing
        self._latency = latency

    def depart(self, sender: Processor) -> float:
        """The sender is busy for P."""
        sender.cursor += self._processing
        return sender.cursor

    def latency(self, sender: SiteId, receiver: SiteId) -> float:
        """L."""
        return self._latency

    def latency_max(self) -> float:
        """L."""
        return self._latency

    def processing_seconds(self) -> float:
        """P."""
        return self._processing
