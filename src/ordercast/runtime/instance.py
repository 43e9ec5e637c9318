"""Runs one protocol instance: feeds it events, interprets what it wants done, in order, and records it.

Both drivers use it, so a protocol behaves the same in simulation and on sockets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, Union

import msgspec

from ordercast.core import (
    LATER,
    Address,
    GroupId,
    MessageId,
    Multicast,
    Packet,
    Record,
    SiteId,
    WireError,
)
from ordercast.core import Protocol as ProtocolCore
from ordercast.core import effects as effect_types
from ordercast.core.address import check_address
from ordercast.core.events import (
    Arrival,
    Event,
    JoinRequested,
    LeaveRequested,
    MulticastRequested,
    Received,
    Recovered,
    RemovalRequested,
    RoleChosen,
    ServiceChosen,
    Started,
)
from ordercast.storage import StableLog
from ordercast.trace.interface import Envelope, SiteTrace, describe


class Driver(Protocol):
    """What the interpreter needs from the world: a simulated site or a live node.

    A driver never calls back into the instance from within these; it does so from its event loop.
    """

    def trace_time(self) -> float:
        """The time to write into the trace now."""

    def seconds_since(self, time: float) -> float:
        """How long ago a time of the site's clock was."""

    def send(self, instance: Instance, effect: effect_types.Send) -> None:
        """Hand a packet to the network, which records each packet that it makes of it before that goes."""

    def broadcast(self, instance: Instance, effect: effect_types.Broadcast) -> None:
        """Hand a packet to the network for everyone on the channel; recorded likewise."""

    def join_channel(self, instance: Instance, effect: effect_types.JoinChannel) -> None:
        """Hear the channel."""

    def leave_channel(self, instance: Instance, effect: effect_types.LeaveChannel) -> None:
        """Hear the channel no more."""

    def set_timer(self, instance: Instance, effect: effect_types.SetTimer) -> None:
        """Fire after so many seconds of the site's clock."""

    def cancel_timer(self, instance: Instance, effect: effect_types.CancelTimer) -> None:
        """Do not fire."""

    def start_sync(self, instance: Instance, position: int) -> None:
        """Make the log stable up to a position, then call `instance.on_synced(position)`."""

    def deliver(self, instance: Instance, effect: effect_types.Deliver | effect_types.Replay) -> None:
        """Hand a message to the application (not called for a replay that the application knows)."""

    def rollback(self, instance: Instance, effect: effect_types.Rollback) -> None:
        """Tell the application that a delivery is taken back."""

    def install_view(self, instance: Instance, effect: effect_types.InstallView) -> None:
        """Tell the application who is in the group."""

    def enter_group(self, instance: Instance, effect: effect_types.EnterGroup) -> None:
        """Tell the application where its deliveries in the group go on."""

    def exit_group(self, instance: Instance, effect: effect_types.ExitGroup) -> None:
        """Tell the application that it misses what comes next in the group."""

    def join_refused(self, instance: Instance, effect: effect_types.JoinRefused) -> None:
        """Tell the application that a join will not come about."""

    def activate(self, instance: Instance, effect: effect_types.Activate) -> None:
        """Tell the application which service its deliveries have from here on."""

    def service_unavailable(self, instance: Instance, effect: effect_types.ServiceUnavailable) -> None:
        """Tell the application which service cannot be had."""

    def credit(self, instance: Instance, effect: effect_types.Credit) -> None:
        """Tell the application how much it may still send."""

    def blocked(self, instance: Instance, effect: effect_types.Blocked) -> None:
        """Tell the application why there is no progress (an empty reason: there is again)."""

    def declared_failed(self, instance: Instance, effect: effect_types.DeclareFailed) -> None:
        """The instance counts as failed, and runs; the trace has it already."""

    def recovered(self, instance: Instance, effect: effect_types.DeclareRecovered) -> None:
        """The instance takes part fully again, after a crash or after it has declared itself failed."""


