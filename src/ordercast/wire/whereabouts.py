"""Where a process is that nobody has configured: what it tells of itself, and what can be seen of it.

A greeting tells the address at which its sender listens. That is where the others send to, unless nobody could: then
they take the address from which the greeting came. Either way a process is accepted only when it echoes what was sent
there, so an address that is not its own lets nobody in, and is sent no more than somebody sent here.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

Address = tuple[str, int]
"""Host and port; the host in figures."""

HOST_BYTES_MAX = 63
"""An IPv6 address has 39 characters, and a scope."""


def choose_address(told: Address, source: Address | None) -> Address:
    """Where to answer somebody who listens at one address, as it tells, and was heard from another."""
    if source is None:
        return told
    listens, seen = _ip(told[0]), _ip(source[0])
    if listens is None or listens.is_unspecified:
        return source[0], told[1]  # it listens at every address that it has
    if seen is None or listens == seen:
        return told
    # A machine's own address means nothing to another one; and between a private address and a public one there is a
    # translator, which knows the port from which the greeting came and no other.
    if listens.is_loopback or listens.is_multicast or (listens.is_private and seen.is_global):
        return source
    return told


def is_usable(where: Address) -> bool:
    """Whether something can be sent there without asking anybody for the meaning of a name."""
    host = _ip(where[0])
    return host is not None and not host.is_unspecified and not host.is_multicast and where[1] > 0


def candidates(told: Address, source: Address | None) -> tuple[Address, ...]:
    """Where somebody may be who answers: the one to which the nonce was sent that it echoes."""
    chosen = choose_address(told, source)
    return (chosen,) if source is None or source == chosen else (chosen, source)


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
