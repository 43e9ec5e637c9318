"""Ports for clusters that live for a moment on one machine: benchmarks, demonstrations, tests."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """UDP ports of the loopback that nobody uses now."""
    opened = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    try:
        for each in opened:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in opened]
    finally:
        for each in opened:
            each.close()
