"""Messages that are sent one after the other, of whose last one it is asked whether it is ordered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ordercast.core import OrdercastError, UsageError
from ordercast.node.receipts import Receipt

if TYPE_CHECKING:
    from ordercast.node.node import Node

UNKNOWN: dict[str, Any] = {"ordered": None, "offset": None, "message": None, "repeated": None, "why": None}
"""What is said of messages of which is not known whether they are ordered."""


def describe_receipt(receipt: Receipt) -> dict[str, Any]:
    """What is said instead, when the last one is."""
    return {
        "ordered": True,
        "offset": receipt.offset,
        "message": receipt.message,
        "repeated": receipt.repeated,
    }


class Posting:
    """The messages of one command. What a source sends to the same groups is ordered as it was sent, so when the last
    one has its place, all have theirs."""

    def __init__(self, node: Node, groups: list[str], key: str | None) -> None:
        """With a key, message N has the key `KEY/N`."""
        self.sent = 0
        self._node = node
        self._groups = groups
        self._key = key
        self._last: asyncio.Future[Receipt] | None = None
        self._cannot_tell = ""
        """Why this process does not learn where messages stand."""

    async def post(self, payload: bytes) -> None:
        """Send one more."""
        internals = self._node.internals
        address = internals.address(self._groups)
        receiver, sender = internals.receiver, internals.sender
        key = None if self._key is None else f"{self._key}/{self.sent + 1}"
        if not self._cannot_tell:
            try:
                self._last = await internals.receipts.post(receiver, sender, address, payload, key)
            except UsageError as error:
                if self._key is not None or self.sent:
                    raise
                self._cannot_tell = str(error)
        if self._cannot_tell:
            await self._node.multicast(payload, self._groups)
        self.sent += 1

    async def finish(self, timeout: float) -> dict[str, Any]:
        """Wait until they are ordered, and not longer than this; what there is to say."""
        answer: dict[str, Any] = {"sent": self.sent} | UNKNOWN
        if self._last is None:
            await self._node.flush()
            return answer | {"why": self._cannot_tell or None}
        receipts, groups = self._node.internals.receipts, tuple(self._groups)
        try:
            async with asyncio.timeout(timeout):
                receipt = await receipts.wait(self._last, groups, self._key)
        except TimeoutError:
            why = self._node.internals.told_obstacles(groups) or f"the group has not ordered them in {timeout:g} s"
            return answer | {"ordered": False, "why": why}
        except OrdercastError as error:
            return answer | {"ordered": False, "why": str(error)}
        return answer | describe_receipt(receipt)
