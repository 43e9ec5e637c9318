"""How a process comes into a group (5.3.1): it finds a sender, learns the view from it, and a sponsor lets it into the
sender group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.protocols.intergroup.membership.packets import (
    EMPTY,
    SENDERS_MAX,
    SponsorRequest,
    ViewAnswer,
    ViewRequest,
)
from ordercast.protocols.intergroup.membership.states import State
from ordercast.protocols.intergroup.packets import ViewId
from ordercast.protocols.intergroup.senders import SenderGroup

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.membership.member import Member

ASKED_MAX = 3
"""Times `bootstrap_seconds` after which senders that are heard and do not answer are joined by a repair."""


class Bootstrap:
    """A process that looks for a view."""

    def __init__(self, member: Member, lost: tuple[SiteId, ...]) -> None:
        self._member = member
        self._core = member.core
        self._lost = frozenset(lost) - {member.core.site}
        """The senders of its last view, all of which it has lost."""
        self._heard: dict[SiteId, float] = {}
        """Senders, and when they were heard."""
        self._asked = 0
        self._began = member.core.now
        self.attempt = member.core.membership.next_number()

    def hear(self, sender: SiteId) -> None:
        """A sender of some view is there."""
        known = sender in self._heard
        if known or len(self._heard) < SENDERS_MAX:
            self._heard[sender] = self._core.now
        if not known and len(self._heard) == 1:
            self._ask(sender)

    def _ask(self, sender: SiteId) -> None:
        core = self._core
        core.branch("asked-for-view")
        epoch = self._member.epoch
        core.send((sender,), ViewRequest(self._member.group.name, self.attempt, epoch, core.clock.read(core.now)))

    def tick(self) -> None:
        """Ask one after the other; go on without them when nobody is there."""
        core, member = self._core, self._member
        if member.bootstrap is not self:
            return
        patience = core.membership.options.bootstrap_seconds
        elapsed = core.now - self._began
        if elapsed < 0:
            self._began = core.now
        there = sorted(site for site, at in self._heard.items() if 0 <= core.now - at < patience)
        if there and elapsed < ASKED_MAX * patience:
            self._asked += 1
            self._ask(there[self._asked % len(there)])
        elif elapsed >= patience:
            if self._lost:
                self._install_singleton()
            elif member.wants == "sender":
                member.bootstrap = None
                member.course.go(State.BOOTSTRAP_SENDER)
                member.start_repair()
            elif there:
                self._began = core.now
            else:
                self._install_empty()

    def _install_empty(self) -> None:
        """Nobody sends: that is a view, too."""
        member = self._member
        member.bootstrap = None
        member.forget_view(SenderGroup(EMPTY, EMPTY, (), {}))
        if not member.entered or member.last_view != EMPTY:
            member.install_view({})
        member.course.go(State.RECEIVER)
        member.resume()
        member.follow_wish()

    def _install_singleton(self) -> None:
        """5.3.2: a view of this process alone parts it from the one that it has lost; then it merges."""
        member, core = self._member, self._core
        member.bootstrap = None
        member.course.go(State.INSTALL_SINGLETON)
        core.transmission.prepare(member.group)
        sending = member.group.sending
        self._part(1 if sending is None else sending.seq + 1)
        member.resume()
        member.start_repair()

    def _part(self, first: int) -> None:
        """Install the view of this process alone."""
        member, core = self._member, self._core
        view = ViewId(core.clock.tick(core.now), core.site, 0)
        member.forget_view(SenderGroup(view, view, (core.site,), {core.site: first}, member.order.last[0]))
        member.install_view({} if member.last_view is None else {core.site: member.last_view})

    def on_answer(self, packet: ViewAnswer) -> None:
        """A sender has answered: install its view as a receiver."""
        member, core = self._member, self._core
        if packet.attempt != self.attempt or core.site in packet.members:
            return
        if self._lost & set(packet.members):
            self._install_singleton()
            return
        if packet.time < member.order.last[0]:
            # The group has not come so far yet as this process has in a view of its own; it will, for the request has
            # told it the time. (Else: b was alone until 56; c waits at 35 for a sender that is down, and lets b in;
            # what comes next is earlier than what b has delivered.)
            core.branch("not-so-far-yet")
            return
        member.bootstrap = None
        if self._lost:
            # Alone for a moment, though none of the lost ones is there. (Else: d and e lose their only sender, one with
            # its last message and one without; both find c, and both install c's view after the one that they had.)
            self._part(1)
        core.clock.observe(packet.time, core.now)
        senders = SenderGroup(packet.view, packet.epoch, packet.members, packet.first, packet.time)
        member.forget_view(senders)
        member.left = dict(packet.left)
        member.order.begin(packet.time)
        member.order.count = packet.count
        member.proxied = dict(packet.proxied)
        again = member.entered
        member.install_view(packet.came)
        if again:
            # It begins in the middle of the view: what was delivered in it before is not made up for.
            core.activation.tell(member.group, member.group.service)
        member.course.go(State.TO_SENDER if member.wants == "sender" else State.RECEIVER)
        member.resume()
        if member.state is State.TO_SENDER:
            member.begin_sponsorship()
        else:
            member.follow_wish()


class Sponsorship:
    """To Sender: a process that looks for a sponsor, and waits for the PAdd."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._core = member.core
        self._confirmed_at: float | None = None
        self._began = member.core.now
        self._tried = 0
        member.core.transmission.prepare(member.group)

    def tick(self) -> None:
        """Ask a sender, and the next one when the request is not confirmed; a repair, when there is none."""
        member, core = self._member, self._core
        if member.sponsorship is not self:
            return
        patience = core.membership.options.bootstrap_seconds
        if self._confirmed_at is not None and 0 <= core.now - self._confirmed_at < patience:
            return
        self._confirmed_at = None
        sending = member.group.sending
        there = [site for site in member.members if not member.detector.is_suspected(site)]
        if not there or not 0 <= core.now - self._began < ASKED_MAX * patience or sending is None:
            core.branch("no-sponsor")
            member.start_repair()
            return
        sponsor = there[self._tried % len(there)]
        self._tried += 1
        core.send((sponsor,), SponsorRequest(member.group.name, member.epoch, sending.seq + 1))

    def on_confirmed(self) -> None:
        """The PAdd is on its way."""
        self._confirmed_at = self._core.now
