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


STILL_PERIODS = 10
"""A site says that nothing moves when nothing has for so many periods: a second, several losses in a row."""


class Transmission(Part):
    """The messages of one site, until everyone has accepted them."""

    branches = ("window-closed", "receivers-full")

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core
        self.pending: deque[Multicast] = deque()
        """What waits for the window, or for a cluster."""
        self.pending_bytes = 0
        self.sent: deque[Data] = deque()
        """SL: what this site has sent and not everyone has accepted."""
        self.sent_bytes = 0
        self.window = core.options.window_messages
        """W as it is at present."""
        self._accepted_in_a_row = 0
        self._still_periods = 0
        """Periods in a row in which something waited and nothing was sent."""

    # ------------------------------------------------------------------ sending
    def submit(self, multicast: Multicast) -> None:
        """Queue it; it leaves as soon as the window allows."""
        self.pending.append(multicast)
        self.pending_bytes += len(multicast.payload)
        self.transmit()
        if not self._pending_room():
            self.give_credit()

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
        """The transmission condition of 3.2: W, and a share of the smallest buffers; and of the bytes that they
        hold."""
        options = self._core.options
        free, shares = min(cluster.buf), options.buffer_share * len(cluster.members)
        if self.sent_bytes and self.sent_bytes * options.buffer_messages * shares >= options.buffer_bytes_max * free:
            return False
        return cluster.unaccepted < min(self.window, free // shares)

    def _send_data(self, cluster: Cluster, multicast: Multicast) -> None:
        """Broadcast one message."""
        core, size = self._core, len(multicast.payload)
        self.pending_bytes -= size
        self.sent_bytes += size
        self._still_periods = 0
        tseq, pseq = cluster.next_number(core.context.destinations(multicast))
        ack, pak, buf = core.acknowledgement.progress(cluster)
        data = Data(cluster.epoch, tseq, pseq, ack, pak, buf, multicast)
        self.sent.append(data)
        core.broadcast(data)

    def give_credit(self) -> None:
        """How many more messages the application may hand over."""
        self._core.outbox.append(Credit(self._pending_room()))

    def _pending_room(self) -> int:
        options = self._core.options
        if self.pending_bytes >= max(1, options.buffer_bytes_max // 4):
            return 0
        return max(0, options.pending_messages_max - len(self.pending))

    # ------------------------------------------------------------------ who is in the way
    def pass_period(self) -> None:
        """When something has waited for long, name the member that is in the way."""
        self._still_periods = self._still_periods + 1 if self.pending else 0
        long = self._still_periods >= STILL_PERIODS and self._core.cluster is not None
        self._core.block("transmission", self._whom_we_wait_for() if long else "")

    def _whom_we_wait_for(self) -> str:
        core, cluster = self._core, self._core.cluster
        agreement = core.recovery.agreement
        if agreement is not None:
            behind = min(agreement.stage.values())
            slow = [site for site, stage in agreement.stage.items() if stage == behind]
            return f"the agreement waits for {', '.join(slow)}"
        if cluster is None:
            return ""
        accepted = cluster.accepted_by[cluster.me]
        if min(accepted) < cluster.tseq:
            return f"{cluster.members[accepted.index(min(accepted))]} has not accepted what was sent"
        return (
            f"the buffers of {cluster.members[cluster.buf.index(min(cluster.buf))]} are full: its application is slow"
        )

    # ------------------------------------------------------------------ what becomes of what was sent
    def forget_accepted(self, cluster: Cluster) -> None:
        """Everyone has accepted some of it. Each window of messages without a loss widens the window by one."""
        accepted, window_max = cluster.accepted_by_all[cluster.me], self._core.options.window_messages
        while self.sent and self.sent[0].tseq < accepted:
            self.sent_bytes -= len(self.sent.popleft().multicast.payload)
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
        back = [data.multicast for data in reversed(self.sent) if data.tseq >= tseq]
        self.pending.extendleft(back)
        self.pending_bytes += sum(len(multicast.payload) for multicast in back)

    def forget(self) -> None:
        """The epoch is over."""
        self.sent.clear()
        self.sent_bytes = 0

    def check_invariants(self) -> None:
        """Bounds of what is under way and of what waits."""
        options = self._core.options
        if len(self.sent) > options.window_messages:
            raise InvariantViolation(f"{len(self.sent)} messages are under way, more than {options.window_messages}")
        if len(self.pending) > options.pending_messages_max + options.window_messages:
            raise InvariantViolation(f"{len(self.pending)} messages wait for the window")
        if self.pending_bytes != sum(len(multicast.payload) for multicast in self.pending):
            raise InvariantViolation(f"{self.pending_bytes} bytes are not what waits for the window")
        if self.sent_bytes != sum(len(data.multicast.payload) for data in self.sent):
            raise InvariantViolation(f"{self.sent_bytes} bytes are not what is under way")
        if self.sent and self._core.cluster is None:
            raise InvariantViolation("a site in no cluster has sent messages in one")
