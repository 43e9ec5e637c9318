"""The weaker SP service (2.2, Figure 3(a)): every destination gets everything, in the order of each source only.

A lost message is asked for and sent again, and goes where its source's order wants it; nobody else has to stop for
that. The three levels of receipt are the same, and so is the agreement when the members of the cluster change.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from ordercast.core import Context, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.selective_total.establishment import Establishment
from ordercast.protocols.selective_total.packets import Epoch, Request, Retransmission
from ordercast.protocols.selective_total.receipt_log import Entry


class SourceOrder(Establishment):
    """What differs when the service is SP."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.is_source_order = self.options.service == "source"
        self.offered: dict[int, tuple[Epoch, int, int]] = {}
        """Of each source that this process has lost something of: epoch, the partial number and TSEQ that come next."""
        self.requested: set[tuple[int, int]] = set()
        """What was asked for in this period: source, partial number."""

    def on_loss(self, source: int, number: int, expected: int) -> None:
        """Ask its source for what is missing."""
        if not self.is_source_order:
            super().on_loss(source, number, expected)
            return
        self.offered[source] = (self.epoch, number, expected)
        self.send_request(source)

    def send_request(self, source: int) -> None:
        """What is missing and was not asked for in this period."""
        cluster = self.cluster
        if cluster is None or self.agreement is not None:
            return
        numbers = range(cluster.preq[source], self.offered[source][1])
        lost = (
            number
            for number in numbers
            if number not in cluster.beyond[source] and (source, number) not in self.requested
        )
        # No source has more under way; a larger gap is someone's invention.
        missing = tuple(islice(lost, self.options.window_messages))
        if missing:
            self.requested.update((source, number) for number in missing)
            self.broadcast(Request(cluster.epoch, cluster.members[source], missing))

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """A destination has lost messages of this process."""
        cluster, place = self.cluster, self.place_of(sender)
        if cluster is None or packet.epoch != cluster.epoch or self.agreement is not None:
            super().on_request(sender, packet, arrival)
        elif packet.source == self.site and place is not None:
            self.send_data_again(cluster, cluster.epoch, {(place, number) for number in packet.missing})

    def on_retransmission(self, sender: SiteId, packet: Retransmission, arrival: Arrival) -> None:
        """Put it where its source's order wants it."""
        cluster, source, data = self.cluster, packet.source, packet.data
        if cluster is None or packet.agreement != cluster.epoch or self.agreement or source not in self.offered:
            super().on_retransmission(sender, packet, arrival)
            return
        self.check_again(cluster, sender, packet)
        number = data.pseq[cluster.me]
        beyond = cluster.beyond[source]
        if number < cluster.preq[source] or number in beyond or not self.is_destination(data.multicast):
            return
        beyond.append(number)
        while cluster.preq[source] in beyond:
            beyond.remove(cluster.preq[source])
            cluster.preq[source] += 1
        places = (at for at, entry in enumerate(self.log) if entry.source == source and entry.tseq > data.tseq)
        self.log.insert(next(places, len(self.log)), Entry(source, data))
        epoch, offered, expected = self.offered[source]
        if epoch == cluster.epoch and cluster.preq[source] == offered:
            del self.offered[source]
            cluster.note_accepted(source, expected, destined=False)
        self.after_progress(cluster)

    def deliver_acknowledged(self) -> None:
        """Messages of other sources do not wait for one another."""
        cluster = self.cluster
        if not self.is_source_order or cluster is None or self.agreement is not None:
            super().deliver_acknowledged()
            return
        acknowledged = cluster.pre_acknowledged_by_all
        left: deque[Entry] = deque()
        for entry in self.log:
            if entry.tseq < acknowledged[entry.source]:
                self.hand_over(entry)
            else:
                left.append(entry)
        self.log = left

    def look_for_losses(self) -> None:
        """Ask again; what others have accepted, its source will tell."""
        if not self.is_source_order:
            super().look_for_losses()
            return
        self.requested.clear()
        self.offered = {source: offer for source, offer in self.offered.items() if offer[0] == self.epoch}
        for source in self.offered:
            self.send_request(source)
