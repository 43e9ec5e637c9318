"""Leader election: a lock that is held for as long as the leader is there."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ordercast.blocks.lock import Lock
from ordercast.blocks.state import State
from ordercast.node import NodeClosed, Replicated


class Election:
    """One election of a group, as one candidate sees it.

    term = await election.win()
    """

    def __init__(self, replica: Replicated[State], name: str, candidate: str, lease: float) -> None:
        self.name = name
        self._replica = replica
        self._candidate = candidate
        self._lock = Lock(replica, f"election {name}", candidate, lease)
        self.lost = self._lock.lost
        """Set when this one leads no more, although it has not resigned."""

    @property
    def is_leader(self) -> bool:
        """Whether this one leads, as far as its own clock tells."""
        return self._lock.is_held

    @property
    def leader(self) -> str | None:
        """The process that leads, as far as this one knows; None for nobody."""
        state = self._replica.state
        held = None if state is None else state.locks.get(self._lock.name)
        return None if held is None else held.holder.rsplit(".", 2)[0]

    async def win(self, timeout: float | None = None) -> int:
        """Wait until this one leads; the number of its term, greater than every one before. Hand it over with all that
        is done as a leader, and refuse smaller ones there."""
        return await self._lock.acquire(timeout)

    async def resign(self) -> None:
        """Lead no more."""
        await self._lock.release()

    async def leaders(self) -> AsyncIterator[str | None]:
        """Who leads: now, and whenever that changes. Ends with the node."""
        last: str | None = ""
        while True:
            leader = self.leader
            if leader != last:
                last = leader
                yield leader
            else:
                try:
                    await self._replica.changed()
                except NodeClosed:
                    return
