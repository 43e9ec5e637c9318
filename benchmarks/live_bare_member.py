"""One member of the bare limit: plain UDP sockets, bundles, a fixed sequencer, and nothing else.

A *datagram* is a header and a list of messages in MessagePack. A *train* is what one system call takes: one
datagram, or, with segmentation offload, as many full datagrams as fit into 64 kB, cut apart by the kernel and, on
the other side, handed over in one piece. Members send their trains to the sequencer; it writes numbers into the
headers and sends the same bytes on to everyone else. What is lost does not come again.

Windows stand in for loss recovery, so that no socket buffer overflows: a member has only so many datagrams of its
own on the way, and the sequencer orders only so far ahead of the slowest member.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

HEADER = struct.Struct("<QIHBB")  # sequence number, bytes of messages, messages, kind, origin
KIND_OFFSET = 14
DATA, ORDERED, ACKNOWLEDGED = 0, 1, 2
STAMP = struct.Struct("<QQ")  # when, in nanoseconds, and by whom: the beginning of a message in a run with a rate

DATAGRAM_MAX = 65507  # what IPv4 can carry
SEGMENTS_MAX = 64  # of one call; newer kernels take 128
UDP_SEGMENT, UDP_GRO = 103, 104
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SOCKET_BUFFER_BYTES = 64 << 20
# Bytes on the way that one member may have. A window of 8 datagrams of 65000 bytes keeps everyone busy; 4 members then
# fill a socket buffer with 2 MB, which a kernel with the usual limits grants as well, and which fits into the cache.
WINDOW_BYTES = 8 * 65000
# Trains taken from the socket before timers get their turn.
DRAIN_TRAINS = 32

Messages = list[bytes]


@dataclass(frozen=True)
class Settings:
    addresses: list[tuple[str, int]]
    size: int
    seconds: float
    rate: float | None = None  # of all members together
    max_datagram: int = 65000
    segment_offload: bool = False
    multicast: tuple[str, int] | None = None  # the sequencer sends to this group, once, instead of to every member
    callback: str = "message"  # or "bundle"
    window_bytes: int = WINDOW_BYTES
    polling: bool = False  # never sleeps

    @property
    def segments(self) -> int:
        """Datagrams in a full train."""
        return min(SEGMENTS_MAX, DATAGRAM_MAX // self.max_datagram) if self.segment_offload else 1

    @property
    def messages_in_datagram(self) -> int:
        encoded_size = len(msgspec.msgpack.encode(bytes(self.size)))
        list_header = 5
        return max(1, (self.max_datagram - HEADER.size - list_header) // encoded_size)

    @property
    def window(self) -> int:
        """Datagrams that one member may have on the way: two trains at least, or it stands still between them."""
        return max(2 * self.segments, self.window_bytes // self.max_datagram)


class Counter:
    """What a run without a rate measures: how many messages came."""

    def __init__(self) -> None:
        self.messages = 0

    def on_message(self, message: bytes) -> None:
        self.messages += 1

    def on_bundle(self, messages: Messages) -> None:
        self.messages += len(messages)


class Stopwatch(Counter):
    """What a run with a rate measures: how long ago every message was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.nanoseconds: list[tuple[int, int]] = []

    def on_message(self, message: bytes) -> None:
        sent, origin = STAMP.unpack_from(message)
        self.nanoseconds.append((origin, time.perf_counter_ns() - sent))
        self.messages += 1

    def on_bundle(self, messages: Messages) -> None:
        for message in messages:
            self.on_message(message)


def open_socket() -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setblocking(False)
    for forced, usual in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            opened.setsockopt(socket.SOL_SOCKET, forced, SOCKET_BUFFER_BYTES)
        except PermissionError:
            opened.setsockopt(socket.SOL_SOCKET, usual, SOCKET_BUFFER_BYTES)
    return opened


