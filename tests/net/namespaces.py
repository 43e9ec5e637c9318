"""Two networks and a router between them, made of network namespaces, where this machine lets us."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

_CLONE_NEWNET = 0x40000000
_MRT_INIT, _MRT_ADD_VIF, _MRT_ADD_MFC = 200, 202, 204
_VIFS_MAX = 32
_IGMP = 2

LEFT, RIGHT = "10.77.1.2", "10.77.2.2"
"""Where a process listens in each of the two networks."""

_ROUTER = ("10.77.1.1", "10.77.2.1")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets that are made here belong to that network; they stay there."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as own, open(f"/run/netns/{namespace}") as other:
        if libc.setns(other.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            libc.setns(own.fileno(), _CLONE_NEWNET)


def _route_multicasts(namespace: str, groups: Sequence[str]) -> socket.socket:
    """Let the router bring multicasts from each network to the other; for as long as the socket is open."""
    with inside(namespace):
        router = socket.socket(socket.AF_INET, socket.SOCK_RAW, _IGMP)
    router.setsockopt(socket.IPPROTO_IP, _MRT_INIT, 1)
    for number, address in enumerate(_ROUTER):
        # Its number, flags, the smallest TTL, a rate; its address; none at the other end of a tunnel.
        vif = struct.pack("=HBBI4s4s", number, 0, 1, 0, socket.inet_aton(address), bytes(4))
        router.setsockopt(socket.IPPROTO_IP, _MRT_ADD_VIF, vif)
    for source, parent in ((LEFT, 0), (RIGHT, 1)):
        for group in groups:
            ttls = bytearray(_VIFS_MAX)
            ttls[1 - parent] = 1
            names = socket.inet_aton(source) + socket.inet_aton(group)
            entry = struct.pack("=8sH32s2xIIIi", names, parent, bytes(ttls), 0, 0, 0, 0)
            router.setsockopt(socket.IPPROTO_IP, _MRT_ADD_MFC, entry)
    return router


@contextmanager
def two_networks(groups: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The namespaces of two networks, with a router between them that lets these groups pass; skipped by name where
    there can be none."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("no network namespaces here: they need the command ip, and the superuser")
    left, middle, right = names = [f"ordercast-{os.getpid()}-{where}" for where in ("left", "middle", "right")]
    with ExitStack() as stack:
        try:
            for name in names:
                _run("ip", "netns", "add", name)
                stack.callback(_remove, name)
                _run("ip", "-n", name, "link", "set", "lo", "up")
            for number, (side, address, own) in enumerate(((left, LEFT, _ROUTER[0]), (right, RIGHT, _ROUTER[1]))):
                _run("ip", "-n", side, "link", "add", "way", "type", "veth", "peer", f"way{number}", "netns", middle)
                _run("ip", "-n", side, "address", "add", f"{address}/24", "dev", "way")
                _run("ip", "-n", middle, "address", "add", f"{own}/24", "dev", f"way{number}")
                _run("ip", "-n", side, "link", "set", "way", "up")
                _run("ip", "-n", middle, "link", "set", f"way{number}", "up")
                _run("ip", "-n", side, "route", "add", "default", "via", own)
            _run("ip", "netns", "exec", middle, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
            stack.enter_context(_route_multicasts(middle, groups))
            for side in (left, right):
                with inside(side):
                    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"no network namespaces with a multicast router here: {error}")
        yield left, right


def _remove(name: str) -> None:
    with suppress(OSError, subprocess.SubprocessError):
        if Path(f"/run/netns/{name}").exists():
            _run("ip", "netns", "delete", name)
