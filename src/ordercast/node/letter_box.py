"""What becomes of letters that are delivered: which of them go to the application, and who is told of their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from ordercast.core import GroupId, MessageId, Multicast
from ordercast.node.keys import EARLY, Keys, KeysAt, Place
from ordercast.node.letters import Letter
from ordercast.node.runs import Run

Ordered = Callable[[int, MessageId, int, Mapping[GroupId, int], bool], None]
"""Gets the ticket of a letter of this process, its bundle, its place there, its offset in each group, and whether these
are of an earlier letter with the same key."""


class LetterBox:
    """The keys of all groups of one process."""

    def __init__(
        self,
        is_own: Callable[[MessageId], bool],
        on_ordered: Ordered,
        on_early: Callable[[int], None],
        keys: Mapping[GroupId, KeysAt],
        lacking: Iterable[GroupId],
    ) -> None:
        """`is_own` says of a bundle whether this very start of the process has sent it; `keys` and `lacking` are what
        an earlier start knew. `on_early` gets the ticket of a run that has overtaken another one, and does not count.
        """
        self._is_own = is_own
        self._on_ordered = on_ordered
        self._on_early = on_early
        self._keys = {group: Keys.restore(kept) for group, kept in keys.items()}
        self._lacking = set(lacking)

    # ------------------------------------------------------------------ what is known
    def lacks(self, group: GroupId) -> bool:
        """Whether keys may have been used in a group of which this process has not heard."""
        return group in self._lacking

    def lose(self, group: GroupId) -> None:
        """The deliveries of a group go on behind a gap: keys may have been used there."""
        self._keys.pop(group, None)
        self._lacking.add(group)

    def forget(self, group: GroupId) -> None:
        """This process is out of a group."""
        self._keys.pop(group, None)
        self._lacking.discard(group)

    def find(self, group: GroupId, owner: str, key: str) -> Place | None:
        """Where a key was used first in a group, as far as this process knows."""
        keys = self._keys.get(group)
        return None if keys is None else keys.find(owner, key)

    def find_number(self, group: GroupId, client: str, number: int) -> Place | None:
        """The same for the number of a client's run."""
        keys = self._keys.get(group)
        return None if keys is None else keys.find_number(client, number)

    def last_number(self, group: GroupId, client: str) -> int:
        """The highest number that a client's runs have had in a group; 0 where none is known."""
        keys = self._keys.get(group)
        return 0 if keys is None else keys.last_number(client)

    def learn(self, group: GroupId, told: KeysAt | None) -> None:
        """Another member has told which keys were used; None: nobody knows."""
        self._lacking.discard(group)
        if told is not None:
            self._keys[group] = Keys.restore(told)
        else:
            self._of(group).is_partial = True

    def at(self, group: GroupId, offset: int, since: int) -> KeysAt | None:
        """What this process can tell whoever has the deliveries from `since` on; None: nothing of use."""
        if self.lacks(group) or offset < since:
            return None
        told = self._keys.get(group, Keys()).at(offset, since)
        return told if told.since <= since else None

    def kept(self, offsets: Mapping[GroupId, int]) -> tuple[dict[GroupId, KeysAt], list[GroupId]]:
        """What a checkpoint keeps."""
        keys = {group: keys.at(offsets.get(group, 0)) for group, keys in self._keys.items()}
        return keys, sorted(self._lacking)

    # ------------------------------------------------------------------ what comes
    def sort(
        self,
        multicast: Multicast,
        letters: list[Letter] | list[Run],
        offsets: Mapping[GroupId, int],
        told: KeysAt | None = None,
    ) -> tuple[int, ...] | None:
        """Which messages of a bundle go to the application, by their places in it; None: all. They have these offsets,
        the first one, and what stands before those of `told` was sorted by whoever has told it."""
        bundle, group = multicast.id, multicast.groups[0] if len(multicast.groups) == 1 else None
        first_offset = 0 if group is None else offsets.get(group, 0)
        is_own, index = self._is_own(bundle), 0
        chosen: list[range] = []
        for letter in letters:
            place = first = Place(first_offset + index, bundle, index)
            # A key belongs to one group: in another one the letter may be the first.
            if group is not None:
                if told is None or place.offset >= told.offset:
                    first = self._use(group, letter, place)
                elif place.offset in told.repeated:
                    first = self._find_first(group, letter, bundle) or Place(-1, bundle, index)
            if first is place:
                chosen.append(range(index, index + letter.count))
            if is_own and letter.ticket and first is EARLY:
                self._on_early(letter.ticket)
            elif is_own and letter.ticket:
                where = {name: offset + index for name, offset in offsets.items()}
                if first is not place and group is not None:
                    where = {group: first.offset}
                self._on_ordered(letter.ticket, first.bundle, first.index, where, first is not place)
            index += letter.count
        return None if len(chosen) == len(letters) else tuple(chain.from_iterable(chosen))

    def _use(self, group: GroupId, letter: Letter | Run, place: Place) -> Place:
        """Where the first one stands that has the same key, or the same number of the same client."""
        if type(letter) is Letter and not letter.key:
            return place
        keys = self._of(group)
        if isinstance(letter, Run):
            return keys.use_number(letter.client, letter.number, place, letter.after)
        return keys.use(letter.owner or place.bundle.source, letter.key, place)

    def _of(self, group: GroupId) -> Keys:
        keys = self._keys.get(group)
        if keys is None:
            keys = self._keys[group] = Keys()
        return keys

    def _find_first(self, group: GroupId, letter: Letter | Run, bundle: MessageId) -> Place | None:
        if isinstance(letter, Run):
            return self.find_number(group, letter.client, letter.number) or EARLY
        return self.find(group, letter.owner or bundle.source, letter.key)

    def take_back(self, groups: tuple[GroupId, ...], offset: int) -> None:
        """What was delivered in a group from this offset on is taken back."""
        if len(groups) == 1 and groups[0] in self._keys:
            self._keys[groups[0]].take_back(offset)
