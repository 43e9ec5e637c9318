"""A group, as an application that joined it sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, cast, overload

from ordercast.core import Address, GroupId, SiteId, UsageError
from ordercast.node.asking import Wait
from ordercast.node.consumer import Consumer
from ordercast.node.deliveries import Batch, CaughtUp, Delivery, Rollback, View
from ordercast.node.inbox import Inbox
from ordercast.node.internals import Internals
from ordercast.node.receipts import Confirm, Receipt
from ordercast.node.sender import NoWayOut, Sender
from ordercast.node.surroundings import lives_of


class Group:
    """One group, or several whose messages are taken in one order.

    Iterate over it, over its `batches()` or `events()`, or give it a callback: one way at a time, and one task at a
    time.
    """

    def __init__(self, internals: Internals, names: tuple[GroupId, ...], inbox: Inbox) -> None:
        self.names = names
        self._internals = internals
        self._inbox = inbox
        self._address: Address = (names, None)
        self._sender = internals.senders.find(self._address)
        self._way_out: Sender | NoWayOut = self._sender
        try:
            internals.address(names)
        except UsageError as error:
            # Several groups can be read in one order where messages go to one group at a time.
            self._way_out = NoWayOut(str(error))

    @property
    def name(self) -> str:
        """The group's name (several: joined by commas)."""
        return ",".join(self.names)

    @property
    def members(self) -> tuple[SiteId, ...]:
        """Who is in it now, as far as this process knows."""
        return tuple(sorted({site for name in self.names for site in self._internals.views.members(name)}))

    @property
    def offset(self) -> int:
        """The offset that the next message gets that is delivered here; what waits for the application stands before
        it."""
        return self._inbox.offset

    @property
    def waiting_bytes(self) -> int:
        """How much was delivered and waits for the application."""
        return self._inbox.bytes

    # ------------------------------------------------------------------ out
    @overload
    async def multicast(self, payload: bytes, *, key: str | None = None) -> None: ...

    @overload
    async def multicast(
        self, payload: bytes, *, confirm: Literal[True, "majority"], key: str | None = None
    ) -> Receipt: ...

    @overload
    async def multicast(self, payload: bytes, *, confirm: Confirm, key: str | None = None) -> Receipt | None: ...

    async def multicast(self, payload: bytes, *, confirm: Confirm = False, key: str | None = None) -> Receipt | None:
        """Send a message to the group. Waits while the window is full; `GroupBlocked` when that is not going to end.

        The message is on its way when this returns; `flush` waits until the protocol has it. With `confirm` this
        returns when the message is ordered and delivered here, and gives its receipt; "majority" is for protocols that
        can say that a majority has it. Of several messages that this process sends with the same `key`, before and
        after restarts, the first one is delivered.
        """
        if confirm or key is not None:
            internals = self._internals
            address = internals.address(self.names)
            return await internals.receipts.send(internals.receiver, self._sender, address, payload, confirm, key)
        while not self._way_out.add(self._address, payload):
            await self._sender.wait_for_room()
        return None

    def try_multicast(self, payload: bytes) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        if not self._way_out.add(self._address, payload):
            self._sender.refuse()

    async def multicast_many(self, payloads: Sequence[bytes]) -> None:
        """Send messages, in this order. Cancelled in the middle, it has sent the first ones."""
        await self._sender.add_all(self._internals.address(self.names), payloads)

    async def flush(self) -> None:
        """Wait until everything that this process has sent is accepted."""
        await self._internals.senders.drain()

    # ------------------------------------------------------------------ in
    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self._deliveries()

    async def _deliveries(self) -> AsyncIterator[Delivery]:
        inbox = self._inbox
        inbox.retain_no_more()
        inbox.shows_views = False
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
        self._inbox.retain_no_more()
        self._inbox.put_back()
        self._inbox.shows_views = False
        return cast("AsyncIterator[Batch]", self._inbox)

    def events(self) -> AsyncIterator[Batch | View | Rollback | CaughtUp]:
        """Deliveries a bundle at a time, who is in the group, what is taken back, and when the log has no more, each
        where it happened: what stands before a view was delivered before it. The first event is a view."""
        self._inbox.retain_no_more()
        self._inbox.put_back()
        self._inbox.shows_views = True
        return self._inbox

    def consume(self, name: str) -> Consumer[bytes]:
        """Deliveries from a named position on, which is kept beside the log: `await delivery.done()` moves it, and a
        restart goes on behind what was done. What was given and is not done counts as not taken."""
        return Consumer(self._internals, self._inbox, self.names, name, lambda delivery: (delivery.payload,))

    def on_delivery(self, callback: Callable[[Delivery], None]) -> None:
        """Call a function for every message instead, at once and in order. An exception in it stops the node: a replica
        that has missed a message must not go on."""

        def each(batch: Batch) -> None:
            for delivery in batch.deliveries():
                callback(delivery)

        self.on_batch(each)

    def on_batch(self, callback: Callable[[Batch], object]) -> None:
        """The same, a bundle at a time."""
        self._inbox.retain_no_more()
        try:
            self._inbox.call(callback)
        except BaseException as error:
            # What waited goes to the callback here and now.
            self._internals.failed(error)
            raise

    def on_end(self, callback: Callable[[BaseException | None], None]) -> None:
        """Call a function when nothing more will come, with the reason when there is one."""
        self._inbox.on_end = callback

    def on_gap(self, callback: Callable[[int], None]) -> None:
        """Call a function when deliveries are missing because the others have gone on without this process, with the
        offset at which they go on. Whoever keeps a state gets it from another member (`Replicated` does)."""
        self._inbox.on_gap = callback

    def on_caught_up(self, callback: Callable[[CaughtUp], None]) -> None:
        """Call a function when everything that the log held was delivered again. Give it before whoever takes the
        deliveries."""
        self._inbox.on_caught_up = callback

    def on_view(self, callback: Callable[[View], None]) -> None:
        """Call a function with the group's first view and whenever it changes: when whoever takes the deliveries, by
        whatever way, comes to the place where that happened. Give it before them."""
        self._inbox.on_view = callback

    def on_rollback(self, callback: Callable[[Rollback], None]) -> None:
        """Call a function when a bundle that the application has seen is taken back, under protocols that do that: when
        whoever takes the deliveries comes to the place. Give it before them."""
        self._inbox.on_rollback = callback

    async def views(self) -> AsyncIterator[View]:
        """Who is in the group: now, and whenever that changes, ahead of what waits to be taken."""
        async for view in self._internals.views.follow(self.names):
            yield view

    # ------------------------------------------------------------------ questions
    async def ask(self, question: bytes, *, wait: Wait = "majority", timeout: float = 5.0) -> dict[SiteId, bytes]:
        """Ask the members of the group; member -> its answer, when there are enough: of the first, a majority, or all
        that are members. `NotAnswered` when too few can answer, `TimeoutError` after so many seconds."""
        asking = self._internals.asking
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await asking.ask(self.name, question, wait)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"too few answers from group {self.name} in {timeout} s") from None

    def on_question(self, answer: Callable[[bytes], bytes]) -> None:
        """Answer questions to the group with a function, at once and in the order of the group. What it raises is told
        to whoever asks. It is called when a question comes, ahead of what waits to be taken."""
        self._internals.asking.answer_with(self.name, answer)

    # ------------------------------------------------------------------ what is wanted of it
    async def choose(self, service: str, sources: Sequence[SiteId] = ()) -> None:
        """Want another service for what is delivered here, of some sources or of all; done when it is active. Services
        are the protocol's; `ServiceUnavailable` when it cannot be had. Where each start is another process, a source
        may be named as it was opened: that is the one which is there now."""
        if type(sources) is str:
            raise UsageError(f"sources is a list of names: [{sources!r}], not {sources!r}")
        for name in self.names:
            meant = lives_of(sources, self._internals.views.members(name)) if sources else ()
            await self._internals.membership.choose_service(name, service, meant)

    def choose_role(self, role: str) -> None:
        """Want another role in the group. Roles are the protocol's."""
        for name in self.names:
            self._internals.membership.choose_role(name, role)

    async def leave(self, timeout: float | None = None) -> None:
        """Take no more deliveries; what waits is dropped. Whoever has left may leave again.

        A group that was joined while the process runs is left then: done when those who stay have delivered that,
        `TimeoutError` after so many seconds, and then it is left all the same. What was sent before is accepted first,
        if that can be within five seconds. A member that the configuration names stays one.
        """
        async with asyncio.timeout(timeout):
            await self._internals.leave(self.names, self._inbox)
