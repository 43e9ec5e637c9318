"""What one client follows. It has a place in the last deliveries of a group, which the member holds once for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ordercast.core import UsageError
from ordercast.node.deliveries import Batch
from ordercast.node.history import NotHeld
from ordercast.node.internals import Internals
from ordercast.node.serving.packets import CREDIT_BYTES, Deliveries, Ended, Started, Subscribe

if TYPE_CHECKING:
    from ordercast.node.serving.session import Session

DELIVERY_OVERHEAD = 16
"""Bytes that a delivery counts besides its own: many empty ones, too, come to an end."""


def size_of(payloads: list[bytes]) -> int:
    """What deliveries cost of the credit."""
    return sum(map(len, payloads)) + DELIVERY_OVERHEAD * len(payloads)


class Subscription:
    """Sends deliveries as fast as the client takes them. One that takes them so slowly that they are not held any more
    when it comes to them is told so, and its subscription is over."""

    def __init__(self, session: Session, internals: Internals, request: Subscribe, on_end: Callable[[], None]) -> None:
        self._session = session
        self._internals = internals
        self._request = request
        self._on_end = on_end
        self._credit = CREDIT_BYTES
        self._has_credit = asyncio.Event()
        self._has_credit.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """The client wants no more."""
        self._task.cancel()

    def taken(self, size: int) -> None:
        """The client's application has taken deliveries."""
        self._credit = min(CREDIT_BYTES, self._credit + size)
        if self._credit > 0:
            self._has_credit.set()

    async def _run(self) -> None:
        number, session = self._request.subscription, self._session
        try:
            history = self._internals.history(self._request.group)
            start = history.next_offset if self._request.start is None else self._request.start
            session.say(Started(number, start))
            async for batch in history.follow_batches(start):
                self._give(batch, start)
                await self._has_credit.wait()
                await session.may_write.wait()
            session.cut("the member is out of the group, or closing")
        except UsageError as error:
            session.say(Ended(number, str(error), isinstance(error, NotHeld)))
        finally:
            self._on_end()

    def _give(self, batch: Batch, start: int) -> None:
        chosen = [delivery for delivery in batch.deliveries() if delivery.offset >= start]
        if not chosen:
            return
        payloads = [delivery.payload for delivery in chosen]
        places = [delivery.index for delivery in chosen]
        self._credit -= size_of(payloads)
        if self._credit <= 0:
            self._has_credit.clear()
        self._session.say(
            Deliveries(
                self._request.subscription, batch.bundle, batch.view, batch.replayed, batch.offset, places, payloads
            )
        )
