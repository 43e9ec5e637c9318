"""A network that misbehaves: a relay between processes, with a port of its own for each pair of sender and receiver.

It needs no privileges and works on every system. Datagrams pass through unread: they are sealed.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from ordercast.chaos.floods import Recording
from ordercast.core import SiteId
from ordercast.node.addresses import HostPort

DRAIN_MAX = 64
"""Datagrams taken from one socket before the others get their turn."""

UNDER_WAY_MAX = 20_000
"""Delayed datagrams at a time. More are lost: a real network's queues are no longer than that."""


class Weather(msgspec.Struct, frozen=True):
    """How the network is at the moment."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_seconds: float = 0.0
    """At the most; uniformly drawn, so datagrams overtake each other."""
    sides: tuple[frozenset[SiteId], ...] = ()
    """Processes of different sides do not reach each other; none: all do."""


CALM = Weather()


class Terrain(msgspec.Struct, frozen=True):
    """What stays as it is whatever the weather: who is near whom."""

    clusters: tuple[frozenset[SiteId], ...] = ()
    """Processes of different clusters are far from each other; who is in none is alone; none: all are near."""
    between_seconds: float = 0.0
    """How long a datagram takes from one cluster to another, one way; weather comes to that."""
    calm_within: bool = False
    """Whether all weather is between clusters: nothing is lost, doubled or delayed within one."""

    def is_near(self, sender: SiteId, receiver: SiteId) -> bool:
        """Whether two processes are in one cluster."""
        return not self.clusters or any({sender, receiver} <= cluster for cluster in self.clusters)

    def seconds(self, sender: SiteId, receiver: SiteId) -> float:
        """How far apart two processes are."""
        return 0.0 if self.is_near(sender, receiver) else self.between_seconds

    def is_calm(self, sender: SiteId, receiver: SiteId) -> bool:
        """Whether the weather does not touch what one sends to the other."""
        return self.calm_within and self.is_near(sender, receiver)


FLAT = Terrain()

Tap = Callable[[SiteId, SiteId, int], None]
"""Called with sender, receiver and size of every datagram that a process has sent, before anything happens to it."""


class Proxy:
    """Relays between processes, in the event loop that makes it."""

    def __init__(
        self,
        real: dict[SiteId, HostPort],
        random: Random,
        terrain: Terrain = FLAT,
        tap: Tap | None = None,
        recording: Recording | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.weather = CALM
        self._terrain = terrain
        self._tap = tap
        self._recording = recording
        self._loop = asyncio.get_running_loop()
        self._random = random
        self._buffer = memoryview(bytearray(1 << 16))
        self._under_way = 0
        self._sockets: dict[tuple[SiteId, SiteId], socket.socket] = {}
        self._calm: set[tuple[SiteId, SiteId]] = set()
        """Those between whom there is no weather."""
        for sender in sorted(real):
            for receiver in sorted(real):
                if sender != receiver:
                    self._open(sender, receiver, real[receiver])

    def _open(self, sender: SiteId, receiver: SiteId, to: HostPort) -> None:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.setblocking(False)
        opened.bind(("127.0.0.1", 0))
        for which in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            opened.setsockopt(socket.SOL_SOCKET, which, 1 << 22)
        self._sockets[sender, receiver] = opened
        seconds = self._terrain.seconds(sender, receiver)
        if self._terrain.is_calm(sender, receiver):
            self._calm.add((sender, receiver))
        self._loop.add_reader(opened.fileno(), partial(self._drain, opened, sender, receiver, to, seconds))

    def addresses_for(self, process: SiteId) -> dict[SiteId, HostPort]:
        """Where a process must send so that it comes through here."""
        return {
            receiver: opened.getsockname() for (sender, receiver), opened in self._sockets.items() if sender == process
        }

    def _drain(self, opened: socket.socket, sender: SiteId, receiver: SiteId, to: HostPort, distance: float) -> None:
        try:
            for _ in range(DRAIN_MAX):
                size = opened.recv_into(self._buffer)
                if self._tap is not None:
                    self._tap(sender, receiver, size)
                if self._recording is not None:
                    self._recording.add(receiver, self._buffer[:size])
                if distance:
                    self.counters["between clusters"] += 1
                self._relay(opened, self._buffer[:size], sender, receiver, to, distance)
        except (BlockingIOError, InterruptedError):
            return

    def _relay(
        self,
        opened: socket.socket,
        datagram: memoryview,
        sender: SiteId,
        receiver: SiteId,
        to: HostPort,
        distance: float,
    ) -> None:
        weather, random = self.weather, self._random
        if any((sender in side) != (receiver in side) for side in weather.sides):
            self.counters["cut off"] += 1
            return
        if (sender, receiver) in self._calm:
            weather = CALM
        if random.random() < weather.loss:
            self.counters["lost"] += 1
            return
        copies = 1
        if random.random() < weather.duplication:
            self.counters["duplicated"] += 1
            copies = 2
        for _ in range(copies):
            seconds = distance + random.uniform(0.0, weather.delay_seconds)
            if seconds:
                self._delay(opened, bytes(datagram), to, seconds)
            else:
                self._send(opened, datagram, to)

    def _delay(self, opened: socket.socket, datagram: bytes, to: HostPort, seconds: float) -> None:
        if self._under_way >= UNDER_WAY_MAX:
            self.counters["overrun"] += 1
            return
        self._under_way += 1
        self._loop.call_later(seconds, self._send_late, opened, datagram, to)

    def _send_late(self, opened: socket.socket, datagram: bytes, to: HostPort) -> None:
        self._under_way -= 1
        if opened.fileno() >= 0:
            self._send(opened, datagram, to)

    def _send(self, opened: socket.socket, datagram: bytes | memoryview, to: HostPort) -> None:
        try:
            opened.sendto(datagram, to)
            self.counters["passed"] += 1
        except OSError:  # a full buffer, or nobody there
            self.counters["lost"] += 1

    def close(self) -> None:
        """Give the sockets back."""
        for opened in self._sockets.values():
            self._loop.remove_reader(opened.fileno())
            opened.close()
