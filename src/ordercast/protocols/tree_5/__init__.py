"""Protocol 5 of Spauster 1991, section 7.2.2: a tree that goes on without its root. See README.md beside this file."""

from ordercast.protocols.tree_5.options import Tree5Options
from ordercast.protocols.tree_5.protocol import Tree5

__all__ = ["Tree5", "Tree5Options"]
