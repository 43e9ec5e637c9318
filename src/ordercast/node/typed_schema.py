"""The type of a group's messages: how they become bytes, and a name for it that other processes compare with theirs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from ordercast.core import UsageError
from ordercast.node.replica_schema import VERSION_LENGTH_MAX, describe_type
from ordercast.node.value_codec import ValueCodec

Value = TypeVar("Value")

MARK = b"\xc1oct"
"""A message of a typed group begins with it. Its first byte begins neither a text nor a msgpack value."""
VALUE, HELLO, REFUSAL = b"\x01", b"\x02", b"\x03"
DIGEST_BYTES = 6
HEADER_BYTES = len(MARK) + 1 + DIGEST_BYTES


class TypeSchema(Generic[Value]):
    """One type of messages, as one version of an application has it."""

    def __init__(
        self,
        wanted: type[Value],
        version: str = "",
        encode: Callable[[Value], bytes] | None = None,
        decode: Callable[[bytes], Value] | None = None,
    ) -> None:
        """`version` is the application's own name of how the messages look; without it, the fields of the type decide.
        `encode` and `decode` are the application's own way of making bytes."""
        self.type_name = getattr(wanted, "__qualname__", str(wanted))
        if (encode is None) != (decode is None):
            raise UsageError("encode= and decode= belong together: give both, or neither")
        if len(version) > VERSION_LENGTH_MAX:
            raise UsageError(f"a version of {len(version)} characters: at most {VERSION_LENGTH_MAX}")
        if encode is None or decode is None:
            codec = ValueCodec(wanted, ", or give encode= and decode=")
            self._decode: Callable[[bytes | memoryview], Value] = codec.decode
            self._encode: Callable[[Value], bytes] = codec.encode
            description: Any = version or describe_type(wanted)
        else:
            own = decode
            self._decode = lambda content: own(bytes(content))
            self._encode = encode
            description = version
        content = msgspec.json.encode([self.type_name, description], order="deterministic")
        self.digest = hashlib.sha256(content).digest()[:DIGEST_BYTES]
        shown = f"version {version}" if version else f"schema {self.digest.hex()}"
        self.name = f"{self.type_name} of {shown}"
        """For people."""
        self._header = MARK + VALUE + self.digest

    def encode(self, value: Value) -> bytes:
        """A message as it travels; `TypeError` when it is not of the type."""
        return self._header + self._encode(value)

    def decode(self, payload: bytes) -> Value:
        """What a message of this schema says; `ValueError` when it is none."""
        return self._decode(memoryview(payload)[HEADER_BYTES:])

    def fits(self, payload: bytes) -> bool:
        """Whether a message is a value of this schema."""
        return payload.startswith(self._header)
