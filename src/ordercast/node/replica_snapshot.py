"""The snapshot of a replica, with the log or beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from ordercast.node.errors import NodeFailed
from ordercast.node.journal import Journal
from ordercast.node.node import Node
from ordercast.node.replica_messages import encode_value

State = TypeVar("State")


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A state, and where in the order it stands."""

    offset: int
    """The next delivery to apply."""
    state: bytes
    schema: str = ""
    """What the class looked like. Version 0.2.0 does not say."""
    birth: str = ""
    calls: int = 0
    time: float = 0.0
    """See `ordercast.node.replica_lineage`."""


def make_snapshot(state: object, offset: int, schema: str, known: tuple[str, int, float]) -> Snapshot:
    """A state as it is; `known` is its birth, its calls and its time."""
    return Snapshot(offset, encode_value(state), schema, *known)


def find_snapshot(kept: bytes | None, node: Node, name: str) -> Snapshot | None:
    """What was kept for this replica: with the log, or, when another one gave it later, beside the log."""
    journal = node.internals.engine.journal
    snapshot = None
    if kept is not None:
        snapshot = msgspec.msgpack.decode(kept, type=Snapshot)
    elif journal.attachment.snapshot is not None:
        # Version 0.2.0 kept it without a name, where an application's own may stand.
        with contextlib.suppress(msgspec.MsgspecError):
            snapshot = msgspec.msgpack.decode(journal.attachment.snapshot, type=Snapshot)
    given = journal.kept_state(name)
    if given is not None:
        found = msgspec.msgpack.decode(given, type=Snapshot)
        if snapshot is None or found.offset > snapshot.offset:
            return found
    return snapshot


def keep_beside(journal: Journal, name: str, take: Callable[[], Snapshot]) -> asyncio.Future[None] | None:
    """Write a snapshot down beside the log, where there is one, in a thread of its own."""
    if not journal.stable:
        return None
    keep = partial(_keep, journal, name, take)
    return asyncio.get_running_loop().run_in_executor(None, keep)


def _keep(journal: Journal, name: str, take: Callable[[], Snapshot]) -> None:
    journal.keep_state(name, msgspec.msgpack.encode(take()))


def unpack_state(
    content: bytes | bytearray, state_class: type[State], what: str, schema: str, own_schema: str
) -> State:
    """Bytes -> a state. `NodeFailed` says what the bytes are, and which schemas do not fit."""
    try:
        return msgspec.msgpack.decode(content, type=state_class)
    except (msgspec.DecodeError, ValueError) as error:
        raise NodeFailed(
            f"{what} does not fit {state_class.__name__}: {error}; its schema is {schema or 'of ordercast 0.2.0'}, "
            f"{own_schema}: install here the version that wrote it"
        ) from None
