"""What a process of selective total order is made of: its cluster, its logs, what it hands to the application."""

from __future__ import annotations

from collections import deque
from typing import cast

from ordercast.core import Context, InvariantViolation, Multicast, Packet, Protocol, SiteId
from ordercast.core.effects import Broadcast, Credit
from ordercast.core.events import Consumed
from ordercast.protocols.selective_total.agreement import Agreement
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.options import SelectiveTotalOptions
from ordercast.protocols.selective_total.packets import NO_EPOCH, Data, Epoch
from ordercast.protocols.selective_total.receipt_log import Entry


class ProcessState(Protocol):
    """The variables, and the way to the application."""

    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(SelectiveTotalOptions, context.options)
        self.cluster: Cluster | None = None
        """None outside of any cluster."""
        self.log: deque[Entry] = deque()
        """Accepted and not delivered, in the order of the channel: RRL and PRL."""
        self.sent: deque[Data] = deque()
        """SL: what this process has sent and not everyone has accepted."""
        self.sent_again: set[int] = set()
        """TSEQ of those of them that were sent again in this period."""
        self.pending: deque[Multicast] = deque()
        """What waits for the window, or for a cluster."""
        self.unconsumed = 0
        self.window = self.options.window_messages
        """W as it is at present."""
        self.agreement: Agreement | None = None
        """The one that this process has joined; while there is one, nothing is sent or delivered."""
        self.restored: Agreement | None = None
        """An earlier one for which it has said `Restored`, and of which it does not know whether it ended."""
        self.incarnations: dict[SiteId, int] = dict.fromkeys(context.sites, 0)
        """How often each process has come back from a crash, as far as known."""
        self.incarnations[self.site] = context.incarnation
        self.seen = 0
        """The highest number of an epoch that it has heard of."""
        self.aborted = ""

    @property
    def epoch(self) -> Epoch:
        """The epoch that this process is in."""
        return NO_EPOCH if self.cluster is None else self.cluster.epoch

    # ------------------------------------------------------------------ parts that stand in other files
    def transmit(self) -> None:
        """Send what the window allows (transmission)."""
        raise NotImplementedError

    def start_reset(self) -> None:
        """Ask everyone to agree on a sort line (recovery)."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the channel and the application
    def broadcast(self, packet: Packet) -> None:
        """Say something to everyone, this process included."""
        self.outbox.append(Broadcast(self.options.channel, packet))

    def is_destination(self, multicast: Multicast) -> bool:
        """Whether a message is for this process."""
        return self.site in self.context.destinations(multicast)

    @property
    def free_buffers(self) -> int:
        """BUF."""
        return max(0, self.options.buffer_messages - len(self.log) - self.unconsumed)

    def deliver_acknowledged(self) -> None:
        """The ACK action (3.4): deliver from the top of the log what everyone is known to have pre-acknowledged.

        Everyone, not only the destinations: see README.md, "What is acknowledged". Nothing during an agreement: what is
        delivered now was not reported as delivered.
        """
        cluster = self.cluster
        if cluster is None or self.agreement is not None:
            return
        log, acknowledged = self.log, cluster.pre_acknowledged_by_all
        while log and log[0].data.tseq < acknowledged[log[0].source]:
            self.hand_over(log.popleft())

    def hand_over(self, entry: Entry) -> None:
        """Deliver one message."""
        if self.cluster is None or entry.data.tseq < self.cluster.delivered[entry.source]:
            raise InvariantViolation(f"message {entry.data.tseq} is delivered after a later one of its source")
        self.cluster.delivered[entry.source] = entry.data.tseq + 1
        self.unconsumed += 1
        self.deliver(entry.data.multicast)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries: buffers are free, and everyone is told with the next frame."""
        self.unconsumed = max(0, self.unconsumed - event.count)
        self.transmit()

    def give_credit(self) -> None:
        """How many more messages the application may hand over."""
        self.outbox.append(Credit(max(0, self.options.pending_messages_max - len(self.pending))))

    def say_blocked(self, reason: str) -> None:
        """Tell the application why there is no progress, when that changes."""
        self.block("agreement", reason)

    def place_of(self, site: SiteId) -> int | None:
        """The place of a process in the cluster."""
        return None if self.cluster is None else self.cluster.place.get(site)
