"""The ST service (2.2, Figure 3(b)): common destinations agree on the order of all messages.

The order is that of the channel; where something is lost, all sites stop and agree where it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import Retransmission

if TYPE_CHECKING:
    from ordercast.protocols.selective_total.protocol import SelectiveTotal


class TotalOrder(Part):
    """When messages are delivered, and what a loss leads to, when the service is ST."""

    branches = ("loss-by-others",)

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core

    def deliver_acknowledged(self, cluster: Cluster) -> None:
        """The ACK action (3.4): deliver from the top of the log what everyone is known to have pre-acknowledged.

        Everyone, not only the destinations: see README.md, "What is acknowledged".
        """
        receipt, acknowledged = self._core.receipt, cluster.pre_acknowledged_by_all
        log = receipt.log
        while log and log[0].data.tseq < acknowledged[log[0].source]:
            receipt.deliver_first(cluster)

    def on_loss(self, source: int, number: int, expected: int) -> None:
        """Something of a source is missing, below the partial number and the TSEQ that come next: everyone has to agree
        where it goes, also when it was the last."""
        self._core.recovery.start_reset()

    def look_for_losses(self, cluster: Cluster) -> None:
        """Others have accepted messages that never came here. They may have been for others; but when their source says
        nothing for long, they count as lost (4.1)."""
        core = self._core
        for source, member in enumerate(cluster.members):
            behind = cluster.treq[source] < max(cluster.accepted_by[source])
            if behind and core.presence.silent[member] > core.options.loss_periods:
                core.branch("loss-by-others")
                core.recovery.start_reset()
                return

    def take_again(self, cluster: Cluster, sender: SiteId, packet: Retransmission) -> None:
        """A message again, outside of an agreement: nobody here has asked for it."""
