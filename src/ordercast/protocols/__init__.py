"""The protocols, by name: those of this package, and those that installed packages bring.

A protocol of this package is a folder here and a line below. One of another package is an entry point of the group
`ordercast.protocols` (docs/write-a-protocol.md); whoever chooses a protocol by name does not see the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from ordercast.core import Arrangement, Contract, Protocol, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ordercast.protocols"
"""The group of the entry points."""

_OWN = {
    "fan-0": "ordercast.protocols.fan:Fan0",
    "fan-1": "ordercast.protocols.fan:Fan1",
    "fan-2": "ordercast.protocols.fan:Fan2",
    "fan-3": "ordercast.protocols.fan:Fan3",
    "tree-5": "ordercast.protocols.tree_5:Tree5",
    "sequencer": "ordercast.protocols.classic.sequencer:Sequencer",
    "token": "ordercast.protocols.classic.token:Token",
    "two-phase": "ordercast.protocols.classic.two_phase:TwoPhase",
    "lamport": "ordercast.protocols.classic.lamport:Lamport",
    "propagation-graph": "ordercast.protocols.propagation_graph:PropagationGraph",
    "broadcast-tree": "ordercast.protocols.broadcast_tree:BroadcastTree",
    "scalatom": "ordercast.protocols.scalatom:Scalatom",
    "three-step": "ordercast.protocols.three_step:ThreeStep",
    "selective-total": "ordercast.protocols.selective_total:SelectiveTotal",
    "intergroup": "ordercast.protocols.intergroup:DynamicInterGroup",
}

PROTOCOL_NAMES: tuple[str, ...] = tuple(_OWN)
"""The protocols of this package, in the order in which they are listed."""


def find_protocol(name: str) -> type[Protocol]:
    """The protocol of that name. `UsageError`: there is none (and the nearest one is named), or the package that brings
    it is at fault."""
    if name in _OWN:
        # Ours first, without a look at what else is installed: no other package can break or replace them.
        module, _, attribute = _OWN[name].partition(":")
        return _checked(name, f"ordercast: {_OWN[name]}", getattr(import_module(module), attribute))
    foreign = _foreign().get(name)
    if foreign is None:
        known = (*PROTOCOL_NAMES, *_foreign())
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise UsageError(f"there is no protocol {name!r}; {hint}")
    if len(foreign) > 1:
        raise UsageError(f"{' and '.join(sorted(foreign))} both bring a protocol {name!r}: uninstall all but one")
    ((package, entry),) = foreign.items()
    try:
        loaded = entry.load()
    except Exception as error:  # whatever a strange module raises, the others can still be chosen
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"{package}: the protocol {name!r} cannot be imported: {why}") from error
    return _checked(name, f"{package}: {entry.value}", loaded)


def find_protocols() -> tuple[dict[str, type[Protocol]], list[str]]:
    """Every protocol that can be chosen, ours first; and one line for each that a package brings and that cannot."""
    found = {name: find_protocol(name) for name in PROTOCOL_NAMES}
    problems = []
    for name, packages in sorted(_foreign().items()):
        if name in _OWN:
            problems += [
                f"{package}: ordercast itself has a protocol {name!r}; call this one otherwise" for package in packages
            ]
            continue
        try:
            found[name] = find_protocol(name)
        except UsageError as error:
            problems.append(str(error))
    return found, problems


@cache
def _foreign() -> Mapping[str, Mapping[str, EntryPoint]]:
    """Name -> package -> entry point. Nothing of theirs is imported."""
    # Imported here: it takes about as long as the core does, and few need it.
    from importlib.metadata import entry_points

    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        package = entry.value if entry.dist is None else entry.dist.name
        found.setdefault(entry.name, {})[package] = entry
    return found


def _checked(name: str, where: str, loaded: object) -> type[Protocol]:
    """What can be chosen by its name is a protocol with a contract and an arrangement."""
    if not isinstance(loaded, type) or not issubclass(loaded, Protocol):
        raise UsageError(f"{where} is no subclass of ordercast.core.Protocol")
    contract = getattr(loaded, "contract", None)
    if not isinstance(contract, Contract):
        raise UsageError(f"{where} has no contract: write contract = Contract(...) in the class")
    if contract.name != name:
        raise UsageError(f"{where} is registered as {name!r}: its contract must have that name, not {contract.name!r}")
    # A variant with a contract of its own would silently be attacked, tuned and described as its base is.
    promising = next(each for each in loaded.__mro__ if "contract" in vars(each))
    arranged = [each for each in loaded.__mro__ if isinstance(vars(each).get("arrangement"), Arrangement)]
    if not arranged or not issubclass(arranged[0], promising):
        raise UsageError(
            f"{where} has no arrangement of its own: write arrangement = Arrangement(order=..., crash=..., "
            "campaign=Tuning(options=..., settle=...), live=...) in the class; docs/write-a-protocol.md explains it"
        )
    return loaded
