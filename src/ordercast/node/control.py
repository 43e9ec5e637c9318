"""How commands reach a running node: JSON lines over a local socket that only its owner can open.

`{"command": "send", "groups": […]}`, then `{"payload_base64": …}` for each message, then `{"end": true}`: answered by
`{"sent": N}` when the protocol has them. `{"command": "tail", "group": …, "from": N | null}`: answered by one line per
delivery. `{"command": "status"}`: one line. Whatever goes wrong: `{"error": "…"}`.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ordercast.core import OrdercastError, UsageError
from ordercast.node.deliveries import Delivery

if TYPE_CHECKING:
    from ordercast.node.node import Node

LINE_BYTES_MAX = 128 << 20
"""A message of the largest `payload_max` that is sensible, in base64."""

_encode = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def describe(delivery: Delivery) -> dict[str, Any]:
    """One delivery as `ordercast tail` prints it."""
    described: dict[str, Any] = {
        "offset": delivery.offset,
        "message": delivery.message,
        "source": delivery.source,
    }
    try:
        described["payload"] = delivery.payload.decode()
    except UnicodeDecodeError:
        described["payload_base64"] = base64.b64encode(delivery.payload).decode()
    return described


class ControlServer:
    """Listens on one local socket."""

    def __init__(self, node: Node, path: Path) -> None:
        self._node = node
        self._path = path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to listen; `UsageError` when the socket cannot be made."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # The node's UDP address is ours alone, so a socket file that lies here is from a process that died.
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, str(self._path), limit=LINE_BYTES_MAX)
        except OSError as error:
            raise UsageError(
                f"cannot make the control socket {self._path} ({error.strerror}): correct `control`"
            ) from None
        finally:
            os.umask(mask)

    async def stop(self) -> None:
        """Close the socket and everything that goes on over it."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            try:
                await self._answer(reader, writer)
            except (UsageError, OrdercastError, ValueError) as error:
                # ValueError: a line that is too long, or no JSON.
                writer.write(_encode([{"error": str(error)}]))
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if not line:
            return
        request = _decode(line)
        match request:
            case {"command": "send", "groups": list(groups)}:
                await self._send([str(group) for group in groups], reader, writer)
            case {"command": "tail", "group": str(group), **rest}:
                await self._tail(group, rest.get("from"), writer)
            case {"command": "status"}:
                writer.write(_encode([self._node.status()]))
            case _:
                raise UsageError("no such command")

    async def _send(self, groups: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = 0
        while line := await reader.readline():
            message = _decode(line)
            if message.get("end"):
                await self._node.flush()
                writer.write(_encode([{"sent": sent}]))
                return
            await self._node.multicast(base64.b64decode(message["payload_base64"], validate=True), groups)
            sent += 1

    async def _tail(self, group: str, offset: int | None, writer: asyncio.StreamWriter) -> None:
        async for delivery in self._node.internals.history(group).follow(offset):
            writer.write(_encode([describe(delivery)]))
            await writer.drain()


async def _connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_unix_connection(str(path), limit=LINE_BYTES_MAX)
    except OSError as error:
        raise UsageError(
            f"no node answers on {path} ({error.strerror or error}): start it with `ordercast node`"
        ) from None


async def send(path: Path, groups: list[str], payloads: Iterator[bytes]) -> int:
    """Multicast through a running node; how many it took."""
    reader, writer = await _connect(path)
    try:
        writer.write(_encode([{"command": "send", "groups": groups}]))
        for payload in payloads:
            writer.write(_encode([{"payload_base64": base64.b64encode(payload).decode()}]))
            await writer.drain()
        writer.write(_encode([{"end": True}]))
        return int((await _read(reader))["sent"])
    except (ConnectionError, BrokenPipeError):
        # It may have said why before it closed.
        return int((await _read(reader))["sent"])
    finally:
        writer.close()


async def ask(path: Path, request: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send one request; the answer is for the caller to read with `read`."""
    reader, writer = await _connect(path)
    writer.write(_encode([request]))
    await writer.drain()
    return reader, writer


async def _read(reader: asyncio.StreamReader) -> dict[str, Any]:
    line = await read(reader)
    if line is None:
        raise UsageError("the node ended before it answered")
    return line


async def read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next line of an answer; None at the end, `UsageError` when it is an error."""
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    if not line:
        return None
    answer = _decode(line)
    if "error" in answer:
        raise UsageError(str(answer["error"]))
    return answer