class _Announce(effect_types.Effect, frozen=True):
    """Internal: record that a message is multicast, at its place among the effects."""

    multicast: Multicast
    service: str | None


class _WriteCheckpoint(effect_types.Effect, frozen=True):
    """Internal: a checkpoint with the position in the log that it stands for."""

    state: Record
    position: int


_LEAVES_THE_SITE = (effect_types.Send, effect_types.Broadcast, effect_types.Deliver)


def _do_nothing(_effect: effect_types.Effect) -> None:
    """For an instance that has halted."""


class MessageNumbers:
    """The numbers that a site gives to its multicasts; instances that start together share them, so that names stay
    unique."""

    def __init__(self) -> None:
        self.last = 0


class Instance:
    """One protocol instance at one site, from a start to the crash or the end."""

    def __init__(
        self,
        core: ProtocolCore,
        driver: Driver,
        log: StableLog,
        recorder: SiteTrace | None,
        numbers: MessageNumbers,
        check_invariants: bool = False,
    ) -> None:
        self.core = core
        self.context = core.context
        self.name = core.context.instance
        self.alive = True
        self.wire_errors = 0
        self.first_wire_error = ""
        """The first packet that the core took for malformed, and why."""
        self._driver = driver
        self._log = log
        self._recorder = recorder
        self._check_invariants = check_invariants
        self._numbers = numbers
        self.contract = core.contract.with_options(core.context.options)
        """What holds with its options."""
        self._last_address: Address | None = None
        """It was in order, and most messages have the same one as the message before. (Where groups come and go, it may
        no longer be.)"""
        # Effects that may not leave the site before the log is stable up to a position, in order.
        self._held: deque[tuple[int, effect_types.Effect]] = deque()
        self._sync_running = False
        # Called without a Python function in between: these are on the way of every packet.
        self._at_once: dict[type[effect_types.Effect], Callable[[Any], None]] = {
            effect_types.SetTimer: partial(driver.set_timer, self),
            effect_types.CancelTimer: partial(driver.cancel_timer, self),
            effect_types.Append: self._append,
            effect_types.Checkpoint: self._stamp_checkpoint,
            effect_types.DeclareFailed: self._declare_failed,
        }
        self._in_order: dict[type[effect_types.Effect], Callable[[Any], None]] = {
            effect_types.Send: partial(driver.send, self),
            effect_types.Broadcast: partial(driver.broadcast, self),
            effect_types.JoinChannel: partial(driver.join_channel, self),
            effect_types.LeaveChannel: partial(driver.leave_channel, self),
            effect_types.Deliver: partial(driver.deliver, self) if recorder is None else self._deliver,
            effect_types.Replay: self._replay,
            effect_types.Rollback: self._rollback,
            effect_types.Recall: self._recall,
            effect_types.InstallView: self._install_view,
            effect_types.EnterGroup: self._enter_group,
            effect_types.ExitGroup: self._exit_group,
            effect_types.JoinRefused: partial(driver.join_refused, self),
            effect_types.Activate: self._activate,
            effect_types.ServiceUnavailable: partial(driver.service_unavailable, self),
            effect_types.Credit: partial(driver.credit, self),
            effect_types.Blocked: partial(driver.blocked, self),
            effect_types.DeclareRecovered: partial(driver.recovered, self),
            _WriteCheckpoint: self._write_checkpoint,
            _Announce: self._announce,
        }
        self._withheld: list[effect_types.Deliver | effect_types.Replay] = []
        """What came too late for the application, in order."""
        if core.guards_deliveries:
            self._in_order[effect_types.Deliver] = self._deliver_in_time
            self._in_order[effect_types.Replay] = self._replay_in_time
            self._in_order[effect_types.Rollback] = self._rollback_in_time
            self._in_order[effect_types.Redeliver] = self._redeliver
            self._in_order[effect_types.Withdraw] = lambda _effect: self._withheld.clear()
        self._any = self._at_once | self._in_order

    # ------------------------------------------------------------------ events
    def start(self, now: float, lost: bool = False) -> None:
        """Start for the first time, or recover from what the log holds; `lost` when the log is gone and an operator
        has said so."""
        if self.context.incarnation == self.context.began:
            self.handle(now, Started())
            return
        recovery = self._log.recover()
        records: tuple[Any, ...] = ()
        checkpoint = None
        if self.core.records:
            decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Union[self.core.records])  # noqa: UP007
            records = tuple(decoder.decode(record) for record in recovery.records)
            checkpoint = None if recovery.checkpoint is None else decoder.decode(recovery.checkpoint)
        self.handle(now, Recovered(records, checkpoint, lost))

    def request(
        self,
        now: float,
        payload: bytes,
        groups: tuple[GroupId, ...] = (),
        destinations: tuple[SiteId, ...] | None = None,
        count: int = 1,
    ) -> MessageId:
        """The application multicasts; `UsageError` when the address or the core does not allow it."""
        if (groups, destinations) != self._last_address:
            # A node has asked before, where the mistake was made; a simulation asks here.
            check_address(self.contract, self.core.groups, self.core.sites, (groups, destinations))
            if not self.contract.dynamic:
                self._last_address = (groups, destinations)
        number = self._numbers.last + 1
        message = MessageId(self.context.site, self.context.incarnation, number)
        self._look_at_clock(now)
        multicast = Multicast(message, groups, payload, destinations, count)
        self.core.step(now, MulticastRequested(multicast))
        # Only now: a core that refuses the request leaves no hole in the numbers.
        self._numbers.last = number
        if self._recorder is not None:
            self._place_announcement(multicast, self._recorder)
        self._interpret()
        return message

    def join(self, now: float, group: GroupId, role: str = "", service: str = "") -> None:
        """The application wants to be in a group; `UsageError` when the core does not allow it."""
        self._ask(now, JoinRequested(group, role, service))

    def leave(self, now: float, group: GroupId) -> None:
        """The application wants to be out of a group; `UsageError` when the core does not allow it."""
        self._ask(now, LeaveRequested(group))

    def remove(self, now: float, site: SiteId) -> None:
        """An operator wants a site out of every group; `UsageError` when the core does not allow it."""
        self._ask(now, RemovalRequested(site))

    def choose_role(self, now: float, group: GroupId, role: str) -> None:
        """The application wants another role in a group; `UsageError` when the core does not allow it."""
        self._ask(now, RoleChosen(group, role))

    def choose_service(self, now: float, group: GroupId, service: str, sources: tuple[SiteId, ...] = ()) -> None:
        """The application wants another service in a group; `UsageError` when the core does not allow it."""
        self._ask(now, ServiceChosen(group, service, sources))

    def _ask(self, now: float, event: Event) -> None:
        # What the core refuses is the caller's, and nothing has happened: the instance goes on.
        self.core.step(now, event)
        if self.core.outbox:
            self._interpret()

    def receive(
        self,
        now: float,
        sender: SiteId,
        packet: Packet,
        arrival: Arrival,
        envelope: Envelope | None = None,
        number: int | None = None,
    ) -> None:
        """A packet reaches the instance. A network that has described and numbered it hands that in."""
        recorder = self._recorder
        if recorder is not None:
            if self.core.guards_deliveries:
                self._look_at_clock(now)
            envelope = envelope or describe(sender, self.name, packet)
            recorder.receive(self._driver.trace_time(), envelope, number, arrival.cost)
        # As `handle`, without a call in between: this is the way of every packet.
        try:
            self.core.step(now, Received(sender, packet, arrival))
        except WireError as error:
            self._note_wire_error(f"{type(packet).__name__} of {sender}", error)
        if self.core.outbox:
            self._interpret()

    def handle(self, now: float, event: Event) -> None:
        """Feed one event to the core and do what it wants done."""
        try:
            self.core.step(now, event)
        except WireError as error:
            self._note_wire_error(type(event).__name__, error)
        if self.core.outbox:
            self._interpret()

    def _look_at_clock(self, now: float) -> None:
        """Before the trace gets a row: who was stopped beyond its lease has failed before it finds packets."""
        if self.core.guards_deliveries and self._recorder is not None:
            self.core.look_at_clock(now)
            if self.core.outbox:
                self._interpret()

    def _note_wire_error(self, what: str, error: WireError) -> None:
        self.wire_errors += 1
        if not self.first_wire_error:
            self.first_wire_error = f"{self.context.site} takes {what} for malformed: {error}"

    def on_synced(self, position: int) -> None:
        """The log is stable up to a position: release the effects that waited for it."""
        self._sync_running = False
        self._log.sync(position)
        self._look_at_clock(self._driver.seconds_since(0.0))
        while self._held and self._held[0][0] <= position:
            effect = self._held.popleft()[1]
            self._in_order[type(effect)](effect)
        if self._log.position > self._log.synced:
            self._sync()

    def crash(self) -> None:
        """Stop at once; nothing that is held ever leaves."""
        self.alive = False
        self._held.clear()

    # ------------------------------------------------------------------ for whoever tries the instance
    def intercept(self, kind: type[effect_types.Effect], around: Callable[[Callable[[Any], None], Any], None]) -> None:
        """From now on `around` gets every effect of a kind, with what would be done about it."""
        for handlers in (self._at_once, self._in_order, self._any):
            if kind in handlers:
                handlers[kind] = partial(around, handlers[kind])

    def halt(self) -> None:
        """Nothing more is done of what the core wants, from the middle of a step on: it is about to crash."""
        for handlers in (self._at_once, self._in_order, self._any):
            handlers.update(dict.fromkeys(handlers, _do_nothing))
        self._held.clear()

    # ------------------------------------------------------------------ effects
    def _interpret(self) -> None:
        core, apply = self.core, self._any
        outbox = core.outbox
        core.outbox = []
        if not self.context.stable:
            # Nothing is ever appended, so nothing waits.
            for effect in outbox:
                apply[type(effect)](effect)
        else:
            log, at_once = self._log, self._at_once
            for effect in outbox:
                kind = type(effect)
                if log.synced < log.position and kind not in at_once:
                    self._held.append((log.position, effect))
                else:
                    apply[kind](effect)
        if self._check_invariants:
            core.check_invariants()

    def _append(self, effect: effect_types.Append) -> None:
        log = self._log
        log.append(effect.record)
        if log.synced < log.position:
            self._sync()

    def _sync(self) -> None:
        if not self._sync_running:
            self._sync_running = True
            self._driver.start_sync(self, self._log.position)

    def _stamp_checkpoint(self, effect: effect_types.Checkpoint) -> None:
        position = self._log.position
        write = _WriteCheckpoint(effect.state, position)
        if self._log.synced < position:
            self._held.append((position, write))
        else:
            self._write_checkpoint(write)

    def _write_checkpoint(self, effect: _WriteCheckpoint) -> None:
        """Not while deliveries wait: the next one will do. (Else: m is in the log, too late for the application; all
        have it, and the checkpoint is without it; crash: nothing says that it is still to be delivered here.)"""
        if not self._withheld:
            self._log.checkpoint(effect.state, effect.position)

    def _place_announcement(self, multicast: Multicast, recorder: SiteTrace) -> None:
        """Put the multicast's record right before the first effect that shows it outside, behind the log writes.

        (At the beginning of the step: recorded as multicast, append not yet stable, crash: the trace says that a
        correct site multicast a message that nobody can ever deliver.)
        """
        recorder.expect(multicast)
        announcement = self.core.announcement(multicast)
        if announcement == LATER:
            return
        outbox = self.core.outbox
        place = next((at for at, effect in enumerate(outbox) if isinstance(effect, _LEAVES_THE_SITE)), len(outbox))
        outbox.insert(place, _Announce(multicast, announcement))

    def _announce(self, effect: _Announce) -> None:
        if self._recorder is not None:
            self._recorder.multicast(self._driver.trace_time(), effect.multicast, effect.service)

    def _deliver(self, effect: effect_types.Deliver) -> None:
        if self._recorder is not None:
            self._recorder.deliver(self._driver.trace_time(), effect)
        self._driver.deliver(self, effect)

    def _replay(self, effect: effect_types.Replay) -> None:
        if self._recorder is None or not self._recorder.replay(self._driver.trace_time(), effect):
            self._driver.deliver(self, effect)

    def _is_late(self, effect: effect_types.Deliver | effect_types.Replay) -> bool:
        """Whether a delivery is to wait; behind one that waits, all do."""
        if self._withheld or not self.core.may_deliver(effect, self._driver.seconds_since(0.0)):
            self._withheld.append(effect)
            return True
        return False

    def _deliver_in_time(self, effect: effect_types.Deliver) -> None:
        if not self._is_late(effect):
            self._deliver(effect)

    def _replay_in_time(self, effect: effect_types.Replay) -> None:
        known = self._recorder is not None and self._recorder.has_seen(effect.multicast.id)
        if known or (effect.view is None and not effect.seen) or (not effect.seen and not self._is_late(effect)):
            self._replay(effect)

    def _redeliver(self, _effect: effect_types.Redeliver) -> None:
        withheld, self._withheld = self._withheld, []
        for effect in withheld:
            if not self._is_late(effect):
                if isinstance(effect, effect_types.Deliver):
                    self._deliver(effect)
                else:
                    self._replay(effect)

    def _rollback(self, effect: effect_types.Rollback) -> None:
        if self._recorder is not None:
            self._recorder.rollback(self._driver.trace_time(), effect)
        self._driver.rollback(self, effect)

    def _rollback_in_time(self, effect: effect_types.Rollback) -> None:
        """What waits for the application is not for it any more; and the trace says once what the log says after every
        crash."""
        message, recorder = effect.multicast.id, self._recorder
        for at, waiting in enumerate(self._withheld):
            if waiting.multicast.id == message:
                del self._withheld[at]
                return
        if recorder is not None and (effect.view is None or recorder.has_seen(message, effect.view)):
            recorder.rollback(self._driver.trace_time(), effect)
        if effect.handed:
            self._driver.rollback(self, effect)

    def _recall(self, effect: effect_types.Recall) -> None:
        if self._recorder is not None:
            self._recorder.recall(self._driver.trace_time(), effect.multicast)

    def _install_view(self, effect: effect_types.InstallView) -> None:
        if self._recorder is not None:
            self._recorder.view(self._driver.trace_time(), effect)
        self._driver.install_view(self, effect)

    def _enter_group(self, effect: effect_types.EnterGroup) -> None:
        if self._recorder is not None:
            self._recorder.join(self._driver.trace_time(), effect.group, effect.offset)
        self._driver.enter_group(self, effect)

    def _exit_group(self, effect: effect_types.ExitGroup) -> None:
        if self._recorder is not None:
            self._recorder.leave(self._driver.trace_time(), effect.group)
        self._driver.exit_group(self, effect)

    def _activate(self, effect: effect_types.Activate) -> None:
        if self._recorder is not None:
            self._recorder.activate(self._driver.trace_time(), effect)
        self._driver.activate(self, effect)

    def _declare_failed(self, effect: effect_types.DeclareFailed) -> None:
        if self._recorder is not None:
            self._recorder.declare_failed(self._driver.trace_time(), self._driver.seconds_since(effect.since))
        self._driver.declared_failed(self, effect)
