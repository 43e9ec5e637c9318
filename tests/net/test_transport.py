"""Small datagrams leave through a socket for each receiver; where that does not work, through the one for all."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ordercast.net import sockets
from ordercast.net.ports import PORTS, free_ports
from ordercast.net.sockets import Resolved
from ordercast.net.transport import Transport
from tests.hand_loop import DEADLINE_SECONDS

HOST = "127.0.0.1"
BUFFER_BYTES = 1 << 18


def at(port: int) -> Resolved:
    return sockets.resolve(HOST, port)


@contextmanager
def transport_to(port: int) -> Iterator[Transport]:
    """Of a process that sends to another, which has that port."""
    own = at(free_ports(1)[0])
    loop = asyncio.new_event_loop()
    transport = Transport(
        loop, own, {"b": at(port)}, lambda *_: False, lambda: None, 65_000, BUFFER_BYTES, busy_poll_seconds=0.0
    )
    try:
        yield transport
    finally:
        transport.close()
        loop.close()


def listen(port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.settimeout(DEADLINE_SECONDS)
    opened.bind((HOST, port))
    return opened


def test_what_is_sent_right_after_nobody_listened_arrives() -> None:
    """The kernel tells a connected socket that nobody was there, and does not take what is sent in that moment."""
    (port,) = free_ports(1)
    with transport_to(port) as transport:
        transport.send(("b",), b"too early", None)
        with listen(port) as listener:
            transport.send(("b",), b"just started", None)
            assert listener.recv(100) == b"just started"


def test_a_small_datagram_leaves_through_the_receivers_own_socket_and_several_in_one_piece_do_not() -> None:
    (port,) = free_ports(1)
    with listen(port) as listener, transport_to(port) as transport:
        transport.send(("b",), b"one", None)
        transport.send(("b",), b"twothree", 3)
        alone, *pieces = [listener.recvfrom(100) for _ in range(4)]
        assert [datagram for datagram, _ in (alone, *pieces)] == [b"one", b"two", b"thr", b"ee"]
        assert len({sender for _, sender in pieces}) == 1
        assert alone[1] not in {sender for _, sender in pieces}


def test_a_process_that_listens_on_any_address_has_no_connected_sockets() -> None:
    """Its address may change, and such a socket would go on with the old one."""
    assert sockets.connect_udp(Resolved(socket.AF_INET, ("0.0.0.0", 1)), at(2), BUFFER_BYTES) is None


def test_a_closed_transport_has_no_open_socket() -> None:
    (port,) = free_ports(1)
    with transport_to(port) as transport:
        opened = [*transport._connected.values(), transport._socket]
    assert len(opened) == 2
    assert all(each.fileno() == -1 for each in opened)


def test_ports_for_a_cluster_are_none_that_the_kernel_gives_away() -> None:
    """Else one process' connected socket takes the port on which the next one is to listen."""
    (port,) = free_ports(1)
    with listen(port) as first, listen(0) as given:
        assert port < given.getsockname()[1]
        assert first.getsockname()[1] not in free_ports(len(PORTS) // 4)


def test_somebody_who_is_not_known_is_reached_at_an_address() -> None:
    (unused, port) = free_ports(2)
    with listen(port) as listener, transport_to(unused) as transport:
        transport.send_to(("127.0.0.1", port), b"not known here")
        assert listener.recv(100) == b"not known here"


def test_a_process_knows_its_own_address_also_where_it_listens_everywhere() -> None:
    loop = asyncio.new_event_loop()
    for host in (HOST, "0.0.0.0"):
        own = sockets.resolve(host, 0)
        transport = Transport(loop, own, {"a": own}, lambda *_: False, lambda: None, 1450, 1 << 16, 0.0, opens=True)
        port = transport.port
        assert port > 0
        assert transport.is_own((HOST, port))
        assert not transport.is_own((HOST, port + 1))
        assert not transport.is_own(("192.0.2.1", port)), "some other host's"
        transport.close()
    loop.close()


def test_an_address_of_another_family_is_counted_and_nothing_else() -> None:
    with transport_to(free_ports(1)[0]) as transport:
        transport.send_to(("::1", 7001), b"by the wrong socket")
        transport.send(("nobody knows it",), b"gone", None)
        assert transport.counters == {"send-errors": 1}
