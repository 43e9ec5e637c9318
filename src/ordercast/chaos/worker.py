"""One process of a cluster under chaos: keeps the books of the groups it is in, and multicasts orders.

`python -m ordercast.chaos.worker WORK` runs until SIGTERM; SIGUSR1 ends the orders. What it has in the end it writes to
`PROCESS.json` in the run's folder. Everything else that it knows is in its log and in its trace.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path
from random import Random

import msgspec

import ordercast
from ordercast.chaos.bank import Ledger, draw_order


class Work(msgspec.Struct, frozen=True):
    """What a process is to do."""

    config: str
    process: str
    folder: str
    seed: int
    rate: float
    """Orders a second; 0: this process only keeps books."""


class Result(msgspec.Struct, frozen=True):
    """What a process has in the end."""

    process: str
    ledger: Ledger
    digest: int
    """Of all orders in the order in which they were applied."""
    gathered: int
    """Of all orders, in whatever order."""
    blocked: int
    """How often an order had to wait for the group to go on."""


class Books(msgspec.Struct):
    """What survives: a snapshot of it stands for everything that the log has dropped."""

    ledger: Ledger = msgspec.field(default_factory=Ledger)
    digest: int = 0
    gathered: int = 0

    def apply(self, delivery: ordercast.Delivery) -> None:
        """One order, at its place."""
        self.ledger.apply(delivery.payload.decode().partition(" | ")[0])
        # A polynomial of what was applied so far: other orders, or the same in another order, give another number.
        number = hash_of(delivery.payload)
        self.digest = (self.digest * 1_000_003 + number) % (1 << 61)
        self.gathered = (self.gathered + number) % (1 << 61)


def hash_of(payload: bytes) -> int:
    """The same in every process, unlike `hash`."""
    return int.from_bytes(payload[-24:]) % (1 << 61)


async def _main(work: Work) -> None:
    loop = asyncio.get_running_loop()
    stop, no_more = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is for whoever started us, and ends us in good order
    loop.add_signal_handler(signal.SIGUSR1, no_more.set)
    async with ordercast.open(work.config, work.process) as node:
        kept = node.keep_snapshot(lambda: msgspec.msgpack.encode(books))
        books = Books() if kept is None else msgspec.msgpack.decode(kept, type=Books)
        own = [group for group, members in node.groups.items() if work.process in members]
        if own:
            (await node.join(*own)).on_delivery(lambda delivery: books.apply(delivery))
        sending = asyncio.create_task(_send(node, work, no_more))
        ended = asyncio.create_task(node.wait_failed())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        no_more.set()
        blocked = await sending
        if ended.done():
            ended.result()
        ended.cancel()
    result = Result(work.process, books.ledger, books.digest, books.gathered, blocked)
    path = Path(work.folder) / f"{work.process}.json"
    path.write_bytes(msgspec.json.encode(result))


async def _send(node: ordercast.Node, work: Work, no_more: asyncio.Event) -> int:
    """Orders at random moments; whatever the group does, none is given up."""
    if not work.rate:
        return 0
    random = Random(f"{work.seed} {work.process} {node.incarnation}")
    blocked = number = 0
    due = time.monotonic()
    while not no_more.is_set():
        due += random.expovariate(work.rate)
        if await _wait(no_more, due - time.monotonic()):
            break
        groups, text = draw_order(random)
        known = [group for group in groups if group in node.groups]
        if not known:  # not the bank's groups: some of those that there are
            known = random.sample(sorted(node.groups), random.randint(1, min(2, len(node.groups))))
        number += 1
        order = f"{text} | {work.process}.{node.incarnation}.{number}".encode()
        while True:
            try:
                await node.multicast(order, known)
                break
            except ordercast.GroupBlocked:
                blocked += 1
                if await _wait(no_more, 0.5):
                    return blocked
            except ordercast.OrdercastError:
                return blocked  # the node is over
    return blocked


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait so long; whether the event came first."""
    if seconds > 0:
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return False
    return event.is_set()


def main() -> None:
    """The process."""
    work = msgspec.json.decode(sys.argv[1], type=Work)
    logging.basicConfig(
        filename=str(Path(work.folder) / f"{work.process}.log"),
        level=logging.INFO,
        format=f"%(asctime)s {os.getpid()} %(levelname)s %(message)s",
    )
    ordercast.run(_main(work))


if __name__ == "__main__":
    main()
