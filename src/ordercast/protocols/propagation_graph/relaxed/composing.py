"""What the histories of those who have stopped amount to: the next graph (Spauster 7.1.1, 7.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ordercast.core import GroupId, MessageId, SiteId, WireError
from ordercast.protocols.propagation_graph.relaxed.graphs import LINEUP_MAX, LISTED_MAX, Address, Graph, Listed, Settled
from ordercast.protocols.propagation_graph.relaxed.merging import merge
from ordercast.protocols.propagation_graph.relaxed.packets import History

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph

HOLDERS_MAX = 3
Last = dict[tuple[SiteId, Address], tuple[int, int]]
"""Source and address -> the last message that everybody has had, by incarnation and number."""


def _covers(settled: Last, item: Listed) -> bool:
    last = settled.get((item.id.source, item.groups))
    return last is not None and (item.id.incarnation, item.id.number) <= last


def compose(core: RelaxedGraph, histories: Mapping[SiteId, History]) -> Graph:
    """The graph of those who have told their histories. Where sites come back by rollback, it begins with all that
    those who are awaited lack; as soon as that is too much, they come back behind it."""
    composition = Composition(core, histories)
    if core.takes_back and len(composition.order) > LISTED_MAX // 4:
        composition = Composition(core, histories, cut=True)
    return composition.graph()


class Composition:
    """One attempt."""

    def __init__(self, core: RelaxedGraph, histories: Mapping[SiteId, History], cut: bool = False) -> None:
        self._core, self._before, self._histories = core, core.graph, histories
        graph = core.graph
        self._groups = {site: {group for group, _ in history.counts} for site, history in histories.items()}
        self._there = tuple(sorted(histories))
        # Who has come back into this graph, and not yet taken anything in it, comes back into the next one.
        self._survivors = [
            site
            for site in self._there
            if histories[site].number == graph.number and (histories[site].running or site not in graph.returned)
        ]
        self._ran = any(histories[site].running for site in self._survivors)
        self._roster = core.joining.following(histories)
        self._gone = self._find_gone()
        """Those who have left, and are not in the graph that follows."""
        self._settled: Last = {}
        self._take_settled(site for site in self._there if site in self._survivors or not core.takes_back)
        self._holders: dict[MessageId, list[SiteId]] = {}
        for site in self._there:
            for item in histories[site].taken:
                self._holders.setdefault(item.id, []).append(site)
        self._is_cut = core.takes_back and (cut or self._has_lost_something())
        """Whether those who were awaited cannot get all that they missed."""
        # Where the graph runs, everybody has all with which it began.
        self._marks: dict[SiteId, int] = {"": len(graph.order) if self._ran else 0}
        for site in self._survivors:
            for entry, number in histories[site].marks:
                self._marks[entry] = max(number, self._marks.get(entry, 0))
        self._had_by_all: set[MessageId] = set()
        """What is ordered although all survivors to whom it goes have had it."""
        self._left = {site: self._find_left(histories[site]) for site in self._survivors}
        self.order = [*self._find_begun(), *self._merge()]
        self._keep_tails()
        # What only those know who come back is in order with their tails: it may stand behind what they take back.
        self._take_settled(site for site in self._there if site not in self._survivors)

    def _find_gone(self) -> set[SiteId]:
        gone = {site for site in self._before.leaving if self._ran and not self._roster.groups_of(site)}
        new = {*self._roster.sites}.difference(self._before.sites)
        if not {*self._there, *new} - gone:
            gone.discard(self._core.site)  # the last one stays: it is the one that newcomers find
        return gone

    def _take_settled(self, sites: Iterable[SiteId]) -> None:
        for site in sites:
            for each in self._histories[site].settled:
                self._settle(each.source, each.groups, (each.incarnation, each.number))

    def _settle(self, source: SiteId, groups: Address, last: tuple[int, int]) -> None:
        self._settled[source, groups] = max(last, self._settled.get((source, groups), last))

    def _has_lost_something(self) -> bool:
        """Whether something is not here that those who are awaited miss: a site has not kept it all; or nobody who
        stays has what the graph began with (others have come back behind it); or of a group nobody is here who has had
        all of it since then. (x, alone in g, delivers m, tells its source so, and dies; c, which is in g and comes
        back, would never hear of m, nor that it lacks anything. Or: x leaves, and c asks it for m when it is gone.)"""
        graph, survivors = self._before, {*self._survivors}
        if not all(self._histories[site].kept for site in survivors):
            return True
        missed = graph.order if self._ran and graph.awaited else ()
        if any(self._gone.issuperset(self._holders.get(item.id, ())) for item in missed):
            return True
        knew = {*graph.present} if self._ran else {*graph.present} - {*graph.returned}
        groups = (knew.intersection(members) for _, members in graph.groups)
        return any(here and here.isdisjoint(survivors) for here in groups)

    @property
    def _keeps(self) -> bool:
        """Whether what everybody has had is ordered, too: somebody who is away lacks it."""
        return bool(self._before.awaited) and not self._is_cut

    def _is_stable(self, item: Listed) -> bool:
        return item.place <= self._marks.get(item.entry, 0)

    def _find_left(self, history: History) -> list[Listed]:
        """What a survivor has had and others may lack. Where sites come back by rollback, what stands behind such a
        message, too: it is the order of both that counts (see `merging`)."""
        left: list[Listed] = []
        for item in history.taken:
            if item.entry == "" and self._core.takes_back:
                continue  # it has its place
            if not self._is_stable(item):
                left.append(item)
            elif self._keeps or (self._core.takes_back and left):
                self._had_by_all.add(item.id)
                left.append(item)
            else:
                self._settle(item.id.source, item.groups, (item.id.incarnation, item.id.number))
        return left

    def _is_for(self, item: Listed, site: SiteId) -> bool:
        """Whether a site is to have a message: by the groups in which it is by now. (By those of the graph: y is in h,
        and to be in g; the graph begins with m1 to g and m2 to h, of which y has m2 alone, and never gets m1; it would
        have to get it behind m2, and x, which is in both, has had it before.)"""
        return not self._groups[site].isdisjoint(item.groups)

    def _find_begun(self) -> list[Listed]:
        """Of the order with which the graph began, what somebody lacks or may lack."""
        if not self._core.takes_back or (self._ran and not self._keeps):
            return []
        begun = [item for item in self._before.order if item.id in self._holders]
        if self._ran:
            self._had_by_all.update(item.id for item in begun)
        return begun

    def _merge(self) -> list[Listed]:
        told = {site: {item.id for item in left} for site, left in self._left.items()}
        order, possible = merge(
            self._left,
            self._is_for,
            lambda item, site: item.id in self._had_by_all and item.id not in told[site],
        )
        if not possible:
            raise WireError("histories that no forest can have brought about")
        if len(order) > max(map(len, self._left.values()), default=0):
            self._core.branch("merged")
        return order

    def _keep_tails(self) -> None:
        """What only those had who come back stands behind; or, where they take back what is not at its place, at its
        place in their order, if all to whom it goes are among them or away.

        (Else: a and e alone have c1 and then e1; e knows that both are everywhere; both fail, and a comes back. Those
        who are there have had e1, and know nothing of c1: behind e1 it would be against the order of e. Or: b and d
        have e4 and then d4; b knows that both are everywhere, and has c2 besides; the others have e4. Before e4, c2
        would make d take both back, and b go on behind them.)
        """
        known = {item.id for item in self.order}
        behind: list[Listed] = []
        for site in self._there:
            if site in self._survivors:
                continue
            at, fits = self._find_end_of_forgotten(site), self._core.takes_back
            for item in self._histories[site].taken:
                if item.id in known:
                    if fits and self._is_for(item, site):
                        places = (place for place in range(at, len(self.order)) if self.order[place].id == item.id)
                        place = next(places, None)
                        fits = place is not None
                        at = at if place is None else place + 1
                    continue
                if _covers(self._settled, item):
                    continue
                self._core.branch("tail-kept")
                known.add(item.id)
                if fits and not any(self._is_for(item, other) for other in self._survivors):
                    self.order.insert(at, item)
                    at += 1
                else:
                    behind.append(item)
        self.order += behind

    def _find_end_of_forgotten(self, site: SiteId) -> int:
        """How far the order has what a site has had and does not tell any more: that was before all that it tells."""
        history = self._histories[site]
        told = {item.id for item in history.taken}
        settled = {(each.source, each.groups): (each.incarnation, each.number) for each in history.settled}
        forgotten = (
            place
            for place, item in enumerate(self.order, 1)
            if item.id not in told and self._is_for(item, site) and _covers(settled, item)
        )
        return max(forgotten, default=0)

    # ------------------------------------------------------------------ what follows from it
    def graph(self) -> Graph:
        """The graph that follows: with those who are new, without those who have left."""
        core, before = self._core, self._before
        roster, gone = self._roster, self._gone
        new = {*roster.sites}.difference(before.sites)
        present = tuple(sorted({*self._there}.difference(gone) | new))
        away = tuple(site for site in before.sites if site not in self._histories and site not in gone)
        returned = tuple(site for site in present if site not in self._survivors)
        sites, lineup = tuple(sorted((*present, *away))), before.known_lineup
        leaving = tuple(
            site
            for site in sites
            if not roster.groups_of(site) and (site in before.leaving or before.groups_of(site)) and len(sites) > 1
        )
        if new:
            core.branch("let-in")
        if gone:
            core.branch("let-out")
        if sites != before.sites:
            lineup = (*lineup, (before.number + 1, sites))[-LINEUP_MAX:]
        offsets = self._count()
        return Graph(
            before.number + 1,
            self._find_manager(present, leaving),
            present,
            away,
            roster.groups,
            returned,
            tuple(sorted((group, offsets[group]) for group, _members in roster.groups if group in offsets)),
            tuple(Settled(source, groups, *last) for (source, groups), last in sorted(self._known(away).items())),
            tuple(
                Listed(item.id, item.groups, item.count, "", place, self._find_holders(item))
                for place, item in enumerate(self.order, 1)
            ),
            self._reasons(away),
            tuple(filter(self._can_undo, away)),
            tuple(filter(self._can_undo, returned)),
            lineup,
            leaving,
            roster.moved,
        )

    def _find_manager(self, present: tuple[SiteId, ...], leaving: tuple[SiteId, ...]) -> SiteId:
        """Whoever makes the graph, or another one, if there is one, who does not leave with it, or has left."""
        candidates = [site for site in (self._core.site, *present) if site in present]
        return next((site for site in candidates if site not in leaving), candidates[0])

    def _find_holders(self, item: Listed) -> tuple[SiteId, ...]:
        """Whom to ask for it."""
        return tuple(site for site in self._holders[item.id] if site not in self._gone)[:HOLDERS_MAX]

    def _can_undo(self, site: SiteId) -> bool:
        """Whether a site that is not among the survivors has, or can get, all that the others have had: it was there
        until now, or everything was kept for it."""
        before = self._before
        if not self._core.takes_back:
            return False
        if site in before.present and (self._ran or site not in before.returned):
            return True
        return not self._is_cut and (site in before.awaited or site in before.undoing)

    def _known(self, away: tuple[SiteId, ...]) -> Last:
        """What everybody need not have again."""
        settled, before = self._settled, self._before
        if self._core.takes_back:
            # Not what stands in the order. (Else: c is to get s, enters, hears that s is everywhere, crashes, and in
            # the next graph takes s for one that it has had.)
            for item in self.order:
                key = (item.id.source, item.groups)
                if key in settled:
                    settled[key] = min(settled[key], (item.id.incarnation, item.id.number - 1))
        if away:
            return settled
        # Nobody can come with what is not known here. What a source knew when this graph began, and has in its log
        # since then, need not be known any more. (Known from its word alone: it says that nothing is pending, crashes,
        # finds in its log what it has multicast, and submits it again.)
        known_before = {(each.source, each.groups): (each.incarnation, each.number) for each in before.settled}
        return {
            key: last
            for key, last in settled.items()
            if known_before.get(key) != last
            or key[0] not in self._survivors
            or key[1] in self._histories[key[0]].pending
        }

    def _reasons(self, away: tuple[SiteId, ...]) -> tuple[tuple[SiteId, str], ...]:
        """Why they are away: as it was, or what is known now."""
        core, known = self._core, dict(self._before.reasons)
        silent = f"silent for {core.options.suspicion_seconds:g} s"
        suspected = core.detector.suspected | core.watching.accused
        return tuple((site, known.get(site) or (silent if site in suspected else "no answer")) for site in away)

    def _count(self) -> dict[GroupId, int]:
        """How many messages each group has had when all have what some have."""
        offsets = dict(self._before.offsets)
        for site in self._survivors:
            history = self._histories[site]
            had = {item.id for item in history.taken}
            lacks = [item for item in self.order if item.id not in had and item.id not in self._had_by_all]
            for group, had_before in history.counts:
                more = sum(item.count for item in lacks if group in item.groups)
                offsets[group] = max(offsets.get(group, 0), had_before + more)
        return offsets
