"""What beacons say to each other (Berket 2000, 6.2.4): beside the protocol, as bare datagrams, and as messages to a
group."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ordercast.core import InstanceId, Packet, SiteId
from ordercast.node.state_packets import Number

BEACON_INSTANCE: InstanceId = "beacon"
"""Under this name beacons talk without a protocol."""

SOURCES_MAX = 1024
"""Of which a beacon tells what it has heard."""

REPORT_BYTES_MAX = 1 << 19
"""Of all sources, by two ways, a quarter of a kilobyte each."""

Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]


class Echo(msgspec.Struct, frozen=True, array_like=True):
    """The last beacon of somebody that was heard: with it, its sender knows how long there and back takes, whatever the
    clocks show."""

    sent: Seconds
    """By the clock of its sender, as it said."""
    held: Seconds
    """How long ago that was, by the clock of whoever tells it."""


class Beacon(Packet, frozen=True):
    """Somebody is there."""

    background = True
    life: Number
    """Another one after each start, when numbers begin anew."""
    number: Number
    sent: Seconds
    echoes: Annotated[dict[SiteId, Echo], msgspec.Meta(max_length=SOURCES_MAX)]


class Told(Packet, frozen=True):
    """What somebody has heard, as it tells the group, too: where the protocol waits for somebody, nothing else would be
    known of it."""

    background = True
    report: Annotated[bytes, msgspec.Meta(max_length=REPORT_BYTES_MAX)]


BEACON_PACKETS: tuple[type[Packet], ...] = (Beacon, Told)
