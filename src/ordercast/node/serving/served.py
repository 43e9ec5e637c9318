"""What a member can do for a client beside multicasts: calls on a replicated object that its application holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ordercast.node.replica_outcomes import Outcome
from ordercast.node.serving.packets import CallMethod


class Served(Protocol):
    """A replicated object of this process, for clients."""

    async def call(self, client: str, request: CallMethod, after: int, on_sent: Callable[[], None]) -> Outcome:
        """Apply a method at every replica, once, behind the client's run of that number; what has come of it here.
        `on_sent` is called when what the client has sent behind it may follow."""
