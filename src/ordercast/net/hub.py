"""The one-channel service on sockets: a relay that shows every process the same datagrams in the same order.

Selective total order is made for a channel on which everyone hears everything in one order, and loses by overrun
(Tachikawa and Takizawa, section 2.1). Between real hosts there is none, so one small process is the channel: what it
receives it sends to everybody, the sender included, one after the other. It keeps nothing, repairs nothing, and cannot
read what it relays. Losses behind it are each receiver's own, as on the real channel.

It knows senders by their addresses alone. Whoever can send datagrams under a process' address makes it relay them, one
to each process; these drop what is not sealed with the cluster's key. Only a network that lets nobody send under
others' addresses keeps such datagrams from the channel.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from ordercast.net import sockets
from ordercast.net.sockets import Resolved, SocketAddress

DRAIN_MAX = 64
"""Datagrams relayed before the event loop gets its turn."""


class Hub:
    """Relays in the event loop that makes it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, own: Resolved, processes: dict[str, Resolved], buffer_bytes: int
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._loop = loop
        self._socket = sockets.open_udp(own, buffer_bytes)
        self._receivers: list[SocketAddress] = [processes[name].address for name in sorted(processes)]
        # Whoever else sends here is not relayed: the hub must not make one stranger's datagram into many. It is no more
        # than a guess at who that is, because an address can be forged; the processes are the ones that check.
        self._senders = {(where.address[0], where.address[1]) for where in processes.values()}
        self._buffer = memoryview(bytearray(1 << 16))
        loop.add_reader(self._socket.fileno(), self._drain)

    @property
    def port(self) -> int:
        """Where it listens; a number when it was to choose one itself, too."""
        return int(self._socket.getsockname()[1])

    def _drain(self) -> None:
        try:
            for _ in range(DRAIN_MAX):
                size, sender = self._socket.recvfrom_into(self._buffer)
                if (sender[0], sender[1]) in self._senders:
                    self._relay(self._buffer[:size])
                else:
                    self.counters["strangers"] += 1
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.counters["receive-errors"] += 1

    def _relay(self, datagram: memoryview) -> None:
        self.counters["relayed"] += 1
        for receiver in self._receivers:
            self.send_copy(datagram, receiver)

    def send_copy(self, datagram: memoryview, receiver: SocketAddress) -> None:
        """One receiver's copy of what everybody gets."""
        try:
            self._socket.sendto(datagram, receiver)
        except OSError:
            # One receiver's copy is lost; waiting for it would hold the channel up for all.
            self.counters["lost"] += 1

    def close(self) -> None:
        """Give the socket back."""
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
