"""Values of a type that the application has chosen, as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from ordercast.core import UsageError

Value = TypeVar("Value")

_encode = msgspec.msgpack.Encoder().encode


class ValueCodec(Generic[Value]):
    """Between values of one type and bytes."""

    def __init__(self, wanted: type[Value], hint: str = "") -> None:
        """`hint` is what else there is to do about a type that msgspec does not know."""
        self.type_name = getattr(wanted, "__qualname__", str(wanted))
        if isinstance(msgspec.inspect.type_info(wanted), msgspec.inspect.CustomType):
            raise UsageError(
                f"type={self.type_name} is neither a msgspec struct nor a dataclass nor a TypedDict: use one of "
                f"them{hint}"
            )
        self.decode: Callable[[bytes | memoryview], Value] = msgspec.msgpack.Decoder(wanted).decode
        """`ValueError` when the bytes are no such value."""

    def encode(self, value: Value) -> bytes:
        """`TypeError` when it is not of the type: every reader would refuse it, and nobody would tell the sender."""
        content = _encode(value)
        try:
            self.decode(content)
        except msgspec.DecodeError as error:
            raise TypeError(f"not of type {self.type_name}: {error}") from None
        return content
