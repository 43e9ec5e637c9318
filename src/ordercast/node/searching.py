"""The table [discovery]: how the processes of a cluster find each other that no file names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ordercast.core import UsageError
from ordercast.core.tables import check_keys, to_value
from ordercast.node.addresses import HostPort, as_ip, parse_address, parse_listen, parse_multicast, show_address

SEEDS_MAX = 64
"""Each is greeted again and again until it answers: more are no help."""

EXAMPLE = '[discovery] with multicast = "239.7.7.7:7500" or seeds = ["HOST:PORT"]'


class Search(msgspec.Struct, frozen=True):
    """Where to look for the others, and where they find this process."""

    multicast: HostPort | None = None
    """A multicast group on which processes call each other."""
    seeds: tuple[HostPort, ...] = ()
    """Where some of the others listen; they know the rest."""
    listen: HostPort | None = None
    """None: an address of this machine that the others can reach, and a port that is free."""


def read_search(value: Any, where: str) -> Search:
    """The table's content; any flaw is a `UsageError` that begins with `where`."""
    table: dict[str, Any] = to_value(value, dict[str, Any], where)
    check_keys(table, Search.__struct_fields__, where)

    def checked(key: str, text: Any, check: Callable[[str], HostPort]) -> HostPort:
        try:
            return check(to_value(text, str, f"{where}: {key}"))
        except UsageError as error:
            begins = str(error).startswith(where)
            raise UsageError(str(error) if begins else f"{where}: {key}: {error}") from error

    multicast = checked("multicast", table["multicast"], parse_multicast) if "multicast" in table else None
    listen = checked("listen", table["listen"], parse_listen) if "listen" in table else None
    texts: list[Any] = to_value(table.get("seeds", []), list[Any], f"{where}: seeds")
    if len(texts) > SEEDS_MAX:
        raise UsageError(
            f"{where}: seeds: {len(texts)} are too many; name some that are always there, {SEEDS_MAX} at most"
        )
    seeds = tuple(checked("seeds", text, parse_address) for text in texts)
    for seed in seeds:
        if seeds.count(seed) > 1:
            raise UsageError(f"{where}: seeds: has {show_address(seed)} twice; name it once")
    if multicast is None and not seeds:
        raise UsageError(f'{where}: says nowhere to look; write multicast = "239.7.7.7:7500" or seeds = ["HOST:PORT"]')
    search = Search(multicast, seeds, listen)
    _check_family(search, where)
    return search


def _check_family(search: Search, where: str) -> None:
    named = [*search.seeds, *([] if search.listen is None else [search.listen])]
    versions = {literal.version for host, _ in named if (literal := as_ip(host)) is not None}
    if len(versions) > 1:
        raise UsageError(f"{where}: IPv4 and IPv6 addresses are mixed; write all of them in one family")
    if search.multicast is not None and 6 in versions:
        raise UsageError(f"{where}: multicast is IPv4, and an address beside it is IPv6; write all of them in IPv4")
