"""The manager: it computes the next graph when somebody wants a change, closes the present one and opens the next
(Spauster 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ordercast.core import GroupId, Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.names import GROUPS_MAX, SITES_MAX, check_names
from ordercast.protocols.propagation_graph.packets import Ask, Change, Counted, Decline, Opened
from ordercast.protocols.propagation_graph.records import Planned
from ordercast.protocols.propagation_graph.rosters import (
    GRAPHS_MAX,
    OPENS,
    Close,
    Open,
    Roster,
    Wish,
    announce,
    apply_wishes,
)
from ordercast.protocols.propagation_graph.routes import Routes, routes_of

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph


class Manager(Part):
    """One change at a time, with everything that is wanted when it begins. The next begins when this site has opened
    the graph, wherever the others are: several `Open` may be under way.

    A change is in the log before its `Close` leaves. (Else: all are closed, the manager crashes, and nobody knows what
    was to follow.)
    """

    packets = (Ask, Change, Counted, Opened)
    records = (Planned,)
    branches = (
        "planned",
        "several-changes",
        "manager-moves",
        "asked-another",
        "old-wish",
        "group-begins",
        "last-member-left",
    )

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core
        self.plan: Close | None = None
        """The change that is under way, until the next graph is open."""
        self._counts: dict[GroupId, int] = {}
        """What the primary destinations have told of the groups that are to be counted."""
        self._wishes: dict[SiteId, tuple[Wish, int]] = {}
        """What each site wants, and the graph that it knew when it said so."""

    @property
    def is_busy(self) -> bool:
        """Whether a change is under way."""
        return self.plan is not None

    # ------------------------------------------------------------------ what is wanted
    def on_ask(self, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
        """Somebody wants something changed."""
        check_names((*packet.wish.joins, *packet.wish.leaves) or ("-",))
        core = self._core
        if core.is_outside or core.roster.manager != core.site:
            core.branch("asked-another")
            core.lookup.answer(sender)
        elif not self._is_present(sender, packet.graph):
            core.branch("old-wish")
            core.lookup.answer(sender)
        else:
            self.want(sender, packet.wish, packet.graph)

    def _is_present(self, site: SiteId, graph: int) -> bool:
        """Whether a site that knows this graph wants it still, as far as one can know."""
        core = self._core
        return core.number - GRAPHS_MAX < graph <= core.number and graph >= dict(core.roster.moved).get(site, 0)

    def want(self, site: SiteId, wish: Wish, graph: int) -> None:
        """This is what a site wants, and nothing else any more."""
        if site in self._wishes or len(self._wishes) < SITES_MAX:
            self._wishes[site] = (wish, graph)
        self._begin()

    def _begin(self) -> None:
        """Begin the next change, if this site may."""
        core = self._core
        if self.plan is not None or core.closed is not None or core.is_outside or core.roster.manager != core.site:
            return
        # A wish may have waited here for the end of a change that has overtaken it.
        wishes = {site: wish for site, (wish, graph) in self._wishes.items() if self._is_present(site, graph)}
        self._wishes = {}
        roster, following = core.roster, apply_wishes(core.roster, wishes, (core.options.manager,))
        for site, wish in wishes.items():
            if wish.joins and site not in following.sites:
                core.send((site,), Decline(f"the graph has {SITES_MAX} processes, and takes no more"))
            elif any(not following.members(group) for group in wish.joins):
                core.send((site,), Decline(f"there are {GROUPS_MAX} groups, and no more"))
            elif not wish.joins and not set(roster.groups_of(site)).intersection(wish.leaves):
                core.changes.note(site, wish)
        if (following.sites, following.groups) == (roster.sites, roster.groups):
            return
        routes = routes_of(following, core.options)
        following = replace(following, manager=self._choose_manager(following, routes))
        core.branch("planned")
        if len(dict(following.moved).keys() & wishes.keys()) > 1:
            core.branch("several-changes")
        if following.manager != core.site:
            core.branch("manager-moves")
        if {group for group, _members in roster.groups}.difference(group for group, _members in following.groups):
            core.branch("last-member-left")
        close = Close(following, tuple(self._find_counted(following, routes)))
        core.append(Planned(close))
        self.recall_planned(Planned(close))
        self.go_on()
        core.passage.go_on()

    def recall_planned(self, record: Planned) -> None:
        """See `_begin`."""
        self.plan = record.close

    def _choose_manager(self, following: Roster, routes: Routes) -> SiteId:
        """The one that the options name, if it is there; else this site, as long as it is; else the first root."""
        core = self._core
        for site in (core.options.manager, core.site):
            if site in following.sites:
                return site
        return routes.first_root

    def _find_counted(self, following: Roster, routes: Routes) -> list[GroupId]:
        """The groups of which somebody has to know how many messages they have had, and does not: who comes in, and
        who is their primary destination from now on."""
        roster, primary = self._core.roster, self._core.routes.graph.primary
        counted = []
        for group, members in following.groups:
            if group not in primary:
                self._core.branch("group-begins")
            elif not {primary[group], *roster.members(group)}.issuperset((routes.graph.primary[group], *members)):
                counted.append(group)
        return counted

    # ------------------------------------------------------------------ closing and opening
    def go_on(self) -> None:
        """Do what the change needs now, again if need be; and begin the next one."""
        core, plan = self._core, self.plan
        if plan is not None and not core.is_outside and plan.roster.graph <= core.number:
            self.plan = plan = None
            self._counts = {}
        if plan is None:
            if self._wishes:
                self._begin()
        elif core.closed is None:
            root = core.routes.first_root
            if root == core.site:
                core.passage.enter(announce(plan))
            else:
                core.send((root,), Change(core.number, announce(plan)))
        else:
            self._open(plan)

    def _open(self, plan: Close) -> None:
        """Open the next graph. Those who come into a group begin where it is when its primary destination has closed.

        (Opened before that: p is in g, and then somebody multicasts to g; the message comes to the old primary
        destination, which has not closed yet, is ordered in the old graph, and p never gets it.)
        """
        core = self._core
        self._counts.update(core.passage.counts())
        if any(group not in self._counts for group in plan.counted):
            return
        multicast = announce(Open(plan.roster, core.roster.sites, tuple((g, self._counts[g]) for g in plan.counted)))
        root = routes_of(plan.roster, core.options).first_root
        if root == core.site:
            core.passage.open("", multicast)
        else:
            core.send((root,), Change(plan.roster.graph, multicast))

    def on_counted(self, sender: SiteId, packet: Counted, arrival: Arrival) -> None:
        """A primary destination has closed."""
        core, plan = self._core, self.plan
        if plan is None or packet.graph != plan.roster.graph - 1 or packet.graph != core.number:
            return
        primary = core.routes.graph.primary
        for group, count in packet.counts:
            if group not in plan.counted or primary.get(group) != sender or count < 0:
                raise WireError(f"{sender} does not count {group!r}")
        self._counts.update(packet.counts)
        if core.closed is not None:
            self._open(plan)

    def on_change(self, sender: SiteId, packet: Change, arrival: Arrival) -> None:
        """The manager has a `Close` or an `Open` enter here."""
        core = self._core
        if packet.multicast.id.incarnation == OPENS:
            core.passage.receive_open(sender, packet.multicast)
        elif core.is_outside or packet.graph < core.number or (packet.graph == core.number and core.closed is not None):
            core.branch("another-graph")
        elif packet.graph == core.number:
            if sender != core.roster.manager or core.routes.first_root != core.site:
                raise WireError(f"{sender} may not close graph {packet.graph} here")
            core.passage.check_close(packet.multicast)
            core.passage.enter(packet.multicast)

    def on_opened(self, sender: SiteId, packet: Opened, arrival: Arrival) -> None:
        """The graph without this site has begun: it has nothing more to manage."""
        core, plan = self._core, self.plan
        if plan is not None and core.passage.is_leaving and packet.graph == plan.roster.graph:
            self.plan = None
            self._counts = {}
            core.passage.leave_if_done()

    def forget(self) -> None:
        """This site is in no graph any more."""
        self.plan = None
        self._counts = {}
        self._wishes = {}
