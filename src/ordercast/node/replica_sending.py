"""What a replica says to the others beside calls. Nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from ordercast.node.errors import NodeClosed
from ordercast.node.replica_messages import ReplicaMessage, encode_message

logger = logging.getLogger("ordercast.node")

SENDING_MAX = 100
"""Messages to the other replicas that wait for room at the same time. Whoever misses one asks again."""


class Sending:
    """The messages that are to leave."""

    def __init__(self, multicast: Callable[[bytes], Coroutine[None, None, None]]) -> None:
        self._multicast = multicast
        self._tasks: set[asyncio.Task[None]] = set()
        """(A task that nobody holds may vanish before it has run.)"""

    def send(self, message: ReplicaMessage) -> asyncio.Task[None] | None:
        """Multicast it to the group as soon as there is room; None when too much waits."""
        if len(self._tasks) >= SENDING_MAX:
            return None
        task = asyncio.get_running_loop().create_task(self._multicast(encode_message(message)))
        self._tasks.add(task)
        task.add_done_callback(self._sent)
        return task

    def _sent(self, task: asyncio.Task[None]) -> None:
        """When the node is over, nobody wants to hear of it."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NodeClosed):
            logger.warning("a message to the other replicas: %s", error)
