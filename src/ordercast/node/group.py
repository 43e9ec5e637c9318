"""A group, as an application that joined it sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from ordercast.core import GroupId, SiteId
from ordercast.node.deliveries import Batch, Delivery, View
from ordercast.node.inbox import Inbox

if TYPE_CHECKING:
    from ordercast.node.node import Node


class Group:
    """One group, or several whose messages are taken in one order.

    Iterate over it, over its `batches()`, or give it a callback: one way at a time, and one task at a time.
    """

    def __init__(self, node: Node, names: tuple[GroupId, ...], inbox: Inbox) -> None:
        self._node = node
        self._sender = node.sender
        self.names = names
        self._inbox = inbox
        self._address = (names, None)

    @property
    def name(self) -> str:
        """The group's name (several: joined by commas)."""
        return ",".join(self.names)

    @property
    def members(self) -> tuple[SiteId, ...]:
        """Who is in it now, as far as this process knows."""
        return tuple(sorted({site for name in self.names for site in self._node.members(name)}))

    # ------------------------------------------------------------------ out
    async def multicast(self, payload: bytes) -> None:
        """Send a message to the group. Waits while the window is full; `GroupBlocked` when that is not going to end.

        The message is on its way when this returns; `flush` waits until the protocol has it.
        """
        while not self._sender.add(self._address, payload):
            await self._sender.wait_for_room()

    def try_multicast(self, payload: bytes) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        if not self._sender.add(self._address, payload):
            self._sender.refuse()

    async def multicast_many(self, payloads: Sequence[bytes]) -> None:
        """Send messages, in this order. Cancelled in the middle, it has sent the first ones."""
        await self._node.multicast_many(payloads, self.names)

    async def flush(self) -> None:
        """Wait until everything that this process has sent is accepted."""
        await self._node.flush()

    # ------------------------------------------------------------------ in
    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self._deliveries()

    async def _deliveries(self) -> AsyncIterator[Delivery]:
        inbox = self._inbox
        while True:
            for delivery in inbox.rest:
                yield delivery
            if not await inbox.begin_next():
                return

    def batches(self) -> AsyncIterator[Batch]:
        """Deliveries a bundle at a time, which is several times as fast.

        A batch counts as taken when the next is asked for.
        """
        # No generator in between: of a lone message's way that would be a good part.
        self._inbox.put_back()
        return self._inbox

    def on_delivery(self, callback: Callable[[Delivery], None]) -> None:
        """Call a function for every message instead, at once and in order. An exception in it stops the node: a replica
        that has missed a message must not go on."""

        def each(batch: Batch) -> None:
            for delivery in batch.deliveries():
                callback(delivery)

        self.on_batch(each)

    def on_batch(self, callback: Callable[[Batch], object]) -> None:
        """The same, a bundle at a time."""
        self._inbox.call(callback)

    def on_end(self, callback: Callable[[BaseException | None], None]) -> None:
        """Call a function when nothing more will come, with the reason when there is one."""
        self._inbox.on_end = callback

    async def views(self) -> AsyncIterator[View]:
        """Who is in the group: now, and whenever that changes."""
        async for view in self._node.views(self.names):
            yield view

    async def leave(self) -> None:
        """Take no more deliveries; what waits is dropped."""
        await self._node.leave(self)

    @property
    def inbox(self) -> Inbox:
        """Where deliveries wait."""
        return self._inbox
