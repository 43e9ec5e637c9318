"""UDP sockets as a node needs them: large buffers, and many datagrams to a system call where the kernel can do that."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from ipaddress import ip_address

import msgspec

from ordercast.core import UsageError

_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_UDP_SEGMENT, _UDP_GRO = 103, 104
_SEGMENT = struct.Struct("=H")
_RECEIVED_SEGMENT = struct.Struct("=i")

DATAGRAM_MAX = 65507
"""The largest that UDP over IPv4 carries."""

SEGMENTS_MAX = 64
"""Datagrams in one segmented send: what every kernel that can do it takes (UDP_MAX_SEGMENTS was 64 at first)."""

_TTL = struct.Struct("=i")
_IP_RECVTTL = 12

ANCILLARY_BYTES = socket.CMSG_SPACE(_RECEIVED_SEGMENT.size)
ANCILLARY_BYTES_WITH_TTL = ANCILLARY_BYTES + socket.CMSG_SPACE(_TTL.size)

SocketAddress = tuple[str, int] | tuple[str, int, int, int]


class Resolved(msgspec.Struct, frozen=True):
    """Where a process listens."""

    family: socket.AddressFamily
    address: SocketAddress


def resolve(host: str, port: int) -> Resolved:
    """Look a host up; `UsageError` when there is none of that name."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise UsageError(f"there is no host {host!r} ({error.strerror or error}): correct the address") from None
    family, _, _, _, address = found[0]
    return Resolved(family, address)  # type: ignore[arg-type]


def open_udp(where: Resolved, buffer_bytes: int) -> socket.socket:
    """A non-blocking socket bound to an address; `UsageError` when the address is taken or not ours."""
    opened = socket.socket(where.family, socket.SOCK_DGRAM)
    opened.setblocking(False)
    try:
        opened.bind(where.address)
    except OSError as error:
        opened.close()
        host, port = where.address[:2]
        if not port:
            raise UsageError(f"cannot listen on {host} ({error.strerror}): name an address of this machine") from None
        raise UsageError(
            f"cannot listen on {host}:{port} ({error.strerror}): is the process running already, or is the address "
            f"another machine's?"
        ) from None
    set_buffers(opened, buffer_bytes)
    return opened


def connect_udp(own: Resolved, peer: Resolved, buffer_bytes: int) -> socket.socket | None:
    """A socket for one receiver only, so that no datagram needs its address parsed and its route looked up. None where
    that cannot be had: the network does not know the way yet, or this process may listen on any address of its host,
    and those may change. Nothing is read from it."""
    host = own.address[0]
    if own.family != peer.family or ip_address(host.partition("%")[0]).is_unspecified:
        return None
    try:
        opened = socket.socket(own.family, socket.SOCK_DGRAM)
    except OSError:
        return None
    try:
        opened.setblocking(False)
        opened.bind((host, 0, *own.address[2:]))
        opened.connect(peer.address)
    except OSError:
        opened.close()
        return None
    # Whoever sends under the receiver's address fills the kernel's memory with what nobody reads: a datagram or two,
    # and the kernel drops the rest. (To read it and throw it away would cost this process time for each.)
    set_buffers(opened, buffer_bytes, receive_bytes=0)
    return opened


def set_buffers(opened: socket.socket, buffer_bytes: int, receive_bytes: int | None = None) -> None:
    """Ask for buffers, with more than the system's limit where we are allowed to; the smallest that there is for 0."""
    receive_bytes = buffer_bytes if receive_bytes is None else receive_bytes
    for force, plain, wanted in (
        (_SO_RCVBUFFORCE, socket.SO_RCVBUF, receive_bytes),
        (_SO_SNDBUFFORCE, socket.SO_SNDBUF, buffer_bytes),
    ):
        try:
            opened.setsockopt(socket.SOL_SOCKET, force, wanted)
        except OSError:
            opened.setsockopt(socket.SOL_SOCKET, plain, wanted)


def receive_buffer_bytes(opened: socket.socket) -> int:
    """What the kernel has granted (it reports twice that: the other half is for its own use)."""
    return opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def can_segment(opened: socket.socket) -> bool:
    """Whether the kernel cuts one buffer into many datagrams (UDP_SEGMENT, Linux 4.18)."""
    try:
        opened.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, 0)
    except OSError:
        return False
    return True


def receive_coalesced(opened: socket.socket) -> bool:
    """Let the kernel hand over several datagrams at once (UDP_GRO, Linux 5.0); whether it will."""
    try:
        opened.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)
    except OSError:
        return False
    return True


def segment_option(size: int) -> list[tuple[int, int, bytes]]:
    """The ancillary data of a send that the kernel is to cut."""
    return [(socket.IPPROTO_UDP, _UDP_SEGMENT, _SEGMENT.pack(size))]


def sent_segment(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """What `segment_option` said; None when the kernel is to cut nothing."""
    for level, kind, value in ancillary:
        if level == socket.IPPROTO_UDP and kind == _UDP_SEGMENT:
            size: int = _SEGMENT.unpack(value)[0]
            return size
    return None


def received_segment(ancillary: list[tuple[int, int, bytes]], received: int) -> int:
    """The size of the datagrams that lie in a received buffer."""
    for level, kind, value in ancillary:
        if level == socket.IPPROTO_UDP and kind == _UDP_GRO:
            size: int = _RECEIVED_SEGMENT.unpack_from(value)[0]
            return size
    return received


def see_ttl(opened: socket.socket) -> None:
    """Let the kernel tell what was left of the TTL of each datagram (IPv4, Linux); elsewhere nobody knows."""
    with suppress(OSError):
        opened.setsockopt(socket.IPPROTO_IP, _IP_RECVTTL, 1)


def ttl_option(ttl: int) -> list[tuple[int, int, bytes]]:
    """The ancillary data of a send that goes so many hops at the most."""
    return [(socket.IPPROTO_IP, socket.IP_TTL, _TTL.pack(ttl))]


def received_ttl(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """What was left of the TTL; None when nobody knows."""
    for level, kind, value in ancillary:
        if level == socket.IPPROTO_IP and kind == socket.IP_TTL:
            ttl: int = _TTL.unpack_from(value)[0]
            return ttl
    return None


def own_host(towards: SocketAddress) -> str:
    """The address of this host from which it would send to another one; nothing is sent."""
    family = socket.AF_INET6 if ":" in towards[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as opened:
        try:
            opened.connect(towards)
        except OSError as error:
            raise UsageError(
                f"this host knows no way to {towards[0]} ({error.strerror}): correct [discovery], or set listen"
            ) from None
        host: str = opened.getsockname()[0]
        return host


def open_multicast(group: str, port: int, interface: str, buffer_bytes: int) -> socket.socket:
    """A socket that hears an IP multicast group on one interface; several processes of a host can have one each."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setblocking(False)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((group, port))
        opened.setsockopt(
            socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(interface)
        )
        # Else the socket hears what other sockets of this host have joined on other interfaces.
        with suppress(OSError, AttributeError):
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_ALL, 0)  # type: ignore[attr-defined]
    except OSError as error:
        opened.close()
        raise UsageError(
            f"cannot join multicast {group}:{port} on {interface} ({error.strerror}): correct `multicast` or "
            f"`interface`, or leave `multicast` out"
        ) from None
    set_buffers(opened, buffer_bytes)
    return opened


def send_multicast_from(opened: socket.socket, interface: str, own_host_too: bool) -> None:
    """Choose the interface for multicasts that leave through a socket; whether this host's other sockets hear them."""
    opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
    opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
    opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(own_host_too))