class Member:
    def __init__(self, index: int, settings: Settings) -> None:
        self.index = index
        self.settings = settings
        self.members = len(settings.addresses)
        self.is_sequencer = index == 0
        self.open_sockets()
        # Bound once: looking them up costs as much as a message.
        self.receive_into = self.receiving.recv_into
        self.encode_into = msgspec.msgpack.Encoder().encode_into
        self.decode = msgspec.msgpack.Decoder(Messages).decode
        self.incoming = bytearray(DATAGRAM_MAX)
        self.incoming_view = memoryview(self.incoming)
        self.outgoing = bytearray(DATAGRAM_MAX)
        self.acknowledgement = bytearray(HEADER.size)
        self.window = settings.window
        self.in_flight = 0
        self.sent_messages = 0
        self.sending = False
        # As a member.
        self.expected = 0
        self.acknowledged = 0
        # As the sequencer.
        self.stamped = 0
        self.own_stamped = 0
        self.delivered_by = [0] * self.members
        self.delivered_by_all = 0
        self.held: deque[bytearray] = deque()
        self.ahead_max = self.window * self.members
        self.counter = Stopwatch() if settings.rate else Counter()
        self.on_message: Callable[[bytes], None] | None = None
        if settings.callback == "message":
            self.on_message = self.counter.on_message
        self.messages = [os.urandom(settings.size) for _ in range(settings.messages_in_datagram)]

    # --- Sockets ------------------------------------------------------------------------------------------------

    def open_sockets(self) -> None:
        settings = self.settings
        self.receiving = open_socket()
        if settings.multicast is not None and not self.is_sequencer:
            group, _ = settings.multicast
            self.receiving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.receiving.bind(settings.multicast)
            membership = socket.inet_aton(group) + self.interface
            self.receiving.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        else:
            self.receiving.bind(settings.addresses[self.index])
        if settings.segment_offload:
            self.receiving.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        if not self.is_sequencer:
            destinations = settings.addresses[:1]
        elif settings.multicast is not None:
            destinations = [settings.multicast]
        else:
            destinations = settings.addresses[1:]
        self.senders = [self.connect(destination, settings.segment_offload) for destination in destinations]
        # Not by the same socket: the kernel may hand over a train and what follows it from there in one piece.
        self.send_acknowledgement = self.connect(settings.addresses[0])

    def connect(self, destination: tuple[str, int], in_trains: bool = False) -> Callable[[bytearray | memoryview], int]:
        """A socket for one destination, connected: no address to parse, no route to look up."""
        opened = open_socket()
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, self.interface)
        if in_trains:
            opened.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, self.settings.max_datagram)
        opened.connect(destination)
        return opened.send

    @property
    def interface(self) -> bytes:
        host, _ = self.settings.addresses[self.index]
        return socket.inet_aton(host)

    # --- Receiving ----------------------------------------------------------------------------------------------

    def on_readable(self) -> None:
        incoming, receive_into = self.incoming, self.receive_into
        for _ in range(DRAIN_TRAINS):
            try:
                length = receive_into(incoming)
            except BlockingIOError:
                break
            kind = incoming[KIND_OFFSET]
            if kind == ORDERED:
                self.on_ordered(length)
            elif kind == DATA:
                self.on_data(length)
            else:
                self.on_acknowledged()

    def on_ordered(self, length: int) -> None:
        incoming, view, decode, deliver = self.incoming, self.incoming_view, self.decode, self.deliver
        index, expected = self.index, self.expected
        for start in range(0, length, self.settings.max_datagram):
            sequence, size, _, _, origin = HEADER.unpack_from(incoming, start)
            expected = sequence + 1
            body = start + HEADER.size
            deliver(decode(view[body : body + size]))
            if origin == index:
                self.in_flight -= 1
        self.expected = expected
        if self.sending:
            self.fill_window()
        if 2 * (expected - self.acknowledged) >= self.window:
            self.acknowledged = expected
            HEADER.pack_into(self.acknowledgement, 0, expected, 0, 0, ACKNOWLEDGED, index)
            self.send_acknowledgement(self.acknowledgement)

    def deliver(self, messages: Messages) -> None:
        on_message = self.on_message
        if on_message is None:
            self.counter.on_bundle(messages)
        else:
            for message in messages:
                on_message(message)

    # --- Sending ------------------------------------------------------------------------------------------------

    def fill_window(self) -> None:
        segments = self.settings.segments
        while self.in_flight + segments <= self.window:
            self.send_train([self.gather() for _ in range(segments)])

    def gather(self) -> Messages:
        """What an application's single multicasts come to: every message is appended on its own."""
        bundle: Messages = []
        append = bundle.append
        for message in self.messages:
            append(message)
        return bundle

    def send_train(self, bundles: list[Messages]) -> None:
        """Encode one datagram a bundle; to the sequencer, or, from the sequencer, to everyone."""
        outgoing, encode_into, stride = self.outgoing, self.encode_into, self.settings.max_datagram
        sequence, kind = (self.stamped, ORDERED) if self.is_sequencer else (0, DATA)
        start = 0
        for bundle in bundles:
            if start:
                # All but the last are as long as the kernel cuts them; encode_into leaves the buffer cut to its end.
                outgoing.extend(bytes(start - len(outgoing)))
            encode_into(bundle, outgoing, start + HEADER.size)
            size = len(outgoing) - start - HEADER.size
            HEADER.pack_into(outgoing, start, sequence, size, len(bundle), kind, self.index)
            self.sent_messages += len(bundle)
            sequence += 1
            start += stride
        for send in self.senders:
            send(outgoing)
        if self.is_sequencer:
            self.stamped = sequence
            self.own_stamped += len(bundles)
            for bundle in bundles:
                self.deliver(bundle)
        else:
            self.in_flight += len(bundles)

    # --- The sequencer's part -----------------------------------------------------------------------------------

    def on_data(self, length: int) -> None:
        if self.held or self.stamped - self.delivered_by_all >= self.ahead_max:
            self.held.append(self.incoming[:length])
            return
        self.order(self.incoming, length)
        if self.sending:
            self.take_turn()

    def order(self, train: bytearray, length: int) -> None:
        starts = range(0, length, self.settings.max_datagram)
        sequence = self.stamped
        for start in starts:
            _, size, count, _, origin = HEADER.unpack_from(train, start)
            HEADER.pack_into(train, start, sequence, size, count, ORDERED, origin)
            sequence += 1
        self.stamped = sequence
        with memoryview(train) as view:
            ordered = view[:length]
            for send in self.senders:
                send(ordered)
            for start in starts:
                _, size, _, _, _ = HEADER.unpack_from(train, start)
                body = start + HEADER.size
                self.deliver(self.decode(view[body : body + size]))
            ordered.release()

    def on_acknowledged(self) -> None:
        sequence, _, _, _, origin = HEADER.unpack_from(self.incoming)
        self.delivered_by[origin] = sequence
        self.delivered_by_all = min(self.delivered_by[1:])
        while self.held and self.stamped - self.delivered_by_all < self.ahead_max:
            train = self.held.popleft()
            self.order(train, len(train))
        if self.sending:
            self.take_turn()

    def take_turn(self) -> None:
        """A train of the sequencer's own for every three of the others' (with four members): equal shares."""
        segments = self.settings.segments
        while self.own_stamped * self.members <= self.stamped and self.stamped - self.delivered_by_all < self.ahead_max:
            self.send_train([self.gather() for _ in range(segments)])
