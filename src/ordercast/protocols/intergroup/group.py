"""One process group, as one of its processes sees it."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from ordercast.core import ChannelId, GroupId, SiteId
from ordercast.protocols.intergroup.buffer import MessageBuffer
from ordercast.protocols.intergroup.senders import SenderGroup
from ordercast.protocols.intergroup.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.membership.member import Member
    from ordercast.protocols.intergroup.options import InterGroupOptions
    from ordercast.protocols.intergroup.services import Service
    from ordercast.protocols.intergroup.transmission import Sending


_passed = attrgetter("passed")

PROXIED_SOURCES_MAX = 1024
"""Processes that multicast through proxies, of which it is remembered how far they are."""


def channel_of(group: GroupId) -> ChannelId:
    """Each process group has a channel of its own (4.1)."""
    return f"group/{group}"


class ProcessGroup:
    """Its senders and their streams, what is kept of it, and the service that this process has in it."""

    service: Service

    def __init__(
        self, name: GroupId, site: SiteId, members: tuple[SiteId, ...], senders: SenderGroup, options: InterGroupOptions
    ) -> None:
        self.name = name
        self.channel = channel_of(name)
        self.address = (name,)
        """What its messages are addressed to."""
        self.members = frozenset(members)
        self._site = site
        # A sender has never more under way than it may, and the slack of what was under way when that was reached.
        self._early_max = 2 * options.outstanding_messages_max
        self.streams = {sender: self.new_stream(sender) for sender in senders.members}
        self.member: Member | None = None
        """What this process knows of the views of the group, where they change."""
        self.install(senders)
        self.buffer = MessageBuffer(site, options.buffer_messages_max, options.repair_bytes_max)
        self.sending: Sending | None = None
        """What this process sends, when it is a sender."""
        self.by_proxy: dict[SiteId, int] = {}
        """Source -> the number of its last message that the application has got by way of a proxy, the latest source
        last."""
        self.last_key: tuple[int, SiteId] = (0, "")
        """Timestamp and sender of the last message that was delivered in their order without reliability."""

    def new_stream(self, sender: SiteId) -> Stream:
        """Of a sender from which nothing has come."""
        return Stream(sender, self._early_max)

    def install(self, senders: SenderGroup) -> None:
        """This is the view now; there is a stream for each of its members."""
        self.senders = senders
        self.view = str(senders.view)
        self.known = tuple(sorted({*senders.members, self._site}))
        """The senders and this process."""
        self.own = self.streams.get(self._site) if self._site in senders.members else None
        """The stream of this process, when it is a sender."""
        self.others = tuple(self.streams[sender] for sender in senders.members if sender != self._site)
        self.slowest: Stream | None = None
        """The one of them that has passed the least, and how far it was when they were compared."""
        self.slowest_passed = 0

    def is_new(self, source: SiteId, number: int, service: Service) -> bool:
        """Whether the application has not got this message of a process that multicasts through proxies, nor a later
        one of it. Without reliability, nothing that comes this way when its source is a sender: what that has sent
        since may have come before."""
        if number <= self.by_proxy.get(source, 0) or not service.means(source):
            return False
        if not service.reliable and source in self.streams:
            return False
        self.by_proxy.pop(source, None)
        self.by_proxy[source] = number
        if len(self.by_proxy) > PROXIED_SOURCES_MAX:
            del self.by_proxy[next(iter(self.by_proxy))]
        return True

    def advance(self) -> None:
        """Some sender's time has passed on."""
        member = self.member
        if member is not None:
            order, slowest, horizon = member.order, self.slowest, self.slowest_passed
            # Most packets do not come from the slowest sender: nothing is due, and that is seen without a call. (What
            # waits is later than all that had its turn, so that nothing becomes due while the slowest stands still.)
            if slowest is None or slowest.passed != horizon or horizon > order.reached:
                order.advance()
            if order.halted:
                member.go_on()
            if self.service.follows_group:
                return
        self.service.advance()

    def passed(self, own_time: int) -> int:
        """Nothing with a timestamp up to this is still to come in the group. What this process sends is later than its
        clock."""
        slowest = self.slowest
        # No sender's time runs backwards: while the slowest one stands still, the others need not be asked.
        if slowest is not None and slowest.passed == self.slowest_passed:
            return self.slowest_passed
        if not self.others:
            return own_time
        self.slowest = slowest = min(self.others, key=_passed)
        self.slowest_passed = slowest.passed
        return slowest.passed

    def heard(self, own_time: int) -> int:
        """Of every sender something as late as this was heard."""
        return min([stream.heard for stream in self.others], default=own_time)

    def check_invariants(self) -> None:
        """Of all that belongs to it."""
        self.buffer.check_invariants()
        for stream in self.others:
            if stream.early:
                stream.check_invariants()
