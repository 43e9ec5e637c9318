"""What has come of clients' calls, for clients that come back and ask again, perhaps at another member."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any

import msgspec

from ordercast.node.replica_messages import encode_value

KEPT_BYTES_MAX = 8 << 20
"""Of results. A client asks again within seconds; the results of some ten thousand calls are here for as long."""

_OVERHEAD = 200
"""Bytes that a result takes besides its own, about."""


class Outcome(msgspec.Struct, frozen=True):
    """What a method has returned, or what it has raised."""

    value: bytes = b""
    error: str = ""
    """The name of an exception; empty: none."""
    why: str = ""


class Outcomes:
    """The last results of one replica, each under its client and that client's number."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Outcome] = {}
        self._bytes = 0
        self._waiting: dict[tuple[str, int], list[asyncio.Future[Outcome]]] = {}
        """Several wait for one where a client is back before its last connection is known to be lost."""

    def add(self, client: str, number: int, result: Any) -> None:
        """A method has returned."""
        try:
            outcome = Outcome(encode_value(result))
        except (TypeError, ValueError, RecursionError) as error:
            outcome = Outcome(error="TypeError", why=f"the result cannot be sent to a client: {error}")
        self._add(client, number, outcome)

    def add_error(self, client: str, number: int, error: Exception) -> None:
        """A method has raised something."""
        why = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], str) else str(error)
        self._add(client, number, Outcome(error=type(error).__name__, why=why))

    def _add(self, client: str, number: int, outcome: Outcome) -> None:
        self._kept[client, number] = outcome
        self._bytes += _size(outcome)
        while self._bytes > KEPT_BYTES_MAX:
            self._bytes -= _size(self._kept.pop(next(iter(self._kept))))
        for waiting in self._waiting.pop((client, number), ()):
            if not waiting.done():
                waiting.set_result(outcome)

    def expect(self, client: str, number: int) -> asyncio.Future[Outcome]:
        """Is done when the call is applied here; at once if that was so before and is remembered."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        kept = self._kept.get((client, number))
        if kept is not None:
            future.set_result(kept)
        else:
            self._waiting.setdefault((client, number), []).append(future)
        return future

    def forget(self, client: str, number: int, future: asyncio.Future[Outcome]) -> None:
        """Whoever expected this waits no more."""
        waiting = self._waiting.get((client, number), [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop((client, number), None)

    def close(self, error: BaseException) -> None:
        """No result will come any more."""
        for future in chain.from_iterable(self._waiting.values()):
            if not future.done():
                future.set_exception(error)
                future.exception()  # perhaps nobody waits any more
        self._waiting.clear()


def _size(outcome: Outcome) -> int:
    return len(outcome.value) + len(outcome.why) + _OVERHEAD
