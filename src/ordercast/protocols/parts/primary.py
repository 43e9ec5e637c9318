"""The primary of a cell, and how another site takes over: epochs (after Gotsman, Lefort, Chockler 2019).

Epoch e belongs to `cell[e mod size]`. In an epoch the primary gives places to messages, and the others accept them in
order, without gaps: what a site has accepted is a prefix of what the primary has given. When the primary is silent
the sites *promise* a later epoch and report what they have accepted. With a majority of reports the new primary takes
the places of the latest epoch, of those the longest, and the highest clock, and *starts* with them. What a majority
has accepted in an epoch is in every later start: any two majorities share a site, and it accepted before it promised.

A pre-vote: nobody promises by itself because it alone does not hear the primary.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar
from typing import Protocol as Shape

from ordercast.core import InvariantViolation, Part, Protocol, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.primary_packets import (
    Agree,
    Collect,
    Doubt,
    Place,
    Promise,
    Promised,
    Resumption,
    Start,
    Started,
)

DOUBT_TICKS = 8
"""Intervals for which a site looks at the primary because another one has asked it to."""
HELD_TICKS = 8
"""Intervals after which a site asks again though the start is here and waits for bodies."""
PLACES_MAX = 1 << 16
"""Places in one report, where the host does not keep more: several times what it keeps as a rule."""
TIMESTAMP_MAX = 1 << 62
"""No clock comes so far by itself, and behind it no packet can tell one."""


class Ordered(Shape):
    """What the part asks of its host about the places of the cell."""

    @abstractmethod
    def report(self) -> tuple[int, tuple[Place, ...], int]:
        """How many places are over, those that follow, and the clock."""

    @abstractmethod
    def has_bodies(self, holder: SiteId, places: tuple[Place, ...]) -> bool:
        """Whether every message at these places is here, or over; if not, the holder is asked for the rest."""

    @abstractmethod
    def is_needed(self) -> bool:
        """Whether anything is unfinished for which the cell needs a primary."""

    @abstractmethod
    def log_bodies(self, places: tuple[Place, ...]) -> None:
        """These places are about to be logged: log first what of their messages is not in the log."""

    @abstractmethod
    def install(self, started: Started) -> None:
        """An epoch begins with these places; also when that is read from the log."""

    @abstractmethod
    def on_epoch_started(self) -> None:
        """It has begun: say where we stand, and go on."""

    @abstractmethod
    def resumption_for(self, site: SiteId) -> Resumption | None:
        """What we no longer have for a site of the cell."""

    @abstractmethod
    def check_resumption(self, sender: SiteId, resumption: Resumption) -> None:
        """`WireError` for a state in which no site of the cell can be."""

    @abstractmethod
    def go_behind(self, resumption: Resumption) -> None:
        """Somebody has forgotten what we lack: go on where it stands."""


class Primary(Part):
    """The epochs of one cell, at one of its sites."""

    packets = (Doubt, Agree, Collect, Promise, Start)
    timers = ("epoch",)
    records = (Promised, Started)
    branches: ClassVar[tuple[str, ...]] = (
        "doubted",
        "doubt-refused",
        "promised",
        "followed",
        "started",
        "two-lost-in-a-row",
        "deposed",
        "inherited-from-one",
        "inherited-from-majority",
        "report-held",
        "start-held",
        "late-promise",
    )

    def __init__(
        self,
        host: Protocol,
        cell: tuple[SiteId, ...],
        detector: FailureDetector,
        ordered: Ordered,
        *,
        retry_seconds: float,
        places_max: int = PLACES_MAX,
    ) -> None:
        self._host = host
        self.cell = cell
        self._detector = detector
        self._ordered = ordered
        self._retry_seconds = retry_seconds
        self._sites = frozenset(host.context.sites)
        self._places_max = max(places_max, PLACES_MAX)
        self.mates = tuple(site for site in cell if site != host.site)
        self.majority = len(cell) // 2 + 1
        self.promised = 0
        """P: the epoch in which this site takes part, or will."""
        self.started = 0
        """S <= P: the epoch whose places it has."""
        self._reports: dict[SiteId, Promise] = {}
        """At the primary of P, before it starts."""
        self._held: tuple[SiteId, Start] | None = None
        """A start for which bodies are missing."""
        self._held_ticks = 0
        """Intervals since we have asked though there was one."""
        self._agreed: set[SiteId] = set()
        """Who does not hear the primary of P either."""
        self._watched: SiteId | None = None
        self._watched_for = (False, 0)
        """Whether anybody was needed when we looked last, and in which epoch."""
        self._asked_ticks = 0
        self._ticking = False

    # ------------------------------------------------------------------ who
    def primary_of(self, epoch: int) -> SiteId:
        """Whom an epoch belongs to."""
        return self.cell[epoch % len(self.cell)]

    @property
    def may_speak(self) -> bool:
        """Whether this site may accept and say anything: only in the epoch that it has promised.

        (Else: p accepts place 4 of epoch 0 after it has promised 1: fixed in 0, and not in the start of 1.)
        """
        return self.started == self.promised

    @property
    def leads(self) -> bool:
        """Whether this site gives places."""
        started = self.started
        return started == self.promised and self.cell[started % len(self.cell)] == self._host.site

    # ------------------------------------------------------------------ watching the primary
    def finish_step(self) -> None:
        """Watch the primary of P while it is needed."""
        is_needed = self._ordered.is_needed()
        watched_for = (is_needed or self._asked_ticks > 0, self.promised)
        if watched_for == self._watched_for and self.started == self.promised and not self._agreed:
            # As after most steps.
            return
        self._watched_for = watched_for
        primary = self.primary_of(self.promised)
        wanted = primary if primary != self._host.site and watched_for[0] else None
        if wanted != self._watched:
            if self._watched is not None:
                self._detector.unwatch(self._watched)
            if wanted is not None:
                self._detector.watch(wanted)
            self._watched = wanted
        if self._agreed and wanted not in self._detector.suspected:
            self._agreed.clear()
        if not self._ticking and not self.may_speak and is_needed:
            self._keep_ticking()

    def on_suspected(self, site: SiteId) -> None:
        """A site is silent; when that is the primary, ask the others whether they hear it."""
        if site == self._watched and self._ordered.is_needed():
            self._doubt()

    def _doubt(self) -> None:
        self._host.branch("doubted")
        self._agreed.add(self._host.site)
        self._host.send(self.mates, Doubt(self.promised))
        self._keep_ticking()

    def on_doubt(self, sender: SiteId, packet: Doubt, arrival: Arrival) -> None:
        """Agree if the primary is silent here too; else look at it for a while.

        (Without: one site that cannot hear the primary forces an epoch on a healthy cell, again and again.)
        """
        if not self.hear(sender, packet.epoch):
            return
        primary = self.primary_of(self.promised)
        if primary in self._detector.suspected:
            self._host.send((sender,), Agree(packet.epoch))
        else:
            self._host.branch("doubt-refused")
            self._asked_ticks = DOUBT_TICKS
            self._keep_ticking()

    def on_agree(self, sender: SiteId, packet: Agree, arrival: Arrival) -> None:
        """With a majority that does not hear the primary: the next epoch whose primary we do not suspect."""
        if not self.hear(sender, packet.epoch) or self.primary_of(self.promised) not in self._detector.suspected:
            return
        self._agreed.add(sender)
        if len(self._agreed) >= self.majority and self._host.site in self._agreed:
            epoch = self.promised + 1
            while self.primary_of(epoch) in self._detector.suspected:
                epoch += 1
            self._host.branch("promised")
            self._promise(epoch)
            self._host.send(self.mates, Collect(epoch))

    # ------------------------------------------------------------------ promises
    def check(self, sender: SiteId) -> None:
        """Epochs concern the cell alone."""
        if sender not in self.mates:
            raise WireError(f"{sender} speaks of an epoch of {', '.join(self.cell)}, and is not one of them")

    def hear(self, sender: SiteId, epoch: int) -> bool:
        """A site of the cell speaks of an epoch. A higher one is promised, whatever the packet (else: p has promised 2
        alone, and is out for ever); of a lower one the sender is told better. Whether it is the one we have promised.
        """
        self.check(sender)
        if epoch == self.promised:
            return True
        if epoch < 0:
            raise WireError(f"{sender} speaks of epoch {epoch}")
        if epoch > self.promised:
            self._host.branch("followed")
            self._promise(epoch)
            return True
        self.correct(sender)
        return False

    def correct(self, site: SiteId) -> None:
        """Tell a site that is behind which epoch there is."""
        if self.leads:
            self.send_start(site)
        else:
            self._host.send((site,), Collect(self.promised))

    def _promise(self, epoch: int) -> None:
        """It is logged before anybody hears of it. (Else: we crash, and accept in an earlier epoch what the start of
        this one does not have.)"""
        if self.primary_of(self.started) == self._host.site and self.may_speak:
            self._host.branch("deposed")
        self.promised = epoch
        self._host.append(Promised(epoch))
        self._reports.clear()
        self._agreed.clear()
        self._asked_ticks = 0
        if self._held is not None and self._held[1].epoch < epoch:
            self._held = None
        self._report()
        self._keep_ticking()

    def _report(self) -> None:
        """To the primary of P; for ourselves, we know it."""
        primary = self.primary_of(self.promised)
        if primary == self._host.site:
            self._try_start()
        else:
            base, places, clock = self._ordered.report()
            resumption = self._ordered.resumption_for(primary)
            self._host.send((primary,), Promise(self.promised, self.started, base, places, clock, resumption))

    def on_collect(self, sender: SiteId, packet: Collect, arrival: Arrival) -> None:
        """Report again, at every question."""
        before = self.promised
        if self.hear(sender, packet.epoch) and before == self.promised:
            if self.leads:
                self.send_start(sender)
            elif not self.may_speak:
                self._report()

    def on_promise(self, sender: SiteId, packet: Promise, arrival: Arrival) -> None:
        """A report. Who comes when the epoch has begun gets the start."""
        self._check_report(sender, packet)
        if self.primary_of(packet.epoch) != self._host.site:
            raise WireError(f"{sender} promised epoch {packet.epoch} to {self._host.site}, whose it is not")
        if packet.started >= packet.epoch:
            raise WireError(f"{sender} promises epoch {packet.epoch} when it has started {packet.started}")
        if not self.hear(sender, packet.epoch):
            return
        if self.leads:
            self._host.branch("late-promise")
            self.send_start(sender)
        else:
            self._reports[sender] = packet
            self._try_start()

    def on_bodies(self) -> None:
        """Messages have come for which a report or a start may wait."""
        if self._reports:
            self._try_start()
        if self._held is not None:
            self._take(*self._held)

    # ------------------------------------------------------------------ the start
    def _try_start(self) -> None:
        """With a majority of reports, our own among them: the places of the latest epoch, of those the longest, and the
        highest clock.

        A report counts when the bodies of its places are here. (Else: the only one that had a body dies, and those who
        have taken the start wait for it for ever.)
        """
        host, ordered = self._host, self._ordered
        if not self._collects():
            return
        for report in list(self._reports.values()):
            if report.resumption is not None:
                ordered.go_behind(report.resumption)
        if not self._collects():
            # Going behind what others have done without us frees what waited for it, and that was a start: this one.
            return
        counted: list[Promise] = []
        for site, report in self._reports.items():
            if ordered.has_bodies(site, report.places):
                counted.append(report)
            else:
                host.branch("report-held")
        if len(counted) + 1 < self.majority:
            return
        base, places, clock = ordered.report()
        counted.append(Promise(self.promised, self.started, base, places, clock))
        chosen = self.choose(counted)
        self._note_inherited(chosen, counted)
        start = Started(self.promised, chosen.base, chosen.places, self.clock_of(counted))
        self._install(start)
        for site in self.mates:
            self.send_start(site)

    def _collects(self) -> bool:
        """Whether we are to start the epoch that we have promised."""
        return not self.may_speak and self.primary_of(self.promised) == self._host.site

    def choose(self, reports: list[Promise]) -> Promise:
        """The latest epoch, of those the longest. (The longest whatever its epoch: places of epoch 0 that no majority
        had replace those of epoch 1 that one had.)"""
        return max(reports, key=lambda report: (report.started, report.base + len(report.places)))

    def clock_of(self, reports: list[Promise]) -> int:
        """The highest that was reported. (Our own: we give 5 after somebody has delivered 7.)"""
        return max(report.clock for report in reports)

    def _note_inherited(self, chosen: Promise, reports: list[Promise]) -> None:
        end = chosen.base + len(chosen.places)
        having = sum(r.started == chosen.started and r.base + len(r.places) >= end for r in reports)
        if chosen.places:
            self._host.branch("inherited-from-majority" if having >= self.majority else "inherited-from-one")
        if self.promised >= chosen.started + 2:
            self._host.branch("two-lost-in-a-row")

    def _install(self, start: Started) -> None:
        """The bodies and the start are logged before anybody hears of it. (Else: the same epoch is started twice, with
        different places.)"""
        self._ordered.log_bodies(start.places)
        self._host.append(start)
        self.recall_started(start)
        self._host.branch("started")
        self._ordered.on_epoch_started()

    def send_start(self, site: SiteId) -> None:
        """Tell a site of the cell how the epoch stands."""
        base, places, clock = self._ordered.report()
        self._host.send((site,), Start(self.started, base, places, clock, self._ordered.resumption_for(site)))

    def on_start(self, sender: SiteId, packet: Start, arrival: Arrival) -> None:
        """Take it whole, when the bodies are here; else ask for them."""
        self._check_report(sender, packet)
        if self.primary_of(packet.epoch) != sender:
            raise WireError(f"{sender} starts epoch {packet.epoch}, which is not its own")
        if not self.hear(sender, packet.epoch):
            return
        if packet.resumption is not None:
            self._ordered.go_behind(packet.resumption)
        if self._is_news(packet) and not self._is_waiting_for(packet):
            self._take(sender, packet)

    def _is_waiting_for(self, start: Start) -> bool:
        """Whether an earlier start of the same epoch is held, and is the beginning of this one: it is taken as soon as
        its bodies are here, and what follows comes in proposals.

        (Else: each start names messages that are still on their way. Who is back under full load is sent one after the
        other, looks at all their places, and takes none of them for a quarter of a minute.)
        """
        if self._held is None or start.resumption is not None:
            return False
        held = self._held[1]
        return held.epoch == start.epoch and held.base == start.base and self.started < start.epoch

    def _is_news(self, start: Start) -> bool:
        """An epoch that we have not started; or more places of ours, of which all have a prefix."""
        if start.epoch != self.started:
            return start.epoch > self.started
        base, places, _ = self._ordered.report()
        return start.base + len(start.places) > base + len(places)

    def _take(self, sender: SiteId, start: Start) -> None:
        self._held = None
        if start.epoch < self.promised or not self._is_news(start):
            return
        if not self._ordered.has_bodies(sender, start.places):
            self._host.branch("start-held")
            self._held = (sender, start)
            return
        self._install(Started(start.epoch, start.base, start.places, start.clock))

    # ------------------------------------------------------------------ patience
    def _keep_ticking(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._host.set_timer("epoch", self._retry_seconds)

    def on_epoch_timeout(self) -> None:
        """Ask again: whoever has not answered may not have heard."""
        self._ticking = False
        self._asked_ticks = max(0, self._asked_ticks - 1)
        needed = self._ordered.is_needed()
        if needed and self._watched is not None and self._watched in self._detector.suspected:
            self._doubt()
        if needed and not self.may_speak and self._is_time_to_repeat():
            self._host.send(tuple(site for site in self.mates if site not in self._reports), Collect(self.promised))
            self._report()
            if self._held is not None:
                # What it lacks may have been given up meanwhile, and is asked for again.
                self._take(*self._held)
        if self._asked_ticks or (needed and not self.may_speak):
            self._keep_ticking()

    def _is_time_to_repeat(self) -> bool:
        """At every interval; more seldom when the start is here and waits for bodies, for it is the answer to that.

        (Else: whoever is back after three seconds of full load is sent twenty thousand places twice in each interval.)
        """
        if self._held is None:
            return True
        self._held_ticks = (self._held_ticks + 1) % HELD_TICKS
        return self._held_ticks == 0

    # ------------------------------------------------------------------ after a crash
    def recall_promised(self, record: Promised) -> None:
        """What was promised holds."""
        self.promised = max(self.promised, record.epoch)

    def recall_started(self, record: Started) -> None:
        """An epoch that has begun here."""
        self.started = record.epoch
        self.promised = max(self.promised, record.epoch)
        self._reports.clear()
        self._ordered.install(record)

    def check_invariants(self) -> None:
        """Nobody is in an epoch that it has not promised."""
        if self.started > self.promised:
            raise InvariantViolation(f"epoch {self.started} has begun and {self.promised} is promised")

    def _check_report(self, sender: SiteId, packet: Promise | Start) -> None:
        """Timestamps ascend with the places, up to the clock; each message has one, and a source that there is. What
        the sender no longer has for us is a state that a site of our cell can be in."""
        self.check(sender)
        places = packet.places
        if len(places) > self._places_max:
            raise WireError(f"{sender} names {len(places)} places in one packet")
        last = 0
        for place in places:
            message = place.message
            if (
                place.timestamp <= last
                or message.source not in self._sites
                or min(message.incarnation, message.number - 1) < 0
            ):
                raise WireError(f"{sender} says that {place} stands behind {last}")
            last = place.timestamp
        if not (packet.base >= 0 and packet.epoch >= 0 and last <= packet.clock <= TIMESTAMP_MAX):
            raise WireError(f"{sender} has {packet.base} places in epoch {packet.epoch}, {last}, clock {packet.clock}")
        if len({place.message for place in places}) < len(places):
            raise WireError(f"{sender} gives a message two places")
        if packet.resumption is not None:
            self._ordered.check_resumption(sender, packet.resumption)
