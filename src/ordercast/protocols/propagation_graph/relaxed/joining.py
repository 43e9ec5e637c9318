"""Sites come into groups and leave them while others fail (Spauster 7.3 (5)): what is wanted comes about with the next
graph, which is made as after a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, cast

from ordercast.core import GroupId, Packet, SiteId, UsageError
from ordercast.core.effects import EnterGroup, ExitGroup, InstallView
from ordercast.core.events import Arrival, JoinRequested, LeaveRequested
from ordercast.protocols.parts.names import GROUPS_MAX, SITES_MAX, check_names
from ordercast.protocols.propagation_graph.changes import Changes
from ordercast.protocols.propagation_graph.lookup import Lookup
from ordercast.protocols.propagation_graph.packets import Ask, Decline, Presence
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph
from ordercast.protocols.propagation_graph.relaxed.packets import Back
from ordercast.protocols.propagation_graph.rosters import GRAPHS_MAX, LINEAGE_BITS, Roster, Wish, apply_wishes, lineage

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph


class Joining(Changes):
    """What this site wants, and, at whoever makes the next graph, what others want.

    Who leaves its last group has a part in one more graph, until that runs, and is in none then: it may be the only one
    that has what others lack. What it has multicast is everywhere by then, and it multicasts nothing more.
    """

    packets: ClassVar[tuple[type[Packet], ...]] = (*Changes.packets, Ask)
    branches: ClassVar[tuple[str, ...]] = (
        *Changes.branches,
        "wanted",
        "joiner-while-closed",
        "leaver-while-closed",
        "let-in",
        "let-out",
        "went",
    )

    def __init__(self, core: RelaxedGraph) -> None:
        super().__init__(core)
        self._others: dict[SiteId, tuple[Wish, int]] = {}
        """What each site wants, and the graph that it knew when it said so."""

    @property
    def _relaxed(self) -> RelaxedGraph:
        return cast("RelaxedGraph", self._core)

    @property
    def _groups(self) -> tuple[GroupId, ...]:
        core = self._relaxed
        return core.graph.groups_of(core.site)

    # ------------------------------------------------------------------ this site
    def join(self, event: JoinRequested) -> None:
        """The application wants to be in a group."""
        if self._is_on_its_way_out(event.group):
            raise UsageError(f"{self._relaxed.site} leaves {event.group!r}: join it again when it has left")
        if self._relaxed.is_closed:
            self._relaxed.branch("joiner-while-closed")
        super().join(event)

    def leave(self, event: LeaveRequested) -> None:
        """The application wants to be out of a group."""
        if not self._is_on_its_way_out(event.group):
            super().leave(event)

    def _is_on_its_way_out(self, group: GroupId) -> bool:
        """Whether the graph is without this site in a group, and does not run here yet. (An application that is started
        again meanwhile asks again. If it heard that it is not in the group, it might join at once, be in the next graph
        as if it had never left, and wait for ever to be told that it is in.)"""
        core = self._relaxed
        return not core.is_outside and group in core.counts and group not in self._groups

    def wait_from_now_on(self) -> None:
        """Nothing is measured."""

    def check_source(self) -> None:
        """Who is in no graph, or is about to leave it, cannot multicast: nobody would submit it again."""
        core = self._core
        if core.is_outside or self.has_asked_to_go:
            raise UsageError(f"{core.site} is in no group, or leaves its last one: join a group before you multicast")

    @property
    def may_ask(self) -> bool:
        """Whether this site is in a graph; one that waits for another graph asks all the same."""
        return not self._core.is_outside

    def _ask(self) -> None:
        core = self._relaxed
        if self._leaves_all:
            if core.pending.messages or any(held.multicast.id.source == core.site for held in core.unsettled()):
                return  # what this site has multicast is first to be everywhere
            core.branch("asked-to-go")
            self.has_asked_to_go = True
        core.branch("asked")
        wish, maker = self.wish, core.watching.find_maker()
        if wish.leaves and core.is_closed:
            core.branch("leaver-while-closed")
        if maker == core.site:
            self.want(core.site, wish, core.number)
        else:
            core.send((maker,), Ask(wish, core.number))

    def note_entered(self) -> None:
        """A graph has begun: what is so now, is wanted no more."""
        groups, self._noted = self._groups, None
        for group in [group for group, wanted in self.wishes.items() if wanted == (group in groups)]:
            del self.wishes[group]
        self.has_asked_to_go = self._relaxed.site in self._relaxed.graph.leaving

    def resume(self) -> None:
        """The log has been read."""
        super().resume()
        self.has_asked_to_go = self.has_asked_to_go or self._relaxed.site in self._relaxed.graph.leaving

    def is_later(self, graph: int) -> bool:
        """Whether this site may come to be in a graph, or out of it."""
        core = self._core
        return graph > core.number or (core.is_outside and lineage(graph) != lineage(core.number))

    def go_out(self, graph: Graph) -> None:
        """The others have a graph in which this site is not."""
        core = self._relaxed
        core.branch("went")
        core.log_entered(graph)
        core.rejoining.drop_waiting(str(graph.number))
        for group in {**core.counts, **dict.fromkeys(self._groups)}:
            core.outbox.append(ExitGroup(group))
        failed = core.shares.has_failed
        core.begin_out(graph)
        if failed:
            core.declare_recovered()
        self.note_gone()
        core.give_credit()
        self.go_on()

    def note_running(self) -> None:
        """Who comes into a group, or leaves one, had first to deliver what stands in the order: now it is so."""
        core = self._relaxed
        offsets, groups = dict(core.graph.offsets), self._groups
        for group in [group for group in core.counts if group not in groups]:
            del core.counts[group]
            core.outbox.append(ExitGroup(group))
        for group in groups:
            if group not in core.counts:
                core.counts[group] = offsets.get(group, 0)
                self.enter_group(group)

    def enter_group(self, group: GroupId) -> None:
        """This site is in a group from here on."""
        core = self._relaxed
        core.outbox.append(EnterGroup(group, core.counts[group]))
        self.install_view(group, core.graph, False, None, "")

    def install_view(self, group: GroupId, before: Graph, survived: bool, seconds: float | None, line: str) -> None:
        """Who is in it, and who has come along."""
        core = self._relaxed
        members = core.roster.members(group)
        along = tuple(site for site in members if site in before.present) if survived else ()
        core.outbox.append(InstallView(str(core.number), members, along, (group,), seconds=seconds, line=line))

    # ------------------------------------------------------------------ whoever makes the next graph
    def begin(self) -> None:
        """A graph begins: what is not so then, is asked for again."""
        self._others.clear()

    def on_ask(self, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
        """Somebody wants something changed."""
        check_names((*packet.wish.joins, *packet.wish.leaves) or ("-",))
        core = self._relaxed
        if core.is_outside or core.watching.find_maker() != core.site or not self._is_present(sender, packet.graph):
            core.lookup.answer(sender)
            return
        if set(packet.wish.joins).intersection(core.graph.groups_of(sender)):
            # It does not know that. (Else: p is let in, is cut off before it hears of it, and is away in the graph
            # after that; it asks for what is so already, and nobody lets it in.)
            core.watching.on_back(sender, Back(core.number - 1, True, True), arrival)
        self.want(sender, packet.wish, packet.graph)

    def _is_present(self, site: SiteId, graph: int) -> bool:
        """Whether a site that knows this graph wants it still, as far as one can know."""
        core = self._relaxed
        return core.number - GRAPHS_MAX < graph <= core.number and graph >= dict(core.graph.moved).get(site, 0)

    def want(self, site: SiteId, wish: Wish, graph: int) -> None:
        """This is what a site wants, and nothing else any more."""
        core = self._relaxed
        following = self._apply({site: wish})
        if site not in core.graph.away and (site in self._others or len(self._others) < SITES_MAX):
            self._others[site] = (wish, graph)
        if wish.joins and site not in following.sites:
            core.send((site,), Decline(f"the graph has {SITES_MAX} processes, and takes no more"))
        elif any(not following.members(group) for group in wish.joins):
            core.send((site,), Decline(f"there are {GROUPS_MAX} groups, and no more"))
        elif following.groups != core.graph.groups:
            core.branch("wanted")
            core.watching.drive_soon()
        elif not wish.joins and not core.is_closed:
            self.note(site, wish)

    def _apply(self, wishes: Mapping[SiteId, Wish]) -> Roster:
        core, graph = self._relaxed, self._relaxed.graph
        roster = Roster(graph.number, core.site, graph.sites, graph.groups, graph.moved)
        return apply_wishes(roster, wishes, graph.sites)

    @property
    def has_reason(self) -> bool:
        """Whether there should be another graph for what is wanted, or without those who have left."""
        core = self._relaxed
        if core.graph.leaving and core.is_running and core.graph.manager == core.site:
            return True
        wishes = {site: wish for site, (wish, _) in self._others.items()}
        return bool(wishes) and self._apply(wishes).groups != core.graph.groups

    def following(self, there: Mapping[SiteId, object]) -> Roster:
        """The groups and sites with all that is wanted by those who are there, or new."""
        graph = self._relaxed.graph
        here = {site for site in self._others if site in there or site not in graph.sites}
        return self._apply({site: self._others[site][0] for site in here})


class Finding(Lookup):
    """The same search for a graph; who finds none begins one of its own."""

    branches: ClassVar[tuple[str, ...]] = (*Lookup.branches, "pointed-on")

    @property
    def _relaxed(self) -> RelaxedGraph:
        return cast("RelaxedGraph", self._core)

    def _begin(self, wanted: tuple[str, ...]) -> None:
        core = self._relaxed
        core.branch("founded")
        number = 1 + core.context.random.getrandbits(30) << LINEAGE_BITS
        groups = tuple((group, (core.site,)) for group in wanted)
        core.enter(Graph(number, core.site, (core.site,), (), groups, lineup=((number, (core.site,)),)))

    def note_latest(self, graph: int) -> None:
        """Nothing waits for that: a share says so."""

    def on_presence(self, sender: SiteId, packet: Presence, arrival: Arrival) -> None:
        """In which graph another site is, or, at one that the others have gone on without, who goes on."""
        core = self._relaxed
        if not core.is_outside and packet.size and packet.graph > core.number and sender in core.graph.sites:
            core.watching.note_elsewhere(packet.manager)
        super().on_presence(sender, packet, arrival)

    def point_on(self, to: SiteId) -> None:
        """This site has left; another one, which is out, is to ask those who have not. (Else: a is out; b, c and d,
        whom it knows, leave after p has come; p waits for a, and a for b, c and d.)"""
        core, graph = self._relaxed, self._relaxed.graph
        core.branch("pointed-on")
        core.send((to,), Presence(graph.number, graph.manager, len(graph.sites), False))

    def answer(self, to: SiteId) -> None:
        """Say in which graph this site is."""
        core = self._relaxed
        if core.is_outside or core.site in core.graph.leaving:
            core.send((to,), Presence(-1, "", 0, bool(core.joining.wanted_groups)))
        else:
            maker = core.watching.find_maker()
            core.send((to,), Presence(core.number, maker, len(core.graph.sites), False))
