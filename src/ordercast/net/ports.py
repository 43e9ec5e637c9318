"""Ports for clusters that live for a moment on one machine: benchmarks, demonstrations, tests."""

from __future__ import annotations

import socket
from random import Random

from ordercast.core import UsageError

PORTS = range(10_000, 32_768)
"""Below those that a kernel gives to whoever asks for any. (Else: the process that starts first sends from a port that
the kernel chose, and that is the one on which the next is to listen.)"""


def free_ports(count: int) -> list[int]:
    """UDP ports of the loopback that nobody uses now."""
    ports: list[int] = []
    for port in Random().sample(PORTS, len(PORTS)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
            try:
                opened.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise UsageError(f"there are no {count} free ports from {PORTS.start} to {PORTS.stop - 1}: end what uses them")
