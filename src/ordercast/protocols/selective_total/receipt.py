"""Receipt (section 3): acceptance, losses found by number, the log of what is accepted, the way to the application."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import Data, ReceiveReady
from ordercast.protocols.selective_total.receipt_log import Entry

if TYPE_CHECKING:
    from ordercast.protocols.selective_total.protocol import SelectiveTotal


class Receipt(Part):
    """What one site has accepted and not delivered, or delivered and the application not taken."""

    packets = (Data, ReceiveReady)
    branches = ("loss-by-number", "loss-by-receive-ready")

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core
        self.log: deque[Entry] = deque()
        """Accepted and not delivered, in the order of the channel: RRL and PRL."""
        self._log_bytes = 0
        """Of its payloads."""
        self._unconsumed: deque[int] = deque()
        """The bytes of each delivery that the application has not taken."""
        self._unconsumed_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Of everything that is accepted and not delivered, or delivered and not taken."""
        return self._log_bytes + self._unconsumed_bytes

    @property
    def free_buffers(self) -> int:
        """BUF: where bytes are scarcer than messages, as large a part of all buffers as of the bytes."""
        options = self._core.options
        messages, bytes_max = options.buffer_messages, options.buffer_bytes_max
        free = messages - len(self.log) - len(self._unconsumed)
        return max(0, min(free, messages * (bytes_max - self.held_bytes) // bytes_max))

    # ------------------------------------------------------------------ receiving
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """A message, mine or another's, for me or not: the ACC action (3.2)."""
        if packet.multicast.id.source != sender:
            raise WireError(f"{sender} sends a message of {packet.multicast.id.source}")
        self._core.check_address(packet.multicast)
        cluster = self._cluster_of(sender, packet)
        if cluster is None:
            return
        source = cluster.place[sender]
        cluster.note_progress(source, packet)
        if packet.tseq >= cluster.treq[source]:
            self._take_data(cluster, source, packet)
        self.after_progress(cluster)

    def _take_data(self, cluster: Cluster, source: int, packet: Data) -> None:
        """Accept it, or find that something before it is lost."""
        core = self._core
        destined = core.is_destination(packet.multicast)
        if destined and len(self.log) >= core.options.buffer_messages:
            # As if it had never come: the next frame of its source will show that it is missing.
            core.branch("buffer-full")
            return
        number = packet.pseq[cluster.me]
        if self.accepts(cluster, source, packet, destined):
            cluster.note_accepted(source, packet.tseq + 1, destined)
            if destined:
                self._append(source, packet)
        elif number > cluster.preq[source] and number not in cluster.beyond[source]:
            if destined:
                # It reveals a loss, and keeps its place in the order of the channel all the same.
                cluster.note_beyond(source, number)
                self._append(source, packet)
            core.branch("loss-by-number")
            core.order.on_loss(source, number + destined, packet.tseq + 1)

    def _append(self, source: int, packet: Data) -> None:
        self.log.append(Entry(source, packet))
        self._log_bytes += len(packet.multicast.payload)

    def accepts(self, cluster: Cluster, source: int, packet: Data | ReceiveReady, destined: bool) -> bool:
        """The acceptance condition of 3.2: nothing of the sender's is missing here.

        A message for others counts as well. (Else: b loses a message for others, and from then on hears only messages
        for others from a; b's TREQ stalls, and with it the window of a.)
        """
        return packet.pseq[cluster.me] == cluster.preq[source]

    def on_receive_ready(self, sender: SiteId, packet: ReceiveReady, arrival: Arrival) -> None:
        """What the sender has accepted, and whether it has sent something that never came."""
        cluster = self._cluster_of(sender, packet)
        if cluster is None:
            return
        source = cluster.place[sender]
        cluster.note_progress(source, packet)
        if packet.tseq >= cluster.treq[source]:
            if self.accepts(cluster, source, packet, destined=False):
                cluster.note_accepted(source, packet.tseq, destined=False)
            elif packet.pseq[cluster.me] > cluster.preq[source]:
                self._core.branch("loss-by-receive-ready")
                self._core.order.on_loss(source, packet.pseq[cluster.me], packet.tseq)
        self.after_progress(cluster)

    def _cluster_of(self, sender: SiteId, packet: Data | ReceiveReady) -> Cluster | None:
        """The cluster, when a frame is of the epoch that this site is in, and counts."""
        core = self._core
        core.recovery.note_epoch(packet.epoch)
        cluster = core.cluster
        if cluster is None or packet.epoch != cluster.epoch or core.establishment.aborted:
            return None
        if sender not in cluster.place:
            raise WireError(f"{sender} speaks in epoch {packet.epoch}, in which it is not")
        cluster.check(packet)
        return cluster if core.recovery.hears(sender) else None

    def after_progress(self, cluster: Cluster) -> None:
        """Forget, deliver, send and acknowledge what can be now.

        During an agreement, nothing. (Else, under go-back-n: what everyone has accepted is forgotten here after this
        site has said that not everyone has; the others drop it from their logs, and nobody sends it again. And what
        is delivered now was not reported as delivered.)
        """
        core = self._core
        if core.recovery.agreement is None:
            core.transmission.forget_accepted(cluster)
            core.order.deliver_acknowledged(cluster)
            core.transmission.transmit()
            core.acknowledgement.acknowledge(cluster)

    def insert(self, entry: Entry) -> None:
        """Put what came late where its source's order wants it."""
        places = (at for at, each in enumerate(self.log) if each.source == entry.source and each.tseq > entry.tseq)
        self.log.insert(next(places, len(self.log)), entry)
        self._log_bytes += len(entry.data.multicast.payload)

    # ------------------------------------------------------------------ delivering
    def deliver_first(self, cluster: Cluster) -> None:
        """What is at the top of the log."""
        entry = self.log.popleft()
        self._log_bytes -= len(entry.data.multicast.payload)
        self._hand_over(cluster, entry)

    def deliver_where(self, cluster: Cluster, is_ready: Callable[[Entry], bool]) -> None:
        """What is ready, wherever in the log it is."""
        left: deque[Entry] = deque()
        for entry in self.log:
            if is_ready(entry):
                self._log_bytes -= len(entry.data.multicast.payload)
                self._hand_over(cluster, entry)
            else:
                left.append(entry)
        self.log = left

    def deliver_all(self, cluster: Cluster, log: Iterable[Entry]) -> None:
        """All of the log, as an agreement has put it in order."""
        for entry in log:
            self._hand_over(cluster, entry)
        self.forget()

    def _hand_over(self, cluster: Cluster, entry: Entry) -> None:
        cluster.note_delivered(entry.source, entry.tseq)
        size = len(entry.data.multicast.payload)
        self._unconsumed.append(size)
        self._unconsumed_bytes += size
        self._core.deliver(entry.data.multicast)

    def note_consumed(self, count: int) -> None:
        """The application has taken deliveries: buffers are free, and everyone is told with the next frame."""
        for _ in range(min(count, len(self._unconsumed))):
            self._unconsumed_bytes -= self._unconsumed.popleft()

    def forget(self) -> None:
        """The epoch is over."""
        self.log.clear()
        self._log_bytes = 0

    def check_invariants(self) -> None:
        """The log is in the order of each source, below what was delivered nothing is left; it has its bound."""
        buffers, cluster = self._core.options.buffer_messages, self._core.cluster
        if len(self.log) > buffers:
            raise InvariantViolation(f"the log has {len(self.log)} messages, more than {buffers}")
        if self._log_bytes != sum(len(entry.data.multicast.payload) for entry in self.log):
            raise InvariantViolation(f"{self._log_bytes} bytes are not what the log has")
        if cluster is None:
            if self.log:
                raise InvariantViolation("a site in no cluster has received messages of one")
            return
        last = list(cluster.delivered)
        for entry in self.log:
            if entry.tseq < last[entry.source]:
                raise InvariantViolation(f"message {entry.tseq} of {cluster.members[entry.source]} is out of order")
            last[entry.source] = entry.tseq + 1
