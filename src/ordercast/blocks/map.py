"""A replicated map, with compare-and-set and watches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

import msgspec

from ordercast.blocks.state import State, Stored
from ordercast.node import NodeClosed, Replicated
from ordercast.node.value_codec import ValueCodec

Value = TypeVar("Value")


class Entry(msgspec.Struct, Generic[Value], frozen=True):
    """A value, and the version that a compare-and-set names."""

    value: Value
    version: int


class Change(msgspec.Struct, Generic[Value], frozen=True):
    """What has become of a key."""

    key: str
    value: Value | None
    """None: it was removed."""
    version: int


class Map(Generic[Value]):
    """One map of a group, by its name."""

    def __init__(self, replica: Replicated[State], name: str, wanted: Any) -> None:
        self.name = name
        self._replica = replica
        self._codec: ValueCodec[Value] = ValueCodec(wanted)

    async def put(self, key: str, value: Value) -> int:
        """Set a key; its version. `TypeError` when the value is not of the type."""
        version = await self._replica.call(State.put, self.name, key, self._codec.encode(value), None)
        return version or 0

    async def compare_and_set(self, key: str, value: Value, version: int) -> bool:
        """Set a key if it still has this version, or, with 0, if it is not there; whether it was set."""
        return await self._replica.call(State.put, self.name, key, self._codec.encode(value), version) is not None

    async def remove(self, key: str, version: int | None = None) -> bool:
        """Remove a key, if it still has this version; whether it was removed."""
        return await self._replica.call(State.remove, self.name, key, version)

    async def get(self, key: str, *, linearizable: bool = False) -> Value | None:
        """What a key is set to, as this process knows it; with `linearizable`, nobody was told of anything newer."""
        entry = await self.entry(key, linearizable=linearizable)
        return None if entry is None else entry.value

    async def entry(self, key: str, *, linearizable: bool = False) -> Entry[Value] | None:
        """The same, with its version."""
        stored = await self._replica.read(
            lambda state: state.maps.get(self.name, {}).get(key), linearizable=linearizable
        )
        return None if stored is None else Entry(self._decode(key, stored.value), stored.version)

    async def items(self, *, linearizable: bool = False) -> dict[str, Value]:
        """All keys and what they are set to."""
        stored = await self._replica.read(self._all, linearizable=linearizable)
        return {key: self._decode(key, each.value) for key, each in stored.items()}

    def _decode(self, key: str, value: bytes) -> Value:
        try:
            return self._codec.decode(value)
        except ValueError as error:
            raise ValueError(f"map {self.name}, key {key!r}: not of type {self._codec.type_name}: {error}") from None

    def _all(self, state: State) -> dict[str, Stored]:
        return dict(state.maps.get(self.name, {}))

    async def watch(self, prefix: str = "", since: int | None = None) -> AsyncIterator[Change[Value]]:
        """Every change of the keys that begin with a text, from now on or since a version. Whoever is more than a
        thousand changes behind is shown what all keys are set to instead. Ends with the node."""
        seen = (await self._replica.read(lambda state: state.revision)) if since is None else since
        while True:
            for change in self._news(seen, prefix):
                yield change
                seen = max(seen, change.version)
            state = self._replica.state
            if state is not None:
                if any(True for _ in self._news(seen, prefix)):
                    continue  # while somebody looked at a change, there were others
                seen = state.revision
            try:
                await self._replica.changed()
            except NodeClosed:
                return

    def _news(self, seen: int, prefix: str) -> list[Change[Value]]:
        state = self._replica.state
        if state is None or state.revision <= seen:
            return []
        if state.changes and state.changes[0].revision <= seen + 1:
            first = len(state.changes) - (state.revision - seen)
            return [
                Change(each.key, None if each.value is None else self._decode(each.key, each.value), each.revision)
                for each in state.changes[first:]
                if each.map == self.name and each.key.startswith(prefix)
            ]
        return [
            Change(key, self._decode(key, each.value), each.version)
            for key, each in sorted(self._all(state).items(), key=lambda pair: pair[1].version)
            if key.startswith(prefix) and each.version > seen
        ]
