"""Channels: what is sent to one is for whoever listens, and its sender need not know who that is.

A cast is sealed with the key of its sender's session, which every holder of the cluster key can derive once it has met
the sender; it names a channel where other datagrams name their destinations. On the network a channel is called by the
first bytes of a hash of its name: two that share an IP address are told apart by them.
"""

from __future__ import annotations

import hashlib

import msgspec

from ordercast.core import ChannelId, InstanceId, Packet, SiteId, UsageError
from ordercast.wire.codec import NAME_BYTES_MAX
from ordercast.wire.sealing import pack_names

TAG_BYTES = 8

TTL_MAX = 255

CHANNELS_MAX = 1024
"""To which a process listens, or whose names on the network it keeps at hand."""


class Cast(msgspec.Struct, frozen=True, gc=False):
    """One packet that came on a channel."""

    channel: ChannelId
    ttl: int
    """With which it left; what is left of it tells how far it has come."""
    sender: SiteId
    instance: InstanceId
    packet: Packet


class Channels:
    """Names of channels, here and on the network, and those to which this process listens."""

    def __init__(self, cluster: str) -> None:
        self.joined: dict[bytes, ChannelId] = {}
        """By their names on the network."""
        self._cluster = cluster.encode()
        self._tags: dict[ChannelId, bytes] = {}

    def tag(self, channel: ChannelId) -> bytes:
        """What a channel is called on the network."""
        tag = self._tags.get(channel)
        if tag is None:
            name = channel.encode()
            if not 0 < len(name) <= NAME_BYTES_MAX:
                raise UsageError(f"names of channels have 1 to {NAME_BYTES_MAX} bytes, not like {channel!r}")
            if len(self._tags) >= CHANNELS_MAX:
                self._tags.clear()
            tag = hashlib.sha256(b"channel" + pack_names(self._cluster, name)).digest()[:TAG_BYTES]
            self._tags[channel] = tag
        return tag

    def join(self, channel: ChannelId) -> None:
        """Listen to one; `UsageError` when that would be too many."""
        tag = self.tag(channel)
        if len(self.joined) >= CHANNELS_MAX and tag not in self.joined:
            raise UsageError(f"a process listens to at most {CHANNELS_MAX} channels: leave one first")
        self.joined[tag] = channel

    def leave(self, channel: ChannelId) -> None:
        """Listen no more."""
        self.joined.pop(self.tag(channel), None)
