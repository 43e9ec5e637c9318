"""The keys that were used in a group: of several letters with the same key and owner, the first one is delivered.

Who is the first is decided by the order of the group and by nothing else, so every member decides the same. What is
remembered is bounded, and what is forgotten depends on the order alone, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from ordercast.core import MessageId

KEYS_MAX = 65_536
"""Of a group; with more, the oldest is forgotten."""

KEYS_OF_OWNER_MAX = 1024
"""Of one owner: whoever sends much does not push out the keys of the others."""

REPEATED_MAX = 4096
"""Offsets of letters that were not delivered; members that come later are told of them."""


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a letter stands in the order of its group."""

    offset: int
    bundle: MessageId
    index: int
    """Its place in the bundle."""


class UsedKey(msgspec.Struct, frozen=True, array_like=True):
    """A key, and where it was used first."""

    owner: str
    key: str
    place: Place


class KeysAt(msgspec.Struct, frozen=True):
    """All that is known of the keys of a group at one place in its order."""

    offset: int
    """That of the next delivery."""
    used: list[UsedKey]
    """The oldest first."""
    repeated: list[int]
    """Offsets of letters that were not delivered, from `since` on."""
    since: int


class Keys:
    """The keys of one group, as far as its deliveries have come."""

    def __init__(self, used: Iterable[UsedKey] = (), repeated: Iterable[int] = (), since: int = 0) -> None:
        self._places: dict[tuple[str, str], Place] = {}
        """(owner, key) -> its place, the oldest first."""
        self._of_owner: dict[str, deque[str]] = {}
        self._repeated = deque(repeated)
        self._since = since
        """From this offset on all repeated ones are known."""
        for entry in used:
            self._use(entry.owner, entry.key, entry.place)

    def __len__(self) -> int:
        return len(self._places)

    def find(self, owner: str, key: str) -> Place | None:
        """Where a key was used first, if that is still known."""
        return self._places.get((owner, key))

    def use(self, owner: str, key: str, place: Place) -> Place:
        """A letter with a key stands at this place; where the first one stands, which is this one if it is new."""
        first = self._places.get((owner, key))
        if first is not None:
            self._repeated.append(place.offset)
            if len(self._repeated) > REPEATED_MAX:
                self._since = self._repeated.popleft() + 1
            return first
        self._use(owner, key, place)
        return place

    def _use(self, owner: str, key: str, place: Place) -> None:
        self._places[owner, key] = place
        own = self._of_owner.setdefault(owner, deque())
        own.append(key)
        if len(own) > KEYS_OF_OWNER_MAX:
            del self._places[owner, own.popleft()]
        elif len(self._places) > KEYS_MAX:
            oldest, key = next(iter(self._places))
            del self._places[oldest, key]
            # Of one owner, too, the oldest comes first.
            self._of_owner[oldest].popleft()
            if not self._of_owner[oldest]:
                del self._of_owner[oldest]

    def take_back(self, offset: int) -> None:
        """What was delivered from this offset on is taken back."""
        while self._places:
            (owner, key), place = next(reversed(self._places.items()))
            if place.offset < offset:
                break
            del self._places[owner, key]
            self._of_owner[owner].pop()
        while self._repeated and self._repeated[-1] >= offset:
            self._repeated.pop()

    def at(self, offset: int, since: int = 0) -> KeysAt:
        """All of it, for a checkpoint or for somebody who has the deliveries from `since` on."""
        used = [UsedKey(owner, key, place) for (owner, key), place in self._places.items()]
        repeated = [each for each in self._repeated if each >= since]
        return KeysAt(offset, used, repeated, max(since, self._since))

    @classmethod
    def restore(cls, kept: KeysAt) -> Keys:
        """As they were there."""
        return cls(kept.used, kept.repeated, kept.since)
