"""How commands reach a running node: JSON lines over a local socket that only its owner can open.

`{"command": "send", "groups": […], "key": … | null, "timeout": seconds}`, then `{"payload_base64": …}` for
each message, then `{"end": true}`: answered by `{"sent": N, "ordered": …, "offset": …, "message": …, "why": …}` when
they are ordered, or have not been for so long; `ordered` is null where this process cannot know, and the offset and the
name are those of the last message. With a key, message N has the key `KEY/N`. A message that is too long for a line
comes in several, with `"more": true` in all but its last. `{"command": "tail", "group": …, "from": N | null}`:
answered by one line per delivery, until the other side closes; `read`: see `ordercast.node.reading`; `runs` and
`last-run`: see `ordercast.node.run_posting`.
`{"command": "status"}`: one line. `{"command": "reload-keys"}`: answered by the fingerprints of the keys that the node
has read. `{"command": "members"}`, `{"command": "join", "group": …}` and `{"command": "leave", "group": …}`: answered
by one line, when the process is in or out. `{"command": "add-process", "name": …, "address": …}` and `{"command":
"remove-process", "name": …}`: answered by the processes that there are then. Whatever goes wrong: `{"error": "…"}`.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ordercast.core import OrdercastError, UsageError
from ordercast.core.forks import disown_in_forks
from ordercast.node.addresses import parse_address
from ordercast.node.configuration import check_name
from ordercast.node.deliveries import Delivery
from ordercast.node.posting import Posting
from ordercast.node.reading import ReadRequest, read_stretch
from ordercast.node.run_posting import LastRunRequest, RunHead, RunPosting, RunsRequest, find_last_run
from ordercast.wire.keys import fingerprint

if TYPE_CHECKING:
    from ordercast.node.node import Node

LINE_BYTES_MAX = 1 << 20
"""Of what a node reads: whatever is written into its socket, it holds no more than two such lines of it."""

PIECE_BYTES_MAX = 1 << 19
"""Of a message in one line: it fits in base64, with its brackets."""

ANSWER_BYTES_MAX = 1 << 40
"""Of what a command reads. It trusts its node, whose deliveries have the bound `payload_max`."""

LINGER_SECONDS = 5.0
"""How long a command that was refused may go on writing before it is cut off; else it might not read why."""


class NodeSilent(UsageError):
    """No node answers, or not any more."""


class SendRequest(msgspec.Struct, tag_field="command", tag="send"):
    """Messages follow."""

    groups: list[str]
    key: str | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 5.0
    """Until the answer says that they are not ordered yet."""


class TailRequest(msgspec.Struct, tag_field="command", tag="tail"):
    """Deliveries are wanted."""

    group: str
    start: Annotated[int, msgspec.Meta(ge=0)] | None = msgspec.field(default=None, name="from")


class StatusRequest(msgspec.Struct, tag_field="command", tag="status"):
    """What there is to know about the node is wanted."""


class MembersRequest(msgspec.Struct, tag_field="command", tag="members"):
    """Who is in which group is wanted."""


class JoinRequest(msgspec.Struct, tag_field="command", tag="join"):
    """The process is to be in a group."""

    group: str
    role: str = ""
    service: str = ""
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None


class LeaveRequest(msgspec.Struct, tag_field="command", tag="leave"):
    """The process is to be out of a group."""

    group: str
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None


class AddProcessRequest(msgspec.Struct, tag_field="command", tag="add-process"):
    """There is another process."""

    name: str
    address: str


class RemoveProcessRequest(msgspec.Struct, tag_field="command", tag="remove-process"):
    """A process is gone for good."""

    name: str
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None


class ReloadKeysRequest(msgspec.Struct, tag_field="command", tag="reload-keys"):
    """The key file has changed."""


class Piece(msgspec.Struct):
    """A message or a part of one, or the end of them all."""

    payload: bytes | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="payload_base64")
    more: bool = False
    end: bool = False

    def __post_init__(self) -> None:
        """Refuse what says nothing: a misspelled key would be an empty message."""
        if self.payload is msgspec.UNSET and not self.end:
            raise ValueError('neither "payload_base64" nor "end"')


_encode = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_request = msgspec.json.Decoder(
    SendRequest
    | TailRequest
    | ReadRequest
    | RunsRequest
    | LastRunRequest
    | StatusRequest
    | MembersRequest
    | JoinRequest
    | LeaveRequest
    | AddProcessRequest
    | RemoveProcessRequest
    | ReloadKeysRequest
).decode
_decode_piece = msgspec.json.Decoder(Piece).decode
_decode_run_head = msgspec.json.Decoder(RunHead).decode


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


def stop_listening(server: asyncio.Server | None) -> None:
    """In a fork: let go of the sockets on which the process listens.

    (A child that lives on would let commands connect after a crash of the process, and never answer.) What takes the
    descriptor's place keeps the number from being given to a file, which the event loop could close.
    """
    if server is not None:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        for listening in server.sockets:
            os.dup2(nothing, listening.fileno(), inheritable=False)
        os.close(nothing)


class ControlServer:
    """Listens on one local socket."""

    def __init__(self, node: Node, path: Path) -> None:
        self._node = node
        self._path = path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        disown_in_forks(self)

    async def start(self) -> None:
        """Begin to listen; `UsageError` when the socket cannot be made."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # The node's UDP address is ours alone, so a socket that lies here is from a process that died. Whatever
            # else lies here stays: the path may be a mistake.
            if self._path.is_socket():
                self._path.unlink()
            elif self._path.exists():
                raise UsageError(f"{self._path} is there, and is no socket: correct `control`, or remove it")
            mask = os.umask(0o177)
            try:
                self._server = await asyncio.start_unix_server(self._serve, str(self._path), limit=LINE_BYTES_MAX)
            finally:
                os.umask(mask)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"cannot make the control socket {self._path} ({reason}): correct `control`") from None

    def disown(self) -> None:
        """Do not listen for the process of which this is a fork."""
        stop_listening(self._server)

    async def stop(self) -> None:
        """Close the socket and everything that goes on over it."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            # Only what was made here. (The start was refused because a file lies there: that stays.)
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            try:
                await self._answer(reader, writer)
            except (UsageError, OrdercastError, TimeoutError) as error:
                await _refuse(str(error), reader, writer)
            except (ValueError, RecursionError) as error:
                await _refuse(f"malformed request: {error}", reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            # Nobody reads what is still to be written: whoever waits for that waits for ever.
            writer.transport.abort()
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await _read_line(reader)
        if not line:
            return
        request = _decode_request(line)
        match request:
            case SendRequest():
                await self._send(request, reader, writer)
            case TailRequest(group, start):
                await self._tail(group, start, reader, writer)
            case ReadRequest(group, start, stop):
                writer.write(_encode([read_stretch(self._node.internals.history(group), start, stop)]))
            case RunsRequest():
                await self._post_runs(request, reader, writer)
            case LastRunRequest():
                writer.write(_encode([{"last": find_last_run(self._node.internals.receiver, request)}]))
            case StatusRequest():
                writer.write(_encode([self._node.status()]))
            case MembersRequest():
                writer.write(_encode([{"groups": self._node.status()["groups"]}]))
            case JoinRequest():
                await _unless_abandoned(self._join(request), reader)
                writer.write(_encode([{"group": request.group} | self._node.status()["groups"][request.group]]))
            case LeaveRequest(group, timeout):
                await _unless_abandoned(self._leave(group, timeout), reader)
                writer.write(_encode([{"group": group}]))
            case AddProcessRequest(name, address):
                engine = self._node.internals.engine
                engine.add_process(check_name(name), parse_address(address))
                writer.write(_encode([{"processes": sorted({*engine.sites, name})}]))
            case RemoveProcessRequest(name, timeout):
                await _unless_abandoned(self._remove(name, timeout), reader)
                writer.write(_encode([{"processes": self._node.internals.engine.sites}]))
            case ReloadKeysRequest():
                used, *others = map(fingerprint, self._node.internals.engine.reload_keys().accepted)
                writer.write(_encode([{"used": used, "also_accepted": others[0] if others else None}]))

    async def _send(self, request: SendRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        payload_max, begun, is_whole = self._node.configuration.payload_max, bytearray(), True
        posting = Posting(self._node, request.groups, request.key)
        while line := await _read_line(reader):
            piece = _decode_piece(line)
            if piece.payload is not msgspec.UNSET:
                begun += piece.payload
                if len(begun) > payload_max:
                    raise UsageError(
                        f"a message is larger than payload_max ({payload_max}): send it in parts, or raise payload_max "
                        f"at every process"
                    )
                is_whole = not piece.more
                if is_whole:
                    await posting.post(bytes(begun))
                    begun.clear()
            if piece.end:
                if not is_whole:
                    raise UsageError(f"the last piece of a message is missing; messages that were sent: {posting.sent}")
                writer.write(_encode([await posting.finish(request.timeout)]))
                return
        raise UsageError(f'the input stopped before {{"end": true}}; messages that were sent: {posting.sent}')

    async def _post_runs(
        self, request: RunsRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        posting = RunPosting(self._node, request, lambda answer: writer.write(_encode([answer])))
        try:
            while line := await _read_line(reader):
                head = _decode_run_head(line)
                posting.check(head)
                await posting.take(head, await reader.readexactly(head.size))
        except asyncio.IncompleteReadError:
            raise UsageError(f"the input stopped in the middle of run {head.number}") from None
        finally:
            posting.stop()

    async def _tail(
        self, group: str, start: int | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # In a group that is silent nothing is written that could fail: a `tail` that was ended would keep its
        # descriptor for as long.
        await _unless_abandoned(self._follow(group, start, writer), reader)

    async def _join(self, request: JoinRequest) -> None:
        group = await self._node.join(
            request.group, role=request.role, service=request.service, timeout=request.timeout
        )
        # It only passes by: `tail` looks into the node's history.
        group.on_batch(lambda batch: None)

    async def _remove(self, name: str, timeout: float | None) -> None:
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                await self._node.internals.remove_process(name)
        except TimeoutError:
            why = self._node.internals.told_obstacles() or "the others do not answer"
            raise TimeoutError(f"{name} is not removed after {timeout} s: {why}") from None

    async def _leave(self, group: str, timeout: float | None) -> None:
        async with asyncio.timeout(timeout):
            await self._node.internals.leave_named(group)

    async def _follow(self, group: str, start: int | None, writer: asyncio.StreamWriter) -> None:
        async for delivery in self._node.internals.history(group).follow(start):
            writer.write(_encode([describe(delivery)]))
            await writer.drain()


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:
        raise UsageError(
            f"a line is longer than {LINE_BYTES_MAX} bytes: send a long message in several, all but the last with "
            f'"more": true'
        ) from None


async def _refuse(reason: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say why, and wait until it is read: what was not read on our side may take the answer with it."""
    writer.write(_encode([{"error": reason}]))
    await writer.drain()
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            await _discard(reader)


