"""The backlog: messages that were heard and are not acknowledged yet, per source and in the source's order."""

from __future__ import annotations

from ordercast.core import InvariantViolation, Multicast, Part, SiteId
from ordercast.protocols.classic.token.ledger import Ledger
from ordercast.protocols.classic.token.turns import Entry, Run, Turn

WINDOWS_HEARD = 2
"""A source may overrun its window by one more: a `Credit` that waits for the log is computed before what is sent
meanwhile."""


class Backlog(Part):
    """Bounded per source: what lies too far ahead of the history is not kept, and comes again."""

    def __init__(self, ledger: Ledger, sites: tuple[SiteId, ...], window_messages: int) -> None:
        self._ledger = ledger
        self._heard: dict[SiteId, dict[int, Multicast]] = {site: {} for site in sites}
        self.messages_max = WINDOWS_HEARD * window_messages
        """Of each source."""

    def keep(self, source: SiteId, first: int, multicasts: tuple[Multicast, ...]) -> None:
        """Messages were heard, which follow each other from this number of their source on."""
        heard, ordered = self._heard[source], self._ledger.ordered[source]
        for number, multicast in enumerate(multicasts, first):
            if ordered < number <= ordered + self.messages_max:
                heard[number] = multicast

    def find(self, source: SiteId, number: int) -> Multicast | None:
        """A message that is not committed here: it waits, or an accepted turn has it."""
        found = self._heard[source].get(number)
        return self._ledger.find_uncommitted(source, number) if found is None else found

    def assemble(self, turn: Turn) -> Entry | None:
        """The turn with its messages, when they are all here."""
        known = self._ledger.find(turn.number, turn.version)
        if known is not None:
            return known
        multicasts: list[Multicast] = []
        for run in turn.runs:
            source = run.first.source
            for number in range(run.source_number, run.last + 1):
                multicast = self.find(source, number)
                if multicast is None:
                    return None
                multicasts.append(multicast)
        return Entry(turn, tuple(multicasts))

    def remove(self, entry: Entry) -> None:
        """These are in the history now."""
        for source, number, _multicast in entry.numbered():
            self._heard[source].pop(number, None)

    def take_back(self, entry: Entry) -> None:
        """These are no longer in the history; what now lies too far ahead of it goes."""
        for source, number, multicast in entry.numbered():
            self.keep(source, number, (multicast,))
            last = self._ledger.ordered[source] + self.messages_max
            for beyond in [heard for heard in self._heard[source] if heard > last]:
                del self._heard[source][beyond]

    def _next_run(self, source: SiteId, ordered: int, count_max: int) -> tuple[Run, list[Multicast]] | None:
        """What the source's next messages are, without a gap and within one incarnation, if there are any."""
        heard = self._heard[source]
        if not heard or ordered + 1 not in heard:
            return None
        first = heard[ordered + 1]
        multicasts = [first]
        while len(multicasts) < count_max:
            following = heard.get(ordered + 1 + len(multicasts))
            if following is None or following.id.incarnation != first.id.incarnation:
                break
            multicasts.append(following)
        return Run(ordered + 1, first.id, len(multicasts)), multicasts

    def choose(self, count_max: int) -> tuple[tuple[Run, ...], tuple[Multicast, ...]]:
        """What the token site acknowledges: each source's messages in their order, another source first each time."""
        runs: list[Run] = []
        chosen: list[Multicast] = []
        sources = list(self._heard)
        start = self._ledger.accepted % len(sources)
        for source in sources[start:] + sources[:start]:
            number = self._ledger.ordered[source]
            while len(chosen) < count_max:
                found = self._next_run(source, number, count_max - len(chosen))
                if found is None:
                    break
                runs.append(found[0])
                chosen.extend(found[1])
                number = found[0].last
        return tuple(runs), tuple(chosen)

    def has_next(self) -> bool:
        """Whether there is anything to acknowledge."""
        ordered = self._ledger.ordered
        return any(heard and ordered[source] + 1 in heard for source, heard in self._heard.items())

    def check_invariants(self) -> None:
        """Nothing here is in the history, and nothing is beyond the bound."""
        ordered = self._ledger.ordered
        for source, heard in self._heard.items():
            if len(heard) > self.messages_max:
                raise InvariantViolation(f"{len(heard)} messages of {source} wait, at most {self.messages_max} should")
            if heard and min(heard) <= ordered[source]:
                raise InvariantViolation(f"message {min(heard)} of {source} waits and is in the history")
