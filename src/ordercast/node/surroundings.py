"""Where a process listens, and where the others are that its configuration names: processes, or seeds."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping

import msgspec

from ordercast.core import SiteId, UsageError
from ordercast.net.sockets import Resolved, own_host, resolve
from ordercast.node.addresses import HostPort, show_address
from ordercast.node.configuration import Configuration
from ordercast.node.searching import Search

LIFE_MARK = "#"
"""In no name that a user can choose."""

logger = logging.getLogger("ordercast.node")

_DISCARD_PORT = 9
"""The one that is meant for what nobody wants."""

_INCARNATIONS_BEGIN = 1_750_000_000
"""Seconds of the epoch: what has come since is small enough for a name of a message."""

_INCARNATIONS_A_SECOND = 10
"""No process is killed and started again faster than that."""


class Surroundings(msgspec.Struct, frozen=True):
    """What is known before anything is opened."""

    own: Resolved
    processes: dict[SiteId, Resolved]
    """Those that are named and have an address, this one included."""
    seeds: dict[str, Resolved | None]
    """As configured -> where that is; None for one that has no address yet."""
    missing: dict[str, HostPort]
    """Processes or seeds whose hosts have no address now."""

    @property
    def names(self) -> tuple[SiteId, ...]:
        """The processes that are named, and this one, sorted."""
        return tuple(sorted({*self.processes, *(() if self.seeds else self.missing)}))

    @property
    def nowhere(self) -> Resolved:
        """Where datagrams go to get lost: the protocols send them again."""
        return Resolved(self.own.family, (self.own.address[0], _DISCARD_PORT, *self.own.address[2:]))


def find_surroundings(configuration: Configuration, process: SiteId) -> Surroundings:
    """Look all hosts up. `UsageError` when this process' own has no address."""
    search = configuration.discovery
    if search is None:
        own = resolve(*configuration.addresses[process])
        others = {name: where for name, where in configuration.addresses.items() if name != process}
        found, missing = _resolve(others, "process")
        return Surroundings(own, found | {process: own}, {}, missing)
    found, missing = _resolve({show_address(seed): seed for seed in search.seeds}, "seed")
    own = _own_address(search, configuration.interface, found)
    return Surroundings(own, {process: own}, {**found, **dict.fromkeys(missing)}, missing)


def _resolve(wanted: Mapping[str, HostPort], kind: str) -> tuple[dict[str, Resolved], dict[str, HostPort]]:
    found: dict[str, Resolved] = {}
    missing: dict[str, HostPort] = {}
    for name, where in wanted.items():
        try:
            found[name] = resolve(*where)
        except UsageError as error:
            logger.warning("%s %s cannot be reached yet, and is looked for again: %s", kind, name, error)
            missing[name] = where
    return found, missing


def _own_address(search: Search, interface: str | None, seeds: Mapping[str, Resolved]) -> Resolved:
    """Where to listen: as configured, or where this machine is seen from the others, on a port that is free."""
    if search.listen is not None:
        return resolve(*search.listen)
    if interface is not None:
        return resolve(interface, 0)
    towards = search.multicast or next((seed.address[:2] for seed in seeds.values()), None)
    return resolve("0.0.0.0" if towards is None else own_host(towards), 0)


def first_incarnation(configuration: Configuration) -> int:
    """That of a process without a log. Where processes come and go it may come back under its name, as another one
    whose messages must not be taken for those of the first: it counts the time."""
    if configuration.discovery is None:
        return 0
    return max(0, int((time.time() - _INCARNATIONS_BEGIN) * _INCARNATIONS_A_SECOND))


def place_of(process: SiteId) -> str:
    """What a process was opened as."""
    return process.partition(LIFE_MARK)[0]


def lives_of(processes: Iterable[SiteId], members: Collection[SiteId]) -> tuple[SiteId, ...]:
    """Those whom an application names: whoever is named as it was opened stands for the life that is there now."""
    found: set[SiteId] = set()
    for process in processes:
        lives = [member for member in members if place_of(member) == process]
        found.update(lives if lives and process not in members else [process])
    return tuple(sorted(found))


def name_of_life(configuration: Configuration, process: SiteId) -> SiteId:
    """What a process is called from its start on. Where whoever starts again is another process, its name says which
    start it is: nobody can mistake it for the one that was there before."""
    if configuration.discovery is None or not configuration.contract.another_process:
        return process
    return f"{process}{LIFE_MARK}{first_incarnation(configuration):x}"
