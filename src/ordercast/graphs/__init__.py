"""Propagation graphs: forests of sites that order messages where groups meet (Spauster 1991, chapters 3 and 4). What
designs them, balances them, finds ways around extra nodes and measures them; the protocol of the same name runs on one,
and `ordercast graph` shows it before it is deployed."""

from ordercast.graphs.balance import balance
from ordercast.graphs.bypass import Dependence, add_bypasses
from ordercast.graphs.choice import AT_RANDOM, Ties
from ordercast.graphs.design import METHODS, design
from ordercast.graphs.generator import generate
from ordercast.graphs.graph import Graph, Groups, read_groups
from ordercast.graphs.metrics import Metrics, centralised_load, measure, two_phase_load
from ordercast.graphs.prices import price_options
from ordercast.graphs.random_groups import draw_groups, site_names
from ordercast.graphs.spanning import minimum_spanning_tree
from ordercast.graphs.topology import Grid, Links, Topology

__all__ = [
    "AT_RANDOM",
    "METHODS",
    "Dependence",
    "Graph",
    "Grid",
    "Groups",
    "Links",
    "Metrics",
    "Ties",
    "Topology",
    "add_bypasses",
    "balance",
    "centralised_load",
    "design",
    "draw_groups",
    "generate",
    "measure",
    "minimum_spanning_tree",
    "price_options",
    "read_groups",
    "site_names",
    "two_phase_load",
]
