"""One process of a cluster under load: sends and receives as an application would, and says what it saw.

It talks with whoever measures by its standard input and output: `ready` when the cluster talks, then a line with the
time to begin, `done` when everything has come. What it saw lies beside its configuration when it has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec

import ordercast
from ordercast.node.group import Group
from ordercast.node.node import Node

WARM_UP_SECONDS = 1.0
"""Not measured: buffers fill, adaptive bundles find their size."""
QUIET_SECONDS = 0.5
"""When nothing has come for so long after the senders stopped, nothing will."""
LIST_BYTES = 64_000
"""Of the messages that the application hands over at once in the throughput test; more do not come from one place in
practice, and would measure the processor's caches."""
LIST_LENGTH_MIN, LIST_LENGTH_MAX = 10, 1000
ROOM_SECONDS = 0.001
"""A message that finds the window full tries again after so long; it counts from when it was due."""
EARLY = 0.2
"""After this share of the time memory is looked at: what grows later is not what a start takes."""
LATENCIES_MAX = 1 << 16
"""Kept by a process: enough for a 99th percentile, and not more after an hour than after a minute."""

_STAMP = struct.Struct("=q")


class Work(msgspec.Struct, frozen=True):
    """What the processes are to do."""

    config: str
    process: str
    size: int
    seconds: float
    rate: float | None
    """Messages a second of this process; None: as many as possible, in lists."""
    api: str
    """How deliveries are taken: batches, iterate or callback."""
    groups: list[str]
    """Lists of messages go to these in turn."""
    service: str = ""
    """Which one the process chooses."""

    @property
    def report(self) -> Path:
        """Where the process writes what it saw."""
        return Path(self.config).with_name(f"{self.process}.json")


def peak_megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


class Latencies:
    """Of a long run, every second, fourth, eighth … one, so that there are never more than `LATENCIES_MAX`."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        """Nanoseconds."""
        self.stamps: list[int] = []
        """Of each of them, when its message was sent, by which the processes' can be put together."""
        self.every = 1
        """Each of those that are kept stands for so many."""
        self._seen = 0

    def add(self, nanoseconds: int, stamp: int = 0) -> None:
        """One more message has come."""
        self._seen += 1
        if self._seen % self.every == 0:
            self.kept.append(nanoseconds)
            self.stamps.append(stamp)
            if len(self.kept) == LATENCIES_MAX:
                self.kept, self.stamps = self.kept[1::2], self.stamps[1::2]
                self.every *= 2


