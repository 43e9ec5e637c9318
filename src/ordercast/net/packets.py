"""What sites say to each other to find out whether IP multicast works."""

from __future__ import annotations

from ordercast.core import InstanceId, Packet

NET_INSTANCE: InstanceId = "net"
"""Under this name sites talk about the network itself."""


class Probe(Packet, frozen=True):
    """Sent by IP multicast: who hears this?"""

    background = True
    number: int


class Heard(Packet, frozen=True):
    """The answer, by unicast, from whoever heard a probe by IP multicast."""

    background = True
    number: int
