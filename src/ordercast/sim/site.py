"""A simulated site: its clock, its processor, its disk, and the protocol instances that run there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from ordercast.core import (
    MAIN_INSTANCE,
    ChannelId,
    GroupId,
    InstanceId,
    Message,
    MessageId,
    OrdercastError,
    SiteId,
)
from ordercast.core.effects import Deliver, InstallView, Replay
from ordercast.core.events import Arrival, Consumed, Event, Received, Timer, TimerFired
from ordercast.runtime import Instance, MemoryLog
from ordercast.trace.recorder import SiteRecorder

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation


class Packet(msgspec.Struct, frozen=True, gc=False):
    """A message on its way, with what the trace wants to know about it."""

    sender: SiteId
    instance: InstanceId
    message: Message
    name: str
    packet_id: int
    served: tuple[MessageId, ...] | None
    size: int


class _TimerState(msgspec.Struct, gc=False):
    """A running timer. A timer that is pushed back again and again keeps one entry in the event queue, not one per
    push."""

    deadline: float
    queued_for: float


class Clock:
    """The site's own clock: it can be off, and fast or slow."""

    __slots__ = ("_base_global", "_base_local", "rate")

    def __init__(self) -> None:
        self.rate = 1.0
        self._base_global = 0.0
        self._base_local = 0.0

    def read(self, now: float) -> float:
        """Local time at a global time."""
        return self._base_local + (now - self._base_global) * self.rate

    def change(self, now: float, rate: float, jump_seconds: float) -> None:
        """Run at another rate from now on, after a jump."""
        self._base_local = self.read(now) + jump_seconds
        self._base_global = now
        self.rate = rate


