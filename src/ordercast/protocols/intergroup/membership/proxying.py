"""Sending without joining the sender group (chapter 8): a receiver multicasts through a sender, its proxy.

Its messages have numbers of their own. Everyone delivers a number once, and none below it afterwards; the source goes
to another proxy only when the view has the first one no longer, and says nothing again that the first one may have
multicast. So each message is delivered at most once, in the order of its source, whoever fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Multicast, SiteId, UsageError, WireError
from ordercast.protocols.intergroup.membership.packets import SENDERS_MAX, Numbers, ProxyRequest
from ordercast.protocols.intergroup.membership.states import State
from ordercast.protocols.intergroup.packets import Proxied

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.membership.roles import InRole

WINDOW = 16
"""Messages that a source may have under way through a proxy: they are said again together, so that a proxy may miss
some."""


class Proxying:
    """One process in one group, as a source and as a proxy."""

    def __init__(self, member: InRole) -> None:
        self._member = member
        self._core = member.core
        self.pending: dict[int, Multicast] = {}
        """Of this source: number -> what has not had its turn yet, ascending."""
        self._anew = 0
        """The first number since this process has lost its view, and what was under way in it."""
        self._proxy: SiteId | None = None
        self._asked = 0
        """The last number that a proxy was asked for."""
        self._forwarded: Numbers = {}
        """As a proxy: source -> the number of its last message that this process has multicast in the epoch."""
        self._epoch = member.epoch

    # ------------------------------------------------------------------ as a source
    def multicast(self, multicast: Multicast) -> None:
        """The application multicasts."""
        group = self._member.group
        if self._member.state is State.RECEIVER and not self._member.members:
            raise UsageError(f"nobody sends to {group.name}, so that nobody could be a proxy of {self._core.site}")
        number = self._core.membership.by_proxy(group.name) + 1
        self._core.membership.keep_by_proxy(group.name, number)
        before = max(self.pending, default=0)
        self.pending[number] = multicast
        self._member.told_credit -= 1
        self._core.transmission.note_placeless(group.name, True)
        if self._find_proxy():
            self._request(number, before)

    def _find_proxy(self) -> bool:
        """Whether there is one that may be asked. (Changed while the first one is in the view: it multicasts 1 and 2
        late, the other one 2 again and 3 before that, and 1 comes after 3.)"""
        member, core = self._member, self._core
        if member.state is not State.RECEIVER or member.order.halted:
            return False
        if self._proxy not in member.members:
            self._give_up_what_was_asked()
            self._proxy = core.context.random.choice(member.members) if member.members else None
        return self._proxy is not None

    def _give_up_what_was_asked(self) -> None:
        """The proxy is gone, with what it may have multicast where this process cannot see it. (Said again to another
        one: b, p's proxy, is cut off from c. b delivers p's m, and then c's n, which has come; c has delivered n, and
        m, said again, comes behind it.)"""
        if any(number <= self._asked for number in self.pending):
            left = {number: multicast for number, multicast in self.pending.items() if number > self._asked}
            self._anew = min(left, default=self._core.membership.by_proxy(self._member.group.name) + 1)
            self._set_pending(left)

    def _request(self, number: int, before: int) -> None:
        core = self._core
        if self._proxy is not None:
            self._asked = max(self._asked, number)
            time = core.clock.read(core.now)
            anew, multicast = number == self._anew, self.pending[number]
            request = ProxyRequest(self._member.group.name, number, before, time, anew, multicast)
            core.send((self._proxy,), request)

    def tick(self) -> None:
        """Say again what has not had its turn."""
        if self.pending and self._find_proxy():
            before = 0
            for number in self.pending:
                self._request(number, before)
                before = number

    def begin_anew(self) -> None:
        """The view is lost: what was under way in it is not said in another one, where its causes may be missing."""
        self._set_pending({})
        self._anew = self._core.membership.by_proxy(self._member.group.name) + 1

    def settled(self, number: int) -> None:
        """A message of this source has had its turn."""
        self._set_pending({each: multicast for each, multicast in self.pending.items() if each > number})
        self._core.transmission.give_credit(self._member.group)

    def _set_pending(self, pending: dict[int, Multicast]) -> None:
        had_some, self.pending = bool(self.pending), pending
        if had_some and not pending:
            self._core.transmission.note_placeless(self._member.group.name, False)

    # ------------------------------------------------------------------ as a proxy
    def on_request(self, source: SiteId, packet: ProxyRequest) -> None:
        """Multicast it, unless that has happened, or something before it has not come, or there is no room now: the
        source says it again."""
        member, core = self._member, self._core
        if packet.multicast.id.source != source or packet.multicast.groups != member.group.address:
            raise WireError(f"{packet.multicast.id} is no message of {source} to {member.group.name}")
        if member.state is not State.SENDER or source in member.members:
            return
        if self._epoch != member.epoch:
            self._epoch, self._forwarded = member.epoch, {}
        known = max(member.proxied.get(source, 0), self._forwarded.get(source, 0))
        if packet.number <= known:
            core.branch("proxied-already")
        elif packet.before <= known and (source in self._forwarded or len(self._forwarded) < SENDERS_MAX):
            core.clock.observe(packet.time, core.now)
            proxied = Proxied(core.site, packet.number, packet.anew)
            if core.transmission.forward(member.group, packet.multicast, proxied):
                core.branch("proxied")
                self._forwarded[source] = packet.number
