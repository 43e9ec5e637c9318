"""A disturbed transport loses and repeats datagrams by every way out that there is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ordercast.net import disturbance, sockets, transport
from ordercast.net.disturbance import LOST, REPEATED
from ordercast.net.ports import free_ports
from ordercast.net.sockets import SocketAddress
from ordercast.net.transport import Transport
from tests.hand_loop import DEADLINE_SECONDS
from tests.net.test_transport import BUFFER_BYTES, HOST, at, listen, transport_to

MULTICAST_GROUP = "239.192.77.2"
DATAGRAMS = [b"one", b"two", b"end"]

Send = Callable[[Transport, bytes], None]


def lose(_datagram: memoryview, _address: SocketAddress) -> int:
    return 0


def pass_on(_datagram: memoryview, _address: SocketAddress) -> int:
    return 1


def repeat(_datagram: memoryview, _address: SocketAddress) -> int:
    return 2


class Way:
    """One way out: a transport, where its datagrams arrive, and how it is told to send."""

    def __init__(self, opened: Transport, listener: socket.socket, send: Send) -> None:
        self.transport = opened
        self.listener = listener
        self._send = send

    def send_all(self) -> None:
        for datagram in DATAGRAMS:
            self._send(self.transport, datagram)

    def receive(self) -> bytes:
        return self.listener.recv(100)


@contextmanager
def connected() -> Iterator[Way]:
    (port,) = free_ports(1)
    with listen(port) as listener, transport_to(port) as opened:
        assert opened._connected
        yield Way(opened, listener, lambda to, datagram: to.send(("b",), datagram, None))


@contextmanager
def common() -> Iterator[Way]:
    with connected() as way:
        for each in way.transport._connected.values():
            each.close()
        way.transport._connected.clear()
        yield way


@contextmanager
def multicast() -> Iterator[Way]:
    (port,) = free_ports(1)
    with connected() as way, sockets.open_multicast(MULTICAST_GROUP, port, HOST, BUFFER_BYTES) as listener:
        listener.settimeout(DEADLINE_SECONDS)
        way.transport.join_multicast(MULTICAST_GROUP, port, HOST, own_host_too=True, buffer_bytes=BUFFER_BYTES)
        yield Way(way.transport, listener, lambda to, datagram: to.send_multicast(datagram, None))


@contextmanager
def channel() -> Iterator[Way]:
    (port,) = free_ports(1)
    with connected() as way, listen(port) as hub:
        way.transport.use_channel(at(port))
        yield Way(way.transport, hub, lambda to, datagram: to.send_to_channel(datagram, None))


@contextmanager
def backlog() -> Iterator[Way]:
    """What waited until the socket's buffer had room."""

    def send_late(to: Transport, datagram: bytes) -> None:
        to._queue(datagram, None, (HOST, way.listener.getsockname()[1]))
        to._send_backlog()

    with common() as way:
        yield Way(way.transport, way.listener, send_late)


@contextmanager
def segments() -> Iterator[Way]:
    """Several datagrams in one buffer, which the kernel cuts."""
    with connected() as way:

        def send_together(to: Transport, datagram: bytes) -> None:
            if datagram == DATAGRAMS[-1]:
                to.send(("b",), b"".join(DATAGRAMS), len(datagram))

        yield Way(way.transport, way.listener, send_together)


@contextmanager
def uncut_segments() -> Iterator[Way]:
    """The same where the kernel does not cut."""
    with segments() as way:
        way.transport._segments = False
        yield way


WayOut = Callable[[], AbstractContextManager[Way]]

WAYS: list[WayOut] = [connected, common, multicast, channel, backlog, segments, uncut_segments]

ways = pytest.mark.parametrize("way_out", WAYS, ids=lambda way: way.__name__)


@ways
def test_what_is_lost_does_not_arrive_and_is_counted(way_out: WayOut) -> None:
    with way_out() as way:
        way.transport.disturb(lose)
        way.send_all()
        assert way.transport.counters[LOST] == len(DATAGRAMS)
        way.transport.disturb(pass_on)
        way.send_all()
        assert [way.receive() for _ in DATAGRAMS] == DATAGRAMS, "the first to arrive are those that were sent last"
        assert way.transport.counters[LOST] == len(DATAGRAMS)


@ways
def test_what_is_repeated_arrives_as_often(way_out: WayOut) -> None:
    with way_out() as way:
        way.transport.disturb(repeat)
        way.send_all()
        assert [way.receive() for _ in range(2 * len(DATAGRAMS))] == [each for each in DATAGRAMS for _ in range(2)]
        assert way.transport.counters[REPEATED] == len(DATAGRAMS)


@ways
def test_the_disturbance_sees_each_datagram_alone_and_where_it_goes(
    way_out: WayOut,
) -> None:
    seen: list[tuple[bytes, SocketAddress]] = []

    def look(datagram: memoryview, address: SocketAddress) -> int:
        seen.append((bytes(datagram), address))
        return 1

    with way_out() as way:
        way.transport.disturb(look)
        way.send_all()
        assert seen == [(datagram, way.listener.getsockname()) for datagram in DATAGRAMS]


def test_a_transport_calls_no_method_of_a_socket_to_send_that_is_not_disturbed() -> None:
    """A way out that is added to the transport has to be added to the disturbed socket too."""
    ways_out = {name for name in dir(socket.socket) if name.startswith("send")}
    called = {name for name in ways_out if f".{name}(" in Path(transport.__file__).read_text()}
    assert called == {"send", "sendto", "sendmsg"}
    assert called <= set(vars(disturbance.DisturbedSocket))


def test_a_disturbed_transport_still_hears() -> None:
    heard: list[bytes] = []

    async def main() -> None:
        own = at(free_ports(1)[0])
        done = asyncio.Event()

        def on_datagram(datagram: memoryview, now: float, multicast: bool, segment: int | None) -> bool:
            heard.append(bytes(datagram))
            done.set()
            return True

        opened = Transport(
            asyncio.get_running_loop(), own, {}, on_datagram, lambda: None, 65_000, BUFFER_BYTES, busy_poll_seconds=0.0
        )
        try:
            opened.disturb(lose)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"hello", own.address)
                await asyncio.wait_for(done.wait(), DEADLINE_SECONDS)
        finally:
            opened.close()

    asyncio.run(main())
    assert heard == [b"hello"]
