"""The passage from one graph to the next: a site closes, opens, and tells the sources what it has taken (Spauster 5.2).

`Close` is the last message of every edge of a graph, `Open` the first one of every edge of the next. So all that a
graph orders is delivered before all that the next one orders, at every site.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import GroupId, InvariantViolation, Multicast, Part, SiteId, WireError
from ordercast.core.effects import EnterGroup, ExitGroup, InstallView, Send
from ordercast.core.events import Arrival
from ordercast.protocols.parts.numbered import EARLY_MAX
from ordercast.protocols.propagation_graph.edges import IncomingEdge, Numbered
from ordercast.protocols.propagation_graph.packets import (
    Acknowledge,
    Closed,
    Counted,
    Forward,
    Held,
    Noted,
    Opened,
    Request,
    Submit,
)
from ordercast.protocols.propagation_graph.records import Gone, Taken, Told
from ordercast.protocols.propagation_graph.rosters import (
    GRAPHS_MAX,
    OPENS,
    Close,
    Open,
    Roster,
    announce,
    lineage,
    read_control,
)
from ordercast.protocols.propagation_graph.routes import routes_of

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph


class Passage(Part):
    """This site's part in every change."""

    packets = (Noted,)
    timers = ("pass",)
    records = (Told, Gone)
    branches = (
        "closed",
        "opened",
        "bounced",
        "taken-from-queue",
        "later-graph",
        "close-while-opening",
        "manager-back-while-closed",
        "back-while-closed",
        "another-graph",
        "open-waited",
        "came",
        "left",
    )

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core
        self._opens: dict[int, tuple[SiteId, Multicast]] = {}
        """Graph -> who has sent its `Open`, which waits until the graph before is closed here."""
        self._early: list[tuple[SiteId, Numbered]] = []
        """Messages of graphs that are not open here yet."""
        self.untold: dict[tuple[int, SiteId], int] = {}
        """Graph that is closed, and source -> what was taken of it there, until it knows."""
        self.left = -1
        """The last graph in which this site was, when it has left."""
        self._told_offsets: dict[GroupId, tuple[int, int]] = {}
        """Group -> how many messages it had here when the graph began, and how many whoever came in was told."""
        self._passing = False
        """Whether the timer runs."""
        self._since: float | None = None
        """Since when this site has waited for the next graph."""

    def wait_from_now_on(self) -> None:
        """A site that is in no graph wants to be in one."""
        if self._core.is_outside:
            self._since = self._core.now

    @property
    def is_leaving(self) -> bool:
        """Whether the graph is closed here, and this site is not in the next one."""
        closed = self._core.closed
        return closed is not None and self._core.site not in closed.roster.sites

    def is_later(self, graph: int) -> bool:
        """Whether this site may come to be in a graph in which it is not yet."""
        core = self._core
        if core.is_outside:
            return graph > self.left or lineage(graph) != lineage(self.left)
        return core.number < graph <= core.number + GRAPHS_MAX

    def is_earlier(self, graph: int) -> bool:
        """Whether it is a graph that this site has closed."""
        last = self.left if self._core.is_outside else self._core.number - 1
        return graph <= last and lineage(graph) == lineage(last)

    # ------------------------------------------------------------------ the end of a graph
    def check_close(self, multicast: Multicast) -> None:
        """It ends the graph that is open here; `WireError` when it does not."""
        core, control = self._core, read_control(multicast)
        if not isinstance(control, Close) or control.roster.graph != core.number + 1 or announce(control) != multicast:
            raise WireError(f"{multicast.id} does not close graph {core.number}")

    def find_unended(self) -> list[SiteId]:
        """The sites above from which more may come before the graph ends here: by each edge a `Close` comes last, and
        the first ones wait for the others.

        (Where there are bypass edges. Else: f has the Close from d, and closes; m, which b has sent it before by the
        bypass, comes too late for its graph, and the others have it.)
        """
        core = self._core
        above = core.routes.above[core.site]
        if len(above) < 2:
            return []
        return [site for site in above if not self._is_next_close(core.incoming_edge(site))]

    @staticmethod
    def _is_next_close(edge: IncomingEdge) -> bool:
        waiting = edge.early.get(edge.released + 1)
        return waiting is not None and not waiting.multicast.groups

    def enter(self, multicast: Multicast) -> None:
        """`Close` enters here, at the first root, behind all that this site has taken."""
        self._core.take(IncomingEdge("", self._core.number), multicast)

    def close(self, multicast: Multicast, edge: IncomingEdge) -> None:
        """This site takes nothing more in the graph. What comes from sources waits here."""
        core = self._core
        self.note_closed(multicast, edge.sender)
        core.branch("closed")
        self._since = core.now
        for above in core.routes.above[core.site]:
            core.repair.acknowledge(core.incoming_edge(above))
        if self.is_leaving:
            self.tell()
        self._send_counts()
        core.manager.go_on()
        self.try_open()
        self.go_on()
        self.leave_if_done()

    def note_closed(self, multicast: Multicast, sender: SiteId) -> None:
        """What `close` changes, also when it is read from the log."""
        core, close = self._core, read_control(multicast)
        if not isinstance(close, Close):
            raise InvariantViolation(f"{core.site}: {multicast.id} is no Close")
        core.closed = close
        for above in core.routes.above[core.site]:
            if above != sender:
                core.end_edge(core.incoming_edge(above))
        core.holding = True
        for edge in core.steps[(), None].edges:
            edge.ended = True
        if self.is_leaving:
            self._owe_sources(close.roster)
            core.source.settle()

    def _owe_sources(self, following: Roster) -> None:
        """From here on every source of the next graph has to be told what was taken of its messages in this one.

        Whoever leaves tells everyone, for anyone may have sent something, in an earlier graph, too, that has not come
        yet: later, nobody could.
        """
        core = self._core
        sources = {edge.sender: edge.released for edge in core.incoming.values()}
        if self.is_leaving:
            sources = dict.fromkeys(core.roster.sites, 0) | sources
        # What came from above is all taken: its last message was Close.
        for known in (core.site, *core.routes.above[core.site]):
            sources.pop(known, None)
        for site, taken in sources.items():
            if site in following.sites:
                self.untold[core.number, site] = taken

    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many messages those of the counted groups have had whose primary destination is here."""
        core = self._core
        if core.closed is None:
            return ()
        primary = core.routes.graph.primary
        return tuple((group, core.counts[group]) for group in core.closed.counted if primary.get(group) == core.site)

    def _send_counts(self) -> bool:
        core, counts = self._core, self.counts()
        if not counts or core.roster.manager == core.site:
            return False
        core.send((core.roster.manager,), Counted(core.number, counts))
        return True

    # ------------------------------------------------------------------ the beginning of the next one
    def receive_other(self, sender: SiteId, packet: Numbered) -> None:
        """A message of another graph than the one that is open here."""
        core = self._core
        if not self.is_later(packet.graph):
            core.branch("another-graph")
        elif not packet.multicast.groups and packet.multicast.id.incarnation == OPENS:
            self.receive_open(sender, packet.multicast)
        elif len(self._early) < EARLY_MAX:
            core.branch("later-graph" if packet.multicast.groups else "close-while-opening")
            self._early.append((sender, packet))

    def receive_open(self, sender: SiteId, multicast: Multicast) -> None:
        """The `Open` of a later graph: from the site above in that graph, or, at its first root, from the manager."""
        core, control = self._core, read_control(multicast)
        graph = control.roster.graph
        if not isinstance(control, Open) or announce(control) != multicast or core.site not in control.roster.sites:
            raise WireError(f"{sender} may not open a graph here with {multicast.id}")
        if not self.is_later(graph):
            if graph == core.number or self.is_earlier(graph):
                core.send((sender,), Opened(graph))
            return
        above = routes_of(control.roster, core.options).above[core.site]
        known = core.number + 1 < graph or core.is_outside or sender == core.roster.manager
        if sender not in above and (above or not known):
            raise WireError(f"{sender} may not open graph {graph} here")
        if core.is_outside and core.site in control.before:
            core.branch("another-graph")
            return
        if graph not in self._opens and len(self._opens) < GRAPHS_MAX:
            self._opens[graph] = (sender, multicast)
        self.try_open()

    def ask_for_open(self, sender: SiteId, graph: int) -> None:
        """Somebody has messages of a later graph for this site. Its `Open` may be lost; or it is here, and waits for
        the `Close` from above."""
        core = self._core
        if graph not in self._opens and (core.is_outside or graph == core.number + 1):
            core.send((sender,), Request(((1, 1),), graph))
        elif not core.is_outside:
            core.send((sender,), Held((core.routes.parent[core.site] or core.roster.manager,), graph))

    def try_open(self) -> None:
        """Open the next graph when the one before is closed here; whoever is in none has nothing to wait for."""
        core = self._core
        if core.is_outside:
            graph = min(self._opens, default=None)
        else:
            graph = core.number + 1
            if core.closed is None:
                if graph in self._opens:
                    core.branch("open-waited")
                return
        found = None if graph is None else self._opens.pop(graph, None)
        if found is None:
            return
        sender, multicast = found
        control = read_control(multicast)
        if isinstance(control, Open) and (core.closed is None or control.roster == core.closed.roster):
            self.open(sender if sender in routes_of(control.roster, core.options).above[core.site] else "", multicast)

    def open(self, sender: SiteId, multicast: Multicast) -> None:
        """The next graph begins here."""
        core = self._core
        manager = "" if core.is_outside else core.roster.manager
        core.append(Taken(sender, multicast))
        queued, number = core.incoming, core.number
        message = self.begin(sender, multicast)
        self._since = None
        core.branch("opened")
        if message is not None:
            to, forward = message
            core.outbox.append(Send(to, forward))
            core.repair.look_soon()
        if manager and not sender and manager not in core.roster.sites:
            core.send((manager,), Opened(core.number))
        if sender:
            core.repair.acknowledge(core.incoming[sender])
        self._take_queued(number, queued)
        self.tell()
        core.source.release()
        core.give_credit()
        core.manager.go_on()
        core.changes.go_on()
        self._take_early()
        self.go_on()

    def begin(self, sender: SiteId, multicast: Multicast) -> tuple[tuple[SiteId, ...], Forward] | None:
        """What `open` changes, also when it is read from the log: the edges of the new graph, of which the first
        message is `Open`; and who is in which group."""
        core, control = self._core, read_control(multicast)
        if not isinstance(control, Open):
            raise InvariantViolation(f"{core.site}: {multicast.id} is no Open")
        before, roster = core.roster, control.roster
        own = core.incoming.get(core.site)
        if not core.is_outside:
            self._owe_sources(roster)
        if own is not None:
            core.source.take_in(packet.multicast for _number, packet in sorted(own.early.items()))
        for key in [key for key in self.untold if key[1] not in roster.sites]:
            del self.untold[key]
        core.install(roster)
        core.holding = True
        self._opens = {graph: found for graph, found in self._opens.items() if graph > roster.graph}
        for above in core.routes.above[core.site]:
            core.incoming_edge(above).restore(1)
        self._move_members(before, control)
        core.changes.note_moved(before)
        step = core.steps[(), None]
        return (step.to, core.forward(step, multicast)) if step.to else None

    def _move_members(self, before: Roster, control: Open) -> None:
        """Leave and enter what this site leaves and enters, and tell who is in its groups."""
        core, roster, offsets = self._core, control.roster, dict(control.offsets)
        were, are = before.groups_of(core.site), roster.groups_of(core.site)
        self._told_offsets = {g: (core.counts[g], told) for g, told in offsets.items() if g in core.counts}
        mine = core.routes.counted_at(core.site)
        core.counts = {group: core.counts.get(group, offsets.get(group, 0)) for group in mine}
        for group in were:
            if group not in are:
                core.branch("left")
                core.outbox.append(ExitGroup(group))
        for group in are:
            if group not in were:
                core.branch("came")
                core.counts[group] = offsets.get(group, 0)
                core.outbox.append(EnterGroup(group, core.counts[group]))
            if group not in were or before.members(group) != roster.members(group):
                self.install_view(group, before)

    def install_view(self, group: str, before: Roster) -> None:
        """Tell who is in a group, and who was in it before."""
        roster, were = self._core.roster, before.members(group)
        members = roster.members(group)
        along = tuple(site for site in members if site in were) if self._core.site in were else ()
        seconds = None if self._since is None else max(0.0, self._core.now - self._since)
        self._core.outbox.append(InstallView(str(roster.graph), members, along, (group,), seconds=seconds))

    def _take_queued(self, graph: int, queued: dict[SiteId, IncomingEdge]) -> None:
        """What sources had sent here after the `Close` is taken now if its primary destination still is here; from the
        first one that must go elsewhere, they submit again."""
        core = self._core
        for source, edge in queued.items():
            if (graph, source) not in self.untold:
                continue
            while (packet := edge.early.get(edge.released + 1)) is not None:
                multicast = packet.multicast
                there = all(group in core.groups for group in multicast.groups)
                if not there or not core.is_entry(multicast) or not core.has_room(multicast):
                    core.branch("bounced")
                    break
                core.branch("taken-from-queue")
                core.take(edge, multicast, queued=True)
                self.untold[graph, source] = edge.released

    def recall_queued(self, source: SiteId) -> None:
        """See `_take_queued`."""
        key = (self._core.number - 1, source)
        # Of what only waited here when the graph was closed, the log says nothing before this.
        self.untold[key] = self.untold.get(key, 0) + 1

    def _take_early(self) -> None:
        """What has come of this graph before its `Open`."""
        core = self._core
        early, self._early = self._early, []
        for sender, packet in early:
            try:
                if isinstance(packet, Submit):
                    core.on_submit(sender, packet, Arrival())
                else:
                    core.on_forward(sender, packet, Arrival())
            except WireError:
                core.branch("another-graph")

    # ------------------------------------------------------------------ what remains to be done in the old one
    def tell(self) -> None:
        """Tell the sources what was taken of what they have sent in graphs that are closed."""
        for (graph, site), taken in self.untold.items():
            self._core.outbox.append(Send((site,), Closed(graph, taken)))

    def answer(self, sender: SiteId, graph: int, highest: int) -> None:
        """A source asks about a graph that is closed here. Of what is not known, nothing has come. Whoever has left was
        let go when all that it had multicast was taken."""
        core = self._core
        if core.is_outside:
            return  # everyone who may ask was told
        present = core.roster if core.closed is None else core.closed.roster
        if (graph, sender) not in self.untold and sender not in present.sites:
            core.send((sender,), Acknowledge(highest, graph))
        else:
            core.send((sender,), Closed(graph, self.untold.get((graph, sender), 0)))

    def on_noted(self, sender: SiteId, packet: Noted, arrival: Arrival) -> None:
        """A source knows."""
        record = Told(packet.graph, sender)
        if (record.graph, record.site) in self.untold:
            self._core.append(record)
            self.recall_told(record)
            self.leave_if_done()

    def recall_told(self, record: Told) -> None:
        """See `on_noted`."""
        self.untold.pop((record.graph, record.site), None)

    def go_on(self) -> None:
        """Say it again from time to time, while anybody has to know something."""
        core = self._core
        if not self._passing and (self.untold or self.counts() or core.manager.is_busy or core.source.is_uncertain):
            self._passing = True
            core.set_timer("pass", core.options.retransmit_seconds)

    def on_pass_timeout(self) -> None:
        """Again."""
        self._passing = False
        self.tell()
        self._send_counts()
        self._core.manager.go_on()
        self._core.lookup.ask_for_latest()
        self.go_on()

    def resume(self) -> None:
        """The log has been read: say again what may not have been heard."""
        if self._core.closed is not None:
            self._core.branch("manager-back-while-closed" if self._core.manager.is_busy else "back-while-closed")
        self.tell()
        self._send_counts()
        self._core.manager.go_on()
        self.go_on()
        self.leave_if_done()

    def leave_if_done(self) -> None:
        """Whoever leaves is gone when nobody needs anything of it any more."""
        core = self._core
        if (
            core.closed is None
            or not self.is_leaving
            or self.untold
            or core.past
            or core.manager.is_busy
            or any(edge.kept for edge in core.outgoing.values())
        ):
            return
        record = Gone()
        core.append(record)
        self.recall_gone(record)
        core.give_credit()
        core.changes.go_on()

    def recall_gone(self, record: Gone) -> None:
        """This site is in no graph any more."""
        core = self._core
        self.left = core.number
        for group in core.roster.groups_of(core.site):
            core.branch("left")
            core.outbox.append(ExitGroup(group))
        core.changes.note_gone()
        core.manager.forget()
        self._opens.clear()
        self._early.clear()
        core.source.waiting.clear()
        core.begin_outside()

    def check_invariants(self) -> None:
        """Those who came in began where the others were."""
        for group, (here, told) in self._told_offsets.items():
            if here != told:
                raise InvariantViolation(
                    f"{group} had {here} messages at {self._core.site}, and newcomers begin at {told}"
                )
