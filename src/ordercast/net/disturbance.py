"""A network that loses and repeats what one process sends, for tests: at its sockets, so that no datagram gets past.

A transport that is not disturbed has plain sockets and pays nothing for this.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

from ordercast.net.sockets import SocketAddress, sent_segment

Disturbance = Callable[[memoryview, SocketAddress], int]
"""How many copies of a datagram leave for an address: 0 when it is lost, 1 as a rule, 2 when it is repeated. It is
asked again for a datagram that the kernel did not take, and that is sent later or another way."""

LOST, REPEATED = "disturbance-lost", "disturbance-repeated"


class DisturbedSocket(socket.socket):
    """A socket that asks for each datagram what becomes of it."""

    def __init__(self, opened: socket.socket, disturbance: Disturbance, counters: Counter[str]) -> None:
        """Takes the place of a socket that is open, whose number it keeps."""
        self._disturbance = disturbance
        self._counters = counters
        super().__init__(opened.family, opened.type, opened.proto, opened.detach())
        self.setblocking(False)

    def send(self, datagram: Any, flags: int = 0) -> int:
        """To the receiver to which the socket is connected."""
        address: SocketAddress = self.getpeername()
        for _ in range(self._copies(memoryview(datagram), address)):
            super().send(datagram, flags)
        return len(datagram)

    def sendto(self, datagram: Any, *flags_and_address: Any) -> int:
        """To anybody, a multicast group and the hub among them."""
        for _ in range(self._copies(memoryview(datagram), flags_and_address[-1])):
            super().sendto(datagram, *flags_and_address)
        return len(datagram)

    def sendmsg(self, buffers: Any, ancillary: Any = (), flags: int = 0, address: Any = None) -> int:
        """Several datagrams, which the kernel would cut: each has its own luck."""
        whole = memoryview(b"".join(buffers))
        segment = sent_segment(list(ancillary)) or len(whole)
        for start in range(0, len(whole), segment):
            self.sendto(whole[start : start + segment], flags, address)
        return len(whole)

    def _copies(self, datagram: memoryview, address: SocketAddress) -> int:
        copies = self._disturbance(datagram, address)
        if copies == 0:
            self._counters[LOST] += 1
        elif copies > 1:
            self._counters[REPEATED] += copies - 1
        return copies
