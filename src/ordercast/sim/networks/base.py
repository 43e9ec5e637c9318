"""What every simulated network is: it takes packets from sites and brings packets to sites, under whatever faults
are in force."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING

from ordercast.core import ChannelId, InstanceId, Packet, SiteId, encoded_size
from ordercast.core.events import Arrival
from ordercast.sim.flight import Flight
from ordercast.sim.networks.channels import Channel
from ordercast.sim.stamp import Stamp
from ordercast.trace.interface import Envelope, describe

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation
    from ordercast.sim.site import SimulatedSite
    from ordercast.sim.site.processor import Processor

PLAIN_ARRIVAL = Arrival()
EVERYONE = ()
"""The scope of a broadcast that reaches everyone on its channel."""


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
        self.slowest_own_seconds = 0.0
        """The longest that a site's packet to itself was on the way: compared with phi_n."""
        self.stamps: dict[int, Stamp] = {}
        """Packet -> the life of the site that sent it, and how far its log was stable, where the roll is called."""
        self._channels: dict[tuple[InstanceId, ChannelId], Channel] = {}
        self._ways_differ = type(self).arrival is not Network.arrival
        """Whether receivers see different things of the way, so that each is asked about by itself."""

    def attach(self, simulation: Simulation) -> None:
        """Called once, before anything is sent."""
        self.simulation = simulation
        self.queue = simulation.queue
        self.sites = simulation.sites
        self.rules = simulation.rules
        self._traffic = simulation.traffic

    # ------------------------------------------------------------------ what a model says
    @abstractmethod
    def depart(self, sender: Processor) -> float:
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

    def scope(self, sender: SiteId, ttl: int | None) -> Hashable:
        """What decides whom a broadcast reaches: equal for all broadcasts that reach the same sites at any time; None
        where that changes while the network runs."""
        return EVERYONE

    # ------------------------------------------------------------------ channels
    def join(self, site: SiteId, instance: InstanceId, channel: ChannelId) -> None:
        """An instance hears the channel."""
        self._channels.setdefault((instance, channel), Channel()).join(site)

    def leave(self, site: SiteId, instance: InstanceId, channel: ChannelId) -> None:
        """An instance hears the channel no more."""
        if (instance, channel) in self._channels:
            self._leave(site, (instance, channel))

    def leave_all(self, site: SiteId, instance: InstanceId) -> None:
        """An instance has crashed."""
        for key in [key for key in self._channels if key[0] == instance]:
            self._leave(site, key)

    def _leave(self, site: SiteId, key: tuple[InstanceId, ChannelId]) -> None:
        channel = self._channels[key]
        channel.leave(site)
        if not channel:
            del self._channels[key]

    # ------------------------------------------------------------------ sending
    def broadcast(
        self, sender: SimulatedSite, channel: ChannelId, packet: Packet, instance: InstanceId, ttl: int | None
    ) -> None:
        """A site broadcasts a packet on a channel; it hears it itself when it has joined."""
        members = self._channels.get((instance, channel))
        if members is None:
            return
        sites, place = self.sites, sender.place
        scope = self.scope(place, ttl)
        is_reached = None if scope is EVERYONE else lambda site: self.in_scope(place, sites[site].place, ttl)
        self.send(sender, members.reached(scope, is_reached), packet, instance, channel)

    def send(
        self,
        sender: SimulatedSite,
        to: tuple[SiteId, ...],
        packet: Packet,
        instance: InstanceId,
        channel: ChannelId | None = None,
    ) -> None:
        """A site sends a packet to one or several sites, on a channel when it is a broadcast."""
        recorder, processor, name, place = sender.recorder, sender.processor, sender.name, sender.place
        traffic = self._traffic
        if recorder is not None:
            envelope = describe(name, instance, packet)
        elif traffic is None:
            envelope = Envelope(name, instance, packet)
        else:
            envelope = Envelope(name, instance, packet, type(packet).__name__, None, encoded_size(packet))
        shared = self.one_frame_for_all and len(to) > 1
        quiet = not self.rules and not self.loses
        sites, schedule = self.sites, self.queue.schedule
        stamp = None if sender.roll_call is None else Stamp(sender.incarnation, sender.disk.stable_position())
        arrival = None if self._ways_differ else self.arrival(place, place, channel)
        departure = -1.0
        for receiver in to:
            own = receiver == name and not self.own_frames_travel
            if departure < 0.0 or not shared:
                # What a site says to itself alone does not touch the network.
                departure = processor.cursor if own and not shared else self.depart(processor)
                self._packets = number = self._packets + 1
                if stamp is not None:
                    self.stamps[number] = stamp
                if recorder is not None:
                    recorder.send(processor.cursor, None if shared else receiver, envelope, number)
                if traffic is not None and (shared or not own):
                    traffic.count_sent(name, envelope)
            if receiver not in sites:
                continue
            site = sites[receiver]
            there = site.place
            seen = self.arrival(place, there, channel) if arrival is None else arrival
            flight = Flight(number, envelope, seen, site, place)
            if own:
                if departure - processor.cursor > self.slowest_own_seconds:
                    self.slowest_own_seconds = departure - processor.cursor
                schedule(departure, site.arrive, flight)
            elif quiet:
                schedule(departure + self.latency(place, there), site.arrive, flight)
            else:
                self.carry(flight, departure + self.latency(place, there))

    def stray(self, envelope: Envelope, receiver: SimulatedSite) -> Flight:
        """A packet that none of the sites has sent."""
        self._packets += 1
        return Flight(self._packets, envelope, PLAIN_ARRIVAL, receiver, envelope.sender)

    def carry(self, flight: Flight, time: float) -> None:
        """Bring a packet to its receiver at a time, unless a fault rule has other plans; the first verdict wins."""
        arrive = flight.receiver.arrive
        for rule in self.rules:
            verdict = rule.judge(flight.origin, flight.receiver.place)
            if verdict is not None:
                if verdict.drop:
                    self.lose(flight, time, verdict.drop)
                    return
                for extra in verdict.delays:
                    self.queue.schedule(time + extra, arrive, flight)
                return
        self.queue.schedule(time, arrive, flight)

    def lose(self, flight: Flight, time: float, reason: str) -> None:
        """Do not bring a packet to its receiver, and let the trace know when and why."""
        self.queue.schedule(time, flight.drop, reason)
