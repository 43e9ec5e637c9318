"""Who watches whom, and who is told (Spauster 7.1.1, 7.3): a child its parent, a parent the child that does not
acknowledge, a source its primary destination, and everyone the manager and whoever is to make the next graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.parts.names import check_names
from ordercast.protocols.propagation_graph.relaxed.packets import Back, Report

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph

PING_SHARE = 5
"""A silent site is asked so many times before it is suspected."""
BACK_MAX = 9
"""So many are told at a time that a site is back; the next ones an interval later. (All at once: after a failure a
hundred survivors wait for the lease, each counts as failed, and tells a hundred others.)"""


class Watching(Part):
    """As long as there is reason for another graph, the first site in rank that is not silent makes it, or is asked to
    again and again. Ranks are the levels of the tree, the manager first: the hierarchy of backups."""

    packets = (Report, Back)
    timers = ("watch",)
    branches = ("reported", "came-back", "backup-lost-too")

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        self.back: set[SiteId] = set()
        """Sites that wait for another graph."""
        self._patience: dict[SiteId, tuple[float, float]] = {}
        """Site that is away -> not before this time again, and how long that was."""
        self.accused: set[SiteId] = set()
        """Sites that others do not hear."""
        self._looking = False
        self._told_up_to = 0
        """How many of the others were told that this site is back."""
        self._elsewhere: SiteId = ""
        """Who goes on, where all whom this site knows have left."""
        self._watched: set[SiteId] = set()
        self._awaited: SiteId = ""
        """Who is to make the next graph."""

    # ------------------------------------------------------------------ whom this site watches
    def begin(self) -> None:
        """A graph begins."""
        self.back.clear()
        self.accused.clear()
        self._awaited = self._elsewhere = ""
        for site in self._core.graph.present:
            self._patience.pop(site, None)
        self.watch()

    def end(self) -> None:
        """This site is in no graph."""
        self.back.clear()
        self.accused.clear()
        self._awaited = self._elsewhere = ""
        for site in sorted(self._watched):
            self._core.detector.unwatch(site)
        self._watched = set()

    def watch(self) -> None:
        """Watch the manager, the parent, those who do not acknowledge, and who is to make the next graph."""
        core = self._core
        wanted = {self._awaited or core.site, core.graph.manager, *core.routes.above.get(core.site, ())}
        wanted |= {edge.to for edge in core.outgoing.values() if edge.kept and edge.vain > 0}
        if core.graph.manager == core.site and not core.is_running:
            wanted.update(core.graph.present)  # it begins when all of them have caught up
        wanted.discard(core.site)
        for site in sorted(wanted - self._watched):
            core.detector.watch(site)
        for site in sorted(self._watched - wanted):
            core.detector.unwatch(site)
        self._watched = wanted

    def on_suspected(self, site: SiteId) -> None:
        """A site is silent."""
        self.look_soon()

    def note_other_graph(self, sender: SiteId, graph: int) -> None:
        """A site speaks of another graph, or of one that has ended here."""
        if graph > self._core.number:
            self.look_soon()

    # ------------------------------------------------------------------ reasons
    def _suspected(self) -> tuple[SiteId, ...]:
        core = self._core
        return tuple(sorted(core.detector.suspected.intersection(self._watched).intersection(core.graph.present)))

    @property
    def has_reason(self) -> bool:
        """Whether there should be another graph."""
        return self._waits or bool(self.back or self.accused or self._suspected()) or self._core.joining.has_reason

    @property
    def _waits(self) -> bool:
        """Whether this site cannot go on in its graph."""
        return self._core.is_closed or self._core.pending.is_too_much

    def ranks(self) -> list[SiteId]:
        """Who makes the next graph, the first of them that is not silent."""
        core = self._core
        levels = core.routes.levels
        rest = sorted(core.graph.present, key=lambda site: (levels.get(site, 0), site))
        return [core.graph.manager, *(site for site in rest if site != core.graph.manager)]

    def find_maker(self) -> SiteId:
        """The first of them that is not silent."""
        suspected = self._core.detector.suspected
        return next((site for site in self.ranks() if site not in suspected), self._core.site)

    def look_soon(self) -> None:
        """See to it, now and again."""
        if not self._looking:
            self._looking = True
            self._core.set_timer("watch", self._core.options.retransmit_seconds)

    def on_watch_timeout(self) -> None:
        """Is there still reason?"""
        self._looking = False
        self.drive()

    def drive(self) -> None:
        """Make the next graph, or tell whoever should."""
        core = self._core
        if core.lost_memory or core.is_outside:
            return
        if core.shares.has_failed:
            self.look_soon()
            if core.preparing.is_busy:
                return
            core.send(self._next_to_tell(), Back(core.number, core.is_closed, core.preparing.is_ready))
        if not self.has_reason:
            self._awaited = ""
            self.watch()
            return
        self.look_soon()
        first = self.find_maker()
        if first not in self.ranks()[:2]:
            core.branch("backup-lost-too")
        self._awaited = first
        self.watch()
        if first == core.site:
            core.coordinator.go_on()
        else:
            core.branch("reported")
            back = {*self.back, core.site} if self._waits else self.back
            core.send((first,), Report(core.number, self._suspected(), tuple(sorted(back))))

    def note_elsewhere(self, manager: SiteId) -> None:
        """A site that has left says who goes on."""
        check_names((manager,))
        self._elsewhere = manager
        self.look_soon()

    def _next_to_tell(self) -> tuple[SiteId, ...]:
        core = self._core
        others = tuple(site for site in core.graph.sites if site != core.site)
        if self._elsewhere not in ("", *core.graph.sites):
            others = (*others, self._elsewhere)
        if len(others) <= BACK_MAX:
            return others
        at = self._told_up_to % len(others)
        self._told_up_to = at + BACK_MAX
        return tuple(sorted((others + others)[at : at + BACK_MAX]))

    # ------------------------------------------------------------------ what others say
    def on_report(self, sender: SiteId, packet: Report, arrival: Arrival) -> None:
        """There is reason, as another site says."""
        core = self._core
        if packet.graph == core.number and sender in core.graph.present:
            self.accused.update(site for site in packet.suspected if site in core.graph.present)
            self.back.update(site for site in packet.back if site in core.graph.sites)
            self.drive_soon()
        elif packet.graph < core.number:
            self.on_back(sender, Back(packet.graph, True), arrival)

    def on_back(self, sender: SiteId, packet: Back, arrival: Arrival) -> None:
        """A site has failed and is there: whoever cannot go on in this graph is let in by the next one."""
        core = self._core
        if packet.graph > core.number:
            return
        if sender not in core.graph.sites:
            core.coordinator.tell(sender)  # it has left
            return
        if core.is_outside:
            core.finding.point_on(sender)
            return
        if packet.graph == core.number and not packet.closed:
            return  # it waits for its share, which the manager gives it
        if packet.graph < core.number and sender in core.graph.present and core.coordinator.tell(sender):
            return
        if not packet.ready and core.preparing.offer(sender):
            return
        if not self._may_try(sender):
            return
        core.branch("came-back")
        self.back.add(sender)
        self.drive_soon()

    def _may_try(self, site: SiteId) -> bool:
        """Whether to make another graph for a site: one that is heard and does not hear costs one for each doubled
        patience."""
        core, options = self._core, self._core.options
        not_before, seconds = self._patience.get(site, (0.0, 0.0))
        if site not in self.back:
            if core.now < not_before:
                return False
            seconds = min(2 * seconds or options.suspicion_seconds, options.patience_max)
            self._patience[site] = (core.now + seconds, seconds)
        return True

    def drive_soon(self) -> None:
        """See to it at once, unless that is about to happen."""
        if not self._looking:
            self.drive()
