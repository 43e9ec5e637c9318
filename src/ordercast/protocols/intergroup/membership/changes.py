"""Voluntary changes of the sender group (5.2.2, 5.3): PAdd and PLeave, in the order of Data, without a repair."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from ordercast.core import SiteId
from ordercast.core.effects import Broadcast
from ordercast.protocols.intergroup.membership.packets import EMPTY
from ordercast.protocols.intergroup.membership.states import State
from ordercast.protocols.intergroup.packets import Data, PAdd, PLeave, Retransmission, ViewId
from ordercast.protocols.intergroup.senders import SenderGroup

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.membership.member import Member

FAREWELLS = 4
"""So often a PLeave is said again after it was delivered here: its sender says nothing more by which others could find
out that they lack it."""

HURRY = 20
"""Periods of the membership timer after which a process leaves, though messages of it wait for flow control."""


class Changes:
    """The changes of one group, as one process makes and takes them."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._farewell: Data | None = None
        self._farewells = 0
        self._waited = 0

    def tick(self) -> None:
        """Say farewell again."""
        member = self._member
        if self._farewell is not None and member.repair is None and member.reception is None:
            self._farewells -= 1
            member.core.outbox.append(Broadcast(member.group.channel, Retransmission(self._farewell)))
            if not self._farewells:
                self._farewell = None

    # ------------------------------------------------------------------ making them
    def add(self, proc: SiteId, first_seq: int) -> None:
        """As a sponsor: let somebody into the sender group."""
        member = self._member
        if proc not in member.group.streams and proc not in member.members:
            member.core.branch("sponsored")
            member.core.transmission.send_change(member.group, PAdd(proc, first_seq))

    def leave(self) -> None:
        """Say that this process sends no more, when all that it has accepted is sent."""
        member = self._member
        sending = member.group.sending
        self._waited += 1
        if sending is not None and sending.waiting and self._waited < HURRY:
            return
        self._waited = 0
        member.course.go(State.TO_RECEIVER)
        member.core.transmission.drop_waiting(member.group)
        self._farewell = member.core.transmission.send_change(member.group, PLeave())
        self._farewells = FAREWELLS
        member.group.advance()

    # ------------------------------------------------------------------ taking them
    def expect(self, change: PAdd) -> None:
        """A PAdd has its turn in the order of its source: what the new sender says may come before it has its turn
        among all. (It is later than what had its turn so far, and not necessarily later than this PAdd: two sponsors
        may have said the same, and the other one earlier.)"""
        member = self._member
        group, proc = member.group, change.proc
        if proc == member.core.site or proc in group.streams or change.first_seq <= member.left.get(proc, 0):
            return
        stream = group.streams[proc] = group.new_stream(proc)
        # What it has said as a sender before is over. (Else: p leaves, is added again, and its message 2 comes a second
        # time: a service without reliability, which has delivered it, would take it for new.)
        stream.delivered = change.first_seq - 1
        stream.begin(change.first_seq, member.order.reached)
        member.core.reception.catch_up(group, stream)

    def apply(self, sender: SiteId, data: Data) -> None:
        """A change has its turn in the order of the group: the view changes here."""
        if isinstance(data.change, PAdd):
            self._add(sender, data, data.change)
        else:
            self._remove(sender, data)

    def _add(self, sponsor: SiteId, data: Data, change: PAdd) -> None:
        member = self._member
        group, proc, site = member.group, change.proc, member.core.site
        sending = group.sending
        if proc in member.members or change.first_seq <= member.left.get(proc, 0):
            # Two sponsors, or one of an earlier join.
            member.core.branch("added-already")
            return
        if proc == site and (sending is None or sending.seq + 1 != change.first_seq):
            member.core.branch("added-already")
            return
        member.left.pop(proc, None)
        if proc == site:
            stream = group.streams[proc] = group.new_stream(proc)
            stream.last = stream.high = stream.ordered = change.first_seq - 1
        else:
            self.expect(change)
        group.streams[proc].passed = max(group.streams[proc].passed, data.timestamp)
        self._install(sponsor, data, tuple(sorted((*member.members, proc))))
        member.detector.refresh(proc)
        if proc == site and member.state is State.TO_SENDER:
            member.sponsorship = None
            member.course.go(State.SENDER)
            member.core.transmission.begin_sending(group)

    def _remove(self, sender: SiteId, data: Data) -> None:
        member = self._member
        group = member.group
        member.left[sender], member.left_at = data.seq, data.timestamp
        if sender not in member.members:
            return
        if group.streams[sender].last <= data.seq:
            group.streams.pop(sender)
            member.core.repair.forget(group, sender)
        # Else it is a sender again behind this, by a PAdd that waits for its turn, and what it has sent waits, too.
        self._install(sender, data, tuple(each for each in member.members if each != sender))
        if sender == member.core.site and member.state is State.TO_RECEIVER:
            member.course.go(State.RECEIVER)
            member.core.transmission.end_sending(group)
            member.follow_wish()

    def _install(self, sender: SiteId, data: Data, members: tuple[SiteId, ...]) -> None:
        """All who are in the view before come along; whoever is added has been there as a receiver."""
        member = self._member
        before = member.group.senders
        view = ViewId(data.timestamp, sender, self.checksum(members)) if members else EMPTY
        first = {each: before.activation_points.get(each, 1) for each in members}
        member.core.branch("changed")
        member.group.install(SenderGroup(view, before.epoch if members else EMPTY, members, first, data.timestamp))
        member.install_view(dict.fromkeys(members, before.view))
        member.core.stability.note_view(member.group)

    def checksum(self, members: tuple[SiteId, ...]) -> int:
        """Of what has had its turn since the last repair: of each sender, everything up to a number. The view of these
        members that begins is named by it. (Named by the change alone: a and b lose each other with PLeave under way; a
        has m before it, b can no longer get m; both install the view without the leaver after the same one, and have
        delivered different messages in that.)"""
        member = self._member
        numbers = member.left | {each: member.group.streams[each].ordered for each in members}
        return crc32(repr(sorted(numbers.items())).encode())
