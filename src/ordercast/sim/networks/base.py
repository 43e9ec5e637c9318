"""What every simulated network is: it takes messages from sites and brings packets to sites, under whatever faults
are in force."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ordercast.core import ChannelId, InstanceId, Packet, SiteId, encoded_size
from ordercast.core.events import Arrival
from ordercast.trace.recorder import Envelope

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation
    from ordercast.sim.site import SimulatedSite

PLAIN_ARRIVAL = Arrival()


class Network(ABC):
    """Base of the network models. A model decides when a packet leaves and arrives, and what one frame can reach.

    A model that loses by itself (a receiver's buffer overruns) says so in `loses` and calls `lose` from its `carry`;
    everything else comes from the fault rules.
    """

    one_frame_for_all = False
    """Whether a send to several sites, or a broadcast, is one packet (a medium) or one per receiver."""

    loses = False
    """Whether the network may lose, delay or repeat packets by itself, without any fault rule; `carry` sees to it
    then."""

    own_frames_travel = False
    """Whether a site hears its own broadcasts through the network, where they can be lost like any other."""

    def __init__(self) -> None:
        self._packets = 0
        self._channels: dict[tuple[InstanceId, ChannelId], set[SiteId]] = {}

    def attach(self, simulation: Simulation) -> None:
        """Called once, before anything is sent."""
        self.simulation = simulation
        self.queue = simulation.queue
        self.sites = simulation.sites
        self.rules = simulation.rules

    # ------------------------------------------------------------------ what a model says
    @abstractmethod
    def depart(self, sender: SimulatedSite) -> float:
        """Occupy whatever the sending of one packet occupies; the time at which it is on its way."""

    @abstractmethod
    def latency(self, sender: SiteId, receiver: SiteId) -> float:
        """Seconds on the way, this time."""

    @abstractmethod
    def latency_max(self) -> float:
        """Seconds on the way, at most, without faults, from the moment that a send is recorded: phi_n."""

    @abstractmethod
    def processing_seconds(self) -> float:
        """What one send costs the sender: the unit of phi_p."""

    def arrival(self, sender: SiteId, receiver: SiteId, channel: ChannelId | None) -> Arrival:
        """What the receiver can see of the way."""
        return PLAIN_ARRIVAL if channel is None else Arrival(channel)

    def in_scope(self, sender: SiteId, receiver: SiteId, ttl: int | None) -> bool:
        """Whether a broadcast with that TTL gets from one to the other."""
        return True

    # ------------------------------------------------------------------ channels
    def join(self, site: SiteId, instance: InstanceId, channel: ChannelId) -> None:
        """An instance hears the channel."""
        self._channels.setdefault((instance, channel), set()).add(site)

    def leave(self, site: SiteId, instance: InstanceId, channel: ChannelId) -> None:
        """An instance hears it no longer."""
        self._channels.get((instance, channel), set()).discard(site)

    def leave_all(self, site: SiteId, instance: InstanceId) -> None:
        """An instance has crashed."""
        for (listener, _), members in self._channels.items():
            if listener == instance:
                members.discard(site)

    # ------------------------------------------------------------------ sending
    def send(self, sender: SimulatedSite, to: tuple[SiteId, ...], packet: Packet, instance: InstanceId) -> None:
        """A site sends a message to one or several sites."""
        self._send(sender, to, packet, instance, None)

    def broadcast(
        self, sender: SimulatedSite, channel: ChannelId, packet: Packet, instance: InstanceId, ttl: int | None
    ) -> None:
        """A site broadcasts a message on a channel; it hears it itself when it has joined."""
        members = sorted(self._channels.get((instance, channel), ()))
        receivers = tuple(site for site in members if self.in_scope(sender.name, site, ttl))
        self._send(sender, receivers, packet, instance, channel)

    def _send(
        self,
        sender: SimulatedSite,
        to: tuple[SiteId, ...],
        packet: Packet,
        instance: InstanceId,
        channel: ChannelId | None,
    ) -> None:
        recorder = sender.recorder
        name = sender.name
        if recorder is None:
            envelope = Envelope(name, instance, packet)
        else:
            served = None if packet.background else packet.served()
            envelope = Envelope(name, instance, packet, type(packet).__name__, served, encoded_size(packet))
        shared = self.one_frame_for_all and len(to) > 1
        quiet = not self.rules and not self.loses
        sites, schedule = self.sites, self.queue.schedule
        departure = -1.0
        for receiver in to:
            own = receiver == name and not self.own_frames_travel
            if departure < 0.0 or not shared:
                # What a site says to itself alone does not touch the network.
                departure = sender.cursor if own and not shared else self.depart(sender)
                self._packets = number = self._packets + 1
                if recorder is not None:
                    recorder.send(sender.cursor, None if shared else receiver, number, envelope)
            arrival = self.arrival(name, receiver, channel)
            if own:
                schedule(departure, sender.arrive, number, envelope, arrival)
            elif quiet and receiver in sites:
                schedule(departure + self.latency(name, receiver), sites[receiver].arrive, number, envelope, arrival)
            else:
                self.carry(number, envelope, receiver, departure + self.latency(name, receiver), arrival)

    def carry(self, packet: int, envelope: Envelope, receiver: SiteId, time: float, arrival: Arrival) -> None:
        """Bring a packet to a site at a time, unless a fault rule has other plans; the first verdict wins."""
        site = self.sites.get(receiver)
        if site is None:
            return
        for rule in self.rules:
            verdict = rule.judge(envelope.sender, receiver)
            if verdict is not None:
                if verdict.drop:
                    self.lose(packet, envelope, receiver, time, verdict.drop)
                    return
                for extra in verdict.delays:
                    self.queue.schedule(time + extra, site.arrive, packet, envelope, arrival)
                return
        self.queue.schedule(time, site.arrive, packet, envelope, arrival)

    def lose(self, packet: int, envelope: Envelope, receiver: SiteId, time: float, reason: str) -> None:
        """Do not bring a packet to a site, and let the trace know when and why."""
        self.queue.schedule(time, self.sites[receiver].drop, packet, envelope, reason)
