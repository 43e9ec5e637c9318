"""The receiver membership repair algorithm (5.5, Figure 5.7): a process that is in no sender group observes, recovers,
and installs; or it finds that it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.core.effects import Broadcast, ExitGroup
from ordercast.protocols.intergroup.membership.packets import MC, NOWHERE, PJoin, ViewRequest
from ordercast.protocols.intergroup.membership.states import RECEPTION_WAYS, Course, Reception, State
from ordercast.protocols.intergroup.senders import SenderGroup

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.membership.member import Member


class ReceiverRun:
    """One execution."""

    def __init__(self, member: Member, resigns: bool) -> None:
        self._member = member
        self._core = member.core
        self._resigns = resigns
        """Whether this process is in the sender group, and about to leave it."""
        self.course = Course(Reception.INITIAL, RECEPTION_WAYS, member.core.branch)
        self._message: MC | None = None
        self._since = member.core.now
        self._asked: SiteId | None = None
        """A sender that is in another view."""
        self.course.go(Reception.WAIT_FOR_MESSAGE)
        if resigns:
            member.attempts += 1
            self._resign()

    def _resign(self) -> None:
        """Tell those who repair that they need not wait for this process: it is about to leave the sender group."""
        member, core = self._member, self._core
        sending = member.group.sending
        seq = 0 if sending is None else sending.seq
        packet = PJoin(member.epoch, member.attempts, 1, (core.site,), (core.site,), seq)
        core.branch("resigned")
        core.outbox.append(Broadcast(member.group.channel, packet))

    def on_pjoin(self, packet: PJoin) -> None:
        """A sender repairs, and may not know yet that this process resigns."""
        if self._resigns and self._core.site in packet.procs and self._core.site not in packet.fail:
            self._resign()

    def on_overtaken(self, site: SiteId) -> None:
        """A sender of the view has gone on: it is asked at once, and then with each period."""
        if self._asked is None:
            self.on_foreign(site)

    def on_foreign(self, site: SiteId) -> None:
        """A sender is in another view: it knows which message has ended this one."""
        self._asked = site
        self._ask()

    def _ask(self) -> None:
        member, core = self._member, self._core
        if self._asked is not None:
            core.branch("asked-for-view")
            time = core.clock.read(core.now)
            core.send((self._asked,), ViewRequest(member.group.name, 0, member.epoch, time))

    def tick(self) -> None:
        """Ask again; give up when there is nobody, or when the recovery takes too long."""
        member, core = self._member, self._core
        elapsed = core.now - self._since
        if self.course.state is Reception.RECOVERY:
            if not 0 <= elapsed <= 2 * core.membership.options.recovery_seconds:
                self._give_up()
            return
        if (
            all(member.detector.is_suspected(site) for site in member.members if site != core.site)
            or not 0 <= elapsed <= core.membership.options.change_seconds
        ):
            self._give_up()
        else:
            self._ask()

    def on_other_view(self) -> None:
        """The senders have gone on for good: nobody knows any more which message has ended this view."""
        if self.course.state is Reception.WAIT_FOR_MESSAGE:
            self._give_up()

    def _give_up(self) -> None:
        """The three ways to fail of 5.5.2: look for a view as though this process had just come."""
        self.course.go(Reception.UNSUCCESSFUL)
        self._end_sending()
        self._member.lose_all()

    def _end_sending(self) -> None:
        if self._resigns:
            self._core.transmission.end_sending(self._member.group)

    def on_mc(self, packet: MC) -> None:
        """A view that some of the senders have gone on to."""
        if self.course.state is not Reception.WAIT_FOR_MESSAGE:
            return
        cut = packet.cut_of(self._member.epoch)
        if cut is None:
            return
        self.course.go(Reception.RECOVERY)
        self._message = packet
        self._since = self._core.now
        if self._member.is_ahead_of(cut, packet.survivors(self._member.epoch)):
            self._declare_failed()
        else:
            self.go_on()

    def _declare_failed(self) -> None:
        """This process has delivered what its senders have given up: it is out, and says so; then it comes back, as
        though it were another process."""
        member, core = self._member, self._core
        self.course.go(Reception.FAILED)
        self._end_sending()
        member.reception = None
        member.course.go(State.BOOTSTRAP_RECEIVER)
        member.entered = False
        core.outbox.append(ExitGroup(member.group.name))
        member.forget_view(SenderGroup(NOWHERE, NOWHERE, (), {}))
        if member.wants == "out":
            member.exit()
        else:
            member.begin_bootstrap()

    def go_on(self) -> None:
        """Install the view when everything before the cut is here."""
        member, message = self._member, self._message
        if message is None:
            return
        cut = message.cut_of(member.epoch)
        if cut is None or member.missing(cut.last) is not None:
            return
        self.course.go(Reception.DELIVER_AND_INSTALL)
        member.reception = None
        self._end_sending()
        member.deliver_and_install(message)
        member.course.go(State.RECEIVER)
        member.follow_wish()
