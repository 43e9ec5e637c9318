"""What sites say on the channel. Everyone hears everything, whoever it is for."""

from __future__ import annotations

import msgspec

from ordercast.core import MessageId, Multicast, Packet, SiteId, WireError

Epoch = tuple[int, SiteId, int]
"""Names an agreement, and the time of the cluster that begins with it: the cluster's number, who proposed it, and how
many resets it has had since. Resets after the same loss that several sites start are one and the same."""

NO_EPOCH: Epoch = (0, "", 0)

Vector = tuple[int, ...]
"""A number for each site of a cluster, in the order of its members."""


def check_lengths(size: int | None, *vectors: tuple[object, ...]) -> None:
    """Raise `WireError` unless all have one length: this one, where it is known."""
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1 or (size is not None and lengths != {size}):
        raise WireError(
            f"vectors of {sorted(lengths)} numbers do not fit a cluster of {size or 'any number of'} processes"
        )


class Data(Packet, frozen=True):
    """DT: a message, with everything that its source has to say about what it has accepted (3.1)."""

    epoch: Epoch
    tseq: int
    pseq: Vector
    ack: Vector
    """TREQ of the source: what it expects next from each site."""
    pak: Vector
    """What it has pre-acknowledged of each site, likewise."""
    buf: int
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class ReceiveReady(Packet, frozen=True):
    """RR: the same without a message; its numbers are those that the next message will have."""

    background = True
    epoch: Epoch
    tseq: int
    pseq: Vector
    ack: Vector
    pak: Vector
    buf: int


class Request(Packet, frozen=True):
    """Send me again what you sent me with these partial sequence numbers. During an agreement, when what was lost did
    not come by itself; in the SP service at any time."""

    background = True
    epoch: Epoch
    source: SiteId
    missing: tuple[int, ...]


class Head(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which message: what others must know of a sort point."""

    source: int
    tseq: int
    pseq: Vector
    destinations: tuple[int, ...]
    """Places in the cluster."""


class Reset(Packet, frozen=True):
    """RST: I have lost something; or, with other members: let us establish a cluster."""

    background = True
    agreement: Epoch
    members: tuple[SiteId, ...]
    incarnations: Vector
    """Of each member, which one is meant: one that has crashed and come back since is not."""
    base: Epoch
    treq: Vector
    preq: Vector

    def check(self, size: int | None) -> None:
        """Raise `WireError` when it cannot be of a cluster of that size, or of any."""
        check_lengths(None, self.members, self.incarnations)
        check_lengths(size, self.treq, self.preq)


class ResetPreAck(Packet, frozen=True):
    """RST_PAK: I send nothing more in the old epoch; this is how far I am, and from where my log may change."""

    background = True
    agreement: Epoch
    members: tuple[SiteId, ...]
    incarnations: Vector
    base: Epoch
    """The epoch that I am in."""
    restored: Epoch
    """A later one for which I have said `Restored`, without knowing whether anyone began it."""
    restored_members: tuple[SiteId, ...]
    treq: Vector
    pre_acknowledged: Vector
    delivered: Vector

    def check(self, size: int | None) -> None:
        """Raise `WireError` when it cannot be of a cluster of that size, or of any."""
        check_lengths(None, self.members, self.incarnations)
        check_lengths(size, self.treq, self.pre_acknowledged, self.delivered)


class ResetAck(Packet, frozen=True):
    """RST_ACK: the sort line as my log has it, what I have lost, what I have sent."""

    background = True
    agreement: Epoch
    round: int
    treq: Vector
    preq: Vector
    beyond: tuple[Vector, ...]
    """Of each source, the partial sequence numbers from `preq` on that I do have."""
    pseq: Vector
    orphans: tuple[tuple[int, int], ...]
    """Messages in my log whose sources are no longer with us: place of the source, TSEQ."""
    sort_point: Head | None

    def check(self) -> None:
        """Raise `WireError` when it cannot be of any cluster."""
        check_lengths(None, self.treq, self.preq, self.beyond, self.pseq)
        size = len(self.treq)
        places = [source for source, _ in self.orphans]
        if self.sort_point is not None:
            check_lengths(size, self.sort_point.pseq)
            places += (self.sort_point.source, *self.sort_point.destinations)
        if not all(0 <= place < size for place in places):
            raise WireError(f"a cluster of {size} processes has no places {places}")


class Retransmission(Packet, frozen=True):
    """A message again, during an agreement (or, in the SP service, at any time)."""

    agreement: Epoch
    source: int
    data: Data

    def served(self) -> tuple[MessageId, ...]:
        return (self.data.multicast.id,)


class Restored(Packet, frozen=True):
    """I have everything that is to be delivered before the new epoch, and know in which order."""

    background = True
    agreement: Epoch


class Abort(Packet, frozen=True):
    """The cluster is over."""

    background = True
    epoch: Epoch
    reason: str


class Apply(Packet, frozen=True):
    """I am in no cluster and want to be in one."""

    background = True
    number: int
    """The highest number of an epoch that I have heard of."""
    incarnation: int
