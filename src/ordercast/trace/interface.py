"""What a site tells its trace, in a simulation and on sockets: one interface, and one description of a packet.

It needs neither pyarrow nor files, so the interpreter and both drivers can name it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from ordercast.core import GroupId, InstanceId, MessageId, Multicast, Packet, SiteId, encoded_size
from ordercast.core.effects import Activate, Deliver, InstallView, Replay, Rollback


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """A packet as it was sent, with what the trace wants to know about it; the same for all copies on their ways."""

    sender: SiteId
    instance: InstanceId
    packet: Packet
    name: str = ""
    served: tuple[MessageId, ...] | None = None
    size: int = 0


def describe(sender: SiteId, instance: InstanceId, packet: Packet) -> Envelope:
    """An envelope with everything in it; a run that is not traced does without."""
    served = None if packet.background else packet.served()
    return Envelope(sender, instance, packet, type(packet).__name__, served, encoded_size(packet))


def is_before(view: str | None, before: str | None) -> bool:
    """Whether a numbered view is earlier than another one, or no other one is given."""
    return before is None or int(view or 0) < int(before)


class SiteTrace(Protocol):
    """Takes down what happens at one site, in order. A recorder that has a clock of its own writes that time instead
    of the one that it is given."""

    def send(self, time: float, peer: SiteId | None, envelope: Envelope, number: int | None = None) -> None:
        """A packet leaves for `peer` (None: a network multicast); `number` is the network's, where packets have one."""

    def receive(self, time: float, envelope: Envelope, number: int | None = None, cost: int = 0) -> None:
        """A packet reaches the protocol; `cost` is its cost bit."""

    def expect(self, multicast: Multicast) -> None:
        """The application has handed over a message that is not stable yet."""

    def multicast(self, time: float, multicast: Multicast, service: str | None = None) -> None:
        """The source multicasts, perhaps through a proxy; recorded before the first send of it."""

    def recall(self, time: float, multicast: Multicast) -> None:
        """An own message stands in the log after a restart; it is recorded as multicast unless it was."""

    def deliver(self, time: float, effect: Deliver | Replay) -> None:
        """A message goes to the application."""

    def has_seen(self, message: MessageId, before: str | None = None) -> bool:
        """Whether the message was delivered to the application before, and not taken back; in a view `before` this one
        (views that have numbers), if one is given."""

    def replay(self, time: float, effect: Replay) -> bool:
        """A message from the log goes to the application again; whether the application knows it already."""

    def rollback(self, time: float, effect: Rollback) -> None:
        """A delivery is taken back."""

    def view(self, time: float, effect: InstallView) -> None:
        """The site installs a view."""

    def join(self, time: float, group: GroupId, offset: int) -> None:
        """The site delivers what is ordered in the group from here on, where it goes on with this offset; nothing is
        recorded when it did so already."""

    def leave(self, time: float, group: GroupId) -> None:
        """The site is owed nothing more of the group."""

    def activate(self, time: float, effect: Activate) -> None:
        """The site's deliveries have a service from here on."""

    def declare_failed(self, time: float, seconds: float) -> None:
        """The site has counted as failed for so many seconds, but not for longer than since its last row; it is
        awake."""

    def recover(self, time: float) -> None:
        """The site takes part fully again."""
