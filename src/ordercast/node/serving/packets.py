"""What clients and members say to each other, one record each. docs/wire.md has how they travel."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ordercast.core import GroupId, MessageId, SiteId
from ordercast.node.runs import CLIENT_CHARACTERS_MAX, RUN_NUMBER_MAX

UNDER_WAY_MAX = 64
"""Runs, keyed messages and calls that a client may have sent and not heard of. With runs of 63 kB that is enough to
fill a window of any member."""

RUN_BYTES_MAX = 63_000
"""Of a run of several messages, encoded: with its head it is one bundle. A larger message is a run of its own."""

ANSWERS_MAX = 4
"""Answers to full runs that leave together, at most. (Else: 1. eight clients send at full rate, and their runs are
ordered in turns. 2. Each run wakes its client for one answer and one run more, and this member for that run. 3. Half of
the time goes into waking.)"""

SUBSCRIPTIONS_MAX = 64
"""Of one client."""

CREDIT_BYTES = 256_000
"""Deliveries of a subscription that are on their way to the client, or wait there."""

PING_SECONDS = 2.0
"""Between two pings of a client that hears nothing."""

SILENCE_SECONDS = 6.0
"""Then a member that does not answer is given up, and so is a client that does not ask."""

_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=RUN_NUMBER_MAX)]
_Group: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
_Offset: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


# ---------------------------------------------------------------------- a client says
class Hello(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    """The first record."""

    client: Annotated[str, msgspec.Meta(min_length=1, max_length=CLIENT_CHARACTERS_MAX)]
    """Its random name: that of its numbers."""


class Send(msgspec.Struct, frozen=True, tag="send", array_like=True):
    """A run of messages, encoded by the client as they travel and are logged."""

    group: _Group
    number: _Number
    count: Annotated[int, msgspec.Meta(ge=1)]
    packed: memoryview


class SendKeyed(msgspec.Struct, frozen=True, tag="keyed", array_like=True):
    """A message with a key that the application has chosen: of those of all clients with the same key, the first one is
    delivered."""

    group: _Group
    number: _Number
    key: str
    payload: bytes


class CallMethod(msgspec.Struct, frozen=True, tag="call", array_like=True):
    """Apply a method of a replicated object."""

    group: _Group
    number: _Number
    method: str
    arguments: list[msgspec.Raw]
    named: dict[str, msgspec.Raw]
    schema: str


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe", array_like=True):
    """Deliveries are wanted, from an offset on or from now on."""

    subscription: _Number
    group: _Group
    start: _Offset | None = None


class Taken(msgspec.Struct, frozen=True, tag="taken", array_like=True):
    """The application has taken so many bytes of deliveries."""

    subscription: _Number
    size: _Offset


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe", array_like=True):
    """They are wanted no more."""

    subscription: _Number


class Ping(msgspec.Struct, frozen=True, tag="ping", array_like=True):
    """Is anybody there?"""


Request: TypeAlias = Hello | Send | SendKeyed | CallMethod | Subscribe | Taken | Unsubscribe | Ping


# ---------------------------------------------------------------------- a member says
class Welcome(msgspec.Struct, frozen=True, tag="welcome", array_like=True):
    """The answer to a hello."""

    cluster: str
    process: SiteId
    payload_max: int


class Ordered(msgspec.Struct, frozen=True, tag="ordered", array_like=True):
    """A run or a keyed message has its place."""

    group: GroupId
    number: int
    offset: int
    """Of its first message, like `message`."""
    message: str
    repeated: bool


class Several(msgspec.Struct, frozen=True, tag="several", array_like=True):
    """Several runs have their places."""

    those: list[Ordered]


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """What was sent under a number is not taken, and never will be: a mistake of the sender."""

    group: GroupId
    number: int
    why: str


class Result(msgspec.Struct, frozen=True, tag="result", array_like=True):
    """What has come of a call."""

    group: GroupId
    number: int
    value: bytes = b""
    error: str = ""
    """The name of the exception that the method has raised; empty: none."""
    why: str = ""


class Blocked(msgspec.Struct, frozen=True, tag="blocked", array_like=True):
    """The group cannot go on, as this member sees it. What it has taken it keeps."""

    group: GroupId
    why: str


class Deliveries(msgspec.Struct, frozen=True, tag="deliveries", array_like=True):
    """Messages that were ordered together."""

    subscription: int
    bundle: MessageId
    view: str
    replayed: bool
    offset: int
    """That of the first message of the bundle."""
    places: list[int]
    """Which messages of the bundle these are."""
    payloads: list[bytes]


class Started(msgspec.Struct, frozen=True, tag="started", array_like=True):
    """A subscription begins at this offset."""

    subscription: int
    offset: int


class Ended(msgspec.Struct, frozen=True, tag="ended", array_like=True):
    """A subscription is over: what it wants is not held here, or it reads too slowly."""

    subscription: int
    why: str
    is_elsewhere: bool = False
    """Whether this member does not have it, and another one may."""


class Cut(msgspec.Struct, frozen=True, tag="cut", array_like=True):
    """The member closes the connection."""

    why: str


class Pong(msgspec.Struct, frozen=True, tag="pong", array_like=True):
    """The answer to a ping."""


Answer: TypeAlias = Welcome | Ordered | Several | Refused | Result | Blocked | Deliveries | Started | Ended | Cut | Pong

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
