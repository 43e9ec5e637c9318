"""Reliable broadcast over a network that cannot be programmed (Garcia-Molina, Kogan, Lynch 1987). See README.md."""

from ordercast.protocols.broadcast_tree.options import BroadcastTreeOptions
from ordercast.protocols.broadcast_tree.protocol import BroadcastTree
from ordercast.protocols.broadcast_tree.separate_copies import SeparateCopies, SeparateCopiesOptions

__all__ = ["BroadcastTree", "BroadcastTreeOptions", "SeparateCopies", "SeparateCopiesOptions"]
