"""What a protocol instance wants done: effects, in the imperative, written to its outbox in order.

The order matters: an `Append` is stable before any later effect of this or any later step leaves the site. Else: a
step appends "accepted v1", sync pending; the next step answers a query with v1; crash; the record is gone; the site
accepts v2.
"""

from __future__ import annotations

import msgspec

from ordercast.core.events import Timer
from ordercast.core.identifiers import ChannelId, GroupId, InstanceId, Multicast, SiteId
from ordercast.core.packets import Packet, Record


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of all effects."""


class Send(Effect, frozen=True):
    """Send a packet to one or several sites. Networks that can reach several with one frame do so."""

    to: tuple[SiteId, ...]
    packet: Packet
    instance: InstanceId | None = None
    """The instance at the receivers; None for the one with the sender's name."""


class Broadcast(Effect, frozen=True):
    """Send a packet to everyone who has joined the channel, at most `ttl` hops away. A sender hears its own
    broadcasts."""

    channel: ChannelId
    packet: Packet
    ttl: int | None = None


class JoinChannel(Effect, frozen=True):
    """Hear what is broadcast on the channel."""

    channel: ChannelId


class LeaveChannel(Effect, frozen=True):
    """Hear the channel no more; nothing happens when it is not joined."""

    channel: ChannelId


class SetTimer(Effect, frozen=True):
    """Fire after so many seconds of the site's clock; a timer of the same name that is running is replaced."""

    timer: Timer
    after_seconds: float


class CancelTimer(Effect, frozen=True):
    """Do not fire; nothing happens when the timer is not running."""

    timer: Timer


class Append(Effect, frozen=True):
    """Write a record to the stable log."""

    record: Record


class Checkpoint(Effect, frozen=True):
    """Replace all records appended so far by one state. It is taken when every earlier effect has left the site.

    (Taken at once: a record "delivered 7" waits for its sync, the checkpoint that includes 7 is written; crash; 7 is
    in the history but was never handed to the application.)
    """

    state: Record


class Deliver(Effect, frozen=True):
    """Hand a message to the application."""

    multicast: Multicast
    order_key: tuple[int, ...] | None = None
    """The total-order key, where the protocol has one: a certificate that verifiers check and never trust."""
    parent: SiteId | None = None
    """The site from which it came along the protocol's propagation path (Spauster's p(b))."""
    view: str | None = None
    service: str | None = None


class Replay(Effect, frozen=True):
    """Hand a message from the log to the application again after a restart.

    Where the crash came between the log's sync and the application, the application has not seen it yet, and the
    runtime makes this the message's delivery.
    """

    multicast: Multicast
    order_key: tuple[int, ...] | None = None
    parent: SiteId | None = None
    view: str | None = None
    service: str | None = None
    seen: bool = False
    """Whether it is for an application that has seen it only, and else for nobody."""


class Redeliver(Effect, frozen=True):
    """Hand to the application what came too late for it (`Protocol.may_deliver`): in its order, before all that
    follows."""


class Withdraw(Effect, frozen=True):
    """What came too late for the application is not for it any more."""


class Rollback(Effect, frozen=True):
    """Take a delivery back, whether the application has seen it or not: the latest one that was not taken back in any
    of its groups. Several are taken back one by one, the latest first.

    The message may be delivered again, at another place. A core that must remember this after a crash logs it first.
    """

    multicast: Multicast
    view: str | None = None
    """After a crash, where the log says that it was taken back: in this view, and the application may have heard of it,
    or may never have seen the message before that view."""
    handed: bool = True
    """Whether this incarnation has handed the message to the application, or what the application has kept holds it."""


class Recall(Effect, frozen=True):
    """An own message stands in the log after a restart, and waits: it was multicast before all that the application
    multicasts now.

    Where the crash came between the log's sync and the first effect that shows it, nobody has heard of it yet, and the
    runtime records its multicast here.
    """

    multicast: Multicast


class InstallView(Effect, frozen=True):
    """Tell the application who is in the group from here on."""

    view: str
    members: tuple[SiteId, ...]
    transitional: tuple[SiteId, ...] = ()
    """Those who come along from the previous view."""
    groups: tuple[GroupId, ...] = ()
    """Whose members these are. None: it is a view of sites, and each group has those of its members that are in it."""
    merged: tuple[SiteId, ...] = ()
    """Those who come from another view, in which they have gone on apart."""
    seconds: float | None = None
    """How long this site has waited for it: nothing was delivered meanwhile. None: that was not measured."""
    line: str = ""
    """What the log says of it; empty: who comes and who goes."""


class ExitGroup(Effect, frozen=True):
    """What is ordered in the group from here on does not reach this site until it enters again: it has left, or the
    others have gone on without it and have forgotten what it lacks."""

    group: GroupId


class EnterGroup(Effect, frozen=True):
    """From here on the site delivers what is ordered in the group. Where the protocol is dynamic, an `InstallView` of
    the group follows at once, before anything is delivered.

    A core that reads this from its log after a crash says it again, at its place among the replays.
    """

    group: GroupId
    offset: int
    """How many application messages (`Multicast.count`) those who were there have delivered in the group before."""


class JoinRefused(Effect, frozen=True):
    """A join that was asked for will not come about."""

    group: GroupId
    reason: str


class Activate(Effect, frozen=True):
    """From here on what is delivered in the group has the service."""

    group: GroupId
    service: str
    source: SiteId | None = None
    """Whose messages are meant; None: everyone's."""
    shared: bool = False
    """Whether all who go on with this process lack the same: what may be missing none of them has delivered."""


class ServiceUnavailable(Effect, frozen=True):
    """A service that was chosen, or is active, cannot be had."""

    group: GroupId
    service: str
    source: SiteId | None
    """Whose messages are meant; None: everyone's."""
    reason: str


class Credit(Effect, frozen=True):
    """How many more messages the application may multicast now. Without any `Credit` there is no limit."""

    available: int
    group: GroupId | None = None
    """To which group; None: to all together."""
    under_way: int | None = None
    """How many of its messages have not had their turn yet; None: those that lack in the credit."""


class Blocked(Effect, frozen=True):
    """Something is in the way of progress; an empty reason says that it no longer is.

    Reasons belong to whoever sets them, and each stands until the same one takes it back. (With one reason for all: a
    source says that nothing is accepted, the member that it waits for is named next, and the source's first success
    erases that name.)
    """

    by: str
    """Who says so: a name within the protocol, such as `source`."""
    reason: str
    group: GroupId | None = None
    """Where there is no progress; None: everywhere."""


class DeclareFailed(Effect, frozen=True):
    """The site counts as failed from a time on that may be past: a lease has ended. It runs, and says
    `DeclareRecovered` when it takes part fully again."""

    since: float
    """By the site's own clock."""


class DeclareRecovered(Effect, frozen=True):
    """The instance takes part fully again after a crash (the papers' *recover*, which follows *awake*)."""
