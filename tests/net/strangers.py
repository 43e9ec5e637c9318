"""Processes on the loopback that no list names, with a protocol that only takes note."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from ordercast.core import MAIN_INSTANCE, Context, Contract, Options, Packet, Protocol, SiteId
from ordercast.core.effects import Broadcast, JoinChannel, LeaveChannel
from ordercast.core.events import Arrival, Discovered
from ordercast.net import sockets
from ordercast.net.discovery import Discovery
from ordercast.net.packets import NET_INSTANCE, NET_PACKETS
from ordercast.net.site import LiveSite
from ordercast.net.sockets import Resolved
from ordercast.net.transport import Transport
from ordercast.runtime import Instance
from ordercast.storage.volatile import VolatileLog
from ordercast.wire import ClusterKeys, Codec, Endpoint
from tests.hand_loop import DEADLINE_SECONDS
from tests.wire.cluster import KEY

HOST = "127.0.0.1"
BUFFER_BYTES = 1 << 20


class Word(Packet, frozen=True):
    """What is said."""

    text: str
    padding: bytes = b""


class Murmur(Protocol):
    """Notes whom it hears of, and what it hears."""

    contract = Contract(
        name="murmur", title="", paper="", guarantees=(), faults=(), crash="", branches=(), dynamic=True
    )
    packets = (Word,)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.discovered: list[Discovered] = []
        self.heard: list[tuple[SiteId, str, Arrival]] = []

    def on_discovered(self, event: Discovered) -> None:
        self.discovered.append(event)

    def on_word(self, sender: SiteId, packet: Word, arrival: Arrival) -> None:
        self.heard.append((sender, packet.text, arrival))


class Nobody:
    """An application that wants nothing."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_arguments: None


class Stranger:
    """One process."""

    def __init__(
        self,
        name: SiteId,
        seeds: Sequence[str] = (),
        multicast: tuple[str, int] | None = None,
        host: str = HOST,
        port: int = 0,
        key: bytes = KEY,
        max_datagram: int = 1450,
        processes_max: int = 256,
    ) -> None:
        self.name = name
        self.application = Nobody()
        loop = asyncio.get_running_loop()
        self.endpoint = Endpoint(
            "town",
            name,
            (name,),
            ClusterKeys(key),
            Codec({MAIN_INSTANCE: Murmur.packets, NET_INSTANCE: NET_PACKETS}),
            0,
            False,
            max_datagram,
            opens=True,
            processes_max=processes_max,
        )
        self.site = LiveSite(loop, name, (name,), self.endpoint, self.application, lambda _instance, _position: None)
        own = sockets.resolve(host, port)
        self.transport = Transport(
            loop,
            own,
            {name: own},
            self.site.on_datagram,
            self.site.on_drained,
            max_datagram,
            BUFFER_BYTES,
            0.0,
            opens=True,
        )
        self.endpoint.listen((host, self.transport.port))
        if multicast is not None:
            self.transport.join_multicast(*multicast, interface=host, own_host_too=True, buffer_bytes=BUFFER_BYTES)
        resolved: dict[str, Resolved | None] = {
            seed: sockets.resolve(seed.rpartition(":")[0], int(seed.rpartition(":")[2])) for seed in seeds
        }
        self.discovery = Discovery(loop, self.endpoint, self.transport, resolved, Random(name))
        self.core = Murmur(Context(name, {}, (name,), Options(), Random(0), stable=False))
        self.site.instances[MAIN_INSTANCE] = Instance(self.core, self.site, VolatileLog(), None, self.site.numbers)
        self._multicast = multicast is not None

    @property
    def address(self) -> str:
        return f"{self.transport.host}:{self.transport.port}"

    @property
    def peers(self) -> list[SiteId]:
        """Who was found."""
        return sorted(self.discovery.status()["found"])

    def start(self) -> None:
        self.site.start(self.transport, self._multicast, discovery=self.discovery)

    def stop(self) -> None:
        self.site.stop()
        self.transport.close()

    def crash(self) -> None:
        """Without a goodbye."""
        self.transport.close()
        self.site.stop()

    def join(self, channel: str) -> None:
        self.site.step(lambda _now: self.site.join_channel(self.site.instances[MAIN_INSTANCE], JoinChannel(channel)))

    def leave(self, channel: str) -> None:
        self.site.step(lambda _now: self.site.leave_channel(self.site.instances[MAIN_INSTANCE], LeaveChannel(channel)))

    def say(self, channel: str, text: str, ttl: int | None = None, size: int = 0) -> None:
        effect = Broadcast(channel, Word(text, bytes(size)), ttl)
        self.site.step(lambda _now: self.site.broadcast(self.site.instances[MAIN_INSTANCE], effect))

    def heard(self, text: str) -> list[tuple[SiteId, Arrival]]:
        return [(sender, arrival) for sender, said, arrival in self.core.heard if said == text]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0)


@asynccontextmanager
async def started(*strangers: Stranger) -> AsyncIterator[None]:
    """They run, and are gone at the end."""
    try:
        for stranger in strangers:
            stranger.start()
        yield
        for stranger in strangers:
            assert not stranger.application.errors
    finally:
        for stranger in strangers:
            stranger.stop()
