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
"""Offsets of letters and runs that were not delivered; members that come later are told of them."""

CLIENTS = "@"
"""The owner of keys that clients choose: they belong to all clients together, and the bound of one owner is not for
them. No process has this name."""

CLIENTS_MAX = 65_536
"""Clients whose last number is remembered; with more, who was silent for the longest time is forgotten."""

PLACES_OF_CLIENT_MAX = 128
"""Of the last runs of a client: more than it may have under way."""


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a letter stands in the order of its group."""

    offset: int
    bundle: MessageId
    index: int
    """Its place in the bundle."""


NO_PLACE = Place(-1, MessageId("", 0, 0), 0)
"""That of a run whose place nobody remembers."""

EARLY = Place(-2, MessageId("", 0, 0), 0)
"""That of a run which has overtaken the one that it has to follow: it does not count, and is sent again."""


class UsedKey(msgspec.Struct, frozen=True, array_like=True):
    """A key, and where it was used first."""

    owner: str
    key: str
    place: Place


class UsedNumbers(msgspec.Struct, frozen=True, array_like=True):
    """The last runs of a client."""

    client: str
    last: int
    """The highest number that was used."""
    places: list[tuple[int, Place]]
    """The numbers of its last runs, and where those stand."""


class KeysAt(msgspec.Struct, frozen=True):
    """All that is known of the keys of a group at one place in its order."""

    offset: int
    """That of the next delivery."""
    used: list[UsedKey]
    """The oldest first."""
    repeated: list[int]
    """Offsets of letters and runs that were not delivered, from `since` on."""
    since: int
    numbers: list[UsedNumbers] = []
    """Those who were silent for the longest time first."""


class _Client:
    """What is remembered of one client."""

    __slots__ = ("last", "places")

    def __init__(self, last: int, places: Iterable[tuple[int, Place]] = ()) -> None:
        self.last = last
        self.places: deque[tuple[int, Place]] = deque(places, PLACES_OF_CLIENT_MAX)


class Keys:
    """The keys of one group, as far as its deliveries have come."""

    def __init__(
        self,
        used: Iterable[UsedKey] = (),
        repeated: Iterable[int] = (),
        since: int = 0,
        numbers: Iterable[UsedNumbers] = (),
    ) -> None:
        self._places: dict[tuple[str, str], Place] = {}
        """(owner, key) -> its place, the oldest first."""
        self._of_owner: dict[str, deque[str]] = {}
        self._repeated = deque(repeated)
        self._since = since
        """From this offset on all repeated ones are known."""
        for entry in used:
            self._use(entry.owner, entry.key, entry.place)
        self._clients = {each.client: _Client(each.last, each.places) for each in numbers}
        """Who was silent for the longest time first."""
        self.is_partial = False
        """Whether numbers may have been used of which nobody could tell."""

    def __len__(self) -> int:
        return len(self._places)

    def find(self, owner: str, key: str) -> Place | None:
        """Where a key was used first, if that is still known."""
        return self._places.get((owner, key))

    def use(self, owner: str, key: str, place: Place) -> Place:
        """A letter with a key stands at this place; where the first one stands, which is this one if it is new."""
        first = self._places.get((owner, key))
        if first is not None:
            self._note_repeated(place.offset)
            return first
        self._use(owner, key, place)
        return place

    def _note_repeated(self, offset: int) -> None:
        self._repeated.append(offset)
        if len(self._repeated) > REPEATED_MAX:
            self._since = self._repeated.popleft() + 1

    def find_number(self, client: str, number: int) -> Place | None:
        """Where a client's run stands that has this number; None when the number was not used. A place that nobody
        remembers has the offset -1."""
        known = self._clients.get(client)
        if known is None or number > known.last:
            return None
        return next((place for used, place in reversed(known.places) if used == number), NO_PLACE)

    def last_number(self, client: str) -> int:
        """The highest number that a client's runs have had; 0 where none is known."""
        known = self._clients.get(client)
        return 0 if known is None else known.last

    def use_number(self, client: str, number: int, place: Place, after: int = 0) -> Place:
        """A run stands at this place; where the first one with its number stands, which is this one if it is new.
        `EARLY` when the one that it has to follow does not stand before it."""
        first = self.find_number(client, number)
        if first is None and after > self.last_number(client) and (client in self._clients or not self.is_partial):
            first = EARLY
        if first is not None:
            self._note_repeated(place.offset)
            return first
        # Behind all others: of those who are in the dictionary, the first is the one to forget.
        known = self._clients.pop(client, None) or _Client(number)
        self._clients[client] = known
        known.last = number
        known.places.append((number, place))
        if len(self._clients) > CLIENTS_MAX:
            del self._clients[next(iter(self._clients))]
        return place

    def _use(self, owner: str, key: str, place: Place) -> None:
        self._places[owner, key] = place
        own = self._of_owner.setdefault(owner, deque())
        own.append(key)
        if len(own) > KEYS_OF_OWNER_MAX and owner != CLIENTS:
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
        for client, known in tuple(self._clients.items()):
            while known.places and known.places[-1][1].offset >= offset:
                known.last = known.places.pop()[0] - 1
                if known.places:
                    # Numbers may have gaps.
                    known.last = known.places[-1][0]
            if not known.last:
                del self._clients[client]

    def at(self, offset: int, since: int = 0) -> KeysAt:
        """All of it, for a checkpoint or for somebody who has the deliveries from `since` on."""
        used = [UsedKey(owner, key, place) for (owner, key), place in self._places.items()]
        repeated = [each for each in self._repeated if each >= since]
        numbers = [UsedNumbers(client, known.last, [*known.places]) for client, known in self._clients.items()]
        return KeysAt(offset, used, repeated, max(since, self._since), numbers)

    @classmethod
    def restore(cls, kept: KeysAt) -> Keys:
        """As they were there."""
        return cls(kept.used, kept.repeated, kept.since, kept.numbers)
