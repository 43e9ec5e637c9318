"""What somebody without the key can do to a process' sockets: fill no memory, hold no turn up, reach nobody by it."""

from __future__ import annotations

import asyncio
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from ordercast.core import MAIN_INSTANCE
from ordercast.net import sockets
from ordercast.net.ports import free_ports
from ordercast.net.transport import DRAIN_DATAGRAMS_MAX, DRAIN_MAX, Datagram, Transport
from ordercast.wire import Endpoint
from ordercast.wire.datagram import HANDSHAKE_BYTES, HELLO, KIND_MAX, PLAINTEXT, VERSION
from tests.hand_loop import DEADLINE_SECONDS
from tests.wire.cluster import START, Note, known_cluster, make_endpoint

HOST = "127.0.0.1"
BUFFER_BYTES = 1 << 22
TRAIN = 64


class Drains:
    """A process that only counts: how many datagrams each turn of its event loop takes."""

    def __init__(self, max_datagram: int, endpoint: Endpoint | None = None) -> None:
        self.turns: list[int] = []
        self.loop = asyncio.new_event_loop()
        own, peer = free_ports(2)
        self.own = sockets.resolve(HOST, own)
        self.peer = sockets.resolve(HOST, peer)
        self._endpoint = endpoint
        self._taken = 0
        self.transport = Transport(
            self.loop,
            self.own,
            {"a": self.peer, "b": self.own},
            self._on_datagram,
            self._on_drained,
            max_datagram,
            BUFFER_BYTES,
            busy_poll_seconds=DEADLINE_SECONDS,
        )

    def _on_datagram(self, datagram: Datagram, now: float, multicast: bool, segment: int | None) -> bool:
        self._taken += -(-len(datagram) // (segment or len(datagram)))
        return self._endpoint is not None and bool(self._endpoint.receive(datagram, START))

    def _on_drained(self) -> None:
        self.turns.append(self._taken)
        self._taken = 0
        if self._endpoint is not None:
            for outgoing in self._endpoint.flush():
                self.transport.send(outgoing.to, outgoing.buffer, outgoing.segment)

    def run_until(self, count: int) -> None:
        """Until so many datagrams were taken."""

        async def main() -> None:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while sum(self.turns) < count:
                    await asyncio.sleep(0)

        self.loop.run_until_complete(main())


@contextmanager
def drains(max_datagram: int, endpoint: Endpoint | None = None) -> Iterator[Drains]:
    drained = Drains(max_datagram, endpoint)
    try:
        yield drained
    finally:
        drained.transport.close()
        drained.loop.close()


# ---------------------------------------------------------------------- memory
def test_a_socket_that_nobody_reads_has_the_smallest_buffer_that_the_kernel_gives() -> None:
    own, peer = (sockets.resolve(HOST, port) for port in free_ports(2))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as small:
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        smallest = small.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    connected = sockets.connect_udp(own, peer, BUFFER_BYTES)
    assert connected is not None
    with connected:
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == smallest
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 10 * smallest


def test_who_sends_under_a_peers_address_leaves_a_datagram_or_two_in_memory() -> None:
    own, peer = (sockets.resolve(HOST, port) for port in free_ports(2))
    connected = sockets.connect_udp(own, peer, BUFFER_BYTES)
    assert connected is not None
    with connected, sockets.open_udp(peer, BUFFER_BYTES) as flooder:
        for _ in range(1000):
            flooder.sendto(bytes(1000), connected.getsockname())
        for _ in range(3):
            with suppress(BlockingIOError):
                connected.recv(2000)
        with pytest.raises(BlockingIOError):
            connected.recv(2000)


# ---------------------------------------------------------------------- turns of the event loop
def test_a_turn_takes_a_bounded_number_of_datagrams_however_many_come_in_one_piece() -> None:
    trains = 40
    with drains(max_datagram=1450) as drained, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flooder:
        if not sockets.can_segment(flooder):
            pytest.skip("this kernel does not cut datagrams")
        for _ in range(trains):
            flooder.sendmsg((bytes(TRAIN * 20),), sockets.segment_option(20), 0, drained.own.address)
        drained.run_until(trains * TRAIN)
    assert sum(drained.turns) == trains * TRAIN
    assert max(drained.turns) < DRAIN_DATAGRAMS_MAX + TRAIN


def test_a_turn_takes_a_bounded_number_of_datagrams_that_come_one_by_one() -> None:
    count = 5 * DRAIN_MAX
    with drains(max_datagram=65_000) as drained, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flooder:
        for _ in range(count):
            flooder.sendto(bytes(20), drained.own.address)
        drained.run_until(count)
    assert max(drained.turns) <= DRAIN_MAX


@pytest.mark.parametrize("max_datagram", [1450, 65_000])
def test_what_is_dropped_keeps_no_process_awake(max_datagram: int) -> None:
    cluster = known_cluster(("a", "b"))
    with (
        drains(max_datagram, cluster.endpoints["b"]) as drained,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flooder,
    ):
        polls = drained.transport._polls
        assert polls is not None
        for datagram in (b"junk", *(sent for _, receiver, sent in cluster.sent if receiver == "b")):
            flooder.sendto(datagram, drained.own.address)
            drained.run_until(sum(drained.turns) + 1)
            assert not polls._turns
        cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1))
        ((_, _, genuine),) = cluster.leave()
        flooder.sendto(genuine, drained.own.address)
        drained.run_until(sum(drained.turns) + 1)
        assert polls._turns
        polls.stop()


