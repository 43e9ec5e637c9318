"""What replicas say to each other, and how a replica knows it from what others send to its group."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ordercast.core import SiteId
from ordercast.node.errors import NodeFailed
from ordercast.node.state_packets import Number

MARK = b"\xc1ocr"
"""A replica's message begins with it. Its first byte begins neither a text nor a msgpack value."""
FORMAT = 1
"""Stands in the byte after the mark. A format that is not known stops a replica, for others may have understood it."""

_PREFIX = MARK + bytes((FORMAT,))

BirthName: TypeAlias = Annotated[str, msgspec.Meta(max_length=300)]

ClientName: TypeAlias = Annotated[str, msgspec.Meta(max_length=300)]

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
    time: float = 0.0
    """The caller's clock."""
    client: ClientName = ""
    """On whose behalf the process calls; empty: on its own."""
    client_number: Number = 0
    """Which run of that client it is."""


class Want(msgspec.Struct, frozen=True, tag="want", array_like=True):
    """A replica has no state: the one that is named shall keep its own, as it is at this place in the order, and give
    it by unicast (see `ordercast.node.state_packets`)."""

    asker: SiteId
    incarnation: int
    giver: SiteId
    transfer: Number
    """The name of the transfer."""
    since: Number
    """The asker has every delivery from this offset on, so a state from there or later will do."""
    birth: BirthName = ""
    calls: Number = 0
    """What the asker had before it came here, where it comes from others who had the group, too: the name of that state
    and how many calls are in it (see `ordercast.node.replica_lineage`)."""


class Stand(msgspec.Struct, frozen=True, tag="stand", array_like=True):
    """Where a replica stands in a view, where sides of a group go on apart (see `ordercast.node.replica_division`)."""

    process: SiteId
    view: str
    line: int
    side: str
    time: float = 0.0
    """The time of its last call."""


class Hold(msgspec.Struct, frozen=True, tag="hold", array_like=True):
    """A replica has the state of the group, and goes on with it when others are gone."""

    process: SiteId
    asks: bool
    """Whether everybody else who has it shall say so, too."""
    number: Number = 0
    """Of the question; or of the one that is answered."""
    answers: SiteId = ""
    """Who has asked that one; empty when nobody did."""


class Part(msgspec.Struct, frozen=True, tag="part", array_like=True):
    """A replica leaves soon: from here on nobody relies on it to have the state."""

    process: SiteId


class Check(msgspec.Struct, frozen=True, tag="check", array_like=True):
    """All replicas compare their states, as they are at this place in the order (see
    `ordercast.node.replica_digests`)."""

    process: SiteId
    number: Number


class Digest(msgspec.Struct, frozen=True, tag="digest", array_like=True):
    """What a replica's state was like at a check."""

    process: SiteId
    checker: SiteId
    number: Number
    digest: Annotated[bytes, msgspec.Meta(max_length=64)]
    place: Annotated[str, msgspec.Meta(max_length=300)] = ""
    """Where the check was delivered, if that may differ: the last deliveries of a process that fails come again to the
    others, at other places."""


class Ask(msgspec.Struct, frozen=True, tag="ask", array_like=True):
    """Earlier versions asked all replicas like this. It has its place in the logs, and nobody answers any more."""

    asker: SiteId


class Give(msgspec.Struct, frozen=True, tag="give", array_like=True):
    """And the answer, a whole state in one message."""


class Announce(msgspec.Struct, frozen=True, tag="announce", array_like=True):
    """A replica has joined, and its class looks like this."""

    process: SiteId
    incarnation: int
    schema: SchemaName
    is_answer: bool
    """Whether it answers the announcement of another, to which nobody answers again."""


ReplicaMessage: TypeAlias = Call | Want | Announce | Stand | Hold | Part | Check | Digest | Ask | Give

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
        case Call(caller=name) | Want(asker=name) | Ask(asker=name):
            return message if name == source else None
        case Announce(process=name) | Stand(process=name) | Hold(process=name) | Part(process=name):
            return message if name == source else None
        case Check(process=name) | Digest(process=name):
            return message if name == source else None
        case Give():
            return message
