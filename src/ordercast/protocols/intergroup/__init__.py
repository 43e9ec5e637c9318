"""InterGroup: delivery services that each receiver chooses (Berket 2000). See README.md beside this file."""

from ordercast.protocols.intergroup.dynamic import DynamicInterGroup
from ordercast.protocols.intergroup.options import InterGroupOptions
from ordercast.protocols.intergroup.protocol import InterGroup

__all__ = ["DynamicInterGroup", "InterGroup", "InterGroupOptions"]
