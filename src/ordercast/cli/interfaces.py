"""The network interfaces of this machine, as far as they matter to a node."""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
from typing import Any

_FLAGS, _ADDRESS, _MTU = 0x8913, 0x8915, 0x8921  # SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFMTU of Linux
_UP, _LOOPBACK, _MULTICAST = 0x1, 0x8, 0x1000


def list_interfaces() -> list[dict[str, Any]]:
    """Name, IPv4 address, MTU and whether it can multicast; elsewhere than on Linux the names only."""
    names = [name for _, name in socket.if_nameindex()]
    if sys.platform != "linux":
        return [{"name": name} for name in names]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        return [_describe(asked, name) for name in names]


def _describe(asked: socket.socket, name: str) -> dict[str, Any]:
    request = struct.pack("256s", name.encode()[:15])

    def ask(what: int) -> bytes | None:
        try:
            return fcntl.ioctl(asked.fileno(), what, request)
        except OSError:  # an interface without an IPv4 address
            return None

    flags, address, mtu = ask(_FLAGS), ask(_ADDRESS), ask(_MTU)
    bits = 0 if flags is None else struct.unpack_from("=H", flags, 16)[0]
    return {
        "name": name,
        "up": bool(bits & _UP),
        "address": None if address is None else socket.inet_ntoa(address[20:24]),
        "mtu": None if mtu is None else struct.unpack_from("=i", mtu, 16)[0],
        # The loopback does not say so, but it can.
        "multicast": bool(bits & (_MULTICAST | _LOOPBACK)),
    }
