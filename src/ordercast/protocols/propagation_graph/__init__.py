"""The propagation graph algorithm: order by a forest of sites (Spauster 1991, chapters 3 and 4). See README.md beside
this file; what designs and measures such forests is `ordercast.graphs`."""

from ordercast.protocols.propagation_graph.options import PropagationGraphOptions
from ordercast.protocols.propagation_graph.protocol import PropagationGraph

__all__ = ["PropagationGraph", "PropagationGraphOptions"]
