"""Messages whose sender wants to know their place in the order, or that carry a key: letters.

They travel in bundles of their own, so that whoever wants neither pays for neither.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ordercast.core import Payload, UsageError, WireError

LETTERS_MARK = b"\xc0"
"""How a bundle of letters begins: the msgpack nil, with which no list of messages does."""

KEY_CHARACTERS_MAX = 200
OWNER_CHARACTERS_MAX = 300

LETTER_OVERHEAD = 48
"""Bytes that a letter or a run takes in a bundle besides its payload and its texts, at most."""

LETTER_BYTES_MAX = 4 * (KEY_CHARACTERS_MAX + OWNER_CHARACTERS_MAX) + LETTER_OVERHEAD
"""Besides its payload alone."""


class Letter(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message, and what its sender wants with it."""

    payload: bytes
    ticket: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Under this number somebody in the sending process waits for its place; 0: nobody."""
    key: Annotated[str, msgspec.Meta(max_length=KEY_CHARACTERS_MAX)] = ""
    """Of several letters of one owner with the same key, the first one is delivered."""
    owner: Annotated[str, msgspec.Meta(max_length=OWNER_CHARACTERS_MAX)] = ""
    """Whose key it is; empty: that of the process that sends it."""

    @property
    def is_keyed(self) -> bool:
        """Whether it may be one that was sent before."""
        return bool(self.key)

    @property
    def count(self) -> int:
        """How many messages it holds."""
        return 1

    @property
    def largest(self) -> int:
        """The bytes of its message."""
        return len(self.payload)

    @property
    def size(self) -> int:
        """Bytes that it takes in a bundle, at most."""
        return len(self.payload) + 4 * (len(self.key) + len(self.owner)) + LETTER_OVERHEAD


_decode = msgspec.msgpack.Decoder(list[Letter]).decode


def decode_letters(payload: Payload, count: int) -> list[Letter]:
    """The letters of a bundle; `WireError` when it is none."""
    try:
        letters = _decode(payload[len(LETTERS_MARK) :])
    except msgspec.DecodeError as error:
        raise WireError(f"not a bundle of letters: {error}") from None
    if len(letters) != count:
        raise WireError(f"a bundle of {len(letters)} letters says that it holds {count}")
    return letters


def check_key(key: object) -> str:
    """A key as it may be; `TypeError` or `UsageError` when it cannot be one."""
    if not isinstance(key, str):
        raise TypeError(f"a key is a text, not {type(key).__name__}")
    if not 0 < len(key) <= KEY_CHARACTERS_MAX:
        raise UsageError(f"a key has 1 to {KEY_CHARACTERS_MAX} characters, not {len(key)}: give a digest of it")
    return key
