"""The backlog: messages that were heard and are not acknowledged yet, per source and in the source's order."""

from __future__ import annotations

from ordercast.core import InvariantViolation, Multicast, SiteId
from ordercast.protocols.classic.token.turns import Entry, Run


class Backlog:
    """Bounded per source: what lies too far ahead of the history is not kept, and comes again."""

    def __init__(self, sites: tuple[SiteId, ...], messages_max: int) -> None:
        self._messages_max = messages_max
        self._heard: dict[SiteId, dict[int, Multicast]] = {site: {} for site in sites}

    def keep(self, source: SiteId, number: int, multicast: Multicast, ordered: int) -> None:
        """A message of a source whose last one in the history has the number `ordered`."""
        if ordered < number <= ordered + self._messages_max:
            self._heard[source][number] = multicast

    def find(self, source: SiteId, number: int) -> Multicast | None:
        """The message, when it is here."""
        return self._heard[source].get(number)

    def remove(self, entry: Entry) -> None:
        """These are in the history now."""
        for source, number, _multicast in entry.numbered():
            self._heard[source].pop(number, None)

    def take_back(self, entry: Entry, ordered: dict[SiteId, int]) -> None:
        """These are no longer in the history; what now lies too far ahead of it goes."""
        for source, number, multicast in entry.numbered():
            self.keep(source, number, multicast, ordered[source])
            for beyond in [heard for heard in self._heard[source] if heard > ordered[source] + self._messages_max]:
                del self._heard[source][beyond]

    def next_run(self, source: SiteId, ordered: int, count_max: int) -> tuple[Run, list[Multicast]] | None:
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

    def choose(
        self, ordered: dict[SiteId, int], count_max: int, rotate: int
    ) -> tuple[tuple[Run, ...], tuple[Multicast, ...]]:
        """What the token site acknowledges: each source's messages in their order, another source first each time."""
        runs: list[Run] = []
        chosen: list[Multicast] = []
        sources = list(self._heard)
        start = rotate % len(sources)
        for source in sources[start:] + sources[:start]:
            number = ordered[source]
            while len(chosen) < count_max:
                found = self.next_run(source, number, count_max - len(chosen))
                if found is None:
                    break
                runs.append(found[0])
                chosen.extend(found[1])
                number = found[0].last
        return tuple(runs), tuple(chosen)

    def has_next(self, ordered: dict[SiteId, int]) -> bool:
        """Whether there is anything to acknowledge."""
        return any(heard and ordered[source] + 1 in heard for source, heard in self._heard.items())

    def check_invariants(self, ordered: dict[SiteId, int]) -> None:
        """Nothing here is in the history, and nothing is beyond the bound."""
        for source, heard in self._heard.items():
            if len(heard) > self._messages_max:
                raise InvariantViolation(f"{len(heard)} messages of {source} wait, at most {self._messages_max} should")
            if heard and min(heard) <= ordered[source]:
                raise InvariantViolation(f"message {min(heard)} of {source} waits and is in the history")
