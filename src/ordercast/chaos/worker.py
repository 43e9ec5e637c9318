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
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import ordercast
from ordercast.chaos.bank import GROUPS, draw_order
from ordercast.chaos.books import Books, order_name


class Work(msgspec.Struct, frozen=True):
    """What a process is to do."""

    config: str
    process: str
    folder: str
    seed: int
    rate: float
    """Orders a second; 0: this process only keeps books."""
    start: int = 0
    """How many times the process was started before in this run, whatever its log says."""
    groups: tuple[str, ...] = ()
    """To be joined, where no file names any."""
    loss: float = 0.0
    quorum: int | None = None
    """How many replicas a side must have to go on, where sides may go on apart."""
    duplication: float = 0.0
    """Shares of its own datagrams, which it loses and repeats itself, where no relay can."""
    blocks: tuple[str, ...] = ()
    """Which building blocks it uses, where it is a user of these; none named: all."""


class Receipts:
    """The orders that were acknowledged to whoever gave them, on a file that outlives the process."""

    def __init__(self, work: Work) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(receipts_path(Path(work.folder), work.process), flags, 0o600)

    def write(self, name: str) -> None:
        """With the system at once: a process that is killed afterwards has acknowledged it all the same."""
        os.write(self._file, f"{name}\n".encode())


def receipts_path(folder: Path, process: str) -> Path:
    """Where the acknowledged orders of a process are."""
    return folder / f"{process}.acknowledged"


def cut_path(folder: Path, process: str) -> Path:
    """Where the ports are to which nothing that a process sends is to arrive."""
    return folder / f"{process}.cut"


def write_result(work: Work, books: Mapping[str, Books], blocked: int) -> None:
    """What a process has in the end, for each group or for all of them together, and how often it was told that a group
    was blocked."""
    several = {group: msgspec.to_builtins(each) for group, each in books.items()}
    document = next(iter(several.values())) if len(several) == 1 else {"books": several}
    document |= {"process": work.process, "blocked": blocked}
    (Path(work.folder) / f"{work.process}.json").write_bytes(msgspec.json.encode(document))


async def _main(work: Work) -> None:
    loop = asyncio.get_running_loop()
    stop, no_more = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is for whoever started us, and ends us in good order
    loop.add_signal_handler(signal.SIGUSR1, no_more.set)
    receipts = Receipts(work)
    async with ordercast.open(work.config, work.process) as node:
        kept = node.keep_snapshot(lambda: msgspec.msgpack.encode(books))
        books = Books() if kept is None else msgspec.msgpack.decode(kept, type=Books)
        own = [group for group, members in node.groups.items() if work.process in members]
        if own:
            own_orders = order_name(work.process, work.start, 0)[:-1]

            def apply(delivery: ordercast.Delivery) -> None:
                order = delivery.payload.decode(errors="replace")
                books.apply(order)
                # Who gave the order reads in the books of this process that it was done.
                name = order.partition(" | ")[2]
                if name.startswith(own_orders):
                    receipts.write(name)

            (await node.join(*own)).on_delivery(apply)
        sending = asyncio.create_task(_send(node, work, no_more))
        ended = asyncio.create_task(node.wait_failed())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        no_more.set()
        blocked = await sending
        if ended.done():
            ended.result()
        ended.cancel()
    write_result(work, {"": books}, blocked)


async def _send(node: ordercast.Node, work: Work, no_more: asyncio.Event) -> int:
    """Orders at random moments; whatever the group does, none is given up."""
    if not work.rate:
        return 0
    random = Random(f"{work.seed} {work.process} {work.start}")
    blocked = number = 0
    due = time.monotonic()
    while not no_more.is_set():
        due += random.expovariate(work.rate)
        if await wait(no_more, due - time.monotonic()):
            break
        groups, text = draw_order(random)
        known = [group for group in groups if group in node.groups]
        if not known or not node.groups.keys() <= GROUPS.keys():  # not the bank's groups: some of those that there are
            known = random.sample(sorted(node.groups), random.randint(1, min(2, len(node.groups))))
        number += 1
        order = f"{text} | {order_name(work.process, work.start, number)}".encode()
        while True:
            try:
                await node.multicast(order, known)
                break
            except ordercast.GroupBlocked:
                blocked += 1
                if await wait(no_more, 0.5):
                    return blocked
            except ordercast.UsageError:
                if len(known) == 1:
                    return blocked  # the node is over
                known = known[:1]  # here a message has one group
            except ordercast.OrdercastError:
                return blocked  # the node is over
    return blocked


async def wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait so long; whether the event came first."""
    if seconds > 0:
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return False
    return event.is_set()


def run_worker(main: Callable[[Work], Coroutine[Any, Any, None]]) -> None:
    """The process. Why it ends by itself is the last line that it writes."""
    work = msgspec.json.decode(sys.argv[1], type=Work)
    logging.basicConfig(
        filename=str(Path(work.folder) / f"{work.process}.log"),
        level=logging.INFO,
        format=f"%(asctime)s {os.getpid()} %(levelname)s %(message)s",
    )
    try:
        ordercast.run(main(work))
    except ordercast.OrdercastError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    run_worker(_main)
