"""Channels on sockets: an IP multicast address for each, and copies for those whom it does not reach.

Each process tells its peers to which channels it listens. Whoever broadcasts sends one datagram by IP multicast, and a
copy of it to each listener that has not answered a probe on that channel. Where there is no IP multicast, everybody
who listens gets a copy. Either way it goes only as many hops as its TTL allows.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from ipaddress import IPv4Address

from ordercast.core import ChannelId, InstanceId, Packet, SiteId, UsageError
from ordercast.net.multicast import Reach
from ordercast.net.packets import NET_INSTANCE, Heard, Listening, Probe
from ordercast.net.transport import Transport
from ordercast.wire.casts import CHANNELS_MAX, TTL_MAX
from ordercast.wire.endpoint import Endpoint
from ordercast.wire.outbox import Outgoing

logger = logging.getLogger("ordercast.net")

USED_SECONDS = 60.0
"""A channel on which nothing was broadcast for so long is not probed any more."""

LOOK_SECONDS = 5.0
"""How often a process looks whether there are channels to probe."""

TELL_SECONDS_MIN, TELL_SECONDS_MAX = 0.05, 5.0
"""How often a process tells to which channels it listens, for what it told may have been lost: soon after a change, and
less and less often after that. (Every five seconds from the start: where a packet is lost at the beginning, somebody
hears nothing of a channel for as long.)"""


def channel_group(base: str, channel: ChannelId) -> str:
    """The IP multicast address of a channel: the first half of the configured one, and a hash of the channel's name.

    Never one with a third number of 0: some of these are for routers only.
    """
    digest = hashlib.blake2b(channel.encode(), digest_size=8, person=b"ordercast group").digest()
    prefix = int(IPv4Address(base)) & 0xFFFF0000
    group = prefix | 256 + int.from_bytes(digest) % (65536 - 256)
    # The configured one is for all processes.
    return str(IPv4Address(group if group != int(IPv4Address(base)) else group ^ 1))


def hops_of(ttl: int, left: int | None) -> int:
    """How many hops a datagram took that left with a TTL, of which so much is left: 1 on the same network."""
    return 1 if left is None or left > ttl else ttl - left + 1


class _Use:
    """A channel on which this process broadcasts."""

    __slots__ = ("group", "listeners", "reach", "tag", "used")

    def __init__(self, tag: bytes, group: str | None) -> None:
        self.tag = tag
        self.listeners: tuple[SiteId, ...] | None = None
        """Who has told that it listens; None: to be looked up."""
        self.group = group
        self.reach = Reach(())
        self.used = 0.0


class ChannelSockets:
    """The channels of one process: which it hears, who else does, and how to reach them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint,
        transport: Transport,
        enter: Callable[[Callable[[float], object]], None],
    ) -> None:
        """`enter` makes a turn of something that is done by itself."""
        self._loop = loop
        self._endpoint = endpoint
        self._transport = transport
        self._enter = enter
        address = transport.multicast_address
        self._base: str | None = None if address is None else address[0]
        self._port = 0 if address is None else address[1]
        self._joined: dict[ChannelId, set[InstanceId]] = {}
        self._told: dict[SiteId, frozenset[bytes]] = {}
        """Peer -> the channels to which it listens."""
        self._uses: dict[ChannelId, _Use] = {}
        self._next: asyncio.Handle | None = None
        self._tell_next: asyncio.Handle | None = None
        self._tell_wait = TELL_SECONDS_MAX

    # ------------------------------------------------------------------ hearing
    def join(self, instance: InstanceId, channel: ChannelId) -> None:
        """An instance listens; `UsageError` when that cannot be had."""
        listeners = self._joined.get(channel)
        if listeners is None:
            self._endpoint.join(channel)
            if self._base is not None:
                self._join_group(channel_group(self._base, channel), channel)
            listeners = self._joined[channel] = set()
            self._tell_again_and_again(tuple(self._endpoint.established))
        listeners.add(instance)

    def _join_group(self, group: str, channel: ChannelId) -> None:
        try:
            self._transport.join_group(group)
        except UsageError as error:
            # Those who broadcast find out that this process does not hear them, and send it copies.
            logger.warning("channel %s comes by unicast: %s", channel, error)

    def leave(self, instance: InstanceId, channel: ChannelId) -> None:
        """It listens no more."""
        listeners = self._joined.get(channel)
        if listeners is None:
            return
        listeners.discard(instance)
        if not listeners:
            del self._joined[channel]
            self._endpoint.leave(channel)
            if self._base is not None:
                self._transport.leave_group(channel_group(self._base, channel))
            self._tell_again_and_again(tuple(self._endpoint.established))

    def hears(self, instance: InstanceId, channel: ChannelId) -> bool:
        """Whether an instance listens."""
        return instance in self._joined.get(channel, ())

    # ------------------------------------------------------------------ sending
    def broadcast(self, channel: ChannelId, instance: InstanceId, packet: Packet, ttl: int | None) -> None:
        """Send to whoever listens, at the end of the turn."""
        self._endpoint.broadcast(channel, instance, packet, TTL_MAX if ttl is None else ttl)
        self._use(channel).used = self._loop.time()

    def send(self, outgoing: Outgoing) -> None:
        """Let a datagram leave that was broadcast."""
        channel = outgoing.channel
        if channel is None:
            return
        use = self._use(channel)
        copies = self._listeners(use)
        if use.group is not None:
            self._transport.send_hops((use.group, self._port), outgoing.buffer, outgoing.segment, outgoing.ttl)
            use.reach.others = copies
            copies = use.reach.missing()
        transport = self._transport
        if outgoing.ttl == TTL_MAX and not transport.sees_ttl:
            # However far: as any other datagram, by the sockets that have no way to look up.
            transport.send(copies, outgoing.buffer, outgoing.segment)
            return
        for site in copies:
            where = transport.address_of(site)
            if where is not None:
                transport.send_hops(where, outgoing.buffer, outgoing.segment, outgoing.ttl)

    def _use(self, channel: ChannelId) -> _Use:
        use = self._uses.get(channel)
        if use is None:
            group = None if self._base is None else channel_group(self._base, channel)
            if len(self._uses) >= CHANNELS_MAX:
                del self._uses[min(self._uses, key=lambda known: self._uses[known].used)]
            use = self._uses[channel] = _Use(self._endpoint.channel_tag(channel), group)
            if group is not None:
                self._wake()
        return use

    def _listeners(self, use: _Use) -> tuple[SiteId, ...]:
        listeners, established = use.listeners, self._endpoint.established
        if listeners is None:
            listeners = use.listeners = tuple(sorted(site for site, tags in self._told.items() if use.tag in tags))
        return tuple([site for site in listeners if site in established])

    def _look_up_again(self) -> None:
        """Somebody listens to other channels now."""
        for use in self._uses.values():
            use.listeners = None

    # ------------------------------------------------------------------ what processes tell each other
    def on_packet(self, sender: SiteId, packet: Packet) -> None:
        """A peer tells to which channels it listens, or that it has heard a probe on one."""
        if isinstance(packet, Listening):
            self._told[sender] = frozenset(packet.channels)
            self._look_up_again()
        elif isinstance(packet, Heard):
            for use in self._uses.values():
                if use.tag == packet.channel:
                    use.reach.on_heard(sender, packet.number)

    def on_probe(self, sender: SiteId, channel: ChannelId, number: int, multicast: bool) -> None:
        """Somebody asks who hears it; only who did by IP multicast answers."""
        if multicast:
            self._endpoint.send((sender,), NET_INSTANCE, Heard(number, self._endpoint.channel_tag(channel)))

    def on_peers(self) -> None:
        """Somebody has come or gone."""
        established = self._endpoint.established
        news = tuple(site for site in established if site not in self._told)
        for site in [site for site in self._told if site not in established]:
            del self._told[site]
        self._look_up_again()
        if self._joined and news:
            self._tell_again_and_again(news)

    def _tell_again_and_again(self, to: tuple[SiteId, ...]) -> None:
        """Tell them now, and everyone soon."""
        self._tell(to)
        self._tell_wait = TELL_SECONDS_MIN
        if self._tell_next is not None:
            self._tell_next.cancel()
        self._tell_next = self._loop.call_later(self._tell_wait, self._enter, self._tell_all)

    def _tell_all(self, _now: float) -> None:
        self._tell(tuple(self._endpoint.established))
        self._tell_wait = min(2 * self._tell_wait, TELL_SECONDS_MAX)
        self._tell_next = self._loop.call_later(self._tell_wait, self._enter, self._tell_all)

    def _tell(self, to: tuple[SiteId, ...]) -> None:
        if to:
            tags = tuple(self._endpoint.channel_tag(channel) for channel in self._joined)
            self._endpoint.send(to, NET_INSTANCE, Listening(tags))

    # ------------------------------------------------------------------ time
    def _wake(self) -> None:
        if self._next is None:
            self._next = self._loop.call_soon(self._enter, self._look)

    def _look(self, now: float) -> None:
        """Probe the channels that are used."""
        self._next = None
        for channel in [channel for channel, use in self._uses.items() if use.used < now - USED_SECONDS]:
            del self._uses[channel]
        wait = LOOK_SECONDS
        for channel, use in self._uses.items():
            if use.group is not None:
                use.reach.others = self._listeners(use)
                self._endpoint.broadcast(channel, NET_INSTANCE, Probe(use.reach.next_probe()))
                self._log(channel, use.reach)
                wait = min(wait, use.reach.seconds_to_next())
        if self._uses:
            self._next = self._loop.call_later(wait, self._enter, self._look)

    def _log(self, channel: ChannelId, reach: Reach) -> None:
        missing = reach.news()
        if missing:
            logger.warning(
                "IP multicast on channel %s does not reach %s: copies by unicast", channel, ", ".join(missing)
            )
        elif missing is not None and reach.others:
            logger.info("IP multicast on channel %s reaches everyone who listens: %s", channel, ", ".join(reach.others))

    def stop(self) -> None:
        """Tell and ask no more."""
        for handle in (self._next, self._tell_next):
            if handle is not None:
                handle.cancel()