class SimulatedSite:
    """One site. It is the driver of its instances (see `ordercast.runtime.Driver`)."""

    def __init__(self, simulation: Simulation, name: SiteId, recorder: SiteRecorder | None, random: Random) -> None:
        self.name = name
        self.simulation = simulation
        self.queue = simulation.queue
        self.recorder = recorder
        self.clock = Clock()
        self.up = True
        self.paused = False
        self.incarnation = 0
        self.instances: dict[InstanceId, Instance] = {}
        self.logs: dict[InstanceId, MemoryLog] = {}
        self.cursor = 0.0
        """The site's processor has work up to this time; sends and rows of a step happen one after the other along
        it."""
        self.consume_seconds = 0.0
        self.handler_calls = 0
        self.slowest_seconds = 0.0
        """The longest that anything had to wait for the processor plus took there: compared with phi_p."""
        self.blocked_reasons: list[str] = []
        self._random = random
        self._timers: dict[tuple[InstanceId, Timer], _TimerState] = {}
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._inbox_wakes = False
        self._backlog_at_resume: int | None = None
        self._recovering = False
        self._unconsumed: dict[InstanceId, int] = {}
        self._credit: dict[InstanceId, int] = {}
        self._waiting: dict[InstanceId, deque[tuple[bytes, tuple[GroupId, ...], tuple[SiteId, ...] | None]]] = {}

    # ------------------------------------------------------------------ life
    def start(self) -> None:
        """Start every instance; after a crash, from its log."""
        now = self.queue.now
        self.cursor = now
        for name, core in self.simulation.make_cores(self):
            log = self.logs.setdefault(name, MemoryLog())
            self.instances[name] = Instance(core, self, log, self.recorder, self.simulation.check_invariants)
        for instance in self.instances.values():
            self._run(instance.start)

    def crash(self, torn: bool = False) -> None:
        """Stop at once: memory is gone, the log keeps what was synced (torn: and a random part of the rest)."""
        if not self.up:
            return
        self._record_failure()
        self.up = False
        self.paused = False
        self._backlog_at_resume = None
        for name, instance in self.instances.items():
            instance.crash()
            self.simulation.collect(instance)
            if torn:
                self.logs[name].crash_torn(self._random)
            else:
                self.logs[name].crash()
        self.instances.clear()
        self._timers.clear()
        self._inbox.clear()
        self._unconsumed.clear()
        self._credit.clear()
        self._waiting.clear()
        self.simulation.network.leave_all(self.name)

    def recover(self) -> None:
        """Run again after a crash, as a new incarnation."""
        if self.up:
            return
        self.up = True
        self.incarnation += 1
        self._recovering = True
        if self.recorder is not None:
            self.recorder.awake(self.queue.now, self.incarnation)
        self.start()

    def pause(self) -> None:
        """Stand still and keep everything (a stopped process); what arrives waits."""
        if self.up and not self.paused:
            self._record_failure()
            self.paused = True
            self._backlog_at_resume = None

    def resume(self) -> None:
        """Go on after a pause. The site is recovered when it has worked off what had arrived meanwhile."""
        if not (self.up and self.paused):
            return
        self.paused = False
        now = self.queue.now
        if self.recorder is not None:
            self.recorder.awake(now, self.incarnation)
        self._backlog_at_resume = len(self._inbox)
        self._wake_at(now)
        self._finish_backlog(now)

    def _record_failure(self) -> None:
        if self.recorder is not None:
            self.recorder.fail(max(self.queue.now, self.cursor if self.up and not self.paused else 0.0))

    def _finish_backlog(self, time: float) -> None:
        if self._backlog_at_resume == 0:
            self._backlog_at_resume = None
            if self.recorder is not None and not self._recovering:
                self.recorder.recover(time)

    # ------------------------------------------------------------------ the processor
    def _run(self, function: Callable[..., None], *arguments: Any) -> None:
        """One step at the site: it begins when the processor is free and ends where its sends have taken the cursor."""
        now = self.queue.now
        begin = self.cursor if self.cursor > now else now
        self.cursor = begin
        self.handler_calls += 1
        try:
            function(self.clock.read(begin), *arguments)
        except OrdercastError as error:
            error.add_note(f"at site {self.name}, {begin:.6f} s")
            raise
        taken = self.cursor - now
        if taken > self.slowest_seconds:
            self.slowest_seconds = taken

    def _do(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run a step now, or queue it when the site is busy or paused."""
        if self.paused or self._inbox or self.cursor > self.queue.now:
            self._inbox.append((function, arguments))
            if not self.paused:
                self._wake_at(self.cursor)
        else:
            self._run(function, *arguments)

    def _wake_at(self, time: float) -> None:
        if not self._inbox_wakes and self._inbox:
            self._inbox_wakes = True
            self.queue.schedule(time, self._work)

    def _work(self) -> None:
        """Take the next step from the inbox, then come back when that is done."""
        self._inbox_wakes = False
        if self.paused or not self._inbox:
            return
        function, arguments = self._inbox.popleft()
        self._run(function, *arguments)
        if self._backlog_at_resume is not None:
            self._backlog_at_resume -= 1
            self._finish_backlog(self.cursor)
        self._wake_at(self.cursor)

    # ------------------------------------------------------------------ what happens to it
    def arrive(self, packet: Packet, arrival: Arrival) -> None:
        """A packet reaches the site's interface."""
        if self.up:
            self._do(self._receive, packet, arrival)

    def _receive(self, now: float, packet: Packet, arrival: Arrival) -> None:
        instance = self.instances.get(packet.instance)
        if instance is None:
            return
        if self.recorder is not None:
            self.recorder.receive(
                self.cursor,
                packet.sender,
                packet.name,
                packet.packet_id,
                packet.served,
                packet.size,
                arrival.cost,
            )
        instance.handle(now, Received(packet.sender, packet.message, arrival))

    def drop(self, packet: Packet, reason: str) -> None:
        """A packet for this site is lost on the way."""
        if self.recorder is not None and self.up and not self.paused:
            self.recorder.drop(
                max(self.queue.now, self.cursor),
                packet.sender,
                packet.name,
                packet.packet_id,
                packet.served,
                packet.size,
                reason,
            )

    def multicast(
        self,
        payload: bytes,
        groups: tuple[GroupId, ...],
        destinations: tuple[SiteId, ...] | None = None,
        instance: InstanceId = MAIN_INSTANCE,
    ) -> None:
        """The application multicasts; without credit the message waits at the application."""
        if self.up:
            self._waiting.setdefault(instance, deque()).append((payload, groups, destinations))
            self._do(self._release, instance)

    def _release(self, now: float, instance: InstanceId) -> None:
        waiting = self._waiting.get(instance)
        if not waiting or self._credit.get(instance, 1) <= 0:
            return
        if instance in self._credit:
            self._credit[instance] -= 1
        payload, groups, destinations = waiting.popleft()
        self.instances[instance].request(now, payload, groups, destinations)

    def tell(self, event: Event, instance: InstanceId = MAIN_INSTANCE) -> None:
        """Something else happens to an instance (a join request, a part's news)."""
        if self.up:
            self._do(self._tell, instance, event)

    def _tell(self, now: float, instance: InstanceId, event: Event) -> None:
        self.instances[instance].handle(now, event)

    # ------------------------------------------------------------------ driver: what instances want done
    def trace_time(self) -> float:
        """Global time along the site's processor."""
        return self.cursor

    def send(self, instance: Instance, to: tuple[SiteId, ...], message: Message, to_instance: InstanceId) -> None:
        """Hand a message to the network."""
        self.simulation.network.send(self, to, message, to_instance)

    def broadcast(self, instance: Instance, channel: ChannelId, message: Message, ttl: int | None) -> None:
        """Hand a message to the network for everyone on the channel."""
        self.simulation.network.broadcast(self, channel, message, instance.name, ttl)

    def join_channel(self, instance: Instance, channel: ChannelId) -> None:
        """Hear the channel."""
        self.simulation.network.join(self.name, channel)

    def leave_channel(self, instance: Instance, channel: ChannelId) -> None:
        """Hear it no longer."""
        self.simulation.network.leave(self.name, channel)

    def set_timer(self, instance: Instance, timer: Timer, after_seconds: float) -> None:
        """Fire after so many seconds of the site's clock."""
        key = (instance.name, timer)
        deadline = self.cursor + after_seconds / self.clock.rate
        state = self._timers.get(key)
        if state is not None and state.queued_for <= deadline:
            state.deadline = deadline
            return
        state = self._timers[key] = _TimerState(deadline, deadline)
        self.queue.schedule(deadline, self._timer_due, key, state)

    def cancel_timer(self, instance: Instance, timer: Timer) -> None:
        """Do not fire."""
        self._timers.pop((instance.name, timer), None)

    def _timer_due(self, key: tuple[InstanceId, Timer], state: _TimerState) -> None:
        if self._timers.get(key) is not state:
            return
        if state.deadline > self.queue.now:
            state.queued_for = state.deadline
            self.queue.schedule(state.deadline, self._timer_due, key, state)
            return
        self._do(self._fire, key, state)

    def _fire(self, now: float, key: tuple[InstanceId, Timer], state: _TimerState) -> None:
        # It may have been cancelled or pushed back while it waited for the processor.
        if self._timers.get(key) is not state:
            return
        if state.deadline > self.cursor:
            self._timer_due(key, state)
            return
        del self._timers[key]
        self.instances[key[0]].handle(now, TimerFired(key[1]))

    def start_sync(self, instance: Instance, position: int) -> bool:
        """The simulated disk takes `sync_seconds`; a sync that is under way when the site crashes is lost."""
        seconds = self.simulation.sync_seconds
        if seconds <= 0:
            return True
        self.queue.schedule(self.cursor + seconds, self._synced, instance, position)
        return False

    def _synced(self, instance: Instance, position: int) -> None:
        if instance.alive:
            self._do(self._release_held, instance, position)

    def _release_held(self, now: float, instance: Instance, position: int) -> None:
        instance.on_synced(position)

    def deliver(self, instance: Instance, effect: Deliver | Replay) -> None:
        """Hand a message to the application, which takes it at once unless it is a slow reader."""
        if self.simulation.application is not None:
            self.simulation.application(self.name, self.cursor, effect)
        if instance.core.wants_consumed:
            outstanding = self._unconsumed.get(instance.name, 0)
            self._unconsumed[instance.name] = outstanding + 1
            if outstanding == 0:
                self.queue.schedule(self.cursor + self.consume_seconds, self._consume, instance)

    def _consume(self, instance: Instance) -> None:
        if instance.alive:
            self._do(self._consumed, instance)

    def _consumed(self, now: float, instance: Instance) -> None:
        outstanding = self._unconsumed.get(instance.name, 0)
        taken = 1 if self.consume_seconds > 0 else outstanding
        self._unconsumed[instance.name] = outstanding - taken
        if outstanding > taken:
            self.queue.schedule(self.cursor + self.consume_seconds, self._consume, instance)
        instance.handle(now, Consumed(taken))

    def rollback(self, instance: Instance, messages: tuple[MessageId, ...]) -> None:
        """Take deliveries back from the application."""
        if self.simulation.on_rollback is not None:
            self.simulation.on_rollback(self.name, self.cursor, messages)

    def install_view(self, instance: Instance, effect: InstallView) -> None:
        """Nobody in a simulation waits for views; the trace has them."""

    def credit(self, instance: Instance, available: int) -> None:
        """The application may send so many more; what waited goes on."""
        self._credit[instance.name] = available
        for _ in range(min(available, len(self._waiting.get(instance.name, ())))):
            self.queue.schedule(self.cursor, self._released, instance)

    def _released(self, instance: Instance) -> None:
        if instance.alive:
            self._do(self._release, instance.name)

    def blocked(self, instance: Instance, reason: str) -> None:
        """Keep the reason for whoever looks at the run."""
        if reason and reason not in self.blocked_reasons:
            self.blocked_reasons.append(reason)

    def recovered(self, instance: Instance) -> None:
        """The instance takes part fully again after a crash."""
        if self._recovering:
            self._recovering = False
            if self.recorder is not None:
                self.recorder.recover(self.cursor)
