"""Deliveries that wait for the application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ordercast.core import MessageId, Multicast
from ordercast.node.bundles import encode_bundle
from ordercast.node.deliveries import Batch
from ordercast.node.history import History
from ordercast.node.inbox import Inbox


class Kept(History):
    """A history that can be looked into."""

    def __init__(self) -> None:
        super().__init__("g", 0)
        self.batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        super().add(batch)
        self.batches.append(batch)


def deliver(inbox: Inbox, messages: list[bytes], taken: Callable[[], None] = lambda: None) -> None:
    multicast = Multicast(MessageId("a", 0, 1), ("g",), encode_bundle(messages), count=len(messages))
    inbox.deliver(multicast, multicast.payload, None, 1, taken)


def test_what_the_application_unpacks_stays_packed_in_the_history() -> None:
    """Its bound counts packed bytes."""
    inbox, history = Inbox(("g",)), Kept()
    inbox.history = history
    seen: list[bytes] = []
    inbox.call(seen.extend)
    deliver(inbox, [b"x", b"y"])
    assert seen == [b"x", b"y"]
    assert [(batch.offset, batch.count, batch.unpacked) for batch in history.batches] == [(0, 2, None)]


def test_the_rest_of_a_batch_is_the_next_batch_and_is_taken_once() -> None:
    """A checkpoint in between holds that rest, and the sequencer hears of the batch when all of it is taken."""
    inbox = Inbox(("g",))
    taken: list[str] = []
    deliver(inbox, [b"x", b"y", b"z"], lambda: taken.append("xyz"))
    deliver(inbox, [b"w"])

    async def take() -> None:
        await inbox.begin_next()
        assert next(inbox.rest).payload == b"x"
        inbox.put_back()
        assert [(batch.offset, list(batch)) for batch in inbox.untaken()] == [(1, [b"y", b"z"]), (3, [b"w"])]
        assert list(await anext(inbox)) == [b"y", b"z"]
        assert not taken
        assert list(await anext(inbox)) == [b"w"]
        assert taken == ["xyz"]
        assert inbox.bytes == 0

    asyncio.run(take())
