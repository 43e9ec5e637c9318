"""Datagrams in and out: one UDP socket, one more for each receiver, and one where IP multicast is configured."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from ordercast.core import SiteId, UsageError
from ordercast.core.forks import disown_in_forks
from ordercast.net import junk, sockets
from ordercast.net.disturbance import Disturbance, DisturbedSocket
from ordercast.net.polling import BusyPoll
from ordercast.net.sockets import Resolved, SocketAddress
from ordercast.wire.whereabouts import Address

DRAIN_MAX = 64
"""Times that a socket is read before anything else gets its turn: a socket buffer's worth of the largest datagrams."""

DRAIN_DATAGRAMS_MAX = 256
"""Datagrams after which it is not read again in this turn, where each read brings many: six frames of 60 kB in
fragments, or a millisecond of small ones. (The kernel hands over up to 128 at once. In 64 reads these are 8,192, for
which timers and senders would wait as long as 0.4 s.)"""

BUSY_SECONDS = 0.0005
"""Datagrams that come in shorter intervals are worth looking for."""

BACKLOG_MAX = 1024
"""Datagrams that wait for a full socket buffer. More are dropped, as a network would: protocols send again."""

BACKLOG_BYTES_MAX = 16 << 20
"""And their bytes: the fragments of a long frame wait as one."""

COALESCE_BELOW = 16_384
"""Where datagrams are smaller than this, the kernel is asked to hand over several at once."""

Datagram = memoryview


