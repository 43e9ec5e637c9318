"""A site that is in no graph looks for one, and founds one where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ordercast.core import Part, SiteId
from ordercast.core.events import Arrival, Discovered
from ordercast.protocols.parts.names import SITES_MAX
from ordercast.protocols.propagation_graph.packets import Ask, Presence, Seek
from ordercast.protocols.propagation_graph.rosters import LINEAGE_BITS, Open, Roster, Wish, announce, lineage

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph


class Lookup(Part):
    """The search of a site that wants to join something, and what others answer."""

    packets = (Seek, Presence)
    branches: ClassVar[tuple[str, ...]] = ("sought", "founded")

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core
        self._found: tuple[SiteId, ...] = ()
        self._settled = False
        """Whether the driver's search has had its time."""
        self._heard: dict[SiteId, Presence] = {}
        """What those who were found have answered."""
        self.manager: SiteId = ""
        """Whom this site has asked last to be let in."""

    @property
    def _others(self) -> tuple[SiteId, ...]:
        """Those who were found, or are configured."""
        core = self._core
        return tuple(sorted({*self._found, *core.context.sites} - {core.site}))

    def discover(self, event: Discovered) -> None:
        """The driver has found other sites."""
        core = self._core
        self._found, self._settled = event.sites, event.settled
        if core.is_outside:
            self._heard = {site: heard for site, heard in self._heard.items() if site in self._others}
            core.changes.go_on()

    def go_on(self) -> None:
        """Ask everybody who was found whether there is a graph, and its manager to be let in."""
        core = self._core
        wanted = core.changes.wanted_groups
        if self._may_found():
            self._begin(wanted)
            return
        others = self._others
        whom = f"it asks {', '.join(others[:9])}" if others else "it has found nobody yet"
        core.block("lookup", f"{core.site} looks for a graph to join {', '.join(wanted[:9])}: {whom}")
        core.branch("sought")
        core.send(others, Seek())
        self._ask()

    def _ask(self) -> None:
        """Ask the manager of the largest system of which this site has heard, by its newest graph."""
        newest: dict[int, Presence] = {}
        for heard in sorted(self._heard.values(), key=lambda heard: heard.graph):
            if heard.size:
                newest[lineage(heard.graph)] = heard
        if newest:
            best = max(newest.values(), key=lambda heard: heard.size)
            self.manager = best.manager
            self._core.send((best.manager,), Ask(Wish(self._core.changes.wanted_groups), best.graph))

    def ask_for_latest(self) -> None:
        """Ask the manager whether there is a later graph, when something here depends on it."""
        core = self._core
        if not core.source.is_uncertain:
            return
        if core.roster.manager != core.site:
            core.send((core.roster.manager,), Seek())
        elif not core.manager.is_busy:
            core.source.note_latest(core.number)

    def note_latest(self, graph: int) -> None:
        """The manager says that there is no later one."""
        self._core.source.note_latest(graph)

    def _may_found(self) -> bool:
        """Whether there is no graph to join: everyone who was found has said so. Of several who seek, the one with the
        smallest name founds. A configured system never ends: its manager comes back."""
        core, heard = self._core, self._heard
        if not self._settled or core.context.groups:
            return False
        return all(
            site in heard and not heard[site].size and (core.site < site or not heard[site].seeking)
            for site in self._others
        )

    def _begin(self, wanted: tuple[str, ...]) -> None:
        """A graph of this site alone, with numbers of its own."""
        core = self._core
        core.branch("founded")
        number = 1 + core.context.random.getrandbits(30) << LINEAGE_BITS
        groups = tuple((group, (core.site,)) for group in wanted)
        core.passage.open("", announce(Open(Roster(number, core.site, (core.site,), groups), (), ())))

    def end(self) -> None:
        """Nothing is sought."""
        self._heard.clear()
        self.manager = ""
        self._core.block("lookup", "")

    # ------------------------------------------------------------------ answers
    def on_seek(self, sender: SiteId, packet: Seek, arrival: Arrival) -> None:
        """Somebody looks for a graph."""
        core = self._core
        if core.is_outside and core.changes.wanted_groups and sender in self._others:
            # Who asks seeks: of the two, only one may found.
            self._heard[sender] = Presence(-1, "", 0, True)
        self.answer(sender)

    def answer(self, to: SiteId) -> None:
        """Say in which graph this site is."""
        core = self._core
        if core.is_outside or core.passage.is_leaving:
            core.send((to,), Presence(-1, "", 0, bool(core.changes.wanted_groups)))
        else:
            size = len(core.roster.sites)
            core.send((to,), Presence(core.number, core.roster.manager, size, False, core.manager.is_busy))

    def on_presence(self, sender: SiteId, packet: Presence, arrival: Arrival) -> None:
        """In which graph another site is."""
        core = self._core
        if not core.is_outside and sender == core.roster.manager and not packet.changing:
            self.note_latest(packet.graph)
        if not core.is_outside or sender not in self._others or not 0 <= packet.size <= SITES_MAX:
            return
        news = packet.size and all(packet.graph > heard.graph for heard in self._heard.values())
        self._heard[sender] = packet
        if not core.changes.wanted_groups:
            return
        if self._may_found():
            self._begin(core.changes.wanted_groups)
        elif news:
            self._ask()
