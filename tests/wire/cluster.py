"""Some endpoints and a network between them that tests can bend. Time stands still unless a test moves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from ordercast.core import MAIN_INSTANCE, InstanceId, Packet, SiteId
from ordercast.wire import ClusterKeys, Codec, Endpoint, Outgoing
from ordercast.wire.numbers import SPARE
from ordercast.wire.whereabouts import Address

NAMES = ("a", "b", "c")
KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
START = 100.0
DESTINATION_BYTES = -(-(len(NAMES) + SPARE) // 8)


class Note(Packet, frozen=True):
    """A message of a test."""

    number: int
    payload: bytes = b""


class Other(Packet, frozen=True):
    """One of another type."""

    texts: tuple[str, ...] = ()
    numbers: dict[str, int] = msgspec.field(default_factory=dict)


CODEC = Codec({MAIN_INSTANCE: (Note, Other), "side": (Note,)})

Taken = tuple[SiteId, SiteId, InstanceId, Packet]
"""Receiver, sender, instance, message."""

Sent = tuple[SiteId, SiteId, bytes]
"""Sender, receiver, datagram."""


def make_endpoint(
    name: SiteId,
    keys: ClusterKeys | None = None,
    *,
    insecure: bool = False,
    seed: object = 0,
    cluster: str = "bank",
    processes: Sequence[SiteId] = NAMES,
    codec: Codec = CODEC,
    incarnation: int = 0,
    stable: bool = True,
    max_datagram: int = 1450,
    agreed: Mapping[str, Any] | None = None,
    listens: Address | None = None,
    changes: bool = False,
) -> Endpoint:
    """An endpoint with randomness of its own; another `seed` is another boot."""
    keys = None if insecure else keys or ClusterKeys(KEY)
    random = Random(f"{name} {seed}")
    return Endpoint(
        cluster,
        name,
        processes,
        keys,
        codec,
        incarnation,
        stable,
        max_datagram,
        random.randbytes,
        agreed=agreed or {},
        listens=listens,
        changes=changes,
    )


def datagrams_of(outgoing: Outgoing) -> list[bytes]:
    """One by one, as they arrive."""
    size = outgoing.segment or len(outgoing.buffer)
    return [bytes(outgoing.buffer[start : start + size]) for start in range(0, len(outgoing.buffer), size)]


def flushed(endpoint: Endpoint) -> list[bytes]:
    """All datagrams that leave now."""
    return [datagram for outgoing in endpoint.flush() for datagram in datagrams_of(outgoing)]


def never(_sent: Sent) -> bool:
    return False


class Cluster:
    """Endpoints by name."""

    def __init__(self, endpoints: Iterable[tuple[SiteId, Endpoint]]) -> None:
        self.endpoints = dict(endpoints)
        self.now = START
        self.sent: list[Sent] = []
        """Everything that ever left, lost or not."""
        self.taken: list[Taken] = []
        self.wheres: list[tuple[SiteId, Address]] = []
        """Who was sent something at an address that it has told."""

    def tick(self) -> None:
        """What is due at every endpoint."""
        for endpoint in self.endpoints.values():
            endpoint.tick(self.now)

    def leave(self) -> list[Sent]:
        """What leaves now."""
        everything = [(name, outgoing) for name, endpoint in self.endpoints.items() for outgoing in endpoint.flush()]
        leaving = [
            (name, site, datagram)
            for name, outgoing in everything
            for site in outgoing.to
            for datagram in datagrams_of(outgoing)
        ]
        self.sent += leaving
        self.wheres += [(outgoing.to[0], outgoing.where) for _, outgoing in everything if outgoing.where is not None]
        return leaving

    def arrive(self, sent: Sent) -> None:
        """Hand one datagram over."""
        _, site, datagram = sent
        if site in self.endpoints:
            for sender, instance, message in self.endpoints[site].receive(datagram, self.now):
                self.taken.append((site, sender, instance, message))

    def exchange(self, lost: Callable[[Sent], bool] = never, rounds: int = 8) -> list[Taken]:
        """Let everything leave and arrive until it is quiet; what was taken."""
        self.taken = []
        for _ in range(rounds):
            leaving = self.leave()
            for sent in leaving:
                if not lost(sent):
                    self.arrive(sent)
            if not leaving:
                break
        return self.taken

    def pass_time(self, seconds: float, lost: Callable[[Sent], bool] = never) -> list[Taken]:
        """Go from deadline to deadline for so long, exchanging everything; what was taken."""
        end = self.now + seconds
        taken = []
        while True:
            self.tick()
            taken += self.exchange(lost)
            self.now = max(self.now, min(endpoint.deadline for endpoint in self.endpoints.values()))
            if self.now > end:
                self.now = end
                return taken

    def introduce(self) -> None:
        """Let everybody get to know everybody."""
        self.tick()
        self.exchange()
        for name, endpoint in self.endpoints.items():
            assert set(endpoint.established) == set(self.endpoints) - {name}


def make_cluster(names: Sequence[SiteId] = NAMES, **details: object) -> Cluster:
    """Endpoints that have not spoken yet."""
    return Cluster((name, make_endpoint(name, **{"processes": names, **details})) for name in names)  # type: ignore[arg-type]


def known_cluster(names: Sequence[SiteId] = NAMES, **details: object) -> Cluster:
    """Endpoints that know each other, and have counted nothing yet."""
    cluster = make_cluster(names, **details)
    cluster.introduce()
    assert not any(endpoint.counters for endpoint in cluster.endpoints.values())
    return cluster
