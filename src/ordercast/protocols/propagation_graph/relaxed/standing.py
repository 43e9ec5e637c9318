"""What an operator is told: which graph it is, who is out of it, since when and why, and whose lease lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ordercast.core import GroupId, SiteId
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph


class Standing:
    """One site's knowledge of it."""

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        self._out_since: dict[SiteId, float] = {}
        """Who is out -> since when, by this site's clock."""
        self._stopped_at: float | None = None

    def note_stop(self) -> None:
        """From here on nothing is delivered, until the next graph."""
        if self._stopped_at is None:
            self._stopped_at = self._core.now

    def begin(self, graph: Graph) -> float | None:
        """A graph begins; how long this site has stood still for it, if it has."""
        core = self._core
        self._out_since = {site: self._out_since.get(site, core.now) for site in graph.away}
        stopped, self._stopped_at = self._stopped_at, None
        return None if stopped is None else core.now - stopped

    def line(self, group: GroupId, before: Graph, seconds: float | None, undone: str = "") -> str:
        """One line for the log, where members of the group have gone or come back; empty: nobody has."""
        core, graph = self._core, self._core.graph
        members = dict(graph.groups)[group]
        out = [site for site in members if site in graph.away and site not in before.away]
        back = [site for site in members if site in graph.returned]
        words = [*(f"{site} is out ({dict(graph.reasons).get(site, 'no answer')})" for site in out[:9])]
        words += [f"{site} is back" for site in back[:9]]
        words += [undone] if undone else []
        if not words:
            return ""
        entry = core.routes.ways[(group,), None].entry
        words.append(f"graph {graph.number} orders {group} at {entry}")
        return "; ".join(words if seconds is None else [*words, f"{seconds:.1f} s"])

    def describe(self, now: float) -> dict[str, Any]:
        """For `Node.status()`."""
        core, graph = self._core, self._core.graph
        reasons, until = dict(graph.reasons), core.shares.until
        return {
            "number": graph.number,
            "manager": graph.manager,
            "sites": list(graph.present),
            "groups": {group: list(members) for group, members in core.roster.groups},
            "out": {
                site: {"seconds": round(now - self._out_since.get(site, now), 1), "why": reasons.get(site, "no answer")}
                for site in graph.away
            },
            "lease": graph.manager if until is not None and now < until else None,
            "lease_seconds": 0.0 if until is None else round(max(0.0, until - now), 3),
            "delivers": core.shares.is_held(now) and core.is_running,
        }