class Counts:
    """What one process saw. Latency is measured with a stamp in each message where they are few; at full speed the
    process compares how many of its own messages have come back with when it had sent so many."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.own_sent = 0
        """Of those, the ones that come back to this process."""
        self.delivered = 0
        self.within: Counter[str] = Counter()
        """Group -> messages delivered while it was measured."""
        self.bytes = 0
        self.latencies = Latencies()
        self.own = 0
        self.marks: deque[tuple[int, int]] = deque()
        """How many messages this process had sent when it handed over a list, and when that was."""
        self.begin = self.end = float("inf")

    def own_delivered(self, count: int) -> None:
        """So many more of its own messages have come back."""
        self.own += count
        while self.marks and self.marks[0][0] <= self.own:
            self.latencies.add(time.monotonic_ns() - self.marks.popleft()[1])


async def _receive_batches(group: Group, counts: Counts, process: str) -> None:
    async for batch in group.batches():
        if batch.source == process:
            counts.own_delivered(len(batch))
        counts.delivered += len(batch)
        # Every payload is unpacked, as an application that looks at them would.
        counts.bytes += sum(map(len, batch))
        if counts.begin <= time.monotonic() < counts.end:
            counts.within[batch.groups[0]] += len(batch)


async def _receive_each(group: Group, counts: Counts, process: str) -> None:
    clock = time.monotonic
    delivered = own = seen = 0
    last = ""
    try:
        async for delivery in group:
            if not delivery.index:
                # Once in a bundle is often enough for the clock; what came before this one was of the last bundle.
                if counts.begin <= clock() < counts.end:
                    counts.within[last] += delivered - counts.delivered
                last = delivery.groups[0]
                counts.delivered = delivered
                counts.own_delivered(own)
                own = 0
            delivered += 1
            seen += len(delivery.payload)
            if delivery.source == process:
                own += 1
    finally:
        counts.delivered, counts.bytes = delivered, seen


def _stopwatch(counts: Counts) -> Callable[[ordercast.Batch], None]:
    """What is done with every batch of stamped messages; little, for it is part of what the next message waits for."""
    clock, unpack, within, add = time.monotonic_ns, _STAMP.unpack_from, counts.within, counts.latencies.add
    begin, end = counts.begin * 1e9, counts.end * 1e9

    def take(batch: ordercast.Batch) -> None:
        payloads = batch.payloads
        now = clock()
        counts.delivered += len(payloads)
        if begin <= now < end:
            within[batch.groups[0]] += len(payloads)
            for payload in payloads:
                stamp = unpack(payload)[0]
                add(now - stamp, stamp)

    return take


async def _receive_stamped(group: Group, counts: Counts, process: str) -> None:
    take = _stopwatch(counts)
    async for batch in group.batches():
        take(batch)


async def _receive_stamped_each(group: Group, counts: Counts, process: str) -> None:
    async for delivery in group:
        now = time.monotonic_ns()
        counts.delivered += 1
        if counts.begin <= now / 1e9 < counts.end:
            counts.within[delivery.groups[0]] += 1
            stamp = _STAMP.unpack_from(delivery.payload)[0]
            counts.latencies.add(now - stamp, stamp)


async def _receive_called(group: Group, counts: Counts, process: str, stamped: bool) -> None:
    def take(batch: ordercast.Batch) -> None:
        if batch.source == process:
            counts.own_delivered(len(batch))
        counts.delivered += len(batch)
        counts.bytes += sum(map(len, batch))
        if counts.begin <= time.monotonic() < counts.end:
            counts.within[batch.groups[0]] += len(batch)

    group.on_batch(_stopwatch(counts) if stamped else take)
    await asyncio.Event().wait()


def _choose_receiver(work: Work) -> Callable[[Group, Counts, str], Coroutine[Any, Any, None]]:
    if work.api == "callback":
        return partial(_receive_called, stamped=work.rate is not None)
    if work.rate is not None:
        return _receive_stamped_each if work.api == "iterate" else _receive_stamped
    return _receive_each if work.api == "iterate" else _receive_batches


async def _send_lists(node: Node, counts: Counts, work: Work, until: float) -> None:
    size = work.size
    length = max(LIST_LENGTH_MIN, min(LIST_LENGTH_MAX, LIST_BYTES // size))
    payloads = [index.to_bytes(8) + bytes(size - 8) if size >= 8 else bytes(size) for index in range(length)]
    groups = cycle(work.groups)
    own = {group for group in work.groups if work.process in node.groups[group]}
    while time.monotonic() < until:
        group = next(groups)
        if group in own:
            counts.marks.append((counts.own_sent + 1, time.monotonic_ns()))
            counts.own_sent += len(payloads)
        await node.multicast_many(payloads, [group])
        counts.sent[group] += len(payloads)


async def _send_paced(node: Node, group: Group, counts: Counts, work: Work, rate: float, until: float) -> None:
    """One message after the other, by the event loop's timer: a task that sleeps in between would be measured too."""
    loop = asyncio.get_running_loop()
    pause = 1 / rate
    filler = bytes(max(0, work.size - _STAMP.size))
    ways: cycle[tuple[str, Callable[[bytes], None]]] = cycle(
        (name, group.try_multicast if group.names == (name,) else partial(node.try_multicast, groups=[name]))
        for name in work.groups
    )
    ended: asyncio.Future[None] = loop.create_future()

    def send(due: float, name: str, multicast: Callable[[bytes], None], stamp: bytes | None = None) -> None:
        """A stamp that is given is that of a message that found no room."""
        if stamp is None:
            stamp = _STAMP.pack(time.monotonic_ns())
        try:
            multicast(stamp + filler)
        except ordercast.WouldBlock:
            loop.call_later(ROOM_SECONDS, send, due, name, multicast, stamp)
            return
        except ordercast.OrdercastError as error:
            ended.set_exception(error)
            return
        counts.sent[name] += 1
        due += pause
        if due < until:
            loop.call_at(due, send, due, *next(ways))
        else:
            ended.set_result(None)

    # One process after the other: messages at even distances, not all processes' at the same moment.
    names = sorted(node.configuration.processes)
    first = loop.time() + pause * names.index(work.process) / len(names)
    until += loop.time() - time.monotonic()
    loop.call_at(first, send, first, *next(ways))
    await ended