# ---------------------------------------------------------------------- the kernel's filter
def heard_by(drained: Drains, first_two: list[tuple[int, int]]) -> list[bool]:
    """Which of these datagrams come to the process, told by how they begin."""
    heard = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for version, kind in first_two:
            before = sum(drained.turns)
            sender.sendto(bytes((version, kind)), drained.own.address)
            # The last one is always heard, and nothing overtakes on the loopback.
            sender.sendto(bytes((VERSION, HELLO)), drained.own.address)
            drained.run_until(before + 1)
            drained.loop.run_until_complete(asyncio.sleep(0))
            while drained.transport._socket in select.select([drained.transport._socket], [], [], 0)[0]:
                drained.loop.run_until_complete(asyncio.sleep(0))
            heard.append(sum(drained.turns) == before + 2)
    return heard


def test_the_kernel_drops_junk_and_nothing_that_a_process_may_send() -> None:
    ours = [(VERSION, kind) for kind in (0, HELLO, KIND_MAX, 99, PLAINTEXT | HELLO, 255)]
    handshakes = [(version, kind | flag) for version in (0, VERSION + 1, 255) for kind in (1, 4) for flag in (0, 128)]
    junk = [(version, kind) for version in (0, VERSION + 1, 255) for kind in (0, 5, 127, 128, 133, 255)]
    with drains(max_datagram=65_000) as drained:
        drained.transport.drop_junk()
        assert all(heard_by(drained, ours))
        assert all(heard_by(drained, handshakes))
        if sys.platform == "linux":
            assert not any(heard_by(drained, junk))


def test_where_datagrams_come_in_one_piece_the_kernel_judges_none_by_the_first() -> None:
    with drains(max_datagram=1450) as drained:
        if not drained.transport._coalesced:
            pytest.skip("this kernel hands datagrams over one by one")
        drained.transport.drop_junk()
        assert all(heard_by(drained, [(VERSION + 1, 99), (0, 0)]))


# ---------------------------------------------------------------------- third parties
def test_an_answer_goes_to_the_configured_address_and_not_where_the_datagram_came_from() -> None:
    """Somebody sends a recorded hello of a from an address of his own."""
    a = make_endpoint("a", processes=("a", "b"))
    a.tick(START)
    (hello,) = [bytes(outgoing.buffer) for outgoing in a.flush()]
    endpoint = make_endpoint("b", processes=("a", "b"))
    with (
        drains(1450, endpoint) as drained,
        sockets.open_udp(drained.peer, BUFFER_BYTES) as configured,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        for _ in range(100):
            stranger.sendto(hello, drained.own.address)
        drained.run_until(100)
        configured.settimeout(DEADLINE_SECONDS)
        assert len(configured.recv(65_536)) == HANDSHAKE_BYTES
        for quiet in (configured, stranger):
            quiet.setblocking(False)
            with pytest.raises(BlockingIOError):
                quiet.recv(65_536)
    assert endpoint.counters == {"replayed": 99}
