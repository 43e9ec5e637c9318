"""A process of a broadcast tree: some send large messages at regular times, all count what they get."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec

import ordercast
from ordercast.chaos.worker import Work

PAYLOAD_BYTES = 1000
"""Two do not fit into a datagram of 1450 bytes, and no control packet of a few hosts is as long: the relay can tell
them apart by length, sealed as they are."""


async def _main(work: Work) -> None:
    loop = asyncio.get_running_loop()
    stop, no_more = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, no_more.set)
    got: dict[str, int] = {}
    async with ordercast.open(work.config, work.process) as node:
        group = await node.join("all")
        group.on_delivery(lambda delivery: got.update({delivery.message: zlib.crc32(delivery.payload)}))
        sending = asyncio.create_task(_send(node, group, work, no_more))
        await stop.wait()
        no_more.set()
        await sending
    result = {"digest": zlib.crc32(json.dumps(sorted(got.items())).encode()), "messages": len(got)}
    (Path(work.folder) / f"{work.process}.json").write_text(json.dumps(result))


async def _send(node: ordercast.Node, group: ordercast.Group, work: Work, no_more: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    due, number = loop.time(), 0
    while work.rate and not no_more.is_set():
        number += 1
        with suppress(ordercast.OrdercastError):
            if number == 2:
                # Nothing leaves before the others have been greeted: what waits meanwhile would be bundled.
                await node.flush()
            await group.multicast(f"{work.process} {node.incarnation} {number}".encode().ljust(PAYLOAD_BYTES, b"."))
        # Who was stopped for a while does not make up for it: a burst would be bundled.
        due = max(due + 1 / work.rate, loop.time())
        with suppress(TimeoutError):
            await asyncio.wait_for(no_more.wait(), max(0.0, due - loop.time()))


if __name__ == "__main__":
    the_work = msgspec.json.decode(sys.argv[1], type=Work)
    logging.basicConfig(filename=str(Path(the_work.folder) / f"{the_work.process}.log"), level=logging.INFO)
    ordercast.run(_main(the_work))
