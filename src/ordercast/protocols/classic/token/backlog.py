"""The backlog: messages that were heard and are not acknowledged yet, per source and in the source's order."""

from __future__ import annotations

from math import inf

from ordercast.core import InvariantViolation, Multicast, Part, SiteId
from ordercast.protocols.classic.token.ledger import Ledger
from ordercast.protocols.classic.token.rosters import Roster
from ordercast.protocols.classic.token.turns import (
    CHANGE_MARK,
    MESSAGE_BYTES,
    Entry,
    Run,
    Turn,
    Version,
    begins_life,
    is_change,
    messages_bytes,
    same_life_start,
)

WINDOWS_HEARD = 2
"""A source may overrun its window by one more: a `Credit` that waits for the log is computed before what is sent
meanwhile."""
WINDOW_BYTES = 1 << 21
"""What a source may have under way, unless a single message is larger. It is no option: a site must be able to hold
what another one acknowledges at once."""

CHANGES_MAX = 8
"""New rosters that are kept for turns which bring them; more are asked for again."""


class Backlog(Part):
    """Bounded per source: what lies too far ahead of the history is not kept, and comes again."""

    def __init__(self, ledger: Ledger, sites: tuple[SiteId, ...], window_messages: int) -> None:
        self._ledger = ledger
        self._heard: dict[SiteId, dict[int, Multicast]] = {site: {} for site in sites}
        self.messages_max = WINDOWS_HEARD * window_messages
        """Of each source."""
        self._bytes: dict[SiteId, int] = dict.fromkeys(sites, 0)
        """Source -> what its messages occupy."""
        self._changes: dict[tuple[SiteId, int], Multicast] = {}
        """Messages that change the roster: no token site chooses among them, but turns bring them."""
        self._newest = ledger.roster
        """The latest one whose messages are kept."""

    def keep_change(self, number: int, multicast: Multicast) -> None:
        """A change of the roster was heard. No turn will bring one again that is committed, nor an earlier one."""
        if _version(multicast) > self._ledger.committed_roster.version:
            self._changes[multicast.id.source, number] = multicast
            while len(self._changes) > CHANGES_MAX:
                del self._changes[next(iter(self._changes))]

    def drop_changes(self) -> None:
        """A roster is committed. (Else: a list that brought another one was never opened, and its message waits for
        ever.)"""
        committed = self._ledger.committed_roster.version
        self._changes = {key: change for key, change in self._changes.items() if _version(change) > committed}

    def admit(self, roster: Roster) -> None:
        """Messages of these sites are kept from here on, whether they are new or not."""
        for site, _life in roster.sites:
            self._heard.setdefault(site, {})
            self._bytes.setdefault(site, 0)
        self._newest = roster

    def dismiss(self, roster: Roster) -> None:
        """Messages of others, or of other lives, are not wanted any more."""
        for source in [source for source in self._heard if roster.life(source) is None]:
            del self._heard[source], self._bytes[source]
        self.skip()

    def keep(self, source: SiteId, first: int, multicasts: tuple[Multicast, ...]) -> None:
        """Messages were heard, which follow each other from this number of their source on."""
        heard = self._heard.get(source)
        ordered = None if heard is None else self._ledger.begins_at(source, self._newest)
        if heard is None or ordered is None:
            return
        near = ordered + self.messages_max
        for number, multicast in enumerate(multicasts, first):
            if number not in heard and (ordered < number <= near or self._is_near(ordered, number)):
                heard[number] = multicast
                self._bytes[source] += len(multicast.payload) + MESSAGE_BYTES
        # What comes last in the source's order goes first: else what is needed next could find no room.
        while self._bytes[source] > WINDOWS_HEARD * WINDOW_BYTES and len(heard) > 1:
            self._drop(source, max(heard))

    def _ordered(self, source: SiteId) -> int | None:
        """Number of the source's last message in the history; None when nothing of it is wanted."""
        return self._ledger.begins_at(source, self._newest) if source in self._heard else None

    def _is_near(self, ordered: int, number: int) -> bool:
        """Whether it lies within the windows behind what is ordered, or behind the beginning of a later life."""
        behind = max(ordered, same_life_start(number))
        return behind < number <= behind + self.messages_max

    def _drop(self, source: SiteId, number: int) -> None:
        heard = self._heard.get(source)
        dropped = heard.pop(number, None) if heard else None
        if dropped is not None:
            self._bytes[source] -= len(dropped.payload) + MESSAGE_BYTES

    def find(self, source: SiteId, number: int) -> Multicast | None:
        """A message that is not committed here: it waits, or an accepted turn has it."""
        found = self._changes.get((source, number)) or self._heard.get(source, {}).get(number)
        return self._ledger.find_uncommitted(source, number) if found is None else found

    def assemble(self, turn: Turn) -> Entry | None:
        """The turn with its messages, when they are all here."""
        known = self._ledger.find(turn.number, turn.version)
        if known is not None:
            return known
        multicasts: list[Multicast] = []
        for run in turn.runs:
            source = run.first.source
            heard = self._heard.get(source, {})
            for number in range(run.source_number, run.source_number + run.count):
                multicast = heard.get(number) or self.find(source, number)
                if multicast is None:
                    return None
                multicasts.append(multicast)
        return Entry(turn, tuple(multicasts))

    def remove(self, entry: Entry) -> None:
        """These are in the history now."""
        for run in entry.turn.runs:
            source, first = run.first.source, run.source_number
            heard = self._heard.get(source)
            if heard is None:
                if is_change(source):
                    self._changes.pop((source, first), None)
                continue
            if begins_life(first):
                self._drop_ordered(source)
            freed = 0
            for number in range(first, first + run.count):
                if (dropped := heard.pop(number, None)) is not None:
                    freed += len(dropped.payload) + MESSAGE_BYTES
            self._bytes[source] -= freed

    def _drop_ordered(self, source: SiteId) -> None:
        ordered = self._ordered(source)
        for number in [heard for heard in self._heard.get(source, ()) if ordered is None or heard <= ordered]:
            self._drop(source, number)

    def skip(self) -> None:
        """The history goes on behind a gap: what it has ordered by now does not wait any more."""
        for source in self._heard:
            self._drop_ordered(source)

    def take_back(self, entry: Entry) -> None:
        """These are no longer in the history; what now lies too far ahead of it goes."""
        for source, number, multicast in entry.numbered():
            if is_change(source):
                self.keep_change(number, multicast)
                continue
            self.keep(source, number, (multicast,))
            ordered = self._ordered(source)
            for beyond in [n for n in self._heard.get(source, ()) if ordered is None or not self._is_near(ordered, n)]:
                self._drop(source, beyond)

    def _next_number(self, source: SiteId, ordered: int) -> int | None:
        """The number of the source's next message, when that is here.

        When it is not, a later life may have begun: the source has lost its log, and what nobody has of the lives
        before will never come. Whoever has come later than the configuration begins a life with a roster only. (Else: c
        leaves, and comes again; the first message of its first stay, late, gets a place in the order again.)
        """
        heard = self._heard[source]
        if not heard or ordered + 1 in heard:
            return ordered + 1 if heard else None
        if self._ledger.roster.life(source):
            return None
        return min((number for number in heard if begins_life(number) and number > ordered), default=None)

    def _next_run(
        self, source: SiteId, ordered: int, count_max: int, bytes_max: float
    ) -> tuple[Run, list[Multicast]] | None:
        """What the source's next messages are, without a gap and within one incarnation, if there are any."""
        heard, begin = self._heard[source], self._next_number(source, ordered)
        if begin is None:
            return None
        first = heard[begin]
        multicasts: list[Multicast] = []
        following: Multicast | None = first
        while following is not None and following.id.incarnation == first.id.incarnation:
            bytes_max -= len(following.payload) + MESSAGE_BYTES
            if bytes_max < 0 or len(multicasts) == count_max:
                break
            multicasts.append(following)
            following = heard.get(begin + len(multicasts))
        return (Run(begin, first.id, len(multicasts)), multicasts) if multicasts else None

    def choose(self, count_max: int, bytes_max: int) -> tuple[tuple[Run, ...], tuple[Multicast, ...]]:
        """What the token site acknowledges: each source's messages in their order, another source first each time; so
        many bytes, unless a single message is larger."""
        runs: list[Run] = []
        chosen: list[Multicast] = []
        sources = [source for source in self._heard if source in self._ledger.ordered]
        start = self._ledger.accepted % len(sources)
        left: float = bytes_max
        for source in sources[start:] + sources[:start]:
            number = self._ledger.ordered[source]
            if not self._heard[source]:
                continue
            while len(chosen) < count_max:
                found = self._next_run(source, number, count_max - len(chosen), left)
                if found is None and not chosen:
                    found = self._next_run(source, number, 1, inf)
                if found is None:
                    break
                runs.append(found[0])
                chosen.extend(found[1])
                number = found[0].last
                left -= messages_bytes(found[1])
        return tuple(runs), tuple(chosen)

    def has_next(self) -> bool:
        """Whether there is anything to acknowledge."""
        ordered = self._ledger.ordered
        for source, heard in self._heard.items():
            if heard and source in ordered and self._next_number(source, ordered[source]):
                return True
        return False

    def check_invariants(self) -> None:
        """Nothing here is in the history, and nothing is beyond the bound."""
        ordered = self._ledger.ordered
        for source, heard in self._heard.items():
            if bool(heard) != bool(self._bytes[source]):
                raise InvariantViolation(f"{len(heard)} messages of {source} occupy {self._bytes[source]} bytes")
            if len(heard) > 1 and self._bytes[source] > WINDOWS_HEARD * WINDOW_BYTES:
                raise InvariantViolation(f"the messages of {source} occupy {self._bytes[source]} bytes")
            if len(heard) > self.messages_max and len(heard) > self.messages_max * len(
                set(map(same_life_start, heard))
            ):
                raise InvariantViolation(f"{len(heard)} messages of {source} wait, at most {self.messages_max} should")
            if heard and min(heard) <= ordered.get(source, 0):
                raise InvariantViolation(f"message {min(heard)} of {source} waits and is in the history")


def _version(change: Multicast) -> Version:
    """Of the roster that the message brings."""
    return change.id.number, change.id.source.removeprefix(CHANGE_MARK)
