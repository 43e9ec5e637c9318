"""The weaker SP service (2.2, Figure 3(a)): every destination gets everything, in the order of each source only.

A lost message is asked for and sent again, and goes where its source's order wants it; nobody else has to stop for
that. The three levels of receipt are the same, and so is the agreement when the members of the cluster change.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import Epoch, Request, Retransmission
from ordercast.protocols.selective_total.receipt_log import Entry

if TYPE_CHECKING:
    from ordercast.protocols.selective_total.protocol import SelectiveTotal


class SourceOrder(Part):
    """When messages are delivered, and what a loss leads to, when the service is SP."""

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core
        self._offered: dict[int, tuple[Epoch, int, int]] = {}
        """Of each source that this site has lost something of: epoch, the partial number and TSEQ that come next."""
        self._requested: set[tuple[int, int]] = set()
        """What was asked for in this period: source, partial number."""

    def deliver_acknowledged(self, cluster: Cluster) -> None:
        """The ACK action (3.4), in which messages of different sources do not wait for one another."""
        acknowledged = cluster.pre_acknowledged_by_all
        self._core.receipt.deliver_where(cluster, lambda entry: entry.tseq < acknowledged[entry.source])

    def on_loss(self, source: int, number: int, expected: int) -> None:
        """Something of a source is missing, below the partial number and the TSEQ that come next: ask for it."""
        self._offered[source] = (self._core.epoch, number, expected)
        self._send_request(source)

    def look_for_losses(self, cluster: Cluster) -> None:
        """Ask again; what others have accepted, its source will tell."""
        self._requested.clear()
        self._offered = {source: offer for source, offer in self._offered.items() if offer[0] == cluster.epoch}
        for source in self._offered:
            self._send_request(source)

    def _send_request(self, source: int) -> None:
        """What is missing and was not asked for in this period."""
        core = self._core
        cluster = core.cluster
        if cluster is None or core.recovery.agreement is not None:
            return
        numbers = range(cluster.preq[source], self._offered[source][1])
        lost = (
            number
            for number in numbers
            if number not in cluster.beyond[source] and (source, number) not in self._requested
        )
        # No source has more under way; a larger gap is someone's invention.
        missing = tuple(islice(lost, core.options.window_messages))
        if missing:
            self._requested.update((source, number) for number in missing)
            core.broadcast(Request(cluster.epoch, cluster.members[source], missing))

    def take_again(self, cluster: Cluster, sender: SiteId, packet: Retransmission) -> None:
        """A message again, outside of an agreement: put it where its source's order wants it."""
        core, source, data = self._core, packet.source, packet.data
        if source not in self._offered:
            return
        cluster.check_again(sender, packet)
        number = data.pseq[cluster.me]
        if cluster.has(source, number) or not core.is_destination(data.multicast):
            return
        cluster.note_again(source, number)
        core.receipt.insert(Entry(source, data))
        epoch, offered, expected = self._offered[source]
        if epoch == cluster.epoch and cluster.preq[source] == offered:
            del self._offered[source]
            cluster.note_accepted(source, expected, destined=False)
        core.receipt.after_progress(cluster)
