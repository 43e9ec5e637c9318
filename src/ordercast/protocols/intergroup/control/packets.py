"""What control processes say to each other (2.2.2), and the messages that Figure 2.4 names and does not define.

`type` and `senderID` of the text are the packet's own: its tag, and whom the network names as its sender.
"""

from __future__ import annotations

import msgspec

from ordercast.core import ChannelId, Packet, SiteId
from ordercast.protocols.intergroup.control.report import NO_DATA, ControlData

COORDINATORS: ChannelId = "control/coordinators"
"""Where the coordinators, and those who start, hear GCons."""

SEARCH: ChannelId = "control/search"
"""Where coordinators hear those who look for one."""


def local_channel(coordinator: SiteId) -> ChannelId:
    """Where the local group of a coordinator talks."""
    return f"control/local/{coordinator}"


class TimestampPair(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """TP (2.2.1): of the last control message that a process, the reporter, has received from another one."""

    t1: float
    """When it was sent, by its sender's clock."""
    t2: float
    """When it was received, by the reporter's clock."""


TimestampPairs = dict[SiteId, TimestampPair]
"""Whom the reporter has heard -> the pair. (The text turns the roles round for CCon and GCon: then nobody could tell
what the pair of a message is about without having sent the message itself.)"""


class LCon(Packet, frozen=True):
    """Local control message: a child to its local group. One that names another coordinator than the one on whose
    channel it comes is its sender's farewell."""

    background = True

    ttl: int
    timestamp: float
    coordinator: SiteId
    num_local: int
    timestamp_pairs: TimestampPairs
    data: ControlData = NO_DATA
    """The local acknowledgements (3.5)."""


class CCon(Packet, frozen=True):
    """Coordinator control message: a coordinator to its local group."""

    background = True

    ttl: int
    """The distance in hops to the child that is furthest away, too."""
    timestamp: float
    far_distance: float
    """Seconds to the child that is furthest away."""
    num_local: int
    num_coords: int
    timestamp_pairs: TimestampPairs
    local_distances: dict[SiteId, float]
    """Child -> seconds."""
    coord_distances: dict[SiteId, float]
    """Coordinator -> seconds."""
    data: ControlData = NO_DATA
    """The system acknowledgements (3.5)."""
    global_seconds: float = 0.0
    """How long this coordinator waits between two GCons now: a child cannot know otherwise how long a round takes."""


class GCon(Packet, frozen=True):
    """Global control message: a coordinator to the coordinators."""

    background = True

    timestamp: float
    num_local: int
    num_coords: int
    timestamp_pairs: TimestampPairs
    data: ControlData = NO_DATA
    """The group acknowledgements (3.5)."""
    leaving: bool = False
    """Whether the sender is in the state TO_CHILD: it should not count any more for those who decide whether they can
    leave, too."""


class RingQuery(Packet, frozen=True):
    """Whoever looks for a coordinator asks those within a ring: the request of 2.5 (1)."""

    background = True

    number: int
    """Of the search, so that answers to an earlier one are not taken for answers to this one."""
    ttl: int


class SearchResponse(Packet, frozen=True):
    """A coordinator that allows new children answers: the response of 2.5 (2)."""

    background = True

    number: int
    num_local: int
    num_coords: int


class CoordinatorLeave(Packet, frozen=True):
    """To the local group: find another coordinator. To the coordinators: the sender is none any more."""

    background = True


LocalPacket = LCon | CCon


def approximate_size(packet: LCon | CCon | GCon, name_bytes: int) -> int:
    """Bytes of a control message on the wire, where names take so many, without encoding it: receivers want to know it
    of everything that they hear (Figure 2.3)."""
    size = 40 + len(packet.timestamp_pairs) * (20 + name_bytes) + len(packet.data.reports) * (18 + 2 * name_bytes)
    if type(packet) is CCon:
        size += (len(packet.local_distances) + len(packet.coord_distances)) * (10 + name_bytes)
    return size