async def _unless_abandoned(work: Coroutine[Any, Any, None], reader: asyncio.StreamReader) -> None:
    """Do something, and stop when the other side closes."""
    working = asyncio.create_task(work)
    abandoned = asyncio.create_task(_discard(reader))
    try:
        await asyncio.wait((working, abandoned), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ConnectionAbortedError
        working.result()
    finally:
        working.cancel()
        abandoned.cancel()
        await asyncio.gather(working, abandoned, return_exceptions=True)


async def _discard(reader: asyncio.StreamReader) -> None:
    """Read until the other side closes."""
    while await reader.read(1 << 16):
        pass


async def _connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_unix_connection(str(path), limit=ANSWER_BYTES_MAX)
    except OSError as error:
        raise NodeSilent(
            f"no node answers on {path} ({error.strerror or error}): start it with `ordercast node`"
        ) from None


async def send(
    path: Path,
    groups: list[str],
    payloads: Iterator[bytes],
    key: str | None = None,
    timeout: float = 5.0,
) -> dict[str, Any]:
    """Multicast through a running node; what it says about how many it took, and whether they are ordered."""
    reader, writer = await _connect(path)
    answer = asyncio.create_task(_read(reader))
    try:
        with suppress(ConnectionError):  # the answer, if there is one, says why
            request = {"command": "send", "groups": groups, "key": key, "timeout": timeout}
            writer.write(_encode([request]))
            for payload in payloads:
                for line in _lines(payload):
                    writer.write(line)
                    await writer.drain()
                if answer.done():
                    break
            else:
                writer.write(_encode([{"end": True}]))
        return await answer
    finally:
        answer.cancel()
        writer.close()


def _lines(payload: bytes) -> Iterator[bytes]:
    """A message in lines that a node reads."""
    for start in range(0, max(len(payload), 1), PIECE_BYTES_MAX):
        piece = base64.b64encode(payload[start : start + PIECE_BYTES_MAX]).decode()
        more = {"more": True} if start + PIECE_BYTES_MAX < len(payload) else {}
        yield _encode([{"payload_base64": piece} | more])


async def ask(path: Path, request: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send one request; the answer is for the caller to read with `read`."""
    reader, writer = await _connect(path)
    writer.write(_encode([request]))
    await writer.drain()
    return reader, writer


async def ask_once(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Send one request; its answer, which has one line."""
    reader, writer = await ask(path, request)
    try:
        return await _read(reader)
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> dict[str, Any]:
    line = await read(reader)
    if line is None:
        raise NodeSilent("the node ended before it answered")
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