class Transport:
    """The sockets of one process. It knows addresses and bytes, and nothing of what they mean."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        own: Resolved,
        addresses: dict[SiteId, Resolved],
        on_datagram: Callable[..., bool],
        on_drained: Callable[[], None],
        max_datagram: int,
        buffer_bytes: int,
        busy_poll_seconds: float,
        opens: bool = False,
    ) -> None:
        """`on_datagram` says whether anything came of it. It is told the datagram or several, the time, whether it came
        by IP multicast, and every how many bytes one begins; in a cluster that `opens` for strangers also from where it
        came, and what was left of its TTL."""
        self.counters: Counter[str] = Counter()
        self._loop = loop
        self._on_datagram = on_datagram
        self._on_drained = on_drained
        self._addresses: dict[SiteId, SocketAddress] = {site: where.address for site, where in addresses.items()}
        self._socket: socket.socket = sockets.open_udp(own, buffer_bytes)
        others = {site: where for site, where in addresses.items() if where != own}
        connected = {site: sockets.connect_udp(own, where, buffer_bytes) for site, where in others.items()}
        self._connected: dict[SiteId, socket.socket] = {
            site: opened for site, opened in connected.items() if opened is not None
        }
        """Sockets for single receivers."""
        self.buffer_bytes = sockets.receive_buffer_bytes(self._socket)
        self._multicast_socket: socket.socket | None = None
        self._multicast_address: SocketAddress | None = None
        self._channel_address: SocketAddress | None = None
        self._own = own
        self._disturbance: Disturbance | None = None
        self._opens = opens
        self._ancillary_bytes = sockets.ANCILLARY_BYTES_WITH_TTL if opens else sockets.ANCILLARY_BYTES
        self._groups: dict[str, tuple[socket.socket, int]] = {}
        """IP multicast groups of channels that are heard, and by how many channels."""
        self._segments = sockets.can_segment(self._socket)
        self._coalesced = max_datagram < COALESCE_BELOW and sockets.receive_coalesced(self._socket)
        self._buffer = memoryview(bytearray(1 << 16))
        self._backlog: deque[tuple[bytes | memoryview, int | None, SocketAddress, int | None]] = deque()
        self._backlog_bytes = 0
        self._paused = False
        self._drained_at = 0.0
        self._something_came = False
        self._polls = BusyPoll(loop, busy_poll_seconds) if busy_poll_seconds else None
        if opens:
            sockets.see_ttl(self._socket)
        loop.add_reader(self._socket.fileno(), self._drain, self._socket, False)
        disown_in_forks(self)

    @property
    def host(self) -> str:
        """The address at which it listens."""
        return self._own.address[0]

    @property
    def sees_ttl(self) -> bool:
        """Whether those who hear this process look at what is left of the TTL: in a cluster for strangers they do."""
        return self._opens

    def is_own(self, where: Address) -> bool:
        """Whether this process listens there itself, at one address of its host or at all."""
        if where[1] != self.port or where[0] == self.host:
            return where == (self.host, self.port)
        if not ip_address(self.host.partition("%")[0]).is_unspecified:
            return False
        with suppress(UsageError):
            return sockets.own_host(where) == where[0]
        return False

    @property
    def port(self) -> int:
        """On which it listens; a number when it was to choose one itself, too."""
        return int(self._socket.getsockname()[1])

    # ------------------------------------------------------------------ IP multicast
    def join_multicast(self, group: str, port: int, interface: str, own_host_too: bool, buffer_bytes: int) -> None:
        """Hear a multicast group, and be able to send to it."""
        self._multicast_socket = sockets.open_multicast(group, port, interface, buffer_bytes)
        self._multicast_address = (group, port)
        self._interface = interface
        self._multicast_buffer_bytes = buffer_bytes
        if self._opens:
            sockets.see_ttl(self._multicast_socket)
        sockets.send_multicast_from(self._socket, interface, own_host_too)
        if self._coalesced:
            sockets.receive_coalesced(self._multicast_socket)
        self._loop.add_reader(self._multicast_socket.fileno(), self._drain, self._multicast_socket, True)

    @property
    def multicast_address(self) -> SocketAddress | None:
        """Where IP multicasts to all processes go."""
        return self._multicast_address

    @property
    def multicast_groups(self) -> list[str]:
        """The IP multicast groups of channels that are heard."""
        return sorted(self._groups)

    def join_group(self, group: str) -> None:
        """Hear a channel's IP multicast group, on the port that all of them have."""
        if self._multicast_address is None:
            return
        opened, channels = self._groups.get(group, (None, 0))
        if opened is None:
            port = self._multicast_address[1]
            opened = sockets.open_multicast(group, port, self._interface, self._multicast_buffer_bytes)
            sockets.see_ttl(opened)
            if self._coalesced:
                sockets.receive_coalesced(opened)
            if not self._paused:
                self._loop.add_reader(opened.fileno(), self._drain, opened, True)
        self._groups[group] = opened, channels + 1

    def leave_group(self, group: str) -> None:
        """Hear it no more, when no other channel has the same."""
        if group in self._groups:
            opened, channels = self._groups[group]
            if channels > 1:
                self._groups[group] = opened, channels - 1
            else:
                self._loop.remove_reader(opened.fileno())
                opened.close()
                del self._groups[group]

    def drop_junk(self) -> None:
        """Let the kernel drop what no process of a cluster sends, where it looks at each datagram."""
        if not self._coalesced:
            for opened in self._open_sockets():
                junk.drop_junk(opened)

    def set_address(self, site: SiteId, where: Resolved) -> None:
        """From now on a process is reached there, by the common socket."""
        self._addresses[site] = where.address

    def meet(self, site: SiteId, where: Address) -> None:
        """A process that is not configured is reached there."""
        self.forget(site)
        family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        self._addresses[site] = where
        connected = sockets.connect_udp(self._own, Resolved(family, where), self.buffer_bytes)
        if connected is not None:
            disturbance = self._disturbance
            self._connected[site] = (
                connected if disturbance is None else DisturbedSocket(connected, disturbance, self.counters)
            )

    def forget(self, site: SiteId) -> None:
        """A process is not reached any more."""
        self._addresses.pop(site, None)
        connected = self._connected.pop(site, None)
        if connected is not None:
            connected.close()

    def use_channel(self, hub: Resolved) -> None:
        """Where the hub is that shows everybody everything in one order."""
        self._channel_address = hub.address

    @property
    def has_channel(self) -> bool:
        """Whether there is a hub."""
        return self._channel_address is not None

    # ------------------------------------------------------------------ in
    def _drain(self, opened: socket.socket, multicast: bool) -> None:
        """Take what lies there, then let what came of it leave together."""
        now, before = self._loop.time(), self._drained_at
        self._drained_at = now
        try:
            if self._coalesced or self._opens:
                self._drain_described(opened, now, multicast)
            else:
                # To find a socket empty costs as much as to read it: where datagrams come one by one, one is taken.
                buffer, on_datagram, receive = self._buffer, self._on_datagram, opened.recv_into
                for _ in range(DRAIN_MAX if now - before < BUSY_SECONDS else 1):
                    if on_datagram(buffer[: receive(buffer)], now, multicast, None):
                        self._something_came = True
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.counters["receive-errors"] += 1
        self._on_drained()
        # Not for what was dropped: a few thousand datagrams a second of anybody's would keep the process awake.
        if self._something_came and self._polls is not None:
            self._something_came = False
            self._polls.extend()

    def _drain_described(self, opened: socket.socket, now: float, multicast: bool) -> None:
        """Where the kernel tells something of what it hands over."""
        buffer, on_datagram, ancillary_bytes = self._buffer, self._on_datagram, self._ancillary_bytes
        buffers = [buffer]
        reads, datagrams = 0, 0
        while reads < DRAIN_MAX and datagrams < DRAIN_DATAGRAMS_MAX:
            received, ancillary, _, source = opened.recvmsg_into(buffers, ancillary_bytes)
            size = sockets.received_segment(ancillary, received)
            reads += 1
            segment = size if size < received else None
            if segment is not None:
                datagrams += -(-received // size)
            if self._opens:
                ttl = sockets.received_ttl(ancillary)
                came = on_datagram(buffer[:received], now, multicast, segment, (source[0], source[1]), ttl)
            else:
                came = on_datagram(buffer[:received], now, multicast, segment)
            if came:
                self._something_came = True

    def pause(self) -> None:
        """Take nothing from the network for a while: what does not fit into the sockets' buffers is lost."""
        if not self._paused:
            self._paused = True
            for opened in self._open_sockets():
                self._loop.remove_reader(opened.fileno())

    def resume(self) -> None:
        """Go on taking."""
        if self._paused:
            self._paused = False
            for opened in self._open_sockets():
                self._loop.add_reader(opened.fileno(), self._drain, opened, opened is not self._socket)

    # ------------------------------------------------------------------ out
    def send(self, to: tuple[SiteId, ...], buffer: bytes | memoryview, segment: int | None) -> None:
        """Send to each of these; the buffer holds several datagrams of `segment` bytes when that is not None."""
        addresses, connected = self._addresses, self._connected
        for site in to:
            if segment is None and site in connected:
                try:
                    connected[site].send(buffer)
                    continue
                except OSError:
                    # Such a socket is told what became of earlier datagrams (nobody listens there), and then this one
                    # has not left; or its buffer is full. The other one has its own.
                    pass
            address = addresses.get(site)
            # (Whoever is not there any more may still be sent to, in a cluster that processes leave.)
            if address is not None:
                self._send(buffer, segment, address)

    def send_to(self, where: Address, datagram: bytes | memoryview) -> None:
        """Send one datagram to an address, by the common socket, so that whoever is there sees where this process
        listens."""
        self._send(datagram, None, where)

    def send_hops(self, address: SocketAddress, buffer: bytes | memoryview, segment: int | None, ttl: int) -> None:
        """Send to an IP multicast group or to a process, so many hops at the most, by the common socket."""
        self._send(buffer, segment, address, ttl)

    def address_of(self, site: SiteId) -> SocketAddress | None:
        """Where a process is."""
        return self._addresses.get(site)

    def send_multicast(self, buffer: bytes | memoryview, segment: int | None) -> None:
        """Send once, to everyone who hears the multicast group."""
        if self._multicast_address is not None:
            self.counters["multicasts"] += 1
            self._send(buffer, segment, self._multicast_address)

    def send_to_channel(self, buffer: bytes | memoryview, segment: int | None) -> None:
        """Send to everybody, oneself included, by the hub."""
        if self._channel_address is not None:
            self._send(buffer, segment, self._channel_address)

    def _send(
        self, buffer: bytes | memoryview, segment: int | None, address: SocketAddress, ttl: int | None = None
    ) -> None:
        if self._backlog:
            self._queue(buffer, segment, address, ttl)
        elif segment is None or segment >= len(buffer):
            try:
                if ttl is None:
                    self._socket.sendto(buffer, address)
                else:
                    self._socket.sendmsg((buffer,), self._ttl_option(ttl), 0, address)
            except (BlockingIOError, InterruptedError):
                self._queue(buffer, None, address, ttl)
            except OSError:
                self.counters["send-errors"] += 1
        else:
            self._send_segments(memoryview(buffer), segment, address, ttl)

    def _ttl_option(self, ttl: int | None) -> list[tuple[int, int, bytes]]:
        return [] if ttl is None or self._own.family != socket.AF_INET else sockets.ttl_option(ttl)

    def _send_segments(self, buffer: memoryview, segment: int, address: SocketAddress, ttl: int | None) -> None:
        step = (
            segment * max(1, min(sockets.SEGMENTS_MAX, sockets.DATAGRAM_MAX // segment)) if self._segments else segment
        )
        option = (sockets.segment_option(segment) if self._segments else []) + self._ttl_option(ttl)
        for start in range(0, len(buffer), step):
            part = buffer[start : start + step]
            try:
                self._socket.sendmsg((part,), option, 0, address)
            except (BlockingIOError, InterruptedError):
                self._queue(buffer[start:], segment, address, ttl)
                return
            except OSError:
                self.counters["send-errors"] += 1
                # Some devices cannot checksum what the kernel would cut: from now on, datagram by datagram.
                if self._segments:
                    self._segments = False
                    self._send_segments(buffer[start:], segment, address, ttl)
                    return

    def _queue(
        self, buffer: bytes | memoryview, segment: int | None, address: SocketAddress, ttl: int | None = None
    ) -> None:
        if len(self._backlog) >= BACKLOG_MAX or self._backlog_bytes >= BACKLOG_BYTES_MAX:
            self.counters["send-overflow"] += 1
            return
        if not self._backlog:
            self._loop.add_writer(self._socket.fileno(), self._send_backlog)
        self._backlog.append((bytes(buffer), segment, address, ttl))
        self._backlog_bytes += len(buffer)

    def _send_backlog(self) -> None:
        backlog, self._backlog, self._backlog_bytes = self._backlog, deque(), 0
        self._loop.remove_writer(self._socket.fileno())
        for buffer, segment, address, ttl in backlog:
            self._send(buffer, segment, address, ttl)

    def disturb(self, disturbance: Disturbance) -> None:
        """For tests: from now on this decides what becomes of each datagram, whichever way it leaves. What it loses and
        repeats is counted."""
        reads = not self._paused
        self.pause()
        self._disturbance = disturbance
        self._socket = DisturbedSocket(self._socket, disturbance, self.counters)
        self._connected = {
            site: DisturbedSocket(opened, disturbance, self.counters) for site, opened in self._connected.items()
        }
        if reads:
            self.resume()

    # ------------------------------------------------------------------ the end
    def close(self) -> None:
        """Give the sockets back. What waits for a full buffer is lost."""
        if self._polls is not None:
            self._polls.stop()
        for opened in self._open_sockets():
            self._loop.remove_reader(opened.fileno())
            self._loop.remove_writer(opened.fileno())
            opened.close()
        for opened in self._connected.values():
            opened.close()

    def disown(self) -> None:
        """Close the sockets of a process of which this is a fork.

        (A child that lives on would hold the address, and the process could not come back after a crash.) The event
        loop is not told: it has its own list in common with the process' loop.
        """
        for opened in (*self._open_sockets(), *self._connected.values()):
            opened.close()

    def _open_sockets(self) -> list[socket.socket]:
        channels = (opened for opened, _ in self._groups.values())
        return [opened for opened in (self._socket, self._multicast_socket, *channels) if opened is not None]
