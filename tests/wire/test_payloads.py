"""Payloads are views of what they came in: not copied, and not changed by what comes next."""

from __future__ import annotations

import pytest

from ordercast.core import MAIN_INSTANCE, MessageId, Multicast, Packet
from ordercast.wire import Codec
from tests.wire.cluster import Cluster, flushed, make_endpoint


class Carried(Packet, frozen=True):
    multicast: Multicast


CODEC = Codec({MAIN_INSTANCE: (Carried,)})


def carried(number: int, size: int) -> Carried:
    return Carried(Multicast(MessageId("a", 0, number), ("g",), bytes([number]) * size))


@pytest.mark.parametrize("size", [10, 60_000])
@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize("max_datagram", [1450, 65_000])
def test_a_payload_stays_what_it_is_when_the_sockets_buffer_is_used_again(
    size: int, insecure: bool, max_datagram: int
) -> None:
    names = ("a", "b")
    cluster = Cluster(
        (name, make_endpoint(name, insecure=insecure, processes=names, codec=CODEC, max_datagram=max_datagram))
        for name in names
    )
    cluster.introduce()
    a, b = cluster.endpoints["a"], cluster.endpoints["b"]
    buffer = memoryview(bytearray(65_507))
    taken: list[Packet] = []
    for number in (1, 2):
        a.send(("b",), MAIN_INSTANCE, carried(number, size))
        for datagram in flushed(a):
            buffer[: len(datagram)] = datagram
            taken += [message for _, _, message in b.receive(buffer[: len(datagram)], cluster.now)]
    assert taken == [carried(1, size), carried(2, size)]
    first = taken[0]
    assert isinstance(first, Carried)
    assert isinstance(first.multicast.payload, memoryview)
    assert first.multicast.payload.readonly
