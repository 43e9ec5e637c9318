"""A destination set, and a message on its way to one."""

from __future__ import annotations

from ordercast.core import MessageId, Multicast, SiteId
from ordercast.protocols.parts.consensus_packets import InstanceName
from ordercast.protocols.parts.quorum import Quorum
from ordercast.protocols.scalatom.packets import CellNames


class Entry:
    """What a destination, or the source, knows of a message until it is over everywhere."""

    __slots__ = (
        "address",
        "born_tick",
        "delivered",
        "index",
        "instance",
        "message",
        "multicast",
        "ordinal",
        "sequence",
        "settled",
        "stamps",
        "taken",
        "timestamp",
    )

    def __init__(self, message: MessageId, address: Address, ordinal: int, tick: int) -> None:
        self.message = message
        self.address = address
        self.ordinal = ordinal
        """Grows with each message that this site hears of."""
        self.born_tick = tick
        self.multicast: Multicast | None = None
        self.index = 0
        self.timestamp = 0
        """rec-ts, given here; 0: none."""
        self.stamps: dict[SiteId, int] = {}
        """All that is known of the timestamps that the destinations gave."""
        self.sequence = 0
        """sn(m); 0: not decided."""
        self.instance: InstanceName = ()
        """The consensus that decided it."""
        self.delivered = False
        self.settled: set[SiteId] = set()
        """Whose applications have taken it."""
        self.taken = False
        """At the source: these are a qualified majority."""

    @property
    def key(self) -> tuple[int, MessageId]:
        """The order of delivery. Sequence numbers of different messages are often equal, and then the names decide."""
        return self.sequence, self.message


class Address:
    """Some cells. One consensus can order many messages, but only with the same destination set."""

    __slots__ = ("above", "cells", "leaders", "next", "others", "quorum", "ready", "running", "sites")

    def __init__(self, cells: CellNames, quorum: Quorum, site: SiteId) -> None:
        self.cells = cells
        self.quorum = quorum
        self.sites = quorum.sites
        self.others = tuple(other for other in quorum.sites if other != site)
        self.ready: dict[MessageId, Entry] = {}
        """Stamped by a qualified majority, not decided."""
        self.running = False
        """Whether we want the decision of the instance `next`."""
        self.next = 1
        """The first instance that is not decided."""
        self.above: set[int] = set()
        """Instances after it that are."""
        self.leaders: dict[int, SiteId] = {}
        """Instance -> who coordinates its first round: the one whose proposal was decided in the instance before."""

    def on_decided(self, number: int, proposer: SiteId) -> None:
        """One more instance is decided."""
        self.above.add(number)
        self.leaders[number + 1] = proposer
        while self.next in self.above:
            self.above.discard(self.next)
            self.leaders.pop(self.next, None)
            self.next += 1
            self.running = False

    def is_decided(self, number: int) -> bool:
        """Whether an instance is over."""
        return number < self.next or number in self.above

    def participants(self, number: int) -> tuple[SiteId, ...] | None:
        """In the order in which they coordinate; None when the leader depends on a decision that we lack.

        The leader of one batch leads the next. (With a fixed order, each batch would begin with a suspicion as soon as
        the first site is down.)
        """
        leader = self.sites[0] if number == 1 else self.leaders.get(number)
        if leader is None:
            return None
        return self.rotated(self.sites.index(leader))

    def rotated(self, place: int) -> tuple[SiteId, ...]:
        """All sites, beginning with the one at that place."""
        place %= len(self.sites)
        return self.sites[place:] + self.sites[:place]
