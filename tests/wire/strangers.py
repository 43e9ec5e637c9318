"""Endpoints of a cluster without a list of processes, and a network of addresses between them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ordercast.core import SiteId
from ordercast.core.memory import Memory
from ordercast.wire import ClusterKeys, Endpoint
from ordercast.wire.whereabouts import Address
from tests.wire.cluster import CODEC, KEY, START, datagrams_of

HOST = "10.0.0.{}"
PORT = 7001


def open_endpoint(
    name: SiteId,
    *,
    key: bytes | None = KEY,
    cluster: str = "bank",
    seed: object = 0,
    incarnation: int = 0,
    stable: bool = False,
    listens: Address | None = None,
    processes_max: int = 256,
    memory: Memory | None = None,
) -> Endpoint:
    return Endpoint(
        cluster,
        name,
        (name,),
        None if key is None else ClusterKeys(key),
        CODEC,
        incarnation,
        stable,
        1450,
        Random(f"{name} {seed}").randbytes,
        listens=listens or address_of(name),
        opens=True,
        processes_max=processes_max,
        memory=memory,
    )


def address_of(name: SiteId) -> Address:
    return HOST.format(1 + sum(name.encode()) % 250), PORT


Lost = Callable[[SiteId, Address, bytes], bool]


class Network:
    """Endpoints at addresses: what is sent to an address arrives there, from its sender's."""

    def __init__(self, *endpoints: tuple[SiteId, Endpoint]) -> None:
        self.now = START
        self.endpoints: dict[SiteId, Endpoint] = {}
        self.at: dict[Address, SiteId] = {}
        self.sent: list[tuple[SiteId, Address, bytes]] = []
        self.taken: list[tuple[SiteId, SiteId, object]] = []
        self.cut: set[SiteId] = set()
        for name, endpoint in endpoints:
            self.add(name, endpoint)

    def add(self, name: SiteId, endpoint: Endpoint, where: Address | None = None) -> None:
        self.endpoints[name] = endpoint
        self.at[where or address_of(name)] = name
        endpoint.tick(self.now)

    def where(self, name: SiteId) -> Address:
        return next(where for where, other in self.at.items() if other == name)

    def exchange(self, lost: Lost = lambda _sender, _where, _datagram: False, rounds: int = 12) -> None:
        """Until nothing leaves any more. Nothing leaves or reaches those who are cut off."""
        for _ in range(rounds):
            leaving = []
            for name, endpoint in self.endpoints.items():
                for outgoing in endpoint.flush():
                    wheres = [outgoing.where] if outgoing.where else [endpoint.address_of(site) for site in outgoing.to]
                    for datagram in datagrams_of(outgoing):
                        leaving += [(name, where, datagram) for where in wheres if where is not None]
            if not leaving:
                return
            self.sent += leaving
            for name, where, datagram in leaving:
                if not lost(name, where, datagram):
                    self.arrive(name, where, datagram)

    def arrive(self, sender: SiteId, where: Address, datagram: bytes) -> None:
        receiver = self.at.get(where)
        if receiver is not None and not self.cut & {receiver, sender}:
            for origin, _, packet in self.endpoints[receiver].receive(datagram, self.now, self.where(sender)):
                self.taken.append((receiver, origin, packet))

    def meet(self, one: SiteId, other: SiteId, lost: Lost = lambda _sender, _where, _datagram: False) -> None:
        self.endpoints[one].greet(other, self.where(other), self.now)
        self.exchange(lost)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 0.5)
            for endpoint in self.endpoints.values():
                endpoint.tick(self.now)
            self.exchange()


def network_of(*names: SiteId, **details: object) -> Network:
    return Network(*((name, open_endpoint(name, **details)) for name in names))  # type: ignore[arg-type]
