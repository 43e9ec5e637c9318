"""What leaves a process: packets are put into datagrams, with others for the same receivers, and sealed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from ordercast.core import ChannelId, InstanceId, Packet, SiteId, UsageError
from ordercast.wire.codec import Codec
from ordercast.wire.datagram import (
    CAST,
    CAST_FRAGMENT,
    CHANNEL,
    DATA,
    FRAGMENT,
    FRAGMENT_FIELDS,
    HEADER,
    POSITION,
    Dropped,
)
from ordercast.wire.kept_frames import KeptFrame
from ordercast.wire.numbers import Numbers
from ordercast.wire.reassembly import FRAME_BYTES_MAX
from ordercast.wire.session import OwnSession
from ordercast.wire.whereabouts import Address

SETS_MAX = 64
"""Sets of destinations whose buffers are kept for the next turn: some megabytes. Beyond that they are made anew."""

ANSWERS_MAX = 4096
"""Datagrams that wait for the next `flush` and were provoked from outside. Whoever floods us gets no more."""

ROOM_FROM_BYTES = 4096
"""Datagrams from this size on are sealed into buffers that stay: new memory would cost more than what happens to it."""

_pack_position, _POSITION_BYTES = POSITION.pack_into, POSITION.size


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """Bytes to send, to one process or the same to several."""

    to: tuple[SiteId, ...]
    buffer: bytes | memoryview
    """Valid until something is sent again."""
    segment: int | None = None
    """The buffer is several datagrams of this size, the last one perhaps shorter; None for a single one."""
    where: Address | None = None
    """Where the one process is that it is for, when that is not the address under which it is known."""
    channel: ChannelId | None = None
    """For whoever listens there."""
    ttl: int = 0
    """How many hops it may go on a channel."""


class _Filling:
    """The datagram that is being filled for one set of destinations, or for a channel."""

    __slots__ = ("buffer", "channel", "end", "label", "payload_max", "sealed", "to", "ttl", "what")

    def __init__(
        self,
        to: tuple[SiteId, ...],
        label: bytes,
        what: int,
        payload_max: int,
        channel: ChannelId | None = None,
        ttl: int = 0,
    ) -> None:
        self.to = to
        self.label = label
        """Its destinations, or its channel."""
        self.what = what
        self.payload_max = payload_max
        self.channel = channel
        self.ttl = ttl
        self.buffer = bytearray(_POSITION_BYTES)
        self.end = 0
        """Frames fill the buffer up to here; it is not cut when they have left, so that it need not grow again."""
        self.sealed: memoryview | None = None
        """Room for the datagram when it is sealed, once there was a large one."""


class Outbox:
    """What waits for the end of a turn, and what was sent in pieces and may be asked for again."""

    def __init__(
        self,
        process: SiteId,
        codec: Codec,
        own: OwnSession,
        numbers: Numbers,
        max_datagram: int,
        hears_itself: bool,
        loses: bool,
        counters: Counter[str],
        keep: Callable[[int, KeptFrame], None],
    ) -> None:
        """Where processes come and go, an outbox `loses` what is for somebody who is not known any more, as the network
        would: a protocol may still answer what that one has sent. Frames that were cut up are given to somebody to
        `keep`."""
        self.position = 0
        """Up to where this process' log is stable; the others hear it."""
        self._process = process
        self._codec = codec
        self._own = own
        self._numbers = numbers
        self._hears_itself = hears_itself
        self._loses = loses
        self._counters = counters
        self._keep_frame = keep
        self._data, self._cast = own.what(DATA), own.what(CAST)
        self._payload_max = max_datagram - own.header_bytes - own.tag_bytes
        self._cast_max = max_datagram - HEADER.size - CHANNEL.size - own.tag_bytes
        self._max_datagram = max_datagram
        self._fillings: dict[tuple[str, ...], _Filling] = {}
        """By the destinations, or by channel and TTL."""
        self._begun: list[_Filling] = []
        self._ready: list[Outgoing] = []
        self._frame_number = 0

    def send(self, to: tuple[SiteId, ...], instance: InstanceId, packet: Packet) -> None:
        """Put a packet into the datagram for these processes, with others; it leaves with the next `flush`."""
        filling = self._fillings.get(to)
        if filling is None:
            filling = self._new_filling(to)
            if filling is None:
                return
        start = filling.end
        if not start:
            self._begun.append(filling)
            start = _POSITION_BYTES
        try:
            filling.end = end = self._codec.encode_into(instance, packet, filling.buffer, start)
        except BaseException:
            del filling.buffer[start:]  # a packet that cannot be encoded leaves its beginning there
            raise
        if end > filling.payload_max:
            self._on_full(filling, start)

    def broadcast(self, channel: ChannelId, tag: bytes, ttl: int, instance: InstanceId, packet: Packet) -> None:
        """The same for whoever listens to a channel, which is called `tag` on the network, so many hops away."""
        # No process has an empty name: these are the destinations of nothing else.
        key = "", channel, str(ttl)
        if key not in self._fillings:
            self._keep(key, _Filling((), CHANNEL.pack(tag, ttl), self._cast, self._cast_max, channel, ttl))
        self.send(key, instance, packet)

    def _new_filling(self, to: tuple[SiteId, ...]) -> _Filling | None:
        known = tuple(site for site in to if site in self._numbers)
        if self._process in to and not self._hears_itself:
            raise UsageError(f"{self._process} cannot send to itself")
        if len(known) < len(to):
            if not self._loses:
                stranger = min(set(to) - set(known))
                raise UsageError(f"{self._process} cannot send to {stranger!r}: it is not among the other processes")
            self._counters["nowhere"] += 1
        if not known:
            return None
        return self._keep(to, _Filling(known, self._numbers.destinations(known), self._data, self._payload_max))

    def _keep(self, key: tuple[str, ...], filling: _Filling) -> _Filling:
        if len(self._fillings) >= SETS_MAX:
            self._fillings.clear()
        self._fillings[key] = filling
        return filling

    def renumber(self) -> None:
        """Somebody has another number than before, or none: what waits for that one is for the others only."""
        self._fillings.clear()
        for filling in self._begun:
            if filling.channel is None:
                filling.to = tuple(site for site in filling.to if site in self._numbers)
                filling.label = self._numbers.destinations(filling.to)

    def flush(self) -> list[Outgoing]:
        """Everything that waits to leave, in order."""
        ready, begun = self._ready, self._begun
        if begun:
            for filling in begun:
                # Twice in the list, when a long frame emptied it and another frame came: sealed the first time.
                if filling.end:
                    room = None if filling.end < ROOM_FROM_BYTES else self._room(filling)
                    filling.end = 0
                    _pack_position(filling.buffer, 0, self.position)
                    sealed = self._own.seal(filling.what, filling.label, filling.buffer, room)
                    if filling.channel is None:
                        ready.append(Outgoing(filling.to, sealed))
                    else:
                        ready.append(Outgoing((), sealed, channel=filling.channel, ttl=filling.ttl))
            begun.clear()
        self._ready = []
        return ready

    def _room(self, filling: _Filling) -> memoryview:
        if filling.sealed is None:
            filling.sealed = memoryview(bytearray(self._max_datagram))
        return filling.sealed

    def _on_full(self, filling: _Filling, start: int) -> None:
        """The frame that begins at `start` does not fit any more: what stands before it leaves."""
        frame = filling.buffer
        if start > _POSITION_BYTES:
            frame = frame[start - _POSITION_BYTES :]
            del filling.buffer[start:]
            _pack_position(filling.buffer, 0, self.position)
            sealed = self._own.seal(filling.what, filling.label, filling.buffer)
            self._ready.append(Outgoing(filling.to, sealed, channel=filling.channel, ttl=filling.ttl))
            filling.end = len(frame)
            filling.buffer = frame
        if len(frame) > filling.payload_max:
            # The old one is kept for repairs. The next frame is probably as long, and growing is copying.
            filling.buffer = bytearray(len(frame))
            filling.end = 0
            _pack_position(frame, 0, self.position)
            self._send_fragments(filling, frame)

    def _send_fragments(self, filling: _Filling, frame: bytearray) -> None:
        if len(frame) > FRAME_BYTES_MAX:
            raise UsageError(f"a packet of {len(frame)} bytes cannot be sent: the longest has {FRAME_BYTES_MAX}")
        count = -(-len(frame) // (filling.payload_max - FRAGMENT_FIELDS.size))
        size = -(-len(frame) // count)
        number = self._frame_number
        self._frame_number += 1
        kind = FRAGMENT if filling.channel is None else CAST_FRAGMENT
        buffer, segment = self._own.seal_fragments(filling.label, number, frame, size, range(count), kind)
        self._ready.append(Outgoing(filling.to, buffer, segment, channel=filling.channel, ttl=filling.ttl))
        label = None if filling.channel is None else filling.label
        self._keep_frame(number, KeptFrame(filling.to, frame, size, label))

    # ------------------------------------------------------------------ what was provoked
    def repair(self, receiver: SiteId, number: int, kept: KeptFrame, indexes: list[int]) -> None:
        """A peer lacks some fragments: it alone gets them again, sealed anew."""
        chosen = kept.take_repairs(indexes)
        if chosen:
            label = self._numbers.destinations((receiver,)) if kept.channel is None else kept.channel
            kind = FRAGMENT if kept.channel is None else CAST_FRAGMENT
            buffer, segment = self._own.seal_fragments(label, number, kept.content, kept.fragment_bytes, chosen, kind)
            self.answer(Outgoing((receiver,), buffer, segment))
            self._counters["fragments-repaired"] += len(chosen)

    def say(self, to: SiteId, what: int, content: bytes) -> None:
        """Something to one peer that is not about packets."""
        self._ready.append(Outgoing((to,), self._own.seal(what, self._numbers.destinations((to,)), content)))

    def answer(self, outgoing: Outgoing) -> None:
        """Something that somebody has asked for, with or without a right to; `Dropped` when it is too much."""
        if len(self._ready) >= ANSWERS_MAX:
            raise Dropped("flooded")
        self._ready.append(outgoing)

    def add(self, outgoing: Outgoing) -> None:
        """Something of our own."""
        self._ready.append(outgoing)
