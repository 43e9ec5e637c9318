"""Addresses as people write them: `host:port`, `192.0.2.1:7001`, `[2001:db8::1]:7001`."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

from ordercast.core import UsageError

_HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?")
_LOOKS_LIKE_IPV4 = re.compile(r"[0-9.]+")
_RESERVED_MULTICAST = "224.0.0."
"""Routers' own: switches flood these groups to every port, and no router lets them pass."""

HostPort = tuple[str, int]


def split_address(text: str) -> HostPort:
    """Host and port; `UsageError` when they are not written as they should be."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not rest.startswith(":"):
            raise UsageError(f"{text!r} is no address; write [IPV6]:PORT")
        port = rest[1:]
    else:
        host, colon, port = text.rpartition(":")
        if not colon:
            raise UsageError(f"{text!r} has no port; write HOST:PORT, e.g. 127.0.0.1:7001")
        if ":" in host:
            raise UsageError(f"{text!r} is ambiguous; write an IPv6 address in brackets: [{host}]:{port}")
    if not host:
        raise UsageError(f"{text!r} has no host; write HOST:PORT, e.g. 127.0.0.1:7001")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise UsageError(f"{text!r} has no port from 1 to 65535; write HOST:PORT")
    return host, int(port)


def parse_address(text: str) -> HostPort:
    """Where a process listens and others send to."""
    host, port = split_address(text)
    literal = as_ip(host)
    if literal is None:
        if text.startswith("["):
            raise UsageError(f"{host!r} is no IPv6 address; only those stand in brackets")
        if _LOOKS_LIKE_IPV4.fullmatch(host):
            raise UsageError(f"{host!r} is no IPv4 address; it has four numbers from 0 to 255")
        if not _HOST_NAME.fullmatch(host):
            raise UsageError(f"{host!r} is no host name; use letters, digits, - and dots")
    elif literal.is_unspecified:
        raise UsageError(f"{host} stands for every address of a machine, and others cannot send there; name one")
    elif literal.is_multicast:
        raise UsageError(f"{host} is a multicast address; name the process' own, and that one with the key multicast")
    elif host == "255.255.255.255":
        raise UsageError(f"{host} is everyone's address; name the process' own")
    return host, port


def parse_listen(text: str) -> HostPort:
    """Where a process listens; that may be on every address of its machine."""
    host, port = split_address(text)
    literal = as_ip(host)
    return (host, port) if literal is not None and literal.is_unspecified else parse_address(text)


def parse_multicast(text: str) -> HostPort:
    """An IP multicast group and a port."""
    host, port = split_address(text)
    literal = as_ip(host)
    if not isinstance(literal, IPv4Address) or not literal.is_multicast:
        raise UsageError(f"{host!r} is no IPv4 multicast address; take one from 239.0.0.0 to 239.255.255.255")
    if host.startswith(_RESERVED_MULTICAST):
        raise UsageError(f"{host} is reserved for routers; take one from 239.0.0.0 to 239.255.255.255")
    return host, port


def as_ip(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is written as; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def show_address(address: HostPort) -> str:
    """As it is written in a configuration."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
