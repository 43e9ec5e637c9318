"""What replicas say to each other, and how a replica knows it from what others send to its group."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ordercast.core import SiteId
from ordercast.node.errors import NodeFailed

MARK = b"\xc1ocr"
"""A replica's message begins with it. Its first byte begins neither a text nor a msgpack value."""
FORMAT = 1
"""Stands in the byte after the mark. A format that is not known stops a replica, for others may have understood it."""

_PREFIX = MARK + bytes((FORMAT,))

SchemaName: TypeAlias = Annotated[str, msgspec.Meta(max_length=100)]
"""Bounded, for replicas remember it."""

encode_value = msgspec.msgpack.Encoder().encode


class Call(msgspec.Struct, frozen=True, tag="call", array_like=True):
    """Apply a method."""

    caller: SiteId
    incarnation: int
    number: int
    method: str
    arguments: list[msgspec.Raw]
    named: dict[str, msgspec.Raw]
    schema: SchemaName = ""
    """What the caller's class looks like. Version 0.2.0 does not say."""


class Ask(msgspec.Struct, frozen=True, tag="ask", array_like=True):
    """A replica has no state: whoever has one, send it as it is at this place in the order."""

    asker: SiteId
    incarnation: int
    everyone: bool
    """Whether all shall answer, because one alone did not."""


class Give(msgspec.Struct, frozen=True, tag="give", array_like=True):
    """The state as it was when the question was delivered."""

    asker: SiteId
    incarnation: int
    offset: int
    """Where the question stood."""
    state: bytes
    giver: SiteId = ""
    schema: SchemaName = ""
    """What the giver's class looks like. Version 0.2.0 does not say."""


class Announce(msgspec.Struct, frozen=True, tag="announce", array_like=True):
    """A replica has joined, and its class looks like this."""

    process: SiteId
    incarnation: int
    schema: SchemaName
    is_answer: bool
    """Whether it answers the announcement of another, to which nobody answers again."""


ReplicaMessage: TypeAlias = Call | Ask | Give | Announce

_marked: msgspec.msgpack.Decoder[ReplicaMessage] = msgspec.msgpack.Decoder(ReplicaMessage)
_unmarked: msgspec.msgpack.Decoder[Call | Ask | Give] = msgspec.msgpack.Decoder(Call | Ask | Give)


def encode_message(message: ReplicaMessage) -> bytes:
    """A message as it goes to the group."""
    return _PREFIX + encode_value(message)


def decode_message(payload: bytes, source: SiteId) -> ReplicaMessage | None:
    """A replica's message, or None when somebody else has sent something to the group.

    Its bytes and its source alone decide, so that all replicas decide the same. What begins with no mark is a message
    of version 0.2.0 if it reads as one: logs are full of them, and a replica that skipped its own would differ from one
    whose snapshot contains them. What is said in another's name is not a replica's.
    """
    try:
        if payload.startswith(_PREFIX):
            return _of(source, _marked.decode(memoryview(payload)[len(_PREFIX) :]))
        if not payload.startswith(MARK):
            return _of(source, _unmarked.decode(payload))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if len(payload) == len(MARK):
        return None
    raise NodeFailed(
        f"process {source} sends replicas' messages of format {payload[len(MARK)]}, and this process knows format "
        f"{FORMAT}: install here the version of ordercast that {source} runs, and start again"
    )


def _of(source: SiteId, message: ReplicaMessage) -> ReplicaMessage | None:
    match message:
        case Call(caller=name) | Ask(asker=name) | Announce(process=name):
            return message if name == source else None
        case Give(giver=name):
            # Version 0.2.0 does not say who gives.
            return message if name in (source, "") else None
