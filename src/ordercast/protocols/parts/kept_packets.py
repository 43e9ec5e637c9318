"""What sites say and log about messages that are kept until all destinations have taken them."""

from __future__ import annotations

from ordercast.core import GroupId, MessageId, Multicast, Record, SiteId
from ordercast.protocols.parts.link import Letter
from ordercast.protocols.parts.multicast import Mark

CellNames = tuple[int, ...]
"""Dst(m): the cells to which a message is addressed, ascending."""

Offsets = tuple[tuple[GroupId, int], ...]
"""How many application messages were delivered in each group of a cell."""


class Settled(Letter, frozen=True):
    """Destination -> destinations and source: my application has taken these messages."""

    background = True
    settled: tuple[MessageId, ...]
    reached: Mark | None
    """How far the sender has come in the order of delivery: these messages are not behind that."""


class Sent(Record, frozen=True):
    """At a source: a message that its destinations must get."""

    multicast: Multicast


class GivenUp(Record, frozen=True):
    """I keep nothing for a site up to this place in the order of delivery."""

    site: SiteId
    through: Mark
