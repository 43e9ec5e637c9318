"""A simulated site: its clock, its processor, its disk, and the protocol instances that run there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from ordercast.core import MAIN_INSTANCE, GroupId, InstanceId, SiteId
from ordercast.core.effects import (
    Blocked,
    Broadcast,
    CancelTimer,
    Credit,
    DeclareRecovered,
    Deliver,
    InstallView,
    JoinChannel,
    Replay,
    Send,
    SetTimer,
)
from ordercast.core.events import Arrival, Consumed, Event, Received, Timer, TimerFired
from ordercast.runtime import Instance, MemoryLog, MessageNumbers
from ordercast.trace.recorder import Envelope, SiteRecorder

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation


class _TimerState(msgspec.Struct, gc=False):
    """A running timer. A timer that is pushed back again and again keeps one entry in the event queue, not one per
    push."""

    deadline: float
    queued_for: float


class SimulatedSite:
    """One site. It is the driver of its instances (see `ordercast.runtime.Driver`)."""

    def __init__(self, simulation: Simulation, name: SiteId, recorder: SiteRecorder | None, random: Random) -> None:
        self.name = name
        self.simulation = simulation
        self.queue = simulation.queue
        self.recorder = recorder
        self._clock_rate = 1.0
        self._clock_base = (0.0, 0.0)
        """Global and local time at which the clock began to run at its present rate."""
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
        self._recovering: set[InstanceId] = set()
        self._unconsumed: dict[InstanceId, int] = {}
        self._credit: dict[InstanceId, int] = {}
        self._waiting: dict[InstanceId, deque[tuple[bytes, tuple[GroupId, ...], tuple[SiteId, ...] | None]]] = {}

    # ------------------------------------------------------------------ life
    def start(self) -> None:
        """Start every instance; after a crash, from its log."""
        self.cursor = self.queue.now
        self._start(tuple(self.simulation.protocols))

    def _start(self, names: tuple[InstanceId, ...]) -> None:
        numbers = MessageNumbers()
        for name in names:
            core = self.simulation.make_core(self, name)
            log = self.logs.setdefault(name, MemoryLog(instant=self.simulation.sync_seconds <= 0))
            check = self.simulation.check_invariants
            self.instances[name] = Instance(core, self, log, self.recorder, numbers, check)
        for name in names:
            self._run(self.instances[name].start)

    def crash(self, torn: bool = False) -> None:
        """Stop at once: memory is gone, the log keeps what was synced (torn: and a random part of the rest)."""
        if not self.up:
            return
        self._record_failure()
        self.up = False
        self.paused = False
        self._backlog_at_resume = None
        for name in tuple(self.instances):
            self.crash_instance(name, torn)
        for function, arguments in self._inbox:
            if function == self._receive:
                self._record_unreached(*arguments[:2])
        self._inbox.clear()

    def crash_instance(self, name: InstanceId, torn: bool = False) -> None:
        """One instance stops and loses its memory; the site, and what else runs there, goes on."""
        instance = self.instances.pop(name, None)
        if instance is None:
            return
        instance.crash()
        self.simulation.collect(instance)
        if torn:
            self.logs[name].crash_torn(self._random)
        else:
            self.logs[name].crash()
        self._timers = {key: state for key, state in self._timers.items() if key[0] != name}
        for per_instance in (self._unconsumed, self._credit, self._waiting):
            per_instance.pop(name, None)
        self.simulation.network.leave_all(self.name, name)

    def recover_instance(self, name: InstanceId) -> None:
        """An instance that crashed apart runs again, under an incarnation that no other ever had."""
        if self.up and name not in self.instances:
            self.incarnation += 1
            if self.recorder is not None:
                self.recorder.incarnation = self.incarnation
            self._start((name,))

    def recover(self) -> None:
        """Run again after a crash, as a new incarnation."""
        if self.up:
            return
        self.up = True
        self.incarnation += 1
        self._recovering = set(self.simulation.protocols)
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

    # ------------------------------------------------------------------ the clock
    def read_clock(self, now: float) -> float:
        """The site's own time at a global time."""
        if self._clock_rate == 1.0 and not self._clock_base[1]:
            return now
        global_base, local_base = self._clock_base
        return local_base + (now - global_base) * self._clock_rate

    def change_clock(self, rate: float, jump_seconds: float) -> None:
        """Let the clock jump, and run at another rate from now on."""
        now = self.queue.now
        self._clock_base = (now, self.read_clock(now) + jump_seconds)
        self._clock_rate = rate

    # ------------------------------------------------------------------ the processor
    def _run(self, function: Callable[..., None], *arguments: Any) -> None:
        """One step at the site: it begins when the processor is free and ends where its sends have taken the cursor."""
        now = self.queue.now
        begin = self.cursor if self.cursor > now else now
        self.cursor = begin
        self.handler_calls += 1
        function(self.read_clock(begin), *arguments)
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
    def arrive(self, packet: int, envelope: Envelope, arrival: Arrival) -> None:
        """A packet reaches the site's interface. Most find the site idle, and take the short way."""
        if not self.up:
            self._record_unreached(packet, envelope)
            return
        now = self.queue.now
        if self.paused or self._inbox or self.cursor > now:
            self._do(self._receive, packet, envelope, arrival)
            return
        self.cursor = now
        self.handler_calls += 1
        self._receive(self.read_clock(now), packet, envelope, arrival)
        if self.cursor - now > self.slowest_seconds:
            self.slowest_seconds = self.cursor - now

    def _receive(self, now: float, packet: int, envelope: Envelope, arrival: Arrival) -> None:
        instance = self.instances.get(envelope.instance)
        if instance is None:
            return
        if self.recorder is not None:
            self.recorder.receive(self.cursor, packet, envelope, arrival.cost)
        instance.handle(now, Received(envelope.sender, envelope.packet, arrival))

    def _record_unreached(self, packet: int, envelope: Envelope) -> None:
        """The send of a network multicast names no receiver; this row tells that the site was one.

        (Without it: a fault delays the packet beyond phi_n, the site is down by then, or crashes before it has read
        what it finds after a pause, and nothing says that it was not reached.)
        """
        if self.recorder is not None:
            self.recorder.drop(max(self.queue.now, self.cursor), packet, envelope, "down")

    def drop(self, packet: int, envelope: Envelope, reason: str) -> None:
        """A packet for this site is lost on the way."""
        if self.recorder is not None and self.up and not self.paused:
            self.recorder.drop(max(self.queue.now, self.cursor), packet, envelope, reason)

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
        if instance in self.instances:
            self.instances[instance].handle(now, event)

    # ------------------------------------------------------------------ driver: what instances want done
    def trace_time(self) -> float:
        """Global time along the site's processor."""
        return self.cursor

    def send(self, instance: Instance, effect: Send) -> None:
        """Hand a message to the network."""
        self.simulation.network.send(self, effect.to, effect.packet, effect.instance or instance.name)

    def broadcast(self, instance: Instance, effect: Broadcast) -> None:
        """Hand a message to the network for everyone on the channel."""
        self.simulation.network.broadcast(self, effect.channel, effect.packet, instance.name, effect.ttl)

    def join_channel(self, instance: Instance, effect: JoinChannel) -> None:
        """Hear the channel."""
        self.simulation.network.join(self.name, instance.name, effect.channel)

    def set_timer(self, instance: Instance, effect: SetTimer) -> None:
        """Fire after so many seconds of the site's clock."""
        key = (instance.name, effect.timer)
        deadline = self.cursor + effect.after_seconds / self._clock_rate
        state = self._timers.get(key)
        if state is not None and state.queued_for <= deadline:
            state.deadline = deadline
            return
        state = self._timers[key] = _TimerState(deadline, deadline)
        self.queue.schedule(deadline, self._timer_due, key, state)

    def cancel_timer(self, instance: Instance, effect: CancelTimer) -> None:
        """Do not fire."""
        self._timers.pop((instance.name, effect.timer), None)

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

    def start_sync(self, instance: Instance, position: int) -> None:
        """The simulated disk takes `sync_seconds`; a sync that is under way when the site crashes is lost."""
        self.queue.schedule(self.cursor + self.simulation.sync_seconds, self._synced, instance, position)

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

    def install_view(self, instance: Instance, effect: InstallView) -> None:
        """Nobody in a simulation waits for views; the trace has them."""

    def credit(self, instance: Instance, effect: Credit) -> None:
        """The application may send so many more; what waited goes on."""
        self._credit[instance.name] = effect.available
        for _ in range(min(effect.available, len(self._waiting.get(instance.name, ())))):
            self.queue.schedule(self.cursor, self._released, instance)

    def _released(self, instance: Instance) -> None:
        if instance.alive:
            self._do(self._release, instance.name)

    def blocked(self, instance: Instance, effect: Blocked) -> None:
        """Keep the reason for whoever looks at the run."""
        if effect.reason and effect.reason not in self.blocked_reasons:
            self.blocked_reasons.append(effect.reason)

    def recovered(self, instance: Instance, effect: DeclareRecovered) -> None:
        """The instance takes part fully again after a crash."""
        if instance.name in self._recovering:
            self._recovering.discard(instance.name)
            if not self._recovering and self.recorder is not None:
                self.recorder.recover(self.cursor)
