"""One process that uses building blocks, and writes down what it does with them (`ordercast.trace.uses`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeAlias

import ordercast
from ordercast.blocks import Shared
from ordercast.chaos.register import Register
from ordercast.chaos.worker import Work, wait
from ordercast.trace.uses import FOLDER, Block, UseFile, What

LEASE_SECONDS = 0.5
"""Shorter than the pauses and partitions of a plan of ten seconds and more."""

PATIENCE_SECONDS = 3.0
"""For which somebody waits for a lock or an item before asking anew."""

REST_SECONDS = 0.2
"""After a call that was given up."""

NO_ANSWER = (ordercast.OrdercastError, TimeoutError)
"""The group is blocked, or the node is over; what was asked may be done all the same."""


class Tenant:
    """What the lives of a process share."""

    def __init__(self, shared: Shared, members: int, work: Work, no_more: asyncio.Event) -> None:
        folder = Path(work.folder)
        self.shared = shared
        self.members = members
        """Of the group."""
        self.work = work
        self.no_more = no_more
        self.register = Register(folder / "register")
        """What the lock protects."""
        self.blocked = 0
        """How often a call was given up."""
        self.refused = 0
        """Writes to the register that came too late."""
        self._uses = UseFile(folder / FOLDER, work.process, work.start)
        self._numbers: Iterator[int] = count(1)

    def write(self, block: Block, what: What, number: int, place: int = 0, at: float | None = None) -> None:
        """One row, of this moment or of another one."""
        self._uses.write(block, what, number, time.monotonic() if at is None else at, place)

    def next_number(self) -> int:
        """A name for a call, which no other call of this process has."""
        return next(self._numbers)

    def random(self, what: str) -> Random:
        """The same for the same seed, process and start."""
        return Random(f"{self.work.seed} {self.work.process} {self.work.start} {what}")

    async def rest(self) -> None:
        """After a call that was given up."""
        self.blocked += 1
        await wait(self.no_more, REST_SECONDS)

    async def pause(self, random: Random, rate: float) -> bool:
        """Until it is time for the next of so many a second; whether there is to be one."""
        return rate > 0 and not await wait(self.no_more, random.expovariate(rate))


Life: TypeAlias = Callable[[Tenant], Awaitable[None]]
"""Goes on until there is to be no more."""
