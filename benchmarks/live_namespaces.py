"""Network namespaces joined by a bridge: what a local network is to processes on one machine, without leaving it.

Datagrams between them pass a real (virtual) Ethernet with an MTU of 1500 and are not short-cut by the loopback
interface. Needs root, or a user namespace that may.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

CLONE_NEWNET = 0x40000000
NETWORK = "10.213.77"  # anything private; it exists only inside
PREFIX = f"oc{os.getpid() % 100000}"  # names of interfaces have 15 characters at most


@dataclass(frozen=True)
class Namespace:
    name: str
    address: str


def enter(name: str) -> None:
    """The calling process lives in that namespace from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/var/run/netns/{name}", "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)


def inside(namespace: Namespace) -> list[str]:
    """The beginning of a command that runs in that namespace."""
    return ["ip", "netns", "exec", namespace.name]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def obstacle() -> str | None:
    """Why there can be no namespaces here, in a few words."""
    try:
        with joined(1):
            return None
    except FileNotFoundError:
        return "no `ip` command"
    except subprocess.CalledProcessError as error:
        return (error.stderr or str(error)).strip().splitlines()[-1]


@contextlib.contextmanager
def joined(count: int, mtu: int = 1500) -> Iterator[list[Namespace]]:
    """So many namespaces, each with an address on one bridge; gone again in the end."""
    hub = f"{PREFIX}h"
    with contextlib.ExitStack() as stack:

        def make_namespace(name: str) -> None:
            ip("netns", "add", name)
            stack.callback(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
            ip("-n", name, "link", "set", "lo", "up")

        # The bridge has a namespace of its own, so that no firewall rules of the machine apply to it.
        make_namespace(hub)
        ip("-n", hub, "link", "add", "bridge", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
        ip("-n", hub, "link", "set", "bridge", "up")
        namespaces = []
        for index in range(count):
            name, port = f"{PREFIX}n{index}", f"{PREFIX}p{index}"
            make_namespace(name)
            ip("link", "add", port, "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", hub, "link", "set", port, "mtu", str(mtu))
            ip("-n", name, "link", "set", "eth0", "mtu", str(mtu))
            ip("-n", hub, "link", "set", port, "master", "bridge", "up")
            address = f"{NETWORK}.{index + 1}"
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            namespaces.append(Namespace(name, address))
        yield namespaces
