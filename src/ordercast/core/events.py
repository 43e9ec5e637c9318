"""What happens to a protocol instance: events, in the past tense. Time comes in with each of them."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from ordercast.core.identifiers import ChannelId, GroupId, Multicast, SiteId
from ordercast.core.packets import Packet, Record

Timer = Hashable
"""The name of a timer within its instance: a string, or a tuple of strings and numbers."""


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """How a packet came: what a receiver can see of the way it took."""

    channel: ChannelId | None = None
    """The channel it was broadcast on; None when it was sent to this site."""
    cost: int = 0
    """The cost bit: 1 when it crossed an expensive link (Garcia-Molina, Kogan, Lynch 1987, section 2)."""
    hops: int = 1
    """How many routers away the sender is, from the TTL that was left."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """Base of all events."""


class Started(Event, frozen=True):
    """The instance runs for the first time; there is no history."""


class Recovered(Event, frozen=True):
    """The instance runs again after a crash (the papers' *awake*); this is all that it still knows."""

    records: tuple[Record, ...] = ()
    """What was appended since the checkpoint, in order, as far as it became stable."""
    checkpoint: Record | None = None
    lost: bool = False
    """The log is gone, and an operator knows it (`Contract.repairs`): the site may have promised, accepted and sent
    anything, and must count for no majority until it has learned from the others what it has to know."""


class Received(Event, frozen=True):
    """A packet came from an instance of the same name at another site, or from oneself."""

    sender: SiteId
    packet: Packet
    arrival: Arrival = Arrival()


class TimerFired(Event, frozen=True):
    """A timer that was set has run out. It is gone; set it again if it is to fire again."""

    timer: Timer


class MulticastRequested(Event, frozen=True):
    """The application multicasts a message."""

    multicast: Multicast


class Consumed(Event, frozen=True):
    """The application has taken so many deliveries: buffers are free again."""

    count: int


class Discovered(Event, frozen=True):
    """The driver of a dynamic core (`Contract.dynamic`) has found other processes, or has lost some: told whenever that
    changes."""

    sites: tuple[SiteId, ...]
    """All others that are known so far, sorted."""
    settled: bool
    """Whether the search has had its time: whoever wants to join a group and knows nobody in it may found it."""


class JoinRequested(Event, frozen=True):
    """The application wants to be in a group. The answer is an `EnterGroup` or a `JoinRefused`; what is wrong with the
    request itself is a `UsageError` of this step."""

    group: GroupId
    role: str = ""
    """The one that the protocol gives by itself, when empty."""
    service: str = ""
    """The same."""


class LeaveRequested(Event, frozen=True):
    """The application wants to be out of a group that it is in, or wants to be in. The answer is an `ExitGroup`."""

    group: GroupId


class RoleChosen(Event, frozen=True):
    """The application wants another role in a group that it is in."""

    group: GroupId
    role: str


class ServiceChosen(Event, frozen=True):
    """The application wants another service in a group that it is in. The answer is an `Activate` or a
    `ServiceUnavailable`, for each source where some are named."""

    group: GroupId
    service: str
    sources: tuple[SiteId, ...] = ()
    """Whose messages are meant; none: everyone's."""


class RemovalRequested(Event, frozen=True):
    """An operator wants a site out of every group that is gone for good and cannot leave by itself."""

    site: SiteId
