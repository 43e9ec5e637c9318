"""What a control process knows of others (2.2.1): `locals` and `coords`, with a control process information object for
each process, and its distance (2.4)."""

from __future__ import annotations

from collections.abc import Container, Iterator

from ordercast.core import SiteId, WireError
from ordercast.protocols.intergroup.control.options import ControlOptions
from ordercast.protocols.intergroup.control.packets import TimestampPair, TimestampPairs
from ordercast.protocols.intergroup.control.report import ControlData

SAMPLES = 4
"""The distance is the least of so many measured ones: a packet that waited, or a clock that was set, spoils one."""


class Entry:
    """CPI: what is known of one process."""

    __slots__ = ("_measured", "data", "hops", "num_coords", "pair", "reported", "site", "updated")

    def __init__(self, site: SiteId, tick: int) -> None:
        self.site = site
        self.pair: TimestampPair | None = None
        """Of the last control message that came from it; None before the first one."""
        self.hops = 0
        """The distance in TTL; 0 before the first message."""
        self.updated = tick
        """lastUpdated, in periods of the check: a clock may be set."""
        self.data: ControlData | None = None
        """What it has reported last; None before it has reported anything to this process as it is now."""
        self.num_coords = 0
        """How many coordinators it has counted, where it is one."""
        self.reported: float | None = None
        """Its distance from the coordinator, as that one says."""
        self._measured: list[float] = []

    def hear(self, sent: float, now: float, hops: int, tick: int) -> None:
        """A control message came from it."""
        self.pair = TimestampPair(sent, now)
        self.hops = hops
        self.updated = tick

    def measure(self, sent: float, pair: TimestampPair, now: float, options: ControlOptions) -> bool:
        """It says when it has received which of our messages: distance = (T4 - T3 + T2 - T1) / 2. Whether that is
        possible; a clock that was set in between gives anything."""
        seconds = (now - sent + pair.t2 - pair.t1) / 2
        if not -options.distance_seconds_min <= seconds <= options.distance_seconds_max:
            return False
        measured = self._measured
        if len(measured) == SAMPLES:
            del measured[0]
        measured.append(seconds)
        return True

    @property
    def distance(self) -> float | None:
        """Seconds from this process, where it was measured."""
        return min(self._measured) if self._measured else None

    def begin_anew(self, reported: float | None) -> None:
        """Whoever was heard is out of earshot from now on, or the other way round."""
        self._measured.clear()
        self.reported = reported
        self.data = None
        self.num_coords = 0


class Table:
    """Processes by name: `locals`, or `coords`."""

    def __init__(self, options: ControlOptions) -> None:
        self._options = options
        self.entries: dict[SiteId, Entry] = {}
        self.leaving: set[SiteId] = set()
        """Which of them are coordinators that are about to become children."""
        self._departed: dict[SiteId, tuple[int, ControlData]] = {}
        """Who has said that it is gone -> the period of the check up to which its report still counts here, and that
        report."""

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __contains__(self, site: SiteId) -> bool:
        return site in self.entries

    def get(self, site: SiteId) -> Entry | None:
        """What is known of a process."""
        return self.entries.get(site)

    def add(self, site: SiteId, tick: int) -> Entry:
        """A process that is new here."""
        if len(self.entries) >= self._options.processes_max:
            raise WireError(f"more than {self._options.processes_max} control processes")
        entry = self.entries[site] = Entry(site, tick)
        return entry

    def learn(self, distances: dict[SiteId, float], myself: SiteId, tick: int) -> None:
        """A coordinator says who is there, and how far away from it: rules 2 and 3 of 2.6.3."""
        entries, furthest = self.entries, self._options.distance_seconds_max
        for site, seconds in distances.items():
            if not 0 <= seconds <= furthest:
                raise WireError(f"a distance of {seconds} seconds")
            if site == myself:
                continue
            entry = entries.get(site)
            if entry is None:
                entry = self.add(site, tick)
            entry.updated = tick
            entry.reported = seconds

    def depart(self, site: SiteId, until: int) -> None:
        """A process has said that it is gone from here. What it has reported counts up to a period of the check: by
        then it has been reported from where it is now."""
        entry = self.entries.pop(site, None)
        self.leaving.discard(site)
        if entry is not None and entry.data is not None:
            self.linger(site, until, entry.data)

    def linger(self, site: SiteId, until: int, data: ControlData) -> None:
        """Count a report of somebody who is not here, up to a period of the check."""
        if len(self._departed) < self._options.processes_max:
            self._departed[site] = until, data.elsewhere()

    def remove_stale(self, before: int, tick: int) -> int:
        """Remove those of which nothing has been heard since a period of the check (2.6.3); how many they are."""
        stale = [entry for entry in self.entries.values() if entry.updated < before]
        for entry in stale:
            del self.entries[entry.site]
            self.leaving.discard(entry.site)
        for site in [site for site, (until, _) in self._departed.items() if until <= tick]:
            del self._departed[site]
        return len(stale)

    def data(self) -> Iterator[ControlData]:
        """What everyone has reported last."""
        for entry in self.entries.values():
            if entry.data is not None:
                yield entry.data
        for _, data in self._departed.values():
            yield data

    def keep_only(self, sites: Container[SiteId]) -> None:
        """Whoever is not among these is gone, says somebody who has waited for it already."""
        for site in [site for site in self.entries if site not in sites]:
            del self.entries[site]

    def remove_unheard(self) -> None:
        """Those of whom there is only hearsay."""
        for entry in [entry for entry in self.entries.values() if entry.data is None]:
            del self.entries[entry.site]

    def is_complete(self) -> bool:
        """Of coordinators: whether all of them have reported, and none of them knows of more than there are here."""
        count = len(self.entries) + 1
        return all(entry.data is not None and entry.num_coords <= count for entry in self.entries.values())

    def pairs(self) -> TimestampPairs:
        """When which message of whom was received: for everyone who was heard."""
        return {site: entry.pair for site, entry in self.entries.items() if entry.pair is not None}

    def distances(self) -> dict[SiteId, float]:
        """Seconds to everyone, for a coordinator's message."""
        unknown = self._options.distance_seconds_unknown
        found: dict[SiteId, float] = {}
        for site, entry in self.entries.items():
            seconds = entry.distance
            if seconds is None:
                seconds = unknown if entry.reported is None else entry.reported
            found[site] = seconds if seconds > 0.0 else 0.0
        return found
