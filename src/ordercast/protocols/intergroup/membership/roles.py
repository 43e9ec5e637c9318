"""What a process is in a group, as its application has chosen or as it multicasts (1.2): a sender, a receiver whose
messages go through a proxy (chapter 8), or one of them as needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, SiteId
from ordercast.protocols.intergroup.membership.packets import SENDERS_MAX
from ordercast.protocols.intergroup.membership.proxying import WINDOW, Proxying
from ordercast.protocols.intergroup.membership.states import State
from ordercast.protocols.intergroup.membership.view import InView
from ordercast.protocols.intergroup.packets import Data, Proxied

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.protocol import InterGroup

SENDER, RECEIVER, OUT = "sender", "receiver", "out"
"""What a process wants to be in a group."""
AS_NEEDED = ""
"""The role of whoever has chosen none: a process that multicasts is a sender, and may cease to be one (1.2)."""


_TAKING = (State.RECEIVER, State.TO_SENDER, State.SENDER, State.MRA)
"""Where whoever has chosen no role may multicast: as a sender, or to become one."""


class InRole(InView):
    """The role of a process in a group."""

    __slots__ = (
        "first_message",
        "proxying",
        "role",
        "told_credit",
        "unannounced",
        "wants",
    )

    def __init__(self, core: InterGroup, group: ProcessGroup, wants: str, role: str) -> None:
        super().__init__(core, group)
        self.wants = wants
        self.role = role
        """Fixed by the application, or `AS_NEEDED`."""
        self.first_message: MessageId | None = None
        """The one for which this process has become a sender."""
        self.unannounced: set[MessageId] = set()
        """What waits since this process was no sender, and what waits behind it: it is multicast when it leaves."""
        self.told_credit = 0
        """What the application was told that it may multicast while this process sends nothing itself."""
        self.proxying = Proxying(self)

    @property
    def state(self) -> State:
        """Where this process is in the membership."""
        raise NotImplementedError

    @property
    def may_send(self) -> bool:
        """Whether Data may leave."""
        raise NotImplementedError

    def follow_wish(self) -> None:
        """In a stable state: do what the application wants."""
        raise NotImplementedError

    @property
    def takes_messages(self) -> bool:
        """Whether the application may multicast as a sender, also while a repair is under way; or as one that becomes
        a sender by that."""
        if self.role == AS_NEEDED:
            return self.wants != OUT and self.state in _TAKING
        return self.wants == SENDER and self.group.own is not None

    @property
    def multicasts_by_proxy(self) -> bool:
        """Whether what the application multicasts goes through a proxy: the application has chosen not to send."""
        return self.role == self.wants == RECEIVER and self.group.sending is None

    @property
    def _nobody_sends(self) -> bool:
        return self.state is State.RECEIVER and not self.members

    @property
    def credit(self) -> int:
        """How much the application may multicast while this process sends nothing itself."""
        if self.wants == OUT or (self.multicasts_by_proxy and self._nobody_sends):
            # It is told that it is not in the group, or that nobody could be its proxy, and does not wait.
            return 1
        if self.core.transmission.waits_for_a_place:
            return 0
        if self.multicasts_by_proxy:
            return max(0, WINDOW - len(self.proxying.pending))
        return int(self.role == AS_NEEDED and self.state is State.RECEIVER)

    def multicasts_later(self, message: MessageId) -> bool:
        """Whether a message that waits is multicast when it leaves, and not yet: for it this process becomes a sender,
        or it is behind such a one."""
        return self.group.own is None or self.first_message == message or bool(self.unannounced)

    def note_multicast(self, message: MessageId) -> None:
        """The application multicasts: whoever does so as needed becomes a sender."""
        if self.role == AS_NEEDED and self.wants == RECEIVER:
            self.core.branch("as-needed")
            self.wants = SENDER
            self.first_message = message
            self.follow_wish()

    def cease_when_idle(self) -> None:
        """A sender that has multicast nothing for long is none any more."""
        sending, idle = self.group.sending, self.core.membership.options.sender_idle_seconds
        if sending is None or self.role != AS_NEEDED or self.wants != SENDER or not self.may_send:
            return
        # The first one stays: in a group without senders the next message would find nobody who follows its source.
        if self.members[0] != self.core.site and not sending.waiting and self.core.now - sending.sent_at > idle:
            self.core.branch("idle")
            self.wants = RECEIVER

    def on_lost_view(self) -> None:
        """The view is over for this process alone."""
        self.proxying.begin_anew()

    def on_proxied(self, data: Data, proxied: Proxied) -> bool:
        """A message by proxy has its turn in the order of the group: whether it is the first time."""
        source = data.multicast.id.source
        if proxied.number <= self.proxied.get(source, 0):
            self.core.branch("proxied-again")
            return False
        self.note_proxied(source, proxied.number)
        return True

    def note_proxied(self, source: SiteId, number: int) -> None:
        """Count it. What others have delivered of this process before it has come to them is settled, too. (Else it
        waits for that for ever: its proxy has seen it, and does not multicast it again.)"""
        self.proxied.pop(source, None)
        self.proxied[source] = number
        if len(self.proxied) > SENDERS_MAX:
            del self.proxied[next(iter(self.proxied))]
        if source == self.core.site:
            self.proxying.settled(number)
