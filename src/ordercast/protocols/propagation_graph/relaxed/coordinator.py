"""Who makes the next graph: it collects histories, has it chosen, waits until the old one has ended everywhere, and
begins it (Spauster 7.1.1, 7.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph.relaxed.composing import compose
from ordercast.protocols.propagation_graph.relaxed.graphs import LISTED_MAX, Graph, Lineup, sites_at
from ordercast.protocols.propagation_graph.relaxed.packets import (
    Agreed,
    Begin,
    Begun,
    Collect,
    History,
    Propose,
    Refused,
)

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph

REST_TICKS = 4
"""So many intervals are left to another one who makes the next graph."""


class Coordinator(Part):
    """One attempt to replace the graph that is open here."""

    packets = (History, Agreed, Refused, Begun, Begin)
    timers = ("attempt", "begin")
    branches = (
        "collected",
        "chosen",
        "outvoted",
        "behind",
        "waited-for-shares",
        "began",
        "no-majority",
        "merged",
        "tail-kept",
        "taken-over-while-collecting",
        "taken-over-while-deciding",
        "opened-by-another",
    )

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        self._ballot = 0
        """Of the attempt; 0: there is none."""
        self._highest = 0
        """The highest ballot of which this site has heard."""
        self._histories: dict[SiteId, History] = {}
        self._proposed: Graph | None = None
        self._agreed: set[SiteId] = set()
        self._chosen: Graph | None = None
        self._since = 0.0
        """When the attempt began."""
        self._replaces = 0
        """The graph that is to be replaced: the one that is open here. Or a later one, which was opened elsewhere: then
        what follows it, or is it, is decided, and to be found out."""
        self._known = 0
        """The latest graph of which somebody has heard that it is to be replaced."""
        self._lineup: Lineup = ()
        """Its sites, and those of the graphs before it, as far as they were told."""
        self._sites: tuple[SiteId, ...] = ()
        """Those who decide: the sites of the graph that is to be replaced."""
        self._rest = 0
        """Intervals to leave to another one who has a higher ballot."""
        self._begun: Graph | None = None
        self._unaware: set[SiteId] = set()
        """Those who have not said that the graph is open there."""

    def end(self) -> None:
        """There is no attempt."""
        self._ballot = 0
        self._histories.clear()
        self._proposed = self._chosen = None
        self._agreed.clear()

    def begin(self) -> None:
        """A graph is open here."""
        self.end()
        self._rest = self._highest = self._known = 0
        self._lineup = ()
        self._core.block("manager", "")

    def yield_to(self, sender: SiteId, graph: int, ballot: int) -> None:
        """This site has promised somebody a ballot."""
        self._highest = max(self._highest, ballot)
        if sender != self._core.site and self._ballot:
            self._core.branch("outvoted")
            self.end()
        if sender != self._core.site:
            self._rest = REST_TICKS

    # ------------------------------------------------------------------ asking
    def go_on(self) -> None:
        """This site is to make the next graph."""
        if self._ballot:
            return
        if self._rest > 0:
            self._rest -= 1
            return
        core = self._core
        self._since = core.now
        self._replaces = max(core.number, self._known - 1)
        known = core.graph.known_lineup if self._replaces == core.number else self._lineup
        self._sites = sites = sites_at(known, self._replaces)
        if core.site not in sites:
            # Others decide it, and let this site in, or tell it that it is out.
            self._known = 0
            return
        pledged, _, accepted = core.acceptor.state_of(self._replaces)
        if pledged and sites[pledged % len(sites)] != core.site:
            core.branch("taken-over-while-collecting" if accepted is None else "taken-over-while-deciding")
        turn = max(self._highest, pledged) // len(sites) + 1
        self._ballot = turn * len(sites) + sites.index(core.site)
        self._ask()

    def _ask(self) -> None:
        core, graph = self._core, self._core.graph
        core.set_timer("attempt", core.options.retransmit_seconds)
        if self._proposed is None:
            known = graph.lineup if self._replaces == core.number else self._lineup
            lineup = tuple((since, sites) for since, sites in known if since <= self._replaces)
            collect = Collect(self._replaces, self._ballot, lineup)
            self._say([site for site in self._sites if site not in self._histories], collect)
        elif self._chosen is None:
            proposal = Propose(self._replaces, self._ballot, self._proposed)
            self._say([site for site in self._sites if site not in self._agreed], proposal)

    def _say(self, sites: list[SiteId], packet: Collect | Propose) -> None:
        core = self._core
        core.send(tuple(site for site in sites if site != core.site), packet)
        if core.site in sites:
            if isinstance(packet, Collect):
                core.acceptor.on_collect(core.site, packet, Arrival())
            else:
                core.acceptor.on_propose(core.site, packet, Arrival())

    def on_attempt_timeout(self) -> None:
        """Ask again; go on without those who do not answer."""
        core = self._core
        if self._begun is not None and self._unaware:
            core.set_timer("attempt", core.options.retransmit_seconds)
            core.send(tuple(sorted(self._unaware)), Begin(self._begun))
        if not self._ballot:
            return
        missing = self._majority - len(self._histories)
        if missing > 0:
            core.branch("no-majority")
            silent = [site for site in self._sites if site not in self._histories]
            core.block(
                "manager", f"no majority: {', '.join(silent[:9])} {'do' if len(silent) > 1 else 'does'} not answer"
            )
        self._decide_if_ready()
        if self._ballot:
            self._ask()

    def on_refused(self, sender: SiteId, packet: Refused, arrival: Arrival) -> None:
        """Another one has a higher ballot, or the graph is replaced already."""
        core = self._core
        if packet.graph != self._replaces or not self._ballot or self._chosen is not None:
            return
        if packet.instance - 1 > max(self._replaces, self._known - 1):
            # Graph `instance` is open somewhere, and who had it may be dead.
            core.branch("behind")
            self._known, self._lineup = packet.instance, packet.lineup
            self.end()
        elif packet.ballot > self._ballot:
            core.branch("outvoted")
            self._highest = max(self._highest, packet.ballot)
            self._rest = 1 + core.context.random.randrange(4)
            self.end()

    @property
    def _majority(self) -> int:
        return len(self._sites) // 2 + 1

    def on_history(self, sender: SiteId, packet: History, arrival: Arrival) -> None:
        """One more has stopped."""
        if packet.graph != self._replaces or packet.ballot != self._ballot or self._proposed is not None:
            return
        if sender not in self._sites or packet.number > self._replaces or len(packet.taken) > LISTED_MAX:
            raise WireError(f"a history of {sender} with {len(packet.taken)} messages of graph {packet.number}")
        self._histories[sender] = packet
        self._decide_if_ready()

    def _decide_if_ready(self) -> None:
        core, graph = self._core, self._core.graph
        if not self._ballot or self._proposed is not None or len(self._histories) < self._majority:
            return
        patience = core.options.suspicion_seconds
        if len(self._histories) < len(self._sites) and core.now - self._since < patience:
            # Not so many intervals: where a disk is slower than these, whoever is back would never be in time.
            expected = {*graph.present} - core.detector.suspected | core.watching.back
            if graph.leaving and core.is_running:
                expected -= {*graph.leaving}  # their applications may have ended
            if not expected.intersection(self._sites) <= self._histories.keys():
                return
        core.block("manager", "")
        core.branch("collected")
        earlier = max(self._histories.values(), key=lambda history: history.accepted_ballot)
        if earlier.accepted is not None:
            # A majority may have accepted it.
            core.branch("kept-an-earlier-choice")
            self._proposed = earlier.accepted
        elif self._replaces > graph.number:
            self.end()  # another one is about to decide it
            return
        else:
            self._proposed = compose(core, self._histories)
        self._agreed.clear()
        self._ask()

    # ------------------------------------------------------------------ having it chosen, and beginning it
    def on_agreed(self, sender: SiteId, packet: Agreed, arrival: Arrival) -> None:
        """With a majority it is chosen."""
        core = self._core
        if packet.graph != self._replaces or packet.ballot != self._ballot or self._proposed is None:
            return
        if sender in self._sites and self._chosen is None:
            self._agreed.add(sender)
            if len(self._agreed) >= self._majority:
                core.branch("chosen")
                self._chosen = self._proposed
                self._wait()

    def _wait(self) -> None:
        """Until nobody delivers anything in the old graph any more, and who is not in the next one counts as failed.
        Whoever has told its history has stopped; if the choice is an earlier one, and without it, its share is to end
        all the same. (Else: b chooses a graph without a, the manager, and cannot reach it; a hears that the others have
        stopped, finds that choice, and begins it at once. The others deliver m m' while a, which has delivered m' m,
        counts as there.)"""
        core, graph, chosen = self._core, self._core.graph, self._chosen
        if chosen is None or self._replaces > graph.number:
            self.on_begin_timeout()  # it was open before
            return
        manager = self._histories.get(graph.manager) if graph.manager in chosen.present else None
        drift = core.options.drift_max
        if manager is not None and manager.number == graph.number and manager.shares_left is not None:
            along = {*self._histories}.intersection(chosen.present)
            left = [seconds for site, seconds in manager.shares_left if site not in along]
        else:
            left = [history.grant_left for history in self._histories.values()]
        seconds = max(left, default=0.0) * (1 + drift) / (1 - drift)
        if seconds > 0:
            core.branch("waited-for-shares")
            core.set_timer("begin", seconds)
        else:
            self.on_begin_timeout()

    def on_begin_timeout(self) -> None:
        """All shares of the old graph have ended."""
        core, chosen = self._core, self._chosen
        if chosen is None or chosen.number <= core.number:
            return
        core.branch("began")
        self._begun = chosen
        self._unaware = {site for site in chosen.present if site != core.site}
        core.send(tuple(sorted(self._unaware.union(core.graph.leaving) - {core.site})), Begin(chosen))
        core.set_timer("attempt", core.options.retransmit_seconds)
        if core.site in chosen.present:
            core.enter(chosen)
        elif core.site in chosen.away:
            self.end()
        else:
            core.joining.go_out(chosen)

    def on_begun(self, sender: SiteId, packet: Begun, arrival: Arrival) -> None:
        """The graph is open there."""
        if self._begun is not None and packet.graph >= self._begun.number:
            self._unaware.discard(sender)

    def tell(self, sender: SiteId) -> bool:
        """A site that is in this graph does not know it, or one that is not in it does not know that."""
        core = self._core
        if sender not in core.graph.away and core.number > 0:
            core.send((sender,), Begin(core.graph))
            return True
        return False

    def on_begin(self, sender: SiteId, packet: Begin, arrival: Arrival) -> None:
        """A graph begins. A site that is in it has told its history of the graph before, or is let in again."""
        core, graph = self._core, packet.following
        core.graph.check_successor(graph, sender)
        if not core.joining.is_later(graph.number):
            core.send((sender,), Begun(core.number))
        elif core.site not in graph.sites:
            if not core.is_outside:
                core.joining.go_out(graph)
            core.send((sender,), Begun(graph.number))
        elif core.site in graph.present:
            if sender != graph.manager:
                core.branch("opened-by-another")
            core.enter(graph)
            core.send((sender,), Begun(core.number))
