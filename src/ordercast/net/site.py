"""A live site: the driver of protocol instances on real sockets, a real clock and a real disk."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any

from ordercast.core import MAIN_INSTANCE, GroupId, InstanceId, Packet, SiteId, UsageError
from ordercast.core.effects import (
    Activate,
    Blocked,
    Broadcast,
    Credit,
    DeclareFailed,
    DeclareRecovered,
    Deliver,
    Effect,
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
)
from ordercast.core.events import Arrival, Consumed, Discovered, Timer, TimerFired
from ordercast.core.memory import ROLL_CALL_SECONDS
from ordercast.net.application import Application
from ordercast.net.discovery import FOUND_SECONDS, Discovery
from ordercast.net.packets import NET_INSTANCE
from ordercast.net.requests import Requests
from ordercast.net.timers import Timers
from ordercast.net.transport import Datagram, Transport
from ordercast.net.ways import Ways
from ordercast.runtime import Instance, MessageNumbers
from ordercast.trace.interface import describe
from ordercast.trace.live import LiveRecorder
from ordercast.wire.endpoint import Endpoint
from ordercast.wire.whereabouts import Address

CONSUMED_SECONDS = 0.02
"""How long an instance may not know what the application has taken: only senders that are far ahead wait for it."""

CONSUMED_MANY = 8
"""So many bundles it hears of at once."""

EARLY_MAX = 256
"""Packets that wait for the start of the instances, while the others are asked whether it is in order. Those that come
then are dropped: whoever sends repeats them."""

_ARRIVAL = Arrival()


class LiveSite(Requests):
    """One process of the cluster. It is the driver of its instances (see `ordercast.runtime.Driver`). Like everything
    on the way of each packet it has fewer than 30 attributes: Python 3.11 finds those of a larger object slowly."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: SiteId,
        sites: tuple[SiteId, ...],
        endpoint: Endpoint,
        application: Application,
        start_sync: Callable[[Instance, int], None],
        recorder: LiveRecorder | None = None,
    ) -> None:
        self.name = name
        self.instances: dict[InstanceId, Instance] = {}
        self._awake: dict[InstanceId, Instance] = {}
        """Those that have started."""
        self._loop = loop
        self._others = tuple(site for site in sites if site != name)
        self._arrivals: dict[InstanceId, Arrival] = {}
        """How packets come to the instances that have joined the channel of a hub."""
        self._listeners: dict[InstanceId, Callable[[SiteId, Packet], None]] = {}
        """Who takes packets beside the instances."""
        self._endpoint = endpoint
        self._application = application
        self._start_sync = start_sync
        self._recorder = recorder
        self._transport: Transport | None = None
        self._ways: Ways | None = None
        self._discovery: Discovery | None = None
        self._timers = Timers(loop, self._on_timer_due)
        # Called without a function of this class in between: most steps set a timer.
        self.set_timer = self._timers.set_timer
        self.cancel_timer = self._timers.cancel_timer
        self._deliveries: deque[tuple[Callable[[InstanceId, Any], None], InstanceId, Effect]] = deque()
        """What goes to the application at the end of the turn, in the order of the effects."""
        self._to_self: deque[tuple[InstanceId, Packet, Arrival]] = deque()
        self._taken = 0
        """Deliveries that the application has taken and the instance has not heard of."""
        self._tells_consumed = False
        self.numbers = MessageNumbers()
        """Of this process' multicasts."""
        self._tick_handle: asyncio.TimerHandle | None = None
        self._tick_at = inf
        self._running = False
        self._peers = 0
        self._roll_call: asyncio.Handle | None = None
        """While the instances wait for what the others know of this process' history."""
        self._lost = False
        self._early: list[tuple[SiteId, InstanceId, Packet]] = []

    # ------------------------------------------------------------------ life
    def start(
        self,
        transport: Transport,
        multicast: bool,
        roll_call: bool = False,
        lost: bool = False,
        discovery: Discovery | None = None,
    ) -> None:
        """Begin to talk, and start every instance. What goes wrong there is raised to the caller, too.

        After a `roll_call`, the instances start when all others have greeted this process, or have had the time to;
        whoever knows of a later history ends it first. `lost` is what the instances are told of their log. In a cluster
        without a list of processes, a `discovery` looks for them.
        """
        self._transport, self._discovery = transport, discovery
        sites = tuple(sorted((self.name, *self._others)))
        self._ways = Ways(
            self._loop, sites, self._endpoint, transport, multicast, discovery, self._arrivals, self._enter
        )
        self._running = True
        try:
            self._ways.start()
            self._lost = lost
            if roll_call and (self._others or discovery is not None):
                self._roll_call = self._loop.call_later(ROLL_CALL_SECONDS, self._enter, self._begin)
            self._tick(self._loop.time())
            if discovery is not None:
                discovery.start(self._enter, self.discovered)
            self.end_turn()
            if self._roll_call is None:
                self._begin(self._loop.time())
        except BaseException as error:
            self._fail(error)
            raise

    def _begin(self, now: float) -> None:
        """Start the instances."""
        silent: Sequence[SiteId] = ()
        if self._roll_call is not None:
            self._roll_call.cancel()
            self._roll_call = None
            silent = [site for site in self._others if site not in self._endpoint.established]
        for name, instance in tuple(self.instances.items()):
            instance.start(self._loop.time(), self._lost)
            self._awake[name] = instance
            self.end_turn()
        early, self._early = self._early, []
        for sender, name, packet in early:
            if name in self._awake:
                self._awake[name].receive(now, sender, packet, self._arrivals.get(name, _ARRIVAL))
        if self._discovery is not None:
            self._discovery.tell()
        self._application.started(silent)

    def stop(self) -> None:
        """Do nothing any more. What the instances know is in the log, or lost."""
        self._running = False
        for instance in self.instances.values():
            instance.crash()
        self._deliveries.clear()
        self._to_self.clear()
        self._timers.stop()
        if self._ways is not None:
            self._ways.stop()
        for handle in (self._tick_handle, self._roll_call):
            if handle is not None:
                handle.cancel()

    def _enter(self, function: Callable[..., object], *arguments: Any) -> None:
        """One step from outside, and everything that it wants sent and delivered.

        Whatever raises on the way stops the site. (Left to the event loop, which writes it down and goes on, an
        exception of the application's callback would cost the message that it was called with, and those behind it.)
        """
        if self._running:
            try:
                function(self._loop.time(), *arguments)
                self.end_turn()
            except BaseException as error:
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.stop()
        self._application.failed(error)
        if isinstance(error, KeyboardInterrupt | SystemExit):
            # The whole program is to end, and that is the event loop's business.
            raise error

    # ------------------------------------------------------------------ the network
    def on_datagram(
        self,
        datagram: Datagram,
        now: float,
        multicast: bool,
        segment: int | None,
        source: Address | None = None,
        ttl: int | None = None,
    ) -> bool:
        """A datagram from a socket, or several, one every `segment` bytes: what they hold goes to the instances.
        Whether they hold anything. In a cluster that strangers may join, also from where they came, and what was left
        of their TTL."""
        endpoint, arrivals, awake = self._endpoint, self._arrivals, self._awake
        try:
            received = (
                endpoint.receive(datagram, now, source)
                if segment is None
                else endpoint.receive_train(datagram, segment, now, source)
            )
            for sender, name, packet in received:
                instance = awake.get(name)
                if instance is not None:
                    instance.receive(now, sender, packet, arrivals.get(name, _ARRIVAL) if arrivals else _ARRIVAL)
                elif name in self._listeners:
                    self._listeners[name](sender, packet)
                elif name == NET_INSTANCE and self._ways is not None:
                    self._ways.on_packet(sender, packet, multicast)
                elif self._roll_call is not None and len(self._early) < EARLY_MAX:
                    self._early.append((sender, name, packet))
            if (endpoint.casts or source is not None) and self._ways is not None:
                return self._ways.take(awake, now, multicast, ttl) or bool(received)
            return bool(received)
        except BaseException as error:
            # Whatever the network brings is caught further in: this is a bug of ours.
            self._fail(error)
            return False

    def hear(self, name: InstanceId, listener: Callable[[SiteId, Packet], None]) -> None:
        """Packets under this name, which is no instance's, go to a listener."""
        self._listeners[name] = listener

    def say(self, to: SiteId, name: InstanceId, packet: Packet) -> None:
        """Send a packet under such a name to one process, if it is known; it leaves at the end of the turn."""
        with suppress(UsageError):
            self._endpoint.send((to,), name, packet)

    def step(self, function: Callable[[float], object]) -> None:
        """Let a listener do something in a turn of its own; the function gets the time."""
        self._enter(function)

    def end_turn(self) -> None:
        """Let everything leave that the last steps have written, packed; then the application gets its deliveries."""
        if self._to_self:
            self._hear_oneself()
        if self._timers.at_once:
            self._fire_at_once()
        transport, endpoint, ways = self._transport, self._endpoint, self._ways
        if transport is None or ways is None or not self._running:
            return
        if self._recorder is not None:
            # First the trace, then the network: a process that is killed in between has not sent.
            self._recorder.flush()
        for outgoing in endpoint.flush():
            if outgoing.where is not None:
                transport.send_to(outgoing.where, outgoing.buffer)
            elif ways.by_unicast:
                transport.send(outgoing.to, outgoing.buffer, outgoing.segment)
            else:
                ways.send(outgoing)
        if self._deliveries:
            self.hand_over()
        deadline = endpoint.deadline
        if deadline < self._tick_at:
            self._tick_soon(deadline)
        if len(endpoint.established) != self._peers:
            self._peers = len(endpoint.established)
            ways.channels.on_peers()
            self._application.peers_changed()
            if self._roll_call is not None and self._discovery is None and self._peers == len(self._others):
                self._roll_call.cancel()
                self._roll_call = self._loop.call_soon(self._enter, self._begin)

    def _hear_oneself(self) -> None:
        """What instances here have sent to instances here."""
        while self._to_self:
            name, packet, arrival = self._to_self.popleft()
            instance = self.instances.get(name)
            if instance is not None:
                instance.receive(self._loop.time(), self.name, packet, arrival)

    def _fire_at_once(self) -> None:
        """What instances want done when everything that came together is there."""
        for name, timer in self._timers.take_at_once():
            self.instances[name].handle(self._loop.time(), TimerFired(timer))
        if self._timers.at_once:
            self._loop.call_soon(self._enter, lambda _now: None)

    def hand_over(self) -> None:
        """Give the application what was delivered and waits for the end of the turn."""
        deliveries = self._deliveries
        # One by one: an application that multicasts meanwhile comes here again, and first of all gets what is left.
        while deliveries:
            tell, instance, effect = deliveries.popleft()
            tell(instance, effect)

    @property
    def uses_multicast(self) -> bool:
        """Whether IP multicast is configured and reaches every process."""
        return self._ways is not None and self._ways.uses_multicast

    def on_drained(self) -> None:
        """A socket is empty for now."""
        if self._running:
            try:
                self.end_turn()
                # Last: nobody waits for it, and with every single bundle it would be a tenth of all work.
                if self._taken >= CONSUMED_MANY:
                    self._tell_consumed(self._loop.time())
                    self.end_turn()
            except BaseException as error:
                self._fail(error)

    def tick(self) -> None:
        """The endpoint's timers: greetings, repairs."""
        self._enter(self._tick)

    def _tick(self, now: float) -> None:
        self._tick_at = inf
        self._endpoint.tick(now)
        if self._endpoint.refused is not None:
            raise UsageError(self._endpoint.refused)

    def _tick_soon(self, deadline: float) -> None:
        if self._tick_handle is not None:
            self._tick_handle.cancel()
        self._tick_at = deadline
        self._tick_handle = self._loop.call_at(deadline, self.tick)

    # ------------------------------------------------------------------ the application
    def request(
        self, payload: bytes, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None, count: int
    ) -> None:
        """The application multicasts; `UsageError` when the core does not allow it. Whatever else raises stops the
        site, and the application hears of it as of any failure."""
        numbers = self.numbers
        last = numbers.last
        try:
            self.instances[MAIN_INSTANCE].request(self._loop.time(), payload, groups, destinations, count)
            self.end_turn()
        except BaseException as error:
            if numbers.last == last and isinstance(error, UsageError):
                raise  # the core has not taken it, and nothing has happened
            self._fail(error)

    def _ask(self, ask: Callable[[float], None]) -> None:
        """What the core refuses is the caller's; whatever else raises stops the site."""
        try:
            ask(self._loop.time())
        except UsageError:
            raise
        except BaseException as error:
            self._fail(error)
        else:
            self._enter(lambda _now: None)

    def discovered(self, sites: tuple[SiteId, ...], settled: bool) -> None:
        """These other processes are known now; dynamic instances hear of it."""
        self._others = sites
        if self._ways is not None:
            self._ways.set_others(sites)
        if self._roll_call is not None and self._discovery is not None and sites:
            # Those who are found tell of the others at once.
            self._roll_call.cancel()
            self._roll_call = self._loop.call_later(FOUND_SECONDS, self._enter, self._begin)
        for instance in tuple(self._awake.values()):
            if instance.contract.dynamic:
                self._enter(instance.handle, Discovered(sites, settled))

    def consumed(self) -> None:
        """The application has taken a delivery. The instance hears of it soon."""
        self._taken += 1
        if not self._tells_consumed:
            self._tells_consumed = True
            self._loop.call_later(CONSUMED_SECONDS, self._consumed_due)

    def _consumed_due(self) -> None:
        self._tells_consumed = False
        if self._taken and self._running:
            self._enter(self._tell_consumed)

    def _tell_consumed(self, now: float) -> None:
        # (What an earlier start had delivered can be taken before this one's instances have started.)
        if MAIN_INSTANCE in self._awake:
            taken, self._taken = self._taken, 0
            self._awake[MAIN_INSTANCE].handle(now, Consumed(taken))

    # ------------------------------------------------------------------ driver: what instances want done
    def trace_time(self) -> float:
        """Seconds of this process' monotonic clock."""
        return self._loop.time()

    def seconds_since(self, time: float) -> float:
        """How long ago a time of the loop's clock was."""
        return self._loop.time() - time

    def send(self, instance: Instance, effect: Send) -> None:
        """Pack a packet for its receivers; it leaves at the end of the turn."""
        name = effect.instance or instance.name
        to = effect.to
        if self._recorder is not None:
            envelope = describe(self.name, name, effect.packet)
            for site in to:
                self._recorder.send(self.trace_time(), site, envelope)
        if self.name in to:
            self._to_self.append((name, effect.packet, _ARRIVAL))
            to = tuple(site for site in to if site != self.name)
        if to:
            self._endpoint.send(to, name, effect.packet)

    def broadcast(self, instance: Instance, effect: Broadcast) -> None:
        """Whoever listens hears it, the sender too."""
        if self._recorder is not None:
            self._recorder.send(self.trace_time(), None, describe(self.name, instance.name, effect.packet))
        if self._ways is not None and self._ways.broadcast(instance.name, effect):
            self._to_self.append((instance.name, effect.packet, Arrival(effect.channel, hops=0)))

    def join_channel(self, instance: Instance, effect: JoinChannel) -> None:
        """What is broadcast on the channel goes to the instance."""
        if self._ways is not None:
            self._ways.join(instance.name, effect.channel)

    def leave_channel(self, instance: Instance, effect: LeaveChannel) -> None:
        """What is broadcast there goes to it no more."""
        if self._ways is not None:
            self._ways.leave(instance.name, effect.channel)

    def _on_timer_due(self, instance: InstanceId, timer: Timer) -> None:
        self._enter(self.instances[instance].handle, TimerFired(timer))

    def start_sync(self, instance: Instance, position: int) -> None:
        """Make the log stable up to a position."""
        self._start_sync(instance, position)

    def synced(self, instance: Instance, position: int) -> None:
        """The log is stable up to a position: what waited for it leaves."""
        if instance.alive:
            self._endpoint.position = position
            self._enter(lambda _now: instance.on_synced(position))

    def deliver(self, instance: Instance, effect: Deliver | Replay) -> None:
        """Hand a message to the application."""
        # After what this step sends: others should not wait for our own application.
        self._deliveries.append((self._application.deliver, instance.name, effect))

    def rollback(self, instance: Instance, effect: Rollback) -> None:
        """Tell the application, at the end of the turn and in order."""
        self._deliveries.append((self._application.rollback, instance.name, effect))

    def install_view(self, instance: Instance, effect: InstallView) -> None:
        """Tell the application who is in the group."""
        self._deliveries.append((self._application.install_view, instance.name, effect))

    def enter_group(self, instance: Instance, effect: EnterGroup) -> None:
        """Tell the application where its deliveries go on."""
        self._deliveries.append((self._application.enter_group, instance.name, effect))

    def exit_group(self, instance: Instance, effect: ExitGroup) -> None:
        """Tell the application that it misses what comes next."""
        self._deliveries.append((self._application.exit_group, instance.name, effect))

    def join_refused(self, instance: Instance, effect: JoinRefused) -> None:
        """Tell the application that a join will not come about."""
        self._deliveries.append((self._application.join_refused, instance.name, effect))

    def activate(self, instance: Instance, effect: Activate) -> None:
        """Tell the application which service its deliveries have from here on."""
        self._deliveries.append((self._application.activate, instance.name, effect))

    def service_unavailable(self, instance: Instance, effect: ServiceUnavailable) -> None:
        """Tell the application which service cannot be had."""
        self._deliveries.append((self._application.service_unavailable, instance.name, effect))

    def credit(self, instance: Instance, effect: Credit) -> None:
        """Tell the application how much it may send."""
        self._application.credit(instance.name, effect.available, effect.group, effect.under_way)

    def blocked(self, instance: Instance, effect: Blocked) -> None:
        """Tell the application why there is no progress."""
        self._application.blocked(instance.name, effect.by, effect.reason, effect.group)

    def declared_failed(self, instance: Instance, effect: DeclareFailed) -> None:
        """The process runs all the same; the trace has it."""

    def recovered(self, instance: Instance, effect: DeclareRecovered) -> None:
        """The instance takes part fully again, after a crash or after it has declared itself failed."""
        if self._recorder is not None:
            self._recorder.recover(self.trace_time())
        self._application.recovered(instance.name)
