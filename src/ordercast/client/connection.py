"""One connection of a client with a member."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec

from ordercast.core import WireError
from ordercast.node.addresses import HostPort
from ordercast.node.errors import NoMember
from ordercast.node.serving.packets import (
    PING_SECONDS,
    SILENCE_SECONDS,
    Answer,
    Cut,
    Hello,
    Ping,
    Pong,
    Request,
    Welcome,
    decode_answer,
    encode,
)
from ordercast.wire.keys import ClusterKeys
from ordercast.wire.stream import Stream

CONNECT_SECONDS = 3.0
"""For a connection and the answer to a hello. A member that is so slow is no better than none."""

ANSWER_BYTES_MAX = (1 << 32) - 1
"""A client trusts its member, whose deliveries have the bound `payload_max`."""

WRITE_BYTES_MAX = 1 << 18


class Connection(asyncio.Protocol):
    """Says requests, and hands over answers."""

    def __init__(self, keys: ClusterKeys | None, client: str, on_answer: Callable[[Answer], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stream = Stream(keys, is_member=False, record_bytes_max=ANSWER_BYTES_MAX)
        self._client = client
        self._on_answer = on_answer
        self._transport: asyncio.Transport | None = None
        self._heard_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._has_greeted = False
        self._why = "the connection was closed"
        self.welcome: asyncio.Future[Welcome] = self._loop.create_future()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        """Done when the connection is over, with the reason."""

    @classmethod
    async def open(
        cls, where: HostPort, keys: ClusterKeys | None, client: str, on_answer: Callable[[Answer], None]
    ) -> Connection:
        """Connect with a member that holds the key; `NoMember` when there is none, `WireError` for somebody else."""
        connection = cls(keys, client, on_answer)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.get_running_loop().create_connection(lambda: connection, *where)
                await connection.welcome
        except TimeoutError:
            connection.close("no answer")
            raise NoMember(f"no answer within {CONNECT_SECONDS:.0f} s") from None
        except OSError as error:
            raise NoMember(error.strerror or str(error)) from None
        except BaseException:
            connection.close("given up")
            raise
        connection._tick()
        return connection

    # ------------------------------------------------------------------ the socket
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The member is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        self._transport.write(self._stream.greeting())

    def data_received(self, data: bytes) -> None:
        """Bytes of the member."""
        self._heard_at = self._loop.time()
        try:
            records = self._stream.receive(data)
            if not self._has_greeted and self._stream.is_greeted:
                self._has_greeted = True
                self.say(Hello(self._client))
            for record in records:
                if self._open is None:
                    return  # the client has left this member, and what comes behind that is no news to it
                self._take(decode_answer(record))
        except (WireError, msgspec.DecodeError) as error:
            if not self.welcome.done():
                self.welcome.set_exception(error if isinstance(error, WireError) else WireError(str(error)))
            self.close(str(error))

    def _take(self, answer: Answer) -> None:
        if isinstance(answer, Welcome):
            if not self.welcome.done():
                self.welcome.set_result(answer)
        elif isinstance(answer, Cut):
            self.close(answer.why)
        elif not isinstance(answer, Pong):
            self._on_answer(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """The member is gone."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if not self.welcome.done():
            self.welcome.set_exception(NoMember(str(error or self._why)))
            self.welcome.exception()  # perhaps nobody waits any more
        if not self.lost.done():
            self.lost.set_result(str(error or self._why))

    # ------------------------------------------------------------------ out
    def say(self, request: Request) -> None:
        """Send a record, if the connection is not over."""
        if self._open is not None:
            self._open.write(self._stream.seal(encode(request)))

    @property
    def _open(self) -> asyncio.Transport | None:
        return None if self._transport is None or self._transport.is_closing() else self._transport

    def close(self, why: str) -> None:
        """End it."""
        self._why = why
        if self._transport is not None:
            self._transport.abort()

    def _tick(self) -> None:
        """A member that is stopped, or cut off, keeps its connection, and never answers."""
        silent = self._loop.time() - self._heard_at
        if silent > SILENCE_SECONDS:
            self.close(f"it has not answered for {SILENCE_SECONDS:.0f} s")
            return
        self.say(Ping())
        self._timer = self._loop.call_later(PING_SECONDS, self._tick)
