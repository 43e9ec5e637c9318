"""The state of a watch: what has to be remembered of a run that goes on, and what is wrong with its next rows.

Rows may come site by site, in any mixture, as long as those of one site come in their order. What is reported is
wrong whatever comes later, with two exceptions that say for how long they have waited: a message that somebody lacks,
and one that nobody has multicast.

| remembered | for how long |
| --- | --- |
| of each message where it was delivered, and its place there | until every member has it, or `lag_seconds` |
| for each site and source which numbers were delivered | always: sources count, so it is a few intervals |
| for each two sites how far their orders agree | always: one number |
| views | the last thousand |

What a site does after a crash is compared with nothing that it did before: its log, or the lack of one, may let it
deliver again. `ordercast verify` judges that, with the whole trace before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from ordercast.core.intervals import IntervalSet
from ordercast.trace.schema import Event, Run
from ordercast.watch.alert import Alert
from ordercast.watch.order import Orders

ORDERS: Final = ("acyclic-order", "multiple-group-order", "multiple-source-order")
"""Each of them forbids that two sites deliver two messages in different orders, the last one in one group."""
ACROSS: Final = ("acyclic-order", "multiple-group-order")
AGREEMENT: Final = ("agreement", "uniform-agreement")
LAG: Final = "agreement-lag"
UNDELIVERED: Final = 10
"""A message that nobody has delivered is forgotten when it is so many times older than a lag may be."""
VIEWS_MAX: Final = 1000
ALERTS_MAX: Final = 1000
"""Of one batch of rows: whoever has read a thousand knows."""


class Settings(msgspec.Struct, frozen=True):
    """What can be chosen."""

    lag_seconds: float = 10.0
    """For so long a message may be at some members and not at others, by the times in the trace."""
    open_max: int = 200_000
    """Messages that somebody lacks, and that are remembered."""


class _Open(msgspec.Struct):
    """A message that not everybody has."""

    since: float
    """When it was first seen."""
    places: dict[str, int] = {}
    """Where it was delivered, and at which place there."""
    source: str | None = None
    number: int | None = None
    groups: tuple[str, ...] | None = None
    """None: its multicast was not seen."""
    wanted: tuple[str, ...] | None = None
    """The sites that it is for, where it names sites."""


class _State(msgspec.Struct):
    groups: dict[str, list[str]]
    open: dict[str, _Open] = {}
    orders: Orders = msgspec.field(default_factory=Orders)
    joined: dict[str, float] = {}
    """Site -> when it last became a member of something, or came back."""
    delivered: dict[str, dict[str, list[tuple[int, int]]]] = {}
    """Site -> source -> intervals of numbers, since the site's last crash."""
    multicast: dict[str, list[tuple[int, int]]] = {}
    down: dict[str, float] = {}
    views: dict[str, list[str]] = {}
    lagging: dict[str, float] = {}
    """Sites of which it has been told that they lag; they are told of again when they have caught up in between."""
    forgotten: int = 0
    """Messages that were too many, or too old, to be remembered."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_State).decode


class Watch:
    """Of one run."""

    def __init__(self, run: Run, settings: Settings | None = None, state: bytes | None = None) -> None:
        """As it was when `state` was packed, or from the beginning."""
        self._run = run
        self._settings = settings or Settings()
        claimed = set(run.guarantees)
        # With services each receiver chooses what it gets, and in which order.
        self._order = None if run.services else next((name for name in ORDERS if name in claimed), None)
        self._is_across = bool(claimed & set(ACROSS))
        self._source_order = "source-order" if "source-order" in claimed and not run.services else None
        self._has_lag = not run.services and bool(claimed & set(AGREEMENT))
        self._once = "no-duplication" in claimed
        self._integrity = "integrity" in claimed
        groups = {group: list(sites) for group, sites in (run.groups or {}).items()}
        self._state = _decode(state) if state is not None else _State(groups)
        self._delivered = {
            site: {source: IntervalSet(numbers) for source, numbers in of_site.items()}
            for site, of_site in self._state.delivered.items()
        }
        self._multicast = {source: IntervalSet(numbers) for source, numbers in self._state.multicast.items()}
        self._alerts: list[Alert] = []

    @property
    def remembered(self) -> int:
        """Messages that somebody lacks."""
        return len(self._state.open)

    @property
    def forgotten(self) -> int:
        """Messages of which is not known any more where they were delivered, though somebody lacked them."""
        return self._state.forgotten

    def pack(self) -> bytes:
        """Everything, for a later one."""
        self._state.delivered = {
            site: {source: list(numbers.intervals()) for source, numbers in of_site.items()}
            for site, of_site in self._delivered.items()
        }
        self._state.multicast = {source: list(numbers.intervals()) for source, numbers in self._multicast.items()}
        return _encode(self._state)

    def see(self, rows: Iterable[Event]) -> list[Alert]:
        """The next rows, those of each site in their order; what is wrong."""
        self._alerts = []
        latest: dict[str, float] = {}
        for row in rows:
            latest[row.site] = row.time
            match row.kind:
                case "deliver":
                    self._deliver(row)
                case "multicast":
                    self._on_multicast(row)
                case "fail":
                    self._state.down[row.site] = row.time
                    self._begin_anew(row.site)
                case "recover" | "awake":
                    self._state.down.pop(row.site, None)
                    # What it missed it may have in its log, or be given as a state.
                    self._state.joined[row.site] = row.time
                case "rollback":
                    self._roll_back(row)
                case "view":
                    self._view(row)
                case "join" | "leave":
                    self._change(row)
                case _:
                    pass
        if latest:
            # Whoever has written nothing has been read to its end; of the others, some have been read further.
            self._settle(min(latest.values()))
        return self._alerts

    # ------------------------------------------------------------------ rows
    def _deliver(self, row: Event) -> None:
        message = str(row.message)
        entry = self._state.open.get(message)
        source = row.source if row.source is not None else entry.source if entry else None
        if source is not None and row.source_seq is not None:
            numbers = self._delivered.setdefault(row.site, {}).setdefault(source, IntervalSet())
            highest = numbers.highest
            if not numbers.add(row.source_seq):
                if self._once:
                    self._tell(row, "no-duplication", (row.site,), f"{row.site} delivers {message} again")
                return
            if self._source_order and highest is not None and row.source_seq < highest:
                why = f"{row.site} delivers {message} after a later one of {source}: number {highest}"
                self._tell(row, self._source_order, (row.site,), why)
        if entry is None:
            entry = self._state.open[message] = _Open(row.time, source=source, number=row.source_seq)
        if row.site in entry.places:
            return
        # Where order holds in each group only, what is not known to be in one is not compared.
        scopes = () if self._order is None else ("",) if self._is_across else entry.groups or ()
        for other, earlier in self._state.orders.deliver(row.site, message, entry.places, scopes):
            why = f"{row.site} delivers {message} after {earlier}, and {other} before it"
            self._tell(row, str(self._order), (row.site, other), why, (message, earlier))
        self._close(message, entry)

    def _on_multicast(self, row: Event) -> None:
        message = str(row.message)
        if row.source_seq is not None:
            self._multicast.setdefault(row.source or row.site, IntervalSet()).add(row.source_seq)
        entry = self._state.open.setdefault(message, _Open(row.time))
        entry.source = row.source or row.site
        entry.groups = tuple(row.groups or ())
        entry.wanted = None if row.destinations is None else tuple(row.destinations)
        self._close(message, entry)

    def _roll_back(self, row: Event) -> None:
        entry = self._state.open.get(str(row.message))
        if entry is not None:
            entry.places.pop(row.site, None)
        self._begin_anew(row.site)

    def _begin_anew(self, site: str) -> None:
        self._delivered.pop(site, None)
        self._state.orders.forget(site)

    def _view(self, row: Event) -> None:
        members = sorted(row.members or ())
        name = str(row.view)
        views = self._state.views
        if row.site not in members and "self-inclusion" in self._run.guarantees:
            self._tell(row, "self-inclusion", (row.site,), f"{row.site} is not in its view {name}: {members}", ())
        known = views.setdefault(name, members)
        if known != members and "view-agreement" in self._run.guarantees:
            self._tell(
                row, "view-agreement", (row.site,), f"{row.site} has {members} in view {name}, others {known}", ()
            )
        while len(views) > VIEWS_MAX:
            views.pop(next(iter(views)))

    def _change(self, row: Event) -> None:
        for group in row.groups or ():
            sites = self._state.groups.setdefault(group, [])
            if row.kind == "join":
                self._state.joined[row.site] = row.time
                if row.site not in sites:
                    sites.append(row.site)
            elif row.kind == "leave" and row.site in sites:
                sites.remove(row.site)

    # ------------------------------------------------------------------ what is open
    def _lack(self, entry: _Open) -> list[str]:
        """Those that it is for, were there when it was sent, and lack it."""
        sites: Iterable[str] = entry.wanted or ()
        if entry.wanted is None:
            sites = sorted({site for group in entry.groups or () for site in self._state.groups.get(group, ())})
        joined = self._state.joined
        return [site for site in sites if site not in entry.places and joined.get(site, entry.since) <= entry.since]

    def _close(self, message: str, entry: _Open) -> None:
        if entry.groups is not None and entry.places and not self._lack(entry):
            del self._state.open[message]

    def _settle(self, now: float) -> None:
        """Look at what has been open for long; forget what is too old, or too much."""
        state, patience = self._state, self._settings.lag_seconds
        late: dict[str, tuple[str, float]] = {}
        gone: list[str] = []
        for message, entry in state.open.items():
            if entry.since > now - patience:
                continue
            if entry.groups is None:
                gone.append(message)
                self._doubt(now, message, entry)
            elif entry.places:
                lacking = [site for site in self._lack(entry) if site not in state.down]
                for site in lacking:
                    late.setdefault(site, (message, entry.since))
                if not lacking:
                    gone.append(message)
                    # Whoever is down may still get it.
                    state.forgotten += 1
            elif entry.since < now - UNDELIVERED * patience:
                gone.append(message)
        for message in gone:
            del state.open[message]
        while len(state.open) > self._settings.open_max:
            del state.open[next(iter(state.open))]
            state.forgotten += 1
        self._tell_late(now, late)

    def _doubt(self, now: float, message: str, entry: _Open) -> None:
        """It was delivered, and no multicast of it has been seen for long. (Or for so long that it was forgotten.)"""
        if not self._integrity or entry.source is None or entry.number is None or entry.source in self._state.down:
            return
        if entry.number not in self._multicast.get(entry.source, ()):
            (site, *_) = entry.places
            why = f"{site} delivers {message}, which nobody has multicast"
            self._alert(now, "integrity", (site,), (message,), why)

    def _tell_late(self, now: float, late: Mapping[str, tuple[str, float]]) -> None:
        if not self._has_lag:
            return
        for site, (message, since) in late.items():
            if site not in self._state.lagging:
                self._state.lagging[site] = now
                why = f"{site} has not delivered {message}, which others have, for {now - since:.1f} s"
                self._alert(now, LAG, (site,), (message,), why)
        self._state.lagging = {site: then for site, then in self._state.lagging.items() if site in late}

    # ------------------------------------------------------------------ alerts
    def _tell(
        self, row: Event, name: str, sites: tuple[str, ...], why: str, messages: tuple[str, ...] | None = None
    ) -> None:
        self._alert(row.time, name, sites, (str(row.message),) if messages is None else messages, why)

    def _alert(self, time: float, name: str, sites: tuple[str, ...], messages: tuple[str, ...], why: str) -> None:
        if len(self._alerts) < ALERTS_MAX:
            self._alerts.append(Alert(time, self._run.run, name, sites, messages, why))
