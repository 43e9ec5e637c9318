"""Reliable broadcast over a network that cannot be programmed (Garcia-Molina, Kogan, Lynch 1987). See README.md."""

from ordercast.protocols.broadcast_tree.options import BroadcastTreeOptions
from ordercast.protocols.broadcast_tree.protocol import BroadcastTree

__all__ = ["BroadcastTree", "BroadcastTreeOptions"]
