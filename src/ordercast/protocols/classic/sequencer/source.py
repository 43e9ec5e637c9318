"""The source's part: get each message to the sequencer, in order, until it is accepted."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, Part, SiteId
from ordercast.core.effects import Credit, Send
from ordercast.core.events import Arrival
from ordercast.protocols.classic.sequencer.packets import Accepted, State, Submit, Submitted

if TYPE_CHECKING:
    from ordercast.protocols.classic.sequencer.protocol import Sequencer

RESUBMIT_MAX = 64
"""Submissions repeated at one time-out: the oldest are what the sequencer waits for, the rest probably lies there
early."""


class Source(Part):
    """A site that multicasts, member or not."""

    packets = (Accepted,)
    timers = ("submit",)
    records = (Submitted,)

    def __init__(self, core: Sequencer) -> None:
        self._core = core
        self._to_sequencer = (core.sequencer,)
        self.pending: dict[MessageId, Submit] = {}
        """Submitted and not known to be accepted, in the order of submission."""
        self.last_submitted: MessageId | None = None
        self._vain = 0
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
        submit = self.pending[message] = Submit(multicast, previous)
        if core.context.stable:
            core.append(Submitted(multicast, previous))
        if not self._timing:
            self._start_timer()
        if self._unsent:
            self._unsent.append(submit)
        elif len(multicast.payload) >= core.direct_bytes:
            core.send(self._everyone(multicast), submit)
        else:
            core.outbox.append(Send(self._to_sequencer, submit))

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
            del pending[message]
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
            self._moving = True
            if self._unsent:
                self._send_unsent(through)
            self.give_credit()

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
        for submit in list(self.pending.values())[:RESUBMIT_MAX]:
            core.branch("resubmitted")
            core.send((core.sequencer,), submit)
        self._vain += 1
        if self._vain == core.options.vain_max:
            core.branch("blocked")
            # Who it waits for only the sequencer knows, and while it takes nothing it answers nothing.
            why = "it is down, or waits for a member, which its own status names"
            core.block("source", f"the sequencer {core.sequencer} accepts nothing: {why}")

    def _start_timer(self) -> None:
        self._timing = True
        self._core.set_timer("submit", self._core.options.retransmit_seconds)

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        self._core.outbox.append(Credit(max(0, self._core.options.window_messages - len(self.pending))))

    # ------------------------------------------------------------------ after a crash
    def restore(self, state: State) -> None:
        """The submissions of which it was not known whether they are accepted."""
        for multicast, previous in state.submissions:
            self.pending[multicast.id] = Submit(multicast, previous)
        self.last_submitted = state.last_submitted

    def recall_submitted(self, record: Submitted) -> None:
        """It is not known whether this was accepted."""
        message = record.multicast.id
        self.pending[message] = Submit(record.multicast, record.previous)
        self.last_submitted = message

    def resume(self) -> None:
        """Everything that is not known to be accepted is said again, the oldest first.

        Before anything new, though the chain would keep the order all the same: who looks on from outside sees a source
        that multicasts its messages in their order.
        """
        self._unsent = deque(self.pending.values())
        if self._unsent:
            self._start_timer()
            self._send_unsent(None)
