"""One process of the cluster of `floods.py`: multicasts lists of messages, and says how many have come.

It is told what to do by its standard input: `begin`, then `count` as often as wanted, then `end`. It answers with a
line of JSON each. The process that is to be flooded records what it is sent in its first moments, as somebody on the
network would; from then on nothing of that is left in its way.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

import ordercast
from ordercast.chaos.flooder import SIZE_MAX, record
from ordercast.net import sockets

PAYLOAD = bytes(100)
LIST = [PAYLOAD] * 640
RECORDED_MAX = 5000


class Tapped(socket.socket):
    """A socket that writes down what it receives, until it is told to stop."""

    def __init__(self, opened: socket.socket, path: Path) -> None:
        super().__init__(opened.family, opened.type, opened.proto, opened.detach())
        self.setblocking(False)
        self._file = path.open("wb")
        self._recorded = 0
        # Attributes, which go away again: a method would cost something for ever.
        self.recv_into = self._recv_into  # type: ignore[method-assign, assignment]
        self.recvmsg_into = self._recvmsg_into  # type: ignore[method-assign, assignment]

    def _recv_into(self, buffer: memoryview) -> int:
        received = super().recv_into(buffer)
        self._record(buffer[:received], received)
        return received

    def _recvmsg_into(self, buffers: list[memoryview], ancillary_bytes: int) -> Any:
        received, ancillary, flags, address = super().recvmsg_into(buffers, ancillary_bytes)
        self._record(buffers[0][:received], sockets.received_segment(ancillary, received))
        return received, ancillary, flags, address

    def _record(self, received: memoryview, size: int) -> None:
        for start in range(0, len(received), size):
            if size <= SIZE_MAX and self._recorded < RECORDED_MAX:
                record(self._file, received[start : start + size])
                self._recorded += 1

    def stop_recording(self) -> None:
        del self.recv_into, self.recvmsg_into
        self._file.close()


async def main(config: str, process: str, recording: str | None) -> None:
    tapped: list[Tapped] = []
    if recording is not None:
        open_udp = sockets.open_udp

        def open_tapped(where: sockets.Resolved, buffer_bytes: int) -> socket.socket:
            tapped.append(Tapped(open_udp(where, buffer_bytes), Path(recording)))
            return tapped[0]

        sockets.open_udp = open_tapped
    delivered = 0

    def take(batch: ordercast.Batch) -> None:
        nonlocal delivered
        delivered += len(batch)

    async with ordercast.open(config, process) as node:
        group = await node.join("bench")
        group.on_batch(take)
        told = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
        # Small messages, one by one: what is recorded of data.
        for _ in range(100):
            await group.multicast(PAYLOAD)
            await asyncio.sleep(0.005)
        for each in tapped:
            each.stop_recording()
        sending: asyncio.Task[None] | None = None
        say({"ready": True})
        while (line := await told.readline()) not in (b"end\n", b""):
            if line == b"begin\n":
                sending = asyncio.create_task(send(group))
            say({"delivered": delivered, "at": time.monotonic()})
        if sending is not None:
            sending.cancel()
        say({"dropped": dict(node.status()["dropped"])})
        node.kill()


async def send(group: ordercast.Group) -> None:
    while True:
        await group.multicast_many(LIST)


def say(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    ordercast.run(main(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
