"""What is allowed in a configuration but costs guarantees, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ordercast.core import CRASH_FAULTS
from ordercast.node.addresses import as_ip
from ordercast.node.configuration import Configuration
from ordercast.node.searching import Search
from ordercast.protocols import find_protocol

UNFRAGMENTED_BYTES = 1450
"""What a datagram may have on a network of 1500-byte packets, tunnels and IPv6 headers allowed for."""


def find_warnings(configuration: Configuration) -> list[str]:
    """One sentence for each thing that somebody may regret."""
    return list(_warnings(configuration))


def _warnings(configuration: Configuration) -> Iterator[str]:
    protocol = find_protocol(configuration.protocol)
    contract = protocol.contract
    if configuration.insecure:
        yield (
            "insecure = true: everything is sent in the clear, and whoever reaches a port can speak as any process; "
            "make a key with `ordercast key new` and name it with key_file"
        )
    if contract.one_channel and configuration.channel is None:
        yield (
            f"no channel: a node refuses {contract.name} without a hub that shows every process the same order; write "
            f'channel = "HOST:PORT" and run `ordercast hub` there'
        )
    survived = [fault for fault in CRASH_FAULTS if fault in contract.faults and fault not in ("pause", "away")]
    if configuration.log_directory is None and survived:
        yield (
            f"no log_directory: {contract.name} keeps its guarantees through {' and '.join(survived)} only with a log; "
            f"a process that restarts comes back without its history"
        )
    if "loss" not in contract.faults:
        yield f"{contract.name} does not tolerate the loss of packets, and every network loses some under load"
    yield from protocol.arrangement.warnings(configuration.groups, configuration.options)
    search = configuration.discovery or Search()
    if configuration.interface is not None and configuration.multicast is None and search.multicast is None:
        yield "interface has no effect without multicast"
    table = "[processes]" if configuration.discovery is None else "[discovery]"
    addresses = [*configuration.addresses.values(), *search.seeds, *([] if search.listen is None else [search.listen])]
    literals = [literal for host, _ in addresses if (literal := as_ip(host)) is not None]
    loopback = [literal for literal in literals if literal.is_loopback]
    names = len(addresses) - len(literals)
    if loopback and len(loopback) < len(literals):
        yield f"{table}: some are on the loopback, where those on other machines cannot reach them"
    if len(loopback) + names < len(addresses) and configuration.max_datagram > UNFRAGMENTED_BYTES:
        yield (
            f"max_datagram = {configuration.max_datagram}: on a network of 1500-byte packets each datagram travels in "
            f"fragments and is lost with any one of them; write max_datagram = {UNFRAGMENTED_BYTES} there"
        )