async def _wait_for_all(node: Node, group: Group, work: Work) -> None:
    """Until a message of everybody to each of our groups has arrived: then everybody talks with everybody."""
    for name in work.groups:
        await node.multicast(b"here", [name])
    wanted = {(source, name) for name in group.names for source in node.configuration.processes}
    async for delivery in group:
        wanted.discard((delivery.source, delivery.groups[0]))
        if not wanted:
            return


async def _open_standard_input() -> asyncio.StreamReader:
    """Without a thread, which would be part of the process that is measured."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _wait_for_the_end(told: asyncio.StreamReader) -> None:
    if not await told.readline():
        os._exit(1)  # at once: to leave the cluster in good order would take seconds that nobody waits for


async def _main(work: Work) -> dict[str, object]:
    counts = Counts()
    async with ordercast.open(work.config, work.process) as node:
        group = await node.join(*(name for name in work.groups if work.process in node.groups[name]))
        await asyncio.wait_for(_wait_for_all(node, group, work), 30)
        if work.service:
            # Not before: the first words of those who start last may be lost with it.
            await group.choose(work.service)
        told = await _open_standard_input()
        print("ready", flush=True)
        begin = float(await told.readline())
        # From now on: whoever kills the command does not want its processes to go on.
        end = asyncio.create_task(_wait_for_the_end(told))
        counts.begin = begin + WARM_UP_SECONDS
        counts.end = counts.begin + work.seconds
        receiver = asyncio.create_task(_choose_receiver(work)(group, counts, work.process))
        early: list[float] = []
        asyncio.get_running_loop().call_later(
            counts.begin + EARLY * work.seconds - time.monotonic(), lambda: early.append(peak_megabytes())
        )
        await asyncio.sleep(begin - time.monotonic())
        used = time.process_time()
        if work.rate:
            await _send_paced(node, group, counts, work, work.rate, counts.end)
        else:
            await _send_lists(node, counts, work, counts.end)
        used = time.process_time() - used
        peak = peak_megabytes()
        await node.flush()
        before = -1
        while before != counts.delivered:
            before = counts.delivered
            await asyncio.sleep(QUIET_SECONDS)
        receiver.cancel()
        await asyncio.gather(receiver, return_exceptions=True)
        # The others may need this process until they have seen the same.
        print("done", flush=True)
        await end
        return {
            "sent": counts.sent,
            "delivered": counts.delivered,
            "groups": list(group.names),
            "within": counts.within,
            "latencies": counts.latencies.kept,
            "latencies_every": counts.latencies.every,
            "stamps": counts.latencies.stamps if work.rate is not None else [],
            "cpu_seconds": used,
            "memory_mb": (*early, peak)[:2],
            "counters": node.status()["dropped"],
        }


def main() -> None:
    """The process."""
    work = msgspec.json.decode(sys.argv[1], type=Work)
    work.report.write_text(json.dumps(ordercast.run(_main(work))))


if __name__ == "__main__":
    main()
