"""The parts of which each form of delivery consists."""

from __future__ import annotations

from ordercast.core import Part
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.propagation_graph.changes import Changes
from ordercast.protocols.propagation_graph.lookup import Lookup
from ordercast.protocols.propagation_graph.manager import Manager
from ordercast.protocols.propagation_graph.passage import Passage
from ordercast.protocols.propagation_graph.relaxed.acceptor import Acceptor
from ordercast.protocols.propagation_graph.relaxed.catching_up import CatchingUp
from ordercast.protocols.propagation_graph.relaxed.coordinator import Coordinator
from ordercast.protocols.propagation_graph.relaxed.history import HistoryKeeping
from ordercast.protocols.propagation_graph.relaxed.joining import Finding, Joining
from ordercast.protocols.propagation_graph.relaxed.pending import Pending
from ordercast.protocols.propagation_graph.relaxed.preparing import Preparing
from ordercast.protocols.propagation_graph.relaxed.rejoining import Rejoining
from ordercast.protocols.propagation_graph.relaxed.shares import Shares
from ordercast.protocols.propagation_graph.relaxed.stable import Recalling
from ordercast.protocols.propagation_graph.relaxed.upkeep import Upkeep
from ordercast.protocols.propagation_graph.relaxed.watching import Watching
from ordercast.protocols.propagation_graph.source import Source

ROLES: tuple[type[Part], ...] = (Source, Passage, Manager, Changes, Lookup)
"""Besides repair and recovery: `delivery = "atomic"`."""
RELAXED_ROLES: tuple[type[Part], ...] = (
    Upkeep,
    FailureDetector,
    HistoryKeeping,
    Shares,
    Watching,
    Acceptor,
    Coordinator,
    Preparing,
    CatchingUp,
    Pending,
    Rejoining,
    Joining,
    Finding,
    Recalling,
)
"""`delivery = "non-atomic"`."""
