"""Deliveries that wait for the application."""

from __future__ import annotations

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


def test_what_the_application_unpacks_stays_packed_in_the_history() -> None:
    """Its bound counts packed bytes."""
    inbox, history = Inbox(("g",)), Kept()
    inbox.history = history
    seen: list[bytes] = []
    inbox.call(seen.extend)
    multicast = Multicast(MessageId("a", 0, 1), ("g",), encode_bundle([b"x", b"y"]), count=2)
    inbox.deliver(multicast, multicast.payload, None, 1, lambda: None)
    assert seen == [b"x", b"y"]
    assert [(batch.offset, batch.count, batch.unpacked) for batch in history.batches] == [(0, 2, None)]
