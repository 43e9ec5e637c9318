"""The source's part: get each message to the sequencer, in order, until it is accepted."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, Part, SiteId
from ordercast.core.effects import Credit, Send
from ordercast.core.events import Arrival
from ordercast.protocols.classic.sequencer.packets import Accepted, Held, State, Submit, Submitted
from ordercast.protocols.parts.back_off import ticks_in

if TYPE_CHECKING:
    from ordercast.protocols.classic.sequencer.protocol import Sequencer

RESUBMIT_MAX = 64
"""Submissions repeated at one time-out: the oldest are what the sequencer waits for, the rest probably lies there
early."""


class Source(Part):
    """A site that multicasts, member or not."""

    packets = (Accepted, Held)
    timers = ("submit",)
    records = (Submitted,)

    def __init__(self, core: Sequencer) -> None:
        self._core = core
        self._to_sequencer = (core.sequencer,)
        self.pending: dict[MessageId, Submit] = {}
        """Submitted and not known to be accepted, in the order of submission."""
        self.pending_bytes = 0
        """Of their payloads."""
        self.last_submitted: MessageId | None = None
        self._vain = 0
        self._held_by: tuple[SiteId, ...] = ()
        """The members for which the sequencer waits, as it has said lately."""
        self._held_ticks = 0
        """Time-outs since it has said so. Three announcements, of which two may be lost, are lately."""
        self._held_ticks_max = ticks_in(3 * core.options.announce_seconds, core.options.retransmit_seconds)
        self._moving = False
        """Whether something was accepted since the last time-out."""
        self._timing = False
        """Whether the timer runs. It is never cancelled: where messages come one by one, that is work for each."""
        self._unsent: deque[Submit] = deque()
        """After a crash: what the log holds and this incarnation has not said yet, in order."""

    def multicast(self, multicast: Multicast) -> None:
        """Submit a message."""
        core, message, previous = self._core, multicast.id, self.last_submitted
        self.last_submitted = message
        submit = self._keep(multicast, previous)
        if core.context.stable:
            core.append(Submitted(multicast, previous))
        if self.pending_bytes >= core.options.history_bytes_max:
            self.give_credit()
        if not self._timing:
            self._start_timer()
        if self._unsent:
            self._unsent.append(submit)
        elif len(multicast.payload) >= core.direct_bytes:
            core.send(self._everyone(multicast), submit)
        else:
            core.outbox.append(Send(self._to_sequencer, submit))

    def _keep(self, multicast: Multicast, previous: MessageId | None) -> Submit:
        """Until it is known to be accepted."""
        submit = self.pending[multicast.id] = Submit(multicast, previous)
        self.pending_bytes += len(multicast.payload)
        return submit

    def _everyone(self, multicast: Multicast) -> tuple[SiteId, ...]:
        """The sequencer and the destinations, this site only when it is the sequencer."""
        core = self._core
        others = [site for site in core.context.destinations(multicast) if site not in (core.site, core.sequencer)]
        return (core.sequencer, *others)

    def forget(self, through: MessageId) -> bool:
        """The sequencer has our messages up to one; whether that is news."""
        pending = self.pending
        before = len(pending)
        while pending and (message := next(iter(pending))) <= through:
            self.pending_bytes -= len(pending.pop(message).multicast.payload)
        return len(pending) < before

    def on_accepted(self, sender: SiteId, packet: Accepted, arrival: Arrival) -> None:
        """The sequencer says what it has."""
        if sender == self._core.sequencer:
            self.accept(packet.through)

    def accept(self, through: MessageId) -> None:
        """The sequencer has our messages up to one (it said so, or we saw that one ordered)."""
        if self.forget(through):
            if self._vain >= self._core.options.vain_max:
                self._core.block("source", "")
            self._vain = 0
            self._held_by = ()
            self._moving = True
            if self._unsent:
                self._send_unsent(through)
            self.give_credit()

    def on_held(self, sender: SiteId, packet: Held, arrival: Arrival) -> None:
        """The sequencer is there, and says for whom it waits."""
        if sender == self._core.sequencer and self.pending:
            self._held_by, self._held_ticks = packet.by, 0
            if self._vain >= self._core.options.vain_max:
                self._say_blocked()

    def _send_unsent(self, through: MessageId | None) -> None:
        """Not all at once: most of a long log is accepted long since, and the answer to the first will say so."""
        unsent = self._unsent
        while unsent and through is not None and unsent[0].multicast.id <= through:
            unsent.popleft()
        for _ in range(min(RESUBMIT_MAX, len(unsent))):
            self._core.send((self._core.sequencer,), unsent.popleft())

    def on_submit_timeout(self) -> None:
        """Submit the oldest again, and say that we are blocked when that has been in vain for long.

        Not while messages are accepted: the sequencer takes them in the order of the chain, so none of them is lost,
        and what is sent twice to a busy sequencer keeps it busy.
        """
        core = self._core
        self._timing = False
        if not self.pending:
            return
        self._start_timer()
        if self._moving:
            self._moving = False
            return
        # Who waits for a member has the oldest, and those behind it most likely too.
        for submit in list(self.pending.values())[: 1 if self._held_by else RESUBMIT_MAX]:
            core.branch("resubmitted")
            core.send((core.sequencer,), submit)
        self._vain += 1
        self._held_ticks += 1
        if self._held_ticks > self._held_ticks_max:
            self._held_by = ()
        if self._vain == core.options.vain_max:
            core.branch("blocked")
        if self._vain >= core.options.vain_max:
            self._say_blocked()

    def _say_blocked(self) -> None:
        """Name the member that holds up the sequencer; or the sequencer, when that says nothing."""
        core = self._core
        if core.site == core.sequencer:
            return  # what it waits for here, its other part names
        why = f"waits for {', '.join(self._held_by)}" if self._held_by else "accepts nothing: it is down, or cut off"
        core.block("source", f"the sequencer {core.sequencer} {why}")

    def _start_timer(self) -> None:
        self._timing = True
        self._core.set_timer("submit", self._core.options.retransmit_seconds)

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        options = self._core.options
        room = options.window_messages - len(self.pending) if self.pending_bytes < options.history_bytes_max else 0
        self._core.outbox.append(Credit(max(0, room)))

    # ------------------------------------------------------------------ after a crash
    def restore(self, state: State) -> None:
        """The submissions of which it was not known whether they are accepted."""
        for multicast, previous in state.submissions:
            self._keep(multicast, previous)
        self.last_submitted = state.last_submitted

    def recall_submitted(self, record: Submitted) -> None:
        """It is not known whether this was accepted."""
        self._keep(record.multicast, record.previous)
        self.last_submitted = record.multicast.id

    def resume(self) -> None:
        """Everything that is not known to be accepted is said again, the oldest first.

        Before anything new, though the chain would keep the order all the same: who looks on from outside sees a source
        that multicasts its messages in their order.
        """
        self._unsent = deque(self.pending.values())
        if self._unsent:
            self._start_timer()
            self._send_unsent(None)
