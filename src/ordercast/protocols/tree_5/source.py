"""A source's part in one group: fragments (A), (G), (I) and (J)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import GroupId, Multicast, SiteId
from ordercast.protocols.parts.numbered import Intervals, MeasuredOutgoing
from ordercast.protocols.tree_5.packets import Null, Sent, Submit

if TYPE_CHECKING:
    from ordercast.protocols.tree_5.protocol import Tree5


class Source(MeasuredOutgoing[Submit]):
    """Its messages to one group, kept until the whole group has delivered them.

    (Forgotten when the root has them: the root delivers 7, and fails before it has passed it on; 7 is lost although its
    source is up.)
    """

    __slots__ = ("core", "epoch", "group")

    def __init__(self, core: Tree5, group: GroupId, root: SiteId) -> None:
        super().__init__(root)
        self.core = core
        self.group = group
        self.epoch = 0
        """Of the root that is known."""

    def multicast(self, multicast: Multicast) -> None:
        """Fragment (A)."""
        packet = Submit(self.group, next(self.numbers), multicast)
        self.keep(packet)
        self.core.append(Sent(self.group, packet.number, multicast))
        self.core.send((self.to,), packet)
        self.core.set_timer(("null", self.group), self.core.options.delta)

    def announce(self) -> None:
        """Fragment (G): say what the highest number is, and again after δ."""
        self.core.send((self.to,), Null(self.group, self.highest))
        self.core.set_timer(("null", self.group), self.core.options.delta)

    def turn_to(self, root: SiteId, epoch: int) -> None:
        """Fragment (I). What only the old root had is missing at the new one: it hears of it at once, and not only when
        the next message or null is due."""
        if epoch > self.epoch:
            self.to, self.epoch = root, epoch
            if self.highest:
                self.core.branch("told-new-root")
                self.announce()

    def send_again(self, to: SiteId, missing: Intervals) -> None:
        """Fragment (J)."""
        for _, packet in self.asked_for(missing):
            self.core.branch("resent-by-source")
            self.core.send((to,), packet)
