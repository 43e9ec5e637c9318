"""A local group (2.1): a coordinator and its children, as one of them sees it."""

from __future__ import annotations

from ordercast.core import SiteId
from ordercast.protocols.intergroup.control.options import ControlOptions
from ordercast.protocols.intergroup.control.packets import local_channel
from ordercast.protocols.intergroup.control.tables import Entry, Table


class LocalGroup:
    """The local group of one coordinator. While a process moves, or changes its state, it is in two of them."""

    def __init__(self, options: ControlOptions, coordinator: SiteId, tick: int, hops: int = 0, size: int = 0) -> None:
        self.coordinator = coordinator
        self.channel = local_channel(coordinator)
        self.locals = Table(options)
        """The others in it, without the coordinator."""
        self.head = Entry(coordinator, tick)
        """The coordinator, as a child knows it."""
        self.head.hops = hops
        self.size = size
        """numLocals, as the coordinator says."""
        self.num_coords = 0
        """numCoords, as the coordinator says; 0 before it has said anything."""
        self.far_ttl = hops
        """localGroupFarTTL, as the coordinator says."""
        self.far_distance = 0.0
        """localGroupFarDistance."""
        self.global_seconds = 0.0
        """How long the coordinator waits between two GCons."""
        self.listed = False
        """Whether the coordinator has said that this process is one of its children."""
        self.listed_at = tick
        """When it has said so last; when the group was found, before the first time."""
        self.leaving_at: int | None = None
        """When it has said last that it leaves."""
