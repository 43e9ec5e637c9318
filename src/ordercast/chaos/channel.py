"""One channel that misbehaves: a hub that loses, at each receiver by itself, and passes on in one order for all."""

from __future__ import annotations

import asyncio
from random import Random

from ordercast.chaos.schedule import Away, Flood, LostLog, Partition, Plan, Rollback, Stranger
from ordercast.core import UsageError
from ordercast.net.hub import Hub
from ordercast.net.sockets import Resolved, SocketAddress

SOCKET_BYTES = 1 << 22


class LossyHub(Hub):
    """Loses each receiver's copy of a datagram with a probability, its sender's own too."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, own: Resolved, processes: dict[str, Resolved], random: Random
    ) -> None:
        super().__init__(loop, own, processes, SOCKET_BYTES)
        self.loss = 0.0
        self._random = random

    def send_copy(self, datagram: memoryview, receiver: SocketAddress) -> None:
        """One receiver's copy, unless it is lost."""
        if self._random.random() < self.loss:
            self.counters["lost"] += 1
        else:
            super().send_copy(datagram, receiver)


def check_plan(plan: Plan) -> None:
    """Raise `UsageError` when a plan asks for what cannot happen on one channel that everybody hears."""
    wrong = [
        name
        for name, asked in (
            ("duplication", plan.duplication > 0),
            ("delay", plan.delay_seconds > 0),
            ("partitions", any(isinstance(action, Partition) for action in plan.actions)),
            ("floods", any(isinstance(action, Flood) for action in plan.actions)),
            ("strangers", any(isinstance(action, Stranger) for action in plan.actions)),
            ("rollbacks", any(isinstance(action, Rollback) for action in plan.actions)),
            ("lost logs", any(isinstance(action, LostLog) for action in plan.actions)),
            ("absence", any(isinstance(action, Away) for action in plan.actions)),
        )
        if asked
    ]
    if wrong:
        raise UsageError(
            f"no {' and no '.join(wrong)} on one channel: everybody hears it in one order, or it is none; "
            f"loss, pauses and kills are what can happen there"
        )
