"""The ways of datagrams beside plain unicast: IP multicast to most of the processes, the hub, and channels; and what
processes tell each other about the network itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ordercast.core import ChannelId, InstanceId, Packet, SiteId
from ordercast.core.effects import Broadcast
from ordercast.core.events import Arrival
from ordercast.net.channels import ChannelSockets, hops_of
from ordercast.net.discovery import Discovery
from ordercast.net.packets import NET_INSTANCE, Goodbye, Heard, Known, Listening, Probe
from ordercast.net.probing import Prober
from ordercast.net.transport import Transport
from ordercast.runtime import Instance
from ordercast.wire.endpoint import Endpoint
from ordercast.wire.outbox import Outgoing

ARRIVALS_MAX = 1024
"""Ways on channels that are remembered; whoever forgets them makes them again."""


class Ways:
    """How one process reaches the others."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        everyone: tuple[SiteId, ...],
        endpoint: Endpoint,
        transport: Transport,
        multicast: bool,
        discovery: Discovery | None,
        arrivals: dict[InstanceId, Arrival],
        enter: Callable[..., None],
    ) -> None:
        """`arrivals` is told how packets come to the instances that have joined the channel of a hub; `enter` makes a
        turn of something that is done by itself."""
        self.by_unicast = not multicast and not transport.has_channel
        """There is no other way yet."""
        self.channels = ChannelSockets(loop, endpoint, transport, enter)
        self._endpoint = endpoint
        self._transport = transport
        self._everyone = everyone
        self._others = tuple(site for site in everyone if site != endpoint.process)
        self._discovery = discovery
        self._arrivals = arrivals
        self._cast_arrivals: dict[tuple[ChannelId, int, int | None], Arrival] = {}
        """Channel, TTL and what was left of it -> how what came so came."""
        self._prober: Prober | None = None
        if multicast:
            self._prober = Prober(loop, endpoint, transport, self._others, lambda: enter(lambda _now: None))

    def start(self) -> None:
        """Begin to find out whether IP multicast reaches everyone."""
        if self._prober is not None:
            self._prober.ask()

    def stop(self) -> None:
        """Ask and look no more."""
        if self._prober is not None:
            self._prober.stop()
        self.channels.stop()
        if self._discovery is not None:
            self._discovery.stop()

    def set_others(self, others: tuple[SiteId, ...]) -> None:
        """Processes have come or gone."""
        self._others = others
        if self._prober is not None:
            self._prober.set_others(others)
        self.channels.on_peers()

    @property
    def uses_multicast(self) -> bool:
        """Whether IP multicast is configured and reaches every process."""
        return self._prober is not None and self._prober.reaches_everyone

    # ------------------------------------------------------------------ out
    def send(self, outgoing: Outgoing) -> None:
        """By the way that reaches all of its receivers at once, where there is one."""
        to, transport = outgoing.to, self._transport
        if outgoing.channel is not None:
            self.channels.send(outgoing)
        elif to == self._everyone:
            transport.send_to_channel(outgoing.buffer, outgoing.segment)
        # Who hears a datagram that is not for it drops it: worth it when most of the processes are meant.
        elif 2 * len(to) > len(self._others) > 1 and self.uses_multicast:
            transport.send_multicast(outgoing.buffer, outgoing.segment)
        else:
            transport.send(to, outgoing.buffer, outgoing.segment)

    def broadcast(self, instance: InstanceId, effect: Broadcast) -> bool:
        """Send to whoever listens to a channel; whether this process does. A hub has one channel, which shows everybody
        everything, so that a process hears itself there."""
        if self._transport.has_channel:
            self._endpoint.send(self._everyone, instance, effect.packet)
            return False
        self.by_unicast = False
        self.channels.broadcast(effect.channel, instance, effect.packet, effect.ttl)
        return self.channels.hears(instance, effect.channel)

    def join(self, instance: InstanceId, channel: ChannelId) -> None:
        """An instance listens to a channel."""
        if self._transport.has_channel:
            self._arrivals[instance] = Arrival(channel)
        else:
            self.channels.join(instance, channel)

    def leave(self, instance: InstanceId, channel: ChannelId) -> None:
        """It listens no more."""
        if self._transport.has_channel:
            self._arrivals.pop(instance, None)
        else:
            self.channels.leave(instance, channel)

    # ------------------------------------------------------------------ in
    def on_packet(self, sender: SiteId, packet: Packet, multicast: bool) -> None:
        """Something about the network itself."""
        if isinstance(packet, Known | Goodbye):
            if self._discovery is not None:
                self._discovery.on_packet(sender, packet)
        elif isinstance(packet, Listening) or (isinstance(packet, Heard) and packet.channel is not None):
            self.channels.on_packet(sender, packet)
        elif self._prober is not None:
            self._prober.on_packet(sender, packet, multicast)

    def take(self, awake: Mapping[InstanceId, Instance], now: float, multicast: bool, ttl: int | None) -> bool:
        """What came on channels goes to the instances that listen, and strangers are greeted; whether any packet
        came."""
        endpoint = self._endpoint
        casts, endpoint.casts = endpoint.casts, []
        for cast in casts:
            if cast.instance == NET_INSTANCE:
                if isinstance(cast.packet, Probe):
                    self.channels.on_probe(cast.sender, cast.channel, cast.packet.number, multicast)
            elif cast.instance in awake and self.channels.hears(cast.instance, cast.channel):
                key = cast.channel, cast.ttl, ttl
                arrival = self._cast_arrivals.get(key)
                if arrival is None:
                    arrival = self._note_arrival(key)
                awake[cast.instance].receive(now, cast.sender, cast.packet, arrival)
        if endpoint.sightings and self._discovery is not None:
            self._discovery.take_sightings(now, multicast)
        return bool(casts)

    def _note_arrival(self, key: tuple[ChannelId, int, int | None]) -> Arrival:
        """Most of what comes on a channel comes the same way."""
        if len(self._cast_arrivals) >= ARRIVALS_MAX:
            self._cast_arrivals.clear()
        channel, ttl, left = key
        arrival = self._cast_arrivals[key] = Arrival(channel, hops=hops_of(ttl, left))
        return arrival
