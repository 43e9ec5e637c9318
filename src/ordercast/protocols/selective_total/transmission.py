"""Transmission (3.2): what waits for the window, what is under way, and how wide the window is."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Multicast, Part
from ordercast.core.effects import Credit
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import Data

if TYPE_CHECKING:
    from ordercast.protocols.selective_total.protocol import SelectiveTotal


class Transmission(Part):
    """The messages of one site, until everyone has accepted them."""

    branches = ("window-closed", "receivers-full")

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core
        self.pending: deque[Multicast] = deque()
        """What waits for the window, or for a cluster."""
        self.sent: deque[Data] = deque()
        """SL: what this site has sent and not everyone has accepted."""
        self.window = core.options.window_messages
        """W as it is at present."""
        self._accepted_in_a_row = 0

    # ------------------------------------------------------------------ sending
    def submit(self, multicast: Multicast) -> None:
        """Queue it; it leaves as soon as the window allows."""
        self.pending.append(multicast)
        self.transmit()

    def transmit(self) -> None:
        """The transmission action."""
        core = self._core
        cluster = core.open_cluster
        if not self.pending or cluster is None:
            return
        before = len(self.pending)
        while self.pending and self._window_open(cluster):
            self._send_data(cluster, self.pending.popleft())
        if self.pending:
            core.branch("window-closed" if cluster.unaccepted >= self.window else "receivers-full")
        if len(self.pending) < before:
            self.give_credit()

    def _window_open(self, cluster: Cluster) -> bool:
        """The transmission condition of 3.2: W, and a share of the smallest buffers."""
        share = min(cluster.buf) // (self._core.options.buffer_share * len(cluster.members))
        return cluster.unaccepted < min(self.window, share)

    def _send_data(self, cluster: Cluster, multicast: Multicast) -> None:
        """Broadcast one message."""
        core = self._core
        tseq, pseq = cluster.next_number(core.context.destinations(multicast))
        ack, pak, buf = core.acknowledgement.progress(cluster)
        data = Data(cluster.epoch, tseq, pseq, ack, pak, buf, multicast)
        self.sent.append(data)
        core.broadcast(data)

    def give_credit(self) -> None:
        """How many more messages the application may hand over."""
        core = self._core
        core.outbox.append(Credit(max(0, core.options.pending_messages_max - len(self.pending))))

    # ------------------------------------------------------------------ what becomes of what was sent
    def forget_accepted(self, cluster: Cluster) -> None:
        """Everyone has accepted some of it. Each window of messages without a loss widens the window by one."""
        accepted, window_max = cluster.accepted_by_all[cluster.me], self._core.options.window_messages
        while self.sent and self.sent[0].tseq < accepted:
            self.sent.popleft()
            self._accepted_in_a_row += 1
            if self._accepted_in_a_row >= self.window and self.window < window_max:
                self._accepted_in_a_row = 0
                self.window += 1

    def halve_window(self) -> None:
        """Something was lost: someone is overrun."""
        self.window = max(1, self.window // 2)
        self._accepted_in_a_row = 0

    def take_back(self, tseq: int) -> None:
        """Go back to this number: what was sent from there on waits again, before everything else."""
        self.pending.extendleft(data.multicast for data in reversed(self.sent) if data.tseq >= tseq)

    def forget(self) -> None:
        """The epoch is over."""
        self.sent.clear()

    def check_invariants(self) -> None:
        """Bounds of what is under way and of what waits."""
        options = self._core.options
        if len(self.sent) > options.window_messages:
            raise InvariantViolation(f"{len(self.sent)} messages are under way, more than {options.window_messages}")
        if len(self.pending) > options.pending_messages_max + options.window_messages:
            raise InvariantViolation(f"{len(self.pending)} messages wait for the window")
        if self.sent and self._core.cluster is None:
            raise InvariantViolation("a site in no cluster has sent messages in one")
