"""Simulated networks, each faithful to its paper."""

from ordercast.sim.networks.base import Network
from ordercast.sim.networks.broadcast import BroadcastMedium
from ordercast.sim.networks.one_channel import OneChannel
from ordercast.sim.networks.point_to_point import PointToPoint
from ordercast.sim.networks.servers import Servers
from ordercast.sim.networks.topology import Topology, square_grid
from ordercast.sim.networks.wide_area import WideArea

__all__ = ["BroadcastMedium", "Network", "OneChannel", "PointToPoint", "Servers", "Topology", "WideArea", "square_grid"]
