"""Transmission and acceptance (section 3): windows, sequence numbers, receive-ready, the three levels of receipt."""

from __future__ import annotations

from ordercast.core import InvariantViolation, Multicast, SiteId, UsageError, WireError
from ordercast.core.events import Arrival, Consumed, MulticastRequested
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import Data, Epoch, ReceiveReady
from ordercast.protocols.selective_total.receipt_log import Entry
from ordercast.protocols.selective_total.state import ProcessState


class Transmission(ProcessState):
    """What a process does while nothing is lost."""

    said: tuple[tuple[int, ...], tuple[int, ...], int] = ((), (), 0)
    """What it said last: TREQ, what it has pre-acknowledged, buffers."""
    spoke = False
    """Whether it has said so since the last tick."""
    acknowledging = False
    """Whether the timer for an acknowledgement runs."""
    accepted_in_a_row = 0

    # ------------------------------------------------------------------ sending
    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Queue it; it leaves as soon as the window allows."""
        if self.aborted:
            raise UsageError(f"the cluster is aborted: {self.aborted}; open the node again")
        self.pending.append(event.multicast)
        self.transmit()

    def window_open(self, cluster: Cluster) -> bool:
        """The transmission condition of 3.2: W, and a share of the smallest buffers."""
        share = min(cluster.buf) // (self.options.buffer_share * len(cluster.members))
        return cluster.unaccepted < min(self.window, share)

    def transmit(self) -> None:
        """The transmission action."""
        cluster = self.cluster
        if cluster is None or self.agreement is not None or self.aborted:
            return
        before = len(self.pending)
        while self.pending and self.window_open(cluster):
            self.send_data(cluster, self.pending.popleft())
        if self.pending:
            self.branch("window-closed" if cluster.unaccepted >= self.window else "receivers-full")
        if len(self.pending) < before:
            self.give_credit()

    def send_data(self, cluster: Cluster, multicast: Multicast) -> None:
        """Broadcast one message."""
        tseq, pseq = cluster.next_number(self.context.destinations(multicast))
        ack, pak, buf = self.progress(cluster)
        data = Data(cluster.epoch, tseq, pseq, ack, pak, buf, multicast)
        self.sent.append(data)
        self.broadcast(data)

    def progress(self, cluster: Cluster) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """What every frame says about its sender."""
        self.said = (tuple(cluster.treq), tuple(cluster.accepted_by_all), self.free_buffers)
        self.spoke = True
        return self.said

    def send_receive_ready(self) -> None:
        """RR: the same without a message."""
        cluster = self.cluster
        if cluster is not None:
            ack, pak, buf = self.progress(cluster)
            self.broadcast(ReceiveReady(cluster.epoch, cluster.tseq, tuple(cluster.pseq), ack, pak, buf))

    # ------------------------------------------------------------------ receiving
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """A message, mine or another's, for me or not: the ACC action (3.2)."""
        if packet.multicast.id.source != sender:
            raise WireError(f"{sender} sends a message of {packet.multicast.id.source}")
        if not self.hears(sender, packet):
            return
        cluster = self.cluster
        if cluster is None:
            return
        source = cluster.place[sender]
        cluster.note_progress(source, packet)
        if packet.tseq >= cluster.treq[source]:
            self.take_data(cluster, source, packet)
        self.after_progress(cluster)

    def take_data(self, cluster: Cluster, source: int, packet: Data) -> None:
        """Accept it, or find that something before it is lost."""
        destined = self.is_destination(packet.multicast)
        if destined and len(self.log) >= self.options.buffer_messages:
            # As if it had never come: the next frame of its source will show that it is missing.
            self.branch("buffer-full")
            return
        number = packet.pseq[cluster.me]
        if self.accepts(cluster, source, packet, destined):
            cluster.note_accepted(source, packet.tseq + 1, destined)
            if destined:
                self.log.append(Entry(source, packet))
        elif number > cluster.preq[source] and number not in cluster.beyond[source]:
            if destined:
                # It reveals a loss, and keeps its place in the order of the channel all the same.
                cluster.beyond[source].append(number)
                self.log.append(Entry(source, packet))
            self.branch("loss-by-number")
            self.on_loss(source, number + destined, packet.tseq + 1)

    def accepts(self, cluster: Cluster, source: int, packet: Data | ReceiveReady, destined: bool) -> bool:
        """The acceptance condition of 3.2: nothing of the sender's is missing here.

        A message for others counts as well. (Else: b loses a message for others, and from then on hears only messages
        for others from a; b's TREQ stalls, and with it the window of a.)
        """
        return packet.pseq[cluster.me] == cluster.preq[source]

    def on_receive_ready(self, sender: SiteId, packet: ReceiveReady, arrival: Arrival) -> None:
        """What the sender has accepted, and whether it has sent something that never came."""
        if not self.hears(sender, packet):
            return
        cluster = self.cluster
        if cluster is None:
            return
        source = cluster.place[sender]
        cluster.note_progress(source, packet)
        if packet.tseq >= cluster.treq[source]:
            if self.accepts(cluster, source, packet, destined=False):
                cluster.note_accepted(source, packet.tseq, destined=False)
            elif packet.pseq[cluster.me] > cluster.preq[source]:
                self.branch("loss-by-receive-ready")
                self.on_loss(source, packet.pseq[cluster.me], packet.tseq)
        self.after_progress(cluster)

    def hears(self, sender: SiteId, packet: Data | ReceiveReady) -> bool:
        """Whether a frame is of the epoch that this process is in, and counts."""
        self.note_epoch(packet.epoch)
        cluster = self.cluster
        if cluster is None or packet.epoch != cluster.epoch or self.aborted:
            return False
        if sender not in cluster.place:
            raise WireError(f"{sender} speaks in epoch {packet.epoch}, in which it is not")
        cluster.check(packet)
        agreement = self.agreement
        # Of those who have joined the agreement nothing more comes; of those who are not in it nothing more counts.
        return agreement is None or (sender in agreement.stage and sender not in agreement.pre_acks)

    def after_progress(self, cluster: Cluster) -> None:
        """Forget, deliver, send and acknowledge what can be now.

        During an agreement, nothing. (Else, under go-back-n: what everyone has accepted is forgotten here after this
        process has said that not everyone has; the others drop it from their logs, and nobody sends it again.)
        """
        if self.agreement is not None:
            return
        accepted = cluster.accepted_by_all[cluster.me]
        while self.sent and self.sent[0].tseq < accepted:
            self.sent.popleft()
            self.on_accepted_by_all()
        self.deliver_acknowledged()
        if self.pending:
            self.transmit()
        if (tuple(cluster.treq), tuple(cluster.accepted_by_all)) != self.said[:2]:
            self.acknowledge_soon()

    def on_accepted_by_all(self) -> None:
        """Each window of messages without a loss widens the window by one."""
        self.accepted_in_a_row += 1
        if self.accepted_in_a_row >= self.window and self.window < self.options.window_messages:
            self.accepted_in_a_row = 0
            self.window += 1

    # ------------------------------------------------------------------ acknowledging
    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries. When that frees many buffers, nobody should wait long to hear of it."""
        super().on_consumed(event)
        if self.free_buffers - self.said[2] >= self.options.buffer_messages // 4:
            self.say_soon()

    def say_soon(self) -> None:
        """Speak within short, whether or not there is anything new to acknowledge."""
        self.said = ((), (), self.said[2])
        self.acknowledge_soon()

    def acknowledge_soon(self) -> None:
        """Say within short what was accepted, unless data of our own do."""
        if not self.acknowledging:
            self.acknowledging = True
            self.set_timer("acknowledge", self.options.acknowledge_seconds)

    def on_acknowledge_timeout(self) -> None:
        """Nothing of our own has carried it."""
        self.acknowledging = False
        cluster = self.cluster
        if cluster is None or self.agreement is not None or self.aborted:
            return
        if (tuple(cluster.treq), tuple(cluster.accepted_by_all)) != self.said[:2]:
            self.send_receive_ready()

    # ------------------------------------------------------------------ parts that stand in other files
    def note_epoch(self, epoch: Epoch) -> None:
        """Someone speaks in an epoch (recovery)."""
        raise NotImplementedError

    def on_loss(self, source: int, number: int, expected: int) -> None:
        """Something of a source is missing, below the partial number and the TSEQ that come next (recovery)."""
        raise NotImplementedError

    def check_invariants(self) -> None:
        """Bounds of the logs, and that they hold nothing twice."""
        options = self.options
        if len(self.sent) > options.window_messages:
            raise InvariantViolation(f"{len(self.sent)} messages are under way, more than {options.window_messages}")
        if len(self.log) > options.buffer_messages:
            raise InvariantViolation(f"the log has {len(self.log)} messages, more than {options.buffer_messages}")
        if len(self.pending) > options.pending_messages_max + options.window_messages:
            raise InvariantViolation(f"{len(self.pending)} messages wait for the window")
