"""A simulated site: the driver of the protocol instances that run there, and its life through crashes and pauses."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from ordercast.core import MAIN_INSTANCE, GroupId, InstanceId, SiteId, UsageError
from ordercast.core.effects import (
    Activate,
    Blocked,
    Broadcast,
    CancelTimer,
    Credit,
    DeclareFailed,
    DeclareRecovered,
    Deliver,
    EnterGroup,
    ExitGroup,
    InstallView,
    JoinChannel,
    JoinRefused,
    LeaveChannel,
    Replay,
    Rollback,
    Send,
    ServiceUnavailable,
    SetTimer,
)
from ordercast.core.events import Started, Timer, TimerFired
from ordercast.runtime import Instance, MessageNumbers
from ordercast.sim.change import Change
from ordercast.sim.flight import Flight
from ordercast.sim.site.clock import SiteClock
from ordercast.sim.site.credit import CreditQueue, Request
from ordercast.sim.site.disk import Disk
from ordercast.sim.site.log_history import LogHistory
from ordercast.sim.site.membership import Membership
from ordercast.sim.site.processor import Processor
from ordercast.sim.site.reader import Reader
from ordercast.sim.site.roll_call import Greeting, RollCall
from ordercast.sim.site.timers import Timers
from ordercast.trace.recorder import SiteRecorder
from ordercast.trace.schema import REFUSED

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation

REPAIR_SECONDS = 0.5
"""An operator who stands by."""


class SimulatedSite:
    """One site. It is the driver of its instances (see `ordercast.runtime.Driver`)."""

    def __init__(
        self,
        simulation: Simulation,
        name: SiteId,
        recorder: SiteRecorder | None,
        random: Random,
        place: SiteId | None = None,
        late: bool = False,
    ) -> None:
        self.name = name
        self.place = place or name
        """What networks and faults call it: the name of the first process there, where a restart is another process."""
        self.late = late
        """Whether it begins while the others run, and knows of nobody but itself."""
        self.simulation = simulation
        self.recorder = recorder
        self.begun = not late
        self.up = not late
        self.incarnation = 0
        self.instances: dict[InstanceId, Instance] = {}
        self.blocked_reasons: list[str] = []
        self.options = simulation.options
        self.refused = ""
        """Why the site was told that it must not take part; it stays down then."""
        self._network = simulation.network
        queue = self._queue = simulation.queue
        self.clock = SiteClock(queue)
        self.processor = Processor(queue, self.clock, self._caught_up)
        self.roll_call = RollCall(self) if simulation.calls_the_roll else None
        recall = None if self.roll_call is None else self._recall
        self.disk = Disk(queue, self.processor, simulation.sync_seconds, random, recall)
        self.log_history = LogHistory()
        self.reader = Reader(queue, self.processor)
        self._timers = Timers(queue, self.clock, self.processor, self._fire)
        self._requests: dict[InstanceId, CreditQueue] = {}
        self.membership = Membership(self)
        self._recovering: set[InstanceId] = set()
        self._last_packets: int | None = None
        """How many packets the site sends before it crashes; None: it does not crash by that."""
        self._random = random
        # Bound once, because every packet needs them.
        self.arrive: Callable[[Flight], None] = self._arrive
        """A packet reaches the site's interface."""
        self._receive_step = self._receive if simulation.traffic is None else self._receive_counted

    # ------------------------------------------------------------------ life
    def begin(self) -> None:
        """A late site runs for the first time."""
        self.begun = self.up = True
        self.start()

    def start(self) -> None:
        """Start every instance; after a crash, from its log. Where the roll is called, when that is over."""
        self.processor.restart()
        if self.roll_call is None:
            self.start_instances()
        else:
            self.roll_call.begin()

    def start_instances(self) -> None:
        """Start every instance now."""
        self._start(tuple(self.simulation.protocols))
        self.log_history.is_new = False
        if self.simulation.contract.dynamic:
            self.simulation.announce(self)

    def _start(self, names: tuple[InstanceId, ...]) -> None:
        numbers = MessageNumbers()
        check = self.simulation.check_invariants
        for name in names:
            core = self.simulation.make_core(self, name)
            self._requests[name] = CreditQueue()
            self.instances[name] = Instance(core, self, self.disk.log(name), self.recorder, numbers, check)
        for name in names:
            self.processor.run(self._start_instance, name)

    def _start_instance(self, now: float, name: InstanceId) -> None:
        instance = self.instances[name]
        if self.log_history.is_new:
            instance.handle(now, Started())
            # An instance that starts for the first time does not say that it has recovered.
            self._note_recovered(name)
        else:
            instance.start(now, self.log_history.is_repaired)

    def crash(self, torn: bool = False, reason: str | None = None) -> None:
        """Stop at once: memory is gone, the log keeps what was synced (torn: and a random part of the rest)."""
        if not self.up:
            return
        self._record_failure(reason)
        self.up = False
        self._last_packets = None
        for name in tuple(self.instances):
            self.crash_instance(name, torn)
        for flight in self.processor.waiting(Flight):
            self._record_unreached(flight)
        self.processor.halt()

    def crash_after(self, packets: int) -> None:
        """Crash when so many more packets have left."""
        if self.up:
            self._last_packets = packets

    def crash_instance(self, name: InstanceId, torn: bool = False) -> None:
        """One instance stops and loses its memory; the site, and what else runs there, goes on."""
        instance = self.instances.pop(name, None)
        if instance is None:
            return
        self.simulation.branches.update(instance.core.branches_of_crash())
        instance.crash()
        self.simulation.collect(instance)
        self.disk.crash(name, torn)
        self._timers.forget(name)
        del self._requests[name]
        self.reader.forget(name)
        self._network.leave_all(self.name, name)

    def recover_instance(self, name: InstanceId) -> None:
        """An instance that crashed apart runs again, under an incarnation that no other ever had."""
        if self.up and name not in self.instances:
            self.incarnation += 1
            if self.recorder is not None:
                self.recorder.incarnation = self.incarnation
            self._start((name,))

    def recover(self) -> None:
        """Run again after a crash, as a new incarnation."""
        if self.up or self.refused or not self.begun:
            return
        if self.simulation.contract.another_process:
            self.simulation.succeed(self)
            return
        if self.log_history.is_repaired:
            # The last start after the repair did not come far enough: what it has logged is half of the truth.
            self.disk.erase()
            self.log_history.began = self.incarnation + 1
        self.up = True
        self.incarnation += 1
        self._recovering = set(self.simulation.protocols)
        if self.recorder is not None:
            self.recorder.awake(self._queue.now, self.incarnation)
        self.start()

    # ------------------------------------------------------------------ lost memory
    def lose_log(self, repair: bool = False) -> None:
        """Everything on the disk is gone; `repair`: an operator will see to it when the site has been refused."""
        self.disk.erase()
        self.log_history.lose(repair)

    def refuse(self, why: str) -> None:
        """Others have told the site that it must not take part: it fails, and says why."""
        self.refused = why
        self.simulation.refusals[self.name] = why
        self.crash(reason=REFUSED)
        if self.log_history.awaits_operator:
            self._queue.schedule(self._queue.now + REPAIR_SECONDS, self._repair)

    def _repair(self) -> None:
        """An operator has declared the log lost: the site begins a new one, which the others accept."""
        self.refused = ""
        self.disk.erase()
        self.log_history.repair(self.incarnation + 1)
        self.recover()

    def _recall(self) -> bytes:
        return b"" if self.roll_call is None else self.roll_call.memory.everything()

    def agreed(self) -> dict[str, Any]:
        """What all sites must agree on (see `ordercast.core.agreement`)."""
        simulation = self.simulation
        options = msgspec.to_builtins(self.options)
        return {
            "protocol": simulation.protocol.contract.name,
            **{f"[groups] {name}": members for name, members in simulation.groups.items()},
            **{f"[options] {name}": options[name] for name in self.options.shared},
        }

    # ------------------------------------------------------------------ standing still
    def pause(self) -> None:
        """Stand still and keep everything (a stopped process); what arrives waits."""
        if self.up and not self.processor.paused:
            self._record_failure()
            self.processor.pause()

    def resume(self) -> None:
        """Go on after a pause. The site is recovered when it has worked off what had arrived meanwhile."""
        if self.up and self.processor.paused:
            if self.recorder is not None:
                self.recorder.awake(self._queue.now, self.incarnation)
            self.processor.resume()

    def _caught_up(self, time: float) -> None:
        if self.recorder is not None and not self._recovering:
            self.recorder.recover(time)

    def _record_failure(self, reason: str | None = None) -> None:
        if self.recorder is not None:
            now = self._queue.now
            self.recorder.fail(now if self.processor.paused else max(now, self.processor.cursor), reason)

    # ------------------------------------------------------------------ packets
    def _arrive(self, flight: Flight) -> None:
        if self.up:
            self.processor.do(self._receive_step, flight)
        else:
            self._record_unreached(flight)

    def _receive(self, now: float, flight: Flight) -> None:
        if self.roll_call is not None and not self._hear(self.roll_call, flight):
            return
        envelope = flight.envelope
        instance = self.instances.get(envelope.instance)
        if instance is not None:
            instance.receive(now, envelope.sender, envelope.packet, flight.arrival, envelope, flight.number)

    def _receive_counted(self, now: float, flight: Flight) -> None:
        if self.simulation.traffic is not None:
            self.simulation.traffic.count_received(self.name, flight.envelope)
        self._receive(now, flight)

    def _hear(self, roll_call: RollCall, flight: Flight) -> bool:
        """Whether a packet is for an instance that runs here, from somebody who has been accepted."""
        envelope = flight.envelope
        if isinstance(envelope.packet, Greeting):
            if self.recorder is not None:
                self.recorder.receive(self.processor.cursor, envelope, flight.number, flight.arrival.cost)
            roll_call.hear(envelope.sender, envelope.packet)
            return False
        if not roll_call.admits(flight, self._network.stamps[flight.number]):
            self._record_drop(flight, "unknown-session")
            return False
        if envelope.instance not in self.instances:
            self._record_drop(flight, "starting")
            return False
        return True

    def drop(self, flight: Flight, reason: str) -> None:
        """A packet for this site is lost on the way."""
        if self.up and not self.processor.paused:
            self._record_drop(flight, reason)

    def _record_unreached(self, flight: Flight) -> None:
        """The send of a network multicast names no receiver; this row tells that the site was one.

        (Without it: a fault delays the packet beyond phi_n, the site is down by then, or crashes before it has read
        what it finds after a pause, and nothing says that it was not reached.)
        """
        self._record_drop(flight, "down")

    def _record_drop(self, flight: Flight, reason: str) -> None:
        if self.recorder is not None:
            time = max(self._queue.now, self.processor.cursor)
            self.recorder.drop(time, flight.envelope, flight.number, reason)

    # ------------------------------------------------------------------ the application
    def ask(self, change: Change) -> None:
        """The application wants to be in a group, or out of it, or to have another role or service there; a site that
        has not begun does so. While it is down, nobody asks."""
        if not self.begun:
            self.begin()
        if self.up:
            self.membership.ask(change)

    def multicast(
        self,
        payload: bytes,
        groups: tuple[GroupId, ...],
        destinations: tuple[SiteId, ...] | None = None,
        instance: InstanceId = MAIN_INSTANCE,
    ) -> None:
        """The application multicasts; without credit the message waits at the application, which is down when its
        instance is."""
        if instance in self.instances:
            self._requests[instance].put(Request(payload, groups, destinations))
            self.processor.do(self._release, instance)

    def _release(self, now: float, name: InstanceId) -> None:
        instance = self.instances.get(name)
        if instance is None:
            return
        requests = self._requests[name]
        while (request := requests.take()) is not None:
            try:
                instance.request(now, request.payload, request.groups, request.destinations)
                self.simulation.multicasts += 1
                self.simulation.multicast_bytes += len(request.payload)
                return
            except UsageError:
                if not instance.contract.dynamic:
                    raise
                # The application multicasts to a group that is not there, or in which the site is not, yet or any
                # more. The credit is for the next one.
                requests.give_back(request)
                self.simulation.refused_messages += 1

    def _release_waiting(self, instance: Instance) -> None:
        if instance.alive:
            self.processor.do(self._release, instance.name)

    @property
    def waiting_messages(self) -> int:
        """Messages of the application that no instance takes."""
        return sum(map(len, self._requests.values()))

    @property
    def least_credit(self) -> int | None:
        """The least that an instance takes now, of any account; None where none is kept."""
        accounts = (requests.least() for requests in self._requests.values())
        return min((least for least in accounts if least is not None), default=None)

    # ------------------------------------------------------------------ driver: what instances want done
    def trace_time(self) -> float:
        """Simulated time along the site's processor."""
        return self.processor.cursor

    def seconds_since(self, time: float) -> float:
        """How long ago a time of the site's clock was, by that clock."""
        return self.clock.read(self.processor.cursor) - time

    def send(self, instance: Instance, effect: Send) -> None:
        """Hand a packet to the network."""
        to = effect.to if self._last_packets is None else self._last_receivers(effect.to)
        if to:
            self._network.send(self, to, effect.packet, effect.instance or instance.name)

    def _last_receivers(self, to: tuple[SiteId, ...]) -> tuple[SiteId, ...]:
        """Those whom the site still reaches before it crashes: the packets of one send leave in any order."""
        left = self._last_packets or 0
        reached = to if len(to) <= left else tuple(sorted(self._random.sample(to, left)))
        self._last_packets = left - len(reached)
        if left and not self._last_packets:
            self._queue.schedule(self._queue.now, self.crash)
        return reached

    def broadcast(self, instance: Instance, effect: Broadcast) -> None:
        """Hand a packet to the network for everyone on the channel."""
        self._network.broadcast(self, effect.channel, effect.packet, instance.name, effect.ttl)

    def join_channel(self, instance: Instance, effect: JoinChannel) -> None:
        """Hear the channel."""
        self._network.join(self.name, instance.name, effect.channel)

    def leave_channel(self, instance: Instance, effect: LeaveChannel) -> None:
        """Hear the channel no more."""
        self._network.leave(self.name, instance.name, effect.channel)

    def set_timer(self, instance: Instance, effect: SetTimer) -> None:
        """Fire after so many seconds of the site's clock."""
        self._timers.set(instance.name, effect.timer, effect.after_seconds)

    def cancel_timer(self, instance: Instance, effect: CancelTimer) -> None:
        """Do not fire."""
        self._timers.cancel(instance.name, effect.timer)

    def _fire(self, now: float, name: InstanceId, timer: Timer) -> None:
        self.instances[name].handle(now, TimerFired(timer))

    def start_sync(self, instance: Instance, position: int) -> None:
        """Make the log stable up to a position."""
        self.disk.start_sync(instance, position)

    def deliver(self, instance: Instance, effect: Deliver | Replay) -> None:
        """Hand a message to the application, which takes it at once unless it is a slow reader."""
        if self.simulation.application is not None:
            self.simulation.application(self.name, self.processor.cursor, effect)
        if instance.core.wants_consumed:
            self.reader.deliver(instance)

    def rollback(self, instance: Instance, effect: Rollback) -> None:
        """A simulated application keeps nothing that could be undone; the trace has it."""

    def install_view(self, instance: Instance, effect: InstallView) -> None:
        """Nobody in a simulation waits for views; the trace has them."""

    def enter_group(self, instance: Instance, effect: EnterGroup) -> None:
        """A simulated application counts nothing; but it may have asked for it."""
        self.membership.entered(effect.group)

    def exit_group(self, instance: Instance, effect: ExitGroup) -> None:
        """The same."""
        self.membership.exited(effect.group)

    def join_refused(self, instance: Instance, effect: JoinRefused) -> None:
        """Keep the reason for whoever looks at the run."""
        self.membership.refused(effect.group)
        self._keep_reason(f"{effect.group} cannot be joined: {effect.reason}")

    def activate(self, instance: Instance, effect: Activate) -> None:
        """The trace has it."""

    def service_unavailable(self, instance: Instance, effect: ServiceUnavailable) -> None:
        """Keep the reason for whoever looks at the run."""
        self._keep_reason(f"{effect.service} cannot be had in {effect.group}: {effect.reason}")

    def credit(self, instance: Instance, effect: Credit) -> None:
        """The application may send so many more; what waited goes on."""
        for _ in range(self._requests[instance.name].give(effect.available, effect.group)):
            self._queue.schedule(self.processor.cursor, self._release_waiting, instance)

    def blocked(self, instance: Instance, effect: Blocked) -> None:
        """Keep the reason for whoever looks at the run."""
        if effect.reason:
            self._keep_reason(effect.reason if effect.group is None else f"{effect.group}: {effect.reason}")

    def _keep_reason(self, reason: str) -> None:
        if reason not in self.blocked_reasons:
            self.blocked_reasons.append(reason)

    def declared_failed(self, instance: Instance, effect: DeclareFailed) -> None:
        """The site runs, and has not recovered before the instance says so."""
        self._recovering.add(instance.name)

    def recovered(self, instance: Instance, effect: DeclareRecovered) -> None:
        """The instance takes part fully again, after a crash or after it has declared itself failed."""
        self._note_recovered(instance.name)

    def _note_recovered(self, name: InstanceId) -> None:
        if name in self._recovering:
            self._recovering.discard(name)
            if not self._recovering:
                self.log_history.is_repaired = False
                if self.recorder is not None:
                    self.recorder.recover(self.processor.cursor)
