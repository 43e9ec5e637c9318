"""The propagation graph algorithm: order by a forest of sites (Spauster 1991, chapters 3 and 4). See README.md beside
this file. Beside the protocol, what designs and measures such forests: `ordercast graph` and the papers use it."""

from ordercast.protocols.propagation_graph.balance import balance
from ordercast.protocols.propagation_graph.bypass import Dependence, add_bypasses
from ordercast.protocols.propagation_graph.choice import AT_RANDOM, Ties
from ordercast.protocols.propagation_graph.design import METHODS, design
from ordercast.protocols.propagation_graph.graph import Graph, Groups, read_groups
from ordercast.protocols.propagation_graph.metrics import Metrics, centralised_load, measure, two_phase_load
from ordercast.protocols.propagation_graph.options import PropagationGraphOptions
from ordercast.protocols.propagation_graph.protocol import PropagationGraph
from ordercast.protocols.propagation_graph.random_groups import draw_groups, site_names
from ordercast.protocols.propagation_graph.routes import make_routes
from ordercast.protocols.propagation_graph.spanning import minimum_spanning_tree
from ordercast.protocols.propagation_graph.topology import Grid, Links, Topology

__all__ = [
    "AT_RANDOM",
    "METHODS",
    "Dependence",
    "Graph",
    "Grid",
    "Groups",
    "Links",
    "Metrics",
    "PropagationGraph",
    "PropagationGraphOptions",
    "Ties",
    "Topology",
    "add_bypasses",
    "balance",
    "centralised_load",
    "design",
    "draw_groups",
    "make_routes",
    "measure",
    "minimum_spanning_tree",
    "read_groups",
    "site_names",
    "two_phase_load",
]
