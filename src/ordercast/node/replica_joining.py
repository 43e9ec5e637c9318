"""How an application comes to have a replica: it waits until there is a state to work with, or stops waiting."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Generic, TypeVar

from ordercast.core import OrdercastError
from ordercast.node.replica_machine import Machine

logger = logging.getLogger("ordercast.node")

State = TypeVar("State")

LOOK_SECONDS = 0.1
"""Between two looks whether everybody is there who has to be: nobody says that a seed was found."""


class Joining(Generic[State]):
    """One replica on its way into its group."""

    def __init__(self, machine: Machine[State]) -> None:
        self._machine = machine
        self._entering: asyncio.Task[None] | None = None

    async def wait_ready(self) -> None:
        """Be in the group, and wait until there is a state and calls may be made."""
        machine = self._machine
        if self._entering is None:
            self._entering = asyncio.create_task(machine.enter())
        await asyncio.shield(self._entering)
        told = ""
        while machine.end is None:
            reason = self._lacks
            if machine.arrival is not None:
                await asyncio.wait((machine.arrival,))
            elif reason:
                if told != reason:
                    told = reason
                    logger.warning("replica %s waits: %s", machine.node.process, self.why_not_ready())
                await asyncio.wait((machine.lineage.changed(),), timeout=LOOK_SECONDS)
            else:
                return
        raise machine.end

    @property
    def _lacks(self) -> str:
        """Why there is nothing to work with. Where sides may go on apart, this one may be too small for it."""
        machine = self._machine
        is_divisible = machine.internals.engine.contract.partitionable
        return machine.refuses if is_divisible else machine.lineage.waits_for

    def why_not_ready(self) -> str:
        """Why there is no state, or none to work with."""
        machine = self._machine
        if machine.group is None:
            return machine.internals.why_not_in((machine.name,))
        if machine.obstacles or machine.arrival is not None:
            return machine.obstacles or f"nobody of {', '.join(machine.group.members)} has given it one yet"
        if not machine.is_live:
            return "the process starts, and waits for the answers of the others"
        looking = machine.internals.searching
        return self._lacks + (f" ({looking})" if looking else "")

    async def undo(self) -> bool:
        """Nobody waits any more until this replica is ready: be out of the group again. False where it is configured:
        there the replica goes on, and may be waited for again."""
        machine, entering = self._machine, self._entering
        if entering is not None and not entering.done():
            if machine.is_configured:
                return False
            entering.cancel()
            await asyncio.wait((entering,))
        if machine.is_configured and machine.is_live and not machine.internals.over.is_set():
            return False
        machine.internals.take_no_snapshot(machine.kept_name)
        if machine.group is not None:
            # (It waits for nothing, and the group is left all the same.)
            with suppress(TimeoutError, OrdercastError):
                await machine.group.leave(timeout=0)
        return True
