"""The artefacts by name. A module is imported when its artefact is asked for, so that listing them needs nothing."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from ordercast.core import UsageError

if TYPE_CHECKING:
    from ordercast.papers.artefact import Artefact

ARTEFACTS: dict[str, tuple[str, str]] = {
    "spauster-table-2-1": (
        "ordercast.papers.spauster.table_2_1",
        "which algorithm gives which order on which network (Table 2.1)",
    ),
    "spauster-classic-delay": (
        "ordercast.papers.spauster.classic_delay",
        "packets and delay of the classic algorithms (Tables 4.1 and 4.2)",
    ),
    "spauster-classic-load": (
        "ordercast.papers.spauster.classic_load",
        "load of the classic algorithms (4.1.2, the other curves of Graphs 4.4 and 4.5)",
    ),
    "spauster-table-4-1": (
        "ordercast.papers.spauster.tables_4:TABLE_4_1",
        "messages and delay, point-to-point, with the propagation graph (Table 4.1)",
    ),
    "spauster-table-4-2": (
        "ordercast.papers.spauster.tables_4:TABLE_4_2",
        "the same on a broadcast medium (Table 4.2)",
    ),
    "spauster-graph-4-1": (
        "ordercast.papers.spauster.graphs_depth:GRAPH_4_1",
        "depth of propagation graphs over the number of sites (Graph 4.1)",
    ),
    "spauster-graph-4-2": (
        "ordercast.papers.spauster.graphs_depth:GRAPH_4_2",
        "depth over the size of groups (Graph 4.2)",
    ),
    "spauster-graph-4-3": (
        "ordercast.papers.spauster.graphs_depth:GRAPH_4_3",
        "extra nodes over the number of sites (Graph 4.3)",
    ),
    "spauster-exponential-sizes": (
        "ordercast.papers.spauster.graphs_depth:EXPONENTIAL",
        "depth with exponential group sizes (4.1.2)",
    ),
    "spauster-graph-4-4": (
        "ordercast.papers.spauster.graphs_load:GRAPH_4_4",
        "load over the number of sites (Graph 4.4)",
    ),
    "spauster-graph-4-5": (
        "ordercast.papers.spauster.graphs_load:GRAPH_4_5",
        "load over the size of groups (Graph 4.5)",
    ),
    "spauster-graph-4-6": (
        "ordercast.papers.spauster.graphs_random:GRAPH_4_6",
        "Heuristic I and random graphs, 20 groups (Graph 4.6)",
    ),
    "spauster-graph-4-7": (
        "ordercast.papers.spauster.graphs_random:GRAPH_4_7",
        "Heuristic I and random graphs, 40 groups (Graph 4.7)",
    ),
    "spauster-graph-4-8": (
        "ordercast.papers.spauster.graphs_topology:GRAPH_4_8",
        "grid: Heuristics I and II, spanning trees, 20 groups (Graph 4.8)",
    ),
    "spauster-graph-4-9": (
        "ordercast.papers.spauster.graphs_topology:GRAPH_4_9",
        "the same, 40 groups (Graph 4.9)",
    ),
    "spauster-graph-4-10": (
        "ordercast.papers.spauster.graphs_topology:GRAPH_4_10",
        "grid: Heuristics II and III, spanning trees, 20 groups (Graph 4.10)",
    ),
    "spauster-graph-4-11": (
        "ordercast.papers.spauster.graphs_topology:GRAPH_4_11",
        "the same, 40 groups (Graph 4.11)",
    ),
    "spauster-graph-4-12": (
        "ordercast.papers.spauster.graphs_topology:GRAPH_4_12",
        "grid: Heuristic III, spanning and shortest path trees, 20 groups (Graph 4.12)",
    ),
    "spauster-graph-4-13": (
        "ordercast.papers.spauster.graphs_topology:GRAPH_4_13",
        "the same, 40 groups (Graph 4.13)",
    ),
    "spauster-graph-4-14": (
        "ordercast.papers.spauster.graphs_topology:GRAPH_4_14",
        "grid: extra nodes of all of them, 20 groups (Graph 4.14)",
    ),
    "spauster-bounds": (
        "ordercast.papers.spauster.bounds",
        "the bounds of Protocols 1 to 4 (6.4, 7.2.1)",
    ),
    "spauster-change-cost": (
        "ordercast.papers.spauster.change_cost",
        "what a change of the groups costs, with the propagation graph and with the token (chapter 5)",
    ),
    "spauster-reconfiguration-cost": (
        "ordercast.papers.spauster.reconfiguration_cost",
        "what it costs to go on without a site that has failed (7.1.1, 7.3)",
    ),
    "spauster-order-options": (
        "ordercast.papers.spauster.order_options",
        "orders that bypass edges take and entry at the root gives (2.1, 3.5)",
    ),
    "garcia-molina-cost": (
        "ordercast.papers.garcia_molina.cost",
        "expensive packets and delay, broadcast tree and separate copies (sections 1, 3 and 4)",
    ),
    "garcia-molina-reliability": (
        "ordercast.papers.garcia_molina.reliability",
        "brief openings of the network: how many are used, and the price (section 5)",
    ),
    "garcia-molina-graph": (
        "ordercast.papers.garcia_molina.graph",
        "the host parent graph organises itself, breaks and heals (Figure 3.2, 4.1 to 4.3)",
    ),
    "berket-hierarchy": (
        "ordercast.papers.berket.hierarchy",
        "up to 2,000 control processes organise themselves, and heal (chapter 2)",
    ),
    "berket-membership": (
        "ordercast.papers.berket.membership",
        "packets and time of changes of the sender group (Berket 2000, chapter 5)",
    ),
    "berket-repair": (
        "ordercast.papers.berket.repair",
        "requests and repairs for each loss that many receivers share (chapter 3, 7.1.3)",
    ),
    "berket-overhead": (
        "ordercast.papers.berket.overhead",
        "headers, Keep Alives and control messages beside the data (7.1.3, Table 7.5)",
    ),
    "berket-throughput": (
        "ordercast.papers.berket.throughput",
        "messages a second, simulated and live (Tables 7.1 and 7.2)",
    ),
    "berket-latency": (
        "ordercast.papers.berket.latency",
        "how long deliveries take, simulated and live (Tables 7.3 and 7.4, Figures 7.1 to 7.3)",
    ),
    "berket-wide-area": (
        "ordercast.papers.berket.wide_area",
        "the order of all and no order between two places (Figure 7.4, Equation 7.2)",
    ),
    "tachikawa-retransmissions": (
        "ordercast.papers.tachikawa.retransmissions",
        "messages sent again, selectively and by go-back-n (Figures 8 and 9)",
    ),
    "tachikawa-processing": (
        "ordercast.papers.tachikawa.processing",
        "what recovery costs each process (Figure 10)",
    ),
    "tachikawa-overrun": (
        "ordercast.papers.tachikawa.overrun",
        "overhead against the speed of channel and receivers",
    ),
}
"""Name -> its module, which has an `ARTEFACT` (or, where it has several, `module:NAME`), and what it is."""


def find_artefact(name: str) -> Artefact:
    """The artefact of that name; `UsageError` names the nearest one when there is none."""
    if name not in ARTEFACTS:
        near = get_close_matches(name, ARTEFACTS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see ordercast reproduce --list"
        raise UsageError(f"there is no artefact {name!r}; {hint}")
    module, _, attribute = ARTEFACTS[name][0].partition(":")
    artefact: Artefact = getattr(import_module(module), attribute or "ARTEFACT")
    return artefact
