"""The protocols, by name."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from ordercast.core import Protocol, UsageError

_WHERE = {
    "fan-0": ("ordercast.protocols.fan", "Fan0"),
    "fan-1": ("ordercast.protocols.fan", "Fan1"),
    "fan-2": ("ordercast.protocols.fan", "Fan2"),
    "fan-3": ("ordercast.protocols.fan", "Fan3"),
    "sequencer": ("ordercast.protocols.classic.sequencer", "Sequencer"),
    "token": ("ordercast.protocols.classic.token", "Token"),
    "two-phase": ("ordercast.protocols.classic.two_phase", "TwoPhase"),
    "lamport": ("ordercast.protocols.classic.lamport", "Lamport"),
    "propagation-graph": ("ordercast.protocols.propagation_graph", "PropagationGraph"),
    "broadcast-tree": ("ordercast.protocols.broadcast_tree", "BroadcastTree"),
    "scalatom": ("ordercast.protocols.scalatom", "Scalatom"),
    "selective-total": ("ordercast.protocols.selective_total", "SelectiveTotal"),
}

PROTOCOL_NAMES: tuple[str, ...] = tuple(_WHERE)
"""The protocols that can be chosen, in the order in which they are listed."""


def find_protocol(name: str) -> type[Protocol]:
    """The protocol of that name; `UsageError` names the nearest one when there is none."""
    if name not in _WHERE:
        near = get_close_matches(name, PROTOCOL_NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(PROTOCOL_NAMES)}"
        raise UsageError(f"there is no protocol {name!r}; {hint}")
    module, attribute = _WHERE[name]
    protocol: type[Protocol] = getattr(import_module(module), attribute)
    return protocol
