"""Data transmission (4.5): Data messages and Keep Alives, within the bandwidth and what may be outstanding."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import GroupId, InvariantViolation, MessageId, Multicast, Part, UsageError
from ordercast.core.effects import Broadcast, Credit
from ordercast.protocols.intergroup.clock import UNITS
from ordercast.protocols.intergroup.flow import Bucket
from ordercast.protocols.intergroup.packets import Data, KeepAlive, PAdd, PLeave, Proxied

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.options import InterGroupOptions
    from ordercast.protocols.intergroup.protocol import InterGroup


ANSWER_SECONDS = 0.001
"""A sender that has said something does not answer sooner than that: one that has much to send says enough."""


class Sending:
    """What one process sends to one group."""

    def __init__(self, options: InterGroupOptions) -> None:
        self.seq = 0
        """The number of the last Data message."""
        self.settled = 0
        """The number of the last one that had its turn here."""
        self.bucket = Bucket(options.bandwidth_min, options.bandwidth_max, options.burst_bytes)
        self.waiting = 0
        """Messages that the bucket, or what is outstanding, holds back."""
        self.waiting_bytes = 0
        self.outstanding: deque[Data] = deque()
        """Sent, and not stable."""
        self.outstanding_bytes = 0
        self.granted = 0
        """What the application was told that it may send, less what it has."""
        self.last_size = 0
        self.spoke_at = 0.0
        """By the local clock."""
        self.said = 0
        """The timestamp of the last Data message or Keep Alive."""
        self.asked = 0
        """The latest timestamp that waits for a later one of this sender."""
        self.sent_at = 0.0
        """When the last message of an application left, or this process became a sender."""
        self.loss_at = 0.0
        self.depends = 0
        """The last Data message may depend on messages up to this time, in whatever group the application got them."""

    @property
    def under_way(self) -> int:
        """Messages that have not had their turn here."""
        return self.seq - self.settled + self.waiting


class Transmission(Part):
    """What a process sends, and when it says that it is there."""

    timers = ("keep-alive", "answer", "flow")
    branches = ("kept-alive", "answered", "slowed", "flow-waited", "blocked", "unblocked")

    def __init__(self, core: InterGroup) -> None:
        self._core = core
        self._lines: dict[GroupId, deque[tuple[ProcessGroup, Sending, Multicast]]] = {}
        """What waits to be sent to each group. In one order across groups all wait in one line: whoever overtakes in
        another group gets the earlier timestamp, against the order of their source."""
        self._placeless: set[GroupId] = set()
        """Groups to which the application has multicast something that has no timestamp yet."""

    def enter(self, group: ProcessGroup) -> None:
        """This process is in a group that comes and goes: it sends nothing yet."""
        self._lines.setdefault(group.name, deque())

    def leave(self, group: ProcessGroup) -> None:
        """It is so no longer."""
        self._lines.pop(group.name, None)
        self.note_placeless(group.name, False)
        self._core.cancel_timer(("keep-alive", group.name))
        self._core.cancel_timer(("flow", group.name))

    def prepare(self, group: ProcessGroup) -> None:
        """This process is about to be a sender: its numbers go on from where they were."""
        if group.sending is None:
            group.sending = Sending(self._core.options)
            group.sending.seq = group.sending.settled = self._core.membership.last_number(group.name)
            if group.member is not None:
                group.sending.granted = group.member.told_credit

    def begin_sending(self, group: ProcessGroup) -> None:
        """This process is in the sender group of a view: say so, and send what waits."""
        sending = group.sending
        if sending is None:
            return
        if group.member is not None and group.member.proxying.pending:
            # It has become one alone, when all senders were lost: nobody is a proxy of a sender.
            group.member.proxying.begin_anew()
        sending.spoke_at = self._core.now - self._core.options.keep_alive_seconds
        sending.sent_at = self._core.now
        sending.settled = sending.seq
        self.on_keep_alive_timeout(group.name)
        self._send_what_may(group.name)
        self.give_credit(group)

    def end_sending(self, group: ProcessGroup) -> None:
        """It is there no longer: the application hears that when it multicasts."""
        sending = group.sending
        if sending is not None:
            self._core.membership.keep_number(group.name, sending.seq)
            group.sending = None
            if group.member is not None:
                # What is left of it. (Told 1, used 1, and 1 again when it is no sender: nobody would tell that.)
                group.member.told_credit = sending.granted
            self.drop_waiting(group)
            self._core.block("transmission", "", group.name)
            self.give_credit(group)

    def drop_waiting(self, group: ProcessGroup) -> None:
        """What waits is never sent."""
        line = self._lines.get(group.name)
        if line:
            line.clear()
        if group.sending is not None:
            group.sending.waiting = group.sending.waiting_bytes = 0
        if group.member is not None:
            group.member.unannounced.clear()
            self.note_placeless(group.name, bool(group.member.proxying.pending))

    def send_change(self, group: ProcessGroup, change: PAdd | PLeave) -> Data | None:
        """Multicast a change of the sender group, as Data."""
        sending = group.sending
        if sending is None:
            return None
        nothing = Multicast(MessageId(self._core.site, self._core.context.incarnation, 0), group.address)
        return self._send(group, sending, nothing, change)

    def start(self) -> None:
        """Tell the application how much it may send, and say to everyone that we are there."""
        shared: deque[tuple[ProcessGroup, Sending, Multicast]] | None = None
        if self._core.options.order_across_groups:
            shared = deque()
        for group in self._core.process_groups.values():
            if group.member is not None:
                self.enter(group)
            if group.sending is not None:
                self._lines[group.name] = deque() if shared is None else shared
            self.give_credit(group)
            if group.sending is not None:
                group.sending.sent_at = self._core.now
                self._core.set_timer(("keep-alive", group.name), self._core.options.keep_alive_seconds)

    # ------------------------------------------------------------------ Data
    def multicast(self, group: ProcessGroup, multicast: Multicast) -> None:
        """The application multicasts."""
        if group.member is not None and group.member.takes_messages:
            self.prepare(group)
        sending = group.sending
        if sending is None or (group.member is not None and not group.member.takes_messages):
            raise UsageError(
                f"{self._core.site} is no sender of {group.name}: those are {', '.join(group.senders.members)}"
            )
        if group.member is not None:
            group.member.note_multicast(multicast.id)
        sending.granted -= 1
        sending.last_size = len(multicast.payload)
        sending.waiting += 1
        sending.waiting_bytes += len(multicast.payload)
        self._lines[group.name].append((group, sending, multicast))
        self._send_what_may(group.name)
        if sending.waiting and not (group.member is not None and group.member.multicasts_later(multicast.id)):
            self.note_placeless(group.name, True)
        if self._room(group, sending) < sending.granted:
            self.give_credit(group)

    def note_placeless(self, name: GroupId, placeless: bool) -> None:
        """Whether the application has multicast something to a group that has no timestamp yet, for it waits for flow
        control, for a repair, or for a proxy. Meanwhile a process that is in several groups gets no credit in any.
        (Else: a's m1 to g waits, its m2 to h does not; b has m2, multicasts m3 to g, and m1 comes behind m3.)"""
        if placeless == (name in self._placeless):
            return
        before = bool(self._placeless)
        (self._placeless.add if placeless else self._placeless.discard)(name)
        if before != bool(self._placeless) and self._may_be_overtaken:
            for group in list(self._core.process_groups.values()):
                self._send_what_may(group.name)
                self.give_credit(group)

    @property
    def waits_for_a_place(self) -> bool:
        """Whether the application has to wait before it multicasts anything, in any group."""
        return bool(self._placeless) and self._may_be_overtaken

    def _overtakes(self, group: ProcessGroup, multicast: Multicast) -> bool:
        """Whether a message that is multicast when it leaves would leave before one that was multicast already."""
        return self.waits_for_a_place and group.member is not None and multicast.id in group.member.unannounced

    @property
    def _may_be_overtaken(self) -> bool:
        return len(self._core.process_groups) > 1 and not self._core.options.order_across_groups

    def _send_what_may(self, name: GroupId) -> None:
        core = self._core
        line = self._lines.get(name)
        while line:
            group, sending, multicast = line[0]
            if not self._may_send(group, sending) or self._overtakes(group, multicast):
                return
            size = len(multicast.payload)
            sending.bucket.fill(core.now)
            if not sending.bucket.take(size):
                core.branch("flow-waited")
                core.set_timer(("flow", group.name), sending.bucket.wait_seconds(size))
                return
            line.popleft()
            sending.waiting -= 1
            sending.waiting_bytes -= size
            self._send(group, sending, multicast)
            if not sending.waiting:
                self.note_placeless(group.name, False)

    def forward(self, group: ProcessGroup, multicast: Multicast, proxied: Proxied) -> bool:
        """Multicast for a process that is no sender; False when there is no room now."""
        sending = group.sending
        if sending is None or not self._may_send(group, sending) or self._room(group, sending) < 1:
            return False
        sending.bucket.fill(self._core.now)
        if not sending.bucket.take(len(multicast.payload)):
            return False
        self._send(group, sending, multicast, proxied=proxied)
        self.give_credit(group)
        return True

    def _send(
        self,
        group: ProcessGroup,
        sending: Sending,
        multicast: Multicast,
        change: PAdd | PLeave | None = None,
        proxied: Proxied | None = None,
    ) -> Data:
        core = self._core
        if change is None:
            sending.sent_at = core.now
            if group.member is not None:
                group.member.unannounced.discard(multicast.id)
        sending.seq += 1
        sending.spoke_at = core.now
        timestamp = sending.said = core.clock.tick(core.now)
        sending.depends = core.told
        data = Data(group.senders.epoch, core.control.coordinator, sending.seq, timestamp, multicast, change, proxied)
        group.buffer.keep_own(data)
        sending.outstanding.append(data)
        sending.outstanding_bytes += len(multicast.payload)
        core.outbox.append(Broadcast(group.channel, data))
        core.take_own(group, data)
        return data

    def _may_send(self, group: ProcessGroup, sending: Sending) -> bool:
        options = self._core.options
        return (
            (group.member is None or group.member.may_send)
            and len(sending.outstanding) < options.outstanding_messages_max
            and sending.outstanding_bytes < options.outstanding_bytes_max
        )

    def on_flow_timeout(self, group: GroupId) -> None:
        """Enough has flowed into the bucket for the next one."""
        self._send_what_may(group)

    def note_loss(self, group: ProcessGroup) -> None:
        """Somebody has reported a loss: send less. Once for all who report the same one."""
        core, sending = self._core, group.sending
        if sending is None or 0 <= core.now - sending.loss_at < core.control.distance_max():
            return
        core.branch("slowed")
        sending.loss_at = core.now
        sending.bucket.note_loss()

    # ------------------------------------------------------------------ Keep Alives
    def on_keep_alive_timeout(self, name: GroupId) -> None:
        """Say that we are there, unless a Data message has said so; the timer runs for what is left of the time."""
        core = self._core
        group = core.process_groups.get(name)
        sending = None if group is None else group.sending
        if group is None or sending is None or group.own is None:
            return
        self._tell_whether_blocked(group, sending)
        period = core.options.keep_alive_seconds
        elapsed = core.now - sending.spoke_at
        if 0 <= elapsed < period * 0.999:
            core.set_timer(("keep-alive", name), period - elapsed)
            return
        core.branch("kept-alive")
        self._keep_alive(group, sending)
        core.set_timer(("keep-alive", name), period)

    def _keep_alive(self, group: ProcessGroup, sending: Sending) -> None:
        core = self._core
        sending.spoke_at = core.now
        sending.said = core.clock.tick(core.now)
        keep_alive = KeepAlive(group.senders.epoch, core.control.coordinator, sending.seq, sending.said)
        core.outbox.append(Broadcast(group.channel, keep_alive))
        group.advance()

    def answer(self, group: ProcessGroup, timestamp: int) -> None:
        """A message has come that others deliver when every sender has said something later. Where senders are few we
        do so at once: for all messages that have come together, and not while our own say enough."""
        core, sending = self._core, group.sending
        if sending is None or len(group.senders.members) > core.options.answer_senders_max or sending.asked > timestamp:
            return
        if sending.said < timestamp:
            sending.asked = timestamp
            quiet = core.now - sending.spoke_at
            core.set_timer(("answer", group.name), ANSWER_SECONDS - quiet if 0 <= quiet < ANSWER_SECONDS else 0.0)

    def on_answer_timeout(self, name: GroupId) -> None:
        """Everything that came together is here."""
        group = self._core.process_groups.get(name)
        sending = None if group is None or group.own is None else group.sending
        if group is not None and sending is not None and sending.said < sending.asked:
            self._core.branch("answered")
            self._keep_alive(group, sending)

    # ------------------------------------------------------------------ what is outstanding
    def note_stable(self, group: ProcessGroup, stable: int) -> None:
        """Everyone has what was sent before this time: it is no longer outstanding, though it is kept for a while."""
        sending = group.sending
        if sending is None:
            return
        outstanding = sending.outstanding
        while outstanding and outstanding[0].timestamp < stable:
            sending.outstanding_bytes -= len(outstanding.popleft().multicast.payload)
        self._send_what_may(group.name)
        self.give_credit(group)

    def note_settled(self, group: ProcessGroup, seq: int) -> None:
        """A message of this process has had its turn here."""
        sending, few = group.sending, self._core.options.few_under_way
        if few and sending is not None and seq > sending.settled:
            sending.settled = seq
            if sending.under_way < few:
                self._core.outbox.append(Credit(sending.granted, group.name, sending.under_way))

    def give_credit(self, group: ProcessGroup) -> None:
        """Tell the application how much it may send to the group, when that has changed."""
        sending = group.sending
        if sending is None:
            member = group.member
            if member is not None and member.told_credit != member.credit:
                member.told_credit = member.credit
                self._core.outbox.append(Credit(member.credit, group.name))
            return
        room = self._room(group, sending)
        if self.waits_for_a_place or (group.member is not None and not group.member.gives_credit):
            room = 0
        if room != sending.granted:
            sending.granted = room
            under_way = sending.under_way if self._core.options.few_under_way else None
            self._core.outbox.append(Credit(room, group.name, under_way))

    def _room(self, group: ProcessGroup, sending: Sending) -> int:
        """How many more messages fit among those that are outstanding, and into the buffer."""
        options = self._core.options
        messages = (
            min(
                options.outstanding_messages_max - len(sending.outstanding),
                options.buffer_messages_max - len(group.buffer.own),
            )
            - sending.waiting
        )
        size = (
            min(
                options.outstanding_bytes_max - sending.outstanding_bytes,
                options.buffer_bytes_max - group.buffer.own_bytes,
            )
            - sending.waiting_bytes
        )
        if messages <= 0 or size <= 0:
            return 0
        return min(messages, max(1, size // max(1, sending.last_size)))

    def _tell_whether_blocked(self, group: ProcessGroup, sending: Sending) -> None:
        """When nothing can be sent because of something that was sent long ago, name the site that holds the group's
        acknowledgement back."""
        core = self._core
        reason = ""
        if not sending.granted and sending.outstanding:
            age = core.clock.read(core.now) - sending.outstanding[0].timestamp
            if age >= core.options.blocked_seconds * UNITS:
                reason = f"too much is outstanding: {core.stability.whom_we_wait_for(group)}"
        if bool(reason) != bool(core.obstacle("transmission", group.name)):
            core.branch("blocked" if reason else "unblocked")
        core.block("transmission", reason, group.name)

    def check_invariants(self) -> None:
        """Within the bounds, and counted right."""
        options = self._core.options
        for group in self._core.process_groups.values():
            sending = group.sending
            if sending is None:
                continue
            if len(sending.outstanding) > options.outstanding_messages_max:
                # Changes of the sender group leave in any case.
                count = sum(data.change is None for data in sending.outstanding)
                if count > options.outstanding_messages_max:
                    raise InvariantViolation(f"{count} messages to {group.name} are outstanding")
            if (sending.outstanding_bytes > 0) > bool(sending.outstanding):
                raise InvariantViolation(f"{sending.outstanding_bytes} bytes are outstanding in no message")
            if (sending.waiting_bytes > 0) > (sending.waiting > 0):
                raise InvariantViolation(f"{sending.waiting_bytes} bytes wait in no message")
            if sending.outstanding and group.buffer.find(self._core.site, sending.outstanding[0].seq) is None:
                raise InvariantViolation("what is outstanding is not kept")
