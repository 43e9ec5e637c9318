"""Bytes of a state, made in small steps: the process has a part in its group meanwhile.

The encoding is msgpack as msgspec writes it, in one go or in steps. While the steps are made the state must not
change."""

from __future__ import annotations

import asyncio
import dataclasses
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from ordercast.node.replica_messages import encode_value
from ordercast.node.state_packets import recut

STEP_SECONDS = 0.001
"""As long as a step should take, about."""

TURN_SECONDS = 0.002
"""For how long steps are made before others have their turn, and how long that is, too."""

LARGE_BYTES = 1 << 18
_LIMITS = {bytes: LARGE_BYTES} | dict.fromkeys((dict, list, tuple, set, frozenset), 1_000)
"""What is longer than that is not encoded at once."""

ITEMS_MIN, ITEMS_MAX = 1, 1 << 12


def encode_steps(value: Any) -> Iterator[bytes]:
    """The pieces of what `msgspec.msgpack.encode` makes of a value."""
    fields = _fields(value)
    if fields is not None:
        yield _head(0x80, 0xDE, len(fields))
        for name, content in fields:
            yield encode_value(name)
            yield from encode_steps(content)
    elif type(value) is bytes and _is_large(value):
        yield b"\xc6" + struct.pack("!I", len(value))
        for start in range(0, len(value), LARGE_BYTES):
            yield value[start : start + LARGE_BYTES]
    elif not _is_large(value):
        yield encode_value(value)
    elif type(value) is dict:
        yield _head(0x80, 0xDE, len(value))
        yield from _slices(value.items(), dict, _pair_steps, lambda pair: _is_large(pair[1]))
    else:
        yield _head(0x90, 0xDC, len(value))
        yield from _slices(value, list, encode_steps, _is_large)


def _pair_steps(pair: tuple[Any, Any]) -> Iterator[bytes]:
    yield encode_value(pair[0])
    yield from encode_steps(pair[1])


def _slices(
    items: Iterable[Any], kind: type, steps: Callable[[Any], Iterator[bytes]], is_large: Callable[[Any], bool]
) -> Iterator[bytes]:
    """Some items at a time, as many as a step's time allows; those that are large themselves in steps of their own."""
    iterator, count = iter(items), ITEMS_MIN
    while chunk := list(islice(iterator, count)):
        began = time.perf_counter()
        if any(map(is_large, chunk)):
            for item in chunk:
                yield from steps(item)
            continue
        encoded = encode_value(kind(chunk))
        taken = time.perf_counter() - began
        yield encoded[1 if len(chunk) < 16 else 3 :]  # without the head of a collection of so many
        count = min(2 * count, ITEMS_MAX) if taken < STEP_SECONDS / 2 else max(count // 2, ITEMS_MIN)


def _is_large(value: Any) -> bool:
    return type(value) in _LIMITS and len(value) > _LIMITS[type(value)]


def _fields(value: Any) -> list[tuple[str, Any]] | None:
    """What a state's own class consists of, where it is encoded as a plain map of it."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        if config.array_like or config.tag is not None or config.omit_defaults:
            return None
        named = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return [(encoded, getattr(value, name)) for encoded, name in named]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        if not any(name.startswith("_") for name in names) and all(hasattr(value, name) for name in names):
            return [(name, getattr(value, name)) for name in names]
    return None


def _head(short: int, long: int, count: int) -> bytes:
    """Of a map or an array: of fewer than 16, of 16 bits, or of 32."""
    if count < 16:
        return bytes((short | count,))
    return struct.pack("!BH", long, count) if count < 1 << 16 else struct.pack("!BI", long + 1, count)


class Packing:
    """One state becomes bytes, in turns of the event loop."""

    def __init__(
        self,
        value: Any,
        on_done: Callable[[list[bytes] | None], None],
        steps: Callable[[Any], Iterator[bytes]],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """`on_failed` hears why a state has no bytes. (Else: whoever packs it waits for ever, and so do all calls.)"""
        self._steps = recut(steps(value))
        self._on_failed = on_failed
        self._content: list[bytes] = []
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        until = time.perf_counter() + TURN_SECONDS
        try:
            for piece in self._steps:
                self._content.append(piece)
                if time.perf_counter() >= until:
                    self._handle = self._loop.call_later(TURN_SECONDS, self._turn)
                    return
        except Exception as error:
            self._on_failed(error)
        else:
            self._on_done(self._content)

    def finish(self) -> None:
        """Make all the rest of it now."""
        self._handle.cancel()
        self._content.extend(self._steps)
        self._on_done(self._content)

    def stop(self) -> None:
        """There is no time for it."""
        self._handle.cancel()
        self._on_done(None)
