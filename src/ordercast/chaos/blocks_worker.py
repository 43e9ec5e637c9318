"""One user of building blocks under chaos: holds a lock and writes to what it protects, leads, and works on a queue.

`python -m ordercast.chaos.blocks_worker WORK`, as in `ordercast.chaos.worker`. What it does with the blocks it writes
down (`ordercast.trace.uses`), and nothing here judges it.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec

import ordercast
from ordercast.blocks import Election, Lock, Queue, Shared
from ordercast.chaos.register import Register
from ordercast.chaos.worker import Work, run_worker, wait
from ordercast.trace.uses import FOLDER, Block, UseFile

LEASE_SECONDS = 0.5
"""Shorter than the pauses and partitions of a plan of ten seconds and more."""

USE_SECONDS = 0.02
"""Between two looks whether it is still held."""

HOLD_SECONDS = 0.4
"""On average: some hold for longer than a lease, and renew it."""

PATIENCE_SECONDS = 3.0
"""For which somebody waits for a lock or an item before asking anew."""

ITEMS_WAITING_MAX = 50
"""Then nobody puts more: what is judged is who gets them."""

SLOW_SHARE = 0.05
"""Of the items, those on which somebody works for longer than its lease."""

NO_ANSWER = (ordercast.OrdercastError, TimeoutError)
"""The group is blocked, or the node is over; what was asked may be done all the same."""


class Tenant:
    """What one process does."""

    def __init__(self, shared: Shared, work: Work, no_more: asyncio.Event) -> None:
        folder = Path(work.folder)
        self.blocked = 0
        """How often a call was given up."""
        self.refused = 0
        """Writes that came too late."""
        self._shared = shared
        self._work = work
        self._no_more = no_more
        self._uses = UseFile(folder / FOLDER, work.process, work.start)
        self._register = Register(folder / "register")

    async def live(self) -> None:
        """Everything, until there is to be no more."""
        lock = self._shared.lock("lock", lease=LEASE_SECONDS)
        election = self._shared.election("election", lease=LEASE_SECONDS)
        queue = self._shared.queue("queue", str, lease=LEASE_SECONDS)
        await asyncio.gather(self._hold(lock), self._lead(election), self._fill(queue), self._empty(queue))

    def _random(self, what: str) -> Random:
        return Random(f"{self._work.seed} {self._work.process} {self._work.start} {what}")

    async def _rest(self) -> None:
        self.blocked += 1
        await wait(self._no_more, 0.2)

    # ------------------------------------------------------------------ a lock
    async def _hold(self, lock: Lock) -> None:
        random = self._random("lock")
        while not self._no_more.is_set():
            try:
                fence = await lock.acquire(PATIENCE_SECONDS)
            except NO_ANSWER:
                await self._rest()
                continue
            await self._use("lock", fence, lambda: lock.is_held, lock.lost, random)
            with suppress(*NO_ANSWER):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await lock.release()

    async def _lead(self, election: Election) -> None:
        random = self._random("election")
        while not self._no_more.is_set():
            try:
                term = await election.win(PATIENCE_SECONDS)
            except NO_ANSWER:
                await self._rest()
                continue
            await self._use("election", term, lambda: election.is_leader, election.lost, random)
            with suppress(*NO_ANSWER):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await election.resign()

    async def _use(
        self, block: Block, number: int, is_held: Callable[[], bool], lost: asyncio.Event, random: Random
    ) -> None:
        until = time.monotonic() + random.expovariate(1 / HOLD_SECONDS)
        while not (self._no_more.is_set() or lost.is_set()) and time.monotonic() < until:
            # The clock is read first: who is stopped behind the question has held it at that time all the same.
            now = time.monotonic()
            if is_held():
                self._uses.write(block, "held", number, now)
            if block == "lock":
                # Without asking again: whoever is stopped between asking and writing does just that.
                self._write(number)
            await wait(self._no_more, USE_SECONDS)

    def _write(self, fence: int) -> None:
        written = self._register.write(fence)
        if written is not None:
            is_taken, place = written
            self.refused += not is_taken
            self._uses.write("register", "written" if is_taken else "refused", fence, time.monotonic(), place)

    # ------------------------------------------------------------------ a queue
    async def _fill(self, queue: Queue[str]) -> None:
        random, rate = self._random("queue"), self._work.rate
        while rate and not await wait(self._no_more, random.expovariate(rate)):
            if len(queue) < ITEMS_WAITING_MAX:
                try:
                    number = await queue.put(self._work.process)
                except NO_ANSWER:
                    await self._rest()
                else:
                    self._uses.write("queue", "put", number, time.monotonic())

    async def _empty(self, queue: Queue[str]) -> None:
        random = self._random("work")
        while not self._no_more.is_set():
            try:
                job = await queue.get(PATIENCE_SECONDS)
            except NO_ANSWER:
                await self._rest()
                continue
            self._uses.write("queue", "given", job.number, time.monotonic(), job.attempt)
            await wait(self._no_more, 1.5 * LEASE_SECONDS if random.random() < SLOW_SHARE else 0.0)
            self._uses.write("queue", "finishing", job.number, time.monotonic(), job.attempt)
            try:
                is_done = await job.done()
            except NO_ANSWER:
                await self._rest()
            else:
                self._uses.write("queue", "done" if is_done else "late", job.number, time.monotonic(), job.attempt)

    # ------------------------------------------------------------------ the end
    def write_result(self) -> None:
        """What this process has in the end; the same as all others."""
        state = self._shared.replica.state
        if state is None:
            raise ordercast.UsageError("no other process has given its blocks")
        line = state.queues.get("queue")
        for number in () if line is None else (*line.waiting, *line.given):
            self._uses.write("queue", "left", number, time.monotonic())
        digest = hashlib.sha256(msgspec.msgpack.encode(state)).digest()
        document = {
            "process": self._work.process,
            "blocked": self.blocked,
            "digest": int.from_bytes(digest[:7]),
            "gathered": int.from_bytes(digest[:7]),
            "ledger": {"applied": state.fences + (0 if line is None else line.next), "refused": self.refused},
        }
        (Path(self._work.folder) / f"{self._work.process}.json").write_bytes(msgspec.json.encode(document))


async def _main(work: Work) -> None:
    loop = asyncio.get_running_loop()
    stop, no_more = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is for whoever started us, and ends us in good order
    loop.add_signal_handler(signal.SIGUSR1, no_more.set)
    async with ordercast.open(work.config, work.process) as node:
        shared = Shared(timeout=PATIENCE_SECONDS)
        tenant = Tenant(shared, work, no_more)

        async def live() -> None:
            await shared.join(node, next(iter(node.groups)))
            await tenant.live()

        living = asyncio.create_task(live())
        ended = asyncio.create_task(node.wait_failed())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        no_more.set()
        if ended.done():
            living.cancel()
            ended.result()
        ended.cancel()
        async with asyncio.timeout(3 * PATIENCE_SECONDS):
            await living
        tenant.write_result()


if __name__ == "__main__":
    run_worker(_main)
