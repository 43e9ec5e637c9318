"""A group, as a client sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, overload

from ordercast.client.outgoing import Outgoing
from ordercast.core import GroupId, UsageError
from ordercast.node.bundles import as_bytes
from ordercast.node.deliveries import Delivery
from ordercast.node.letters import check_key
from ordercast.node.receipts import Receipt


class ClientGroup:
    """One group, as a client sees it."""

    def __init__(
        self, out: Outgoing, follow: Callable[[GroupId, int | None], AsyncIterator[Delivery]], name: GroupId
    ) -> None:
        self.name = name
        self._out = out
        self._follow = follow

    @overload
    async def multicast(self, payload: bytes, *, key: str | None = None) -> None: ...

    @overload
    async def multicast(self, payload: bytes, *, confirm: Literal[True], key: str | None = None) -> Receipt: ...

    async def multicast(self, payload: bytes, *, confirm: bool = False, key: str | None = None) -> Receipt | None:
        """Send a message to the group, once, whatever becomes of the member. Waits while the window is full; with
        `confirm` until the message is ordered, and gives its receipt.

        A message with a `key` is one with all others that any client has sent with it: of those the first one is
        delivered. It is for whoever must not send twice after a restart of its own.
        """
        if confirm not in (True, False):
            raise UsageError(f"confirm={confirm!r}: a client is told when a message is ordered, with True")
        out, payload = self._out, as_bytes(payload)
        await out.wait_for_room()
        receipt: asyncio.Future[Receipt] | None = asyncio.get_running_loop().create_future() if confirm else None
        if key is not None:
            out.add_keyed(self.name, check_key(key), payload, receipt)
        else:
            out.add(self.name, payload, receipt)
        return None if receipt is None else await receipt

    def try_multicast(self, payload: bytes) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        out = self._out
        if not out.has_room:
            out.refuse()
        out.add(self.name, as_bytes(payload))

    async def multicast_many(self, payloads: Sequence[bytes]) -> None:
        """Send messages, in this order. Cancelled in the middle, it has sent the first ones."""
        out, taken = self._out, 0
        while taken < len(payloads):
            if not out.has_room:
                await out.wait_for_room()
            taken = out.add_many(self.name, payloads, taken)

    def subscribe(self, start: int | None = None) -> AsyncIterator[Delivery]:
        """Deliveries from an offset on, or from now on: in order, each once. `ClientCut` when the members do not hold
        them any more, because the offset is too old or because they are not taken fast enough; `NoMember` when no
        member answers, and then one can subscribe again behind the last delivery."""
        if start is not None and start < 0:
            raise UsageError(f"start={start}: offsets count from 0; None is from now on")
        return self._follow(self.name, start)
