"""One replica of the bank under chaos: its books are a replicated state, and each order is a call with an answer. A
process that is in several groups keeps books for each of them.

`python -m ordercast.chaos.replica WORK`, as in `ordercast.chaos.worker`. A process that comes back behind a gap gets
the books of another one.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

import ordercast
from ordercast.chaos.bank import draw_order
from ordercast.chaos.books import Books, order_name
from ordercast.chaos.worker import Receipts, Work, cut_path, run_worker, wait, write_result
from ordercast.net.sockets import SocketAddress

CALLS_MAX = 200
"""Under way at a time: a branch that gets no answers has no more customers at its counter."""

ANSWER_SECONDS = 3.0
"""Until the last calls must have been answered. Before that everything has come to rest, or never will."""

CUT_SECONDS = 0.05
"""Between two looks at who is cut off."""

STATE_SECONDS = 5.0
"""Until a replica that was told to end must have the books, when it has come back without."""


class Branch:
    """Gives the orders of one process, and keeps the receipts."""

    def __init__(self, replicas: Mapping[str, ordercast.Replicated[Books]], work: Work) -> None:
        self.blocked = 0
        """How often an order was given up because the group was blocked."""
        self.ready: list[str] = []
        """The groups whose books are there."""
        self._replicas = replicas
        self._work = work
        self._receipts = Receipts(work)
        self._calls: set[asyncio.Task[None]] = set()

    async def join(self, node: ordercast.Node, group: str) -> None:
        """Become a replica; orders may be given from then on."""
        await self._replicas[group].join(node, group)
        self.ready.append(group)

    async def give_orders(self, no_more: asyncio.Event) -> None:
        """At random moments, whatever the group does."""
        work = self._work
        random = Random(f"{work.seed} {work.process} {work.start}")
        due, numbers = time.monotonic(), Counter[str]()
        while work.rate and not no_more.is_set():
            due += random.expovariate(work.rate)
            if await wait(no_more, due - time.monotonic()):
                break
            if len(self._calls) >= CALLS_MAX or not self.ready:
                continue  # the customer goes away
            group = random.choice(self.ready) if len(self.ready) > 1 else self.ready[0]
            numbers[group] += 1
            name = order_name(work.process, work.start, numbers[group])
            task = asyncio.create_task(self._call(group, draw_order(random)[1], name))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _call(self, group: str, text: str, name: str) -> None:
        try:
            await self._replicas[group].call(Books.apply, f"{text} | {name}")
        except ordercast.GroupBlocked:
            # It may be applied all the same, so it is not given again.
            self.blocked += 1
        except ordercast.OrdercastError:
            pass  # the node is over, and somebody else says why
        else:
            self._receipts.write(f"{group} {name}")

    async def finish(self) -> None:
        """Wait for the answers that are still to come, as long as the group gives any."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=ANSWER_SECONDS)
        for call in tuple(self._calls):
            call.cancel()


def _make_weather(node: ordercast.Node, work: Work, no_more: asyncio.Event) -> None:
    """Lose and repeat some of what this process sends, and all that it sends to those who are cut off from it, until
    its orders end."""
    random = Random(f"weather {work.seed} {work.process} {work.start}")
    path = cut_path(Path(work.folder), work.process)
    apart: frozenset[int] = frozenset()
    due = 0.0

    def copies(_datagram: object, address: SocketAddress) -> int:
        nonlocal apart, due
        if no_more.is_set():
            return 1
        if time.monotonic() >= due:
            apart = frozenset(json.loads(path.read_bytes())) if path.exists() else frozenset()
            due = time.monotonic() + CUT_SECONDS
        if address[1] in apart:
            return 0
        draw = random.random()
        return 0 if draw < work.loss else 2 if draw < work.loss + work.duplication else 1

    node.internals.engine.transport.disturb(copies)


async def _main(work: Work) -> None:
    loop = asyncio.get_running_loop()
    stop, no_more = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is for whoever started us, and ends us in good order
    loop.add_signal_handler(signal.SIGUSR1, no_more.set)
    async with ordercast.open(work.config, work.process) as node:
        if work.groups:
            _make_weather(node, work, no_more)
        own = tuple(group for group, members in node.groups.items() if work.process in members)
        groups = work.groups or own or (next(iter(node.groups)),)
        stopping = asyncio.create_task(stop.wait())
        replicas = {group: ordercast.Replicated(Books(), quorum=work.quorum) for group in groups}
        branch = Branch(replicas, work)
        giving = asyncio.create_task(branch.give_orders(no_more))
        joining = asyncio.gather(*(branch.join(node, group) for group in groups))
        await asyncio.wait((joining, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not joining.done():
            joining.cancel()
            giving.cancel()
            raise ordercast.UsageError("no other replica has given its books")
        ended = asyncio.create_task(node.wait_failed())
        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        if isinstance(joining.exception(), ordercast.NodeClosed) and not ended.done():
            # It was told to leave before it had the books: nobody asks for them.
            ended.cancel()
            giving.cancel()
            return
        joining.result()
        no_more.set()
        await giving
        if ended.done():
            ended.result()
        await branch.finish()
        has_left = not any(node.process in node.groups.get(group, ()) for group in groups)
        due = time.monotonic() + STATE_SECONDS
        while not has_left and None in _states(replicas).values() and time.monotonic() < due:
            await wait(asyncio.Event(), 0.05)
        ended.cancel()
        books = {group: state for group, state in _states(replicas).items() if state is not None}
    if len(books) < len(groups) and has_left:
        return  # before they had come; nobody asks for them
    if len(books) < len(groups):
        raise ordercast.UsageError("no other replica has given its books")
    write_result(work, books, branch.blocked)


def _states(replicas: Mapping[str, ordercast.Replicated[Books]]) -> dict[str, Books | None]:
    return {group: replica.state for group, replica in replicas.items()}


if __name__ == "__main__":
    run_worker(_main)
