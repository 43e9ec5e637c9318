"""What sites still keep when a run has ended, as numbers, and what the protocol has said that they may.

Cores are looked at from outside, whatever they call what they keep: a table that somebody forgot to empty is counted
like one that somebody thought of.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any, Final

from msgspec.structs import asdict, replace

from ordercast.core import AddressMemo, AtRest, Context, MessageId, Protocol, is_liveness
from ordercast.sim import Simulation
from ordercast.trace.schema import Run

SECONDS: Final = 5.0
"""So long before its end a run is looked at: longer than any pause between two retransmissions."""
GOES_ON_EVERY: Final = 8
"""Of the runs that would end before it is quiet enough to look at what is kept."""
PROPERTIES: Final = ("quiescence", "no-leak", "credit-returned")

_PLAIN: Final = (str, bytes, int, float, bool, type(None), type, Context, AddressMemo)
"""What holds nothing, or what a core was given and does not change; and what is only remembered so that it need not be
found again, for as many addresses as a bound of its own allows: how many have been used, no contract can say."""
_MODULE: Final = __name__.partition(".")[0]


def with_rest(run: Run, simulation: Simulation) -> Run:
    """The description of a run that has ended, with what its sites keep and the claims about that, where the protocol
    declares them."""
    declared = _declared(simulation)
    if declared is None or not any(is_liveness(name) for name in run.guarantees):
        # Who promises no end (a site may be refused for good, and the others wait for it) comes to no rest either.
        return run
    # In a run that has ended before its time nothing was delivered for so long, and perhaps for no longer.
    quiet = simulation.quiet_seconds if simulation.ended_early else inf
    bounds = {"seconds": min(SECONDS, quiet), **asdict(declared)}
    after_seconds = bounds.pop("after_seconds")
    claims = [name for name in PROPERTIES if name != "no-leak" or after_seconds <= quiet]
    rest = {name: _tell(site) for name, site in simulation.sites.items() if site.up}
    return replace(run, guarantees=[*run.guarantees, *claims], bounds={**run.bounds, "rest": bounds}, rest=rest)


def goes_on(simulation: Simulation, seed: int, quiet_seconds: float) -> bool:
    """Whether a run is to have all of its time though nothing is delivered any more: one of so many where it takes
    longer until only that is kept which the protocol declares."""
    declared = _declared(simulation)
    return declared is not None and declared.after_seconds > quiet_seconds and seed % GOES_ON_EVERY == 0


def _declared(simulation: Simulation) -> AtRest | None:
    at_rest = simulation.contract.at_rest
    # Also groups that begin later: many runs of changes begin without any.
    groups = {*simulation.groups, *(change.group for change in simulation.changes)}
    return at_rest and at_rest(len(simulation.sites), len(groups), simulation.options)


def _tell(site: Any) -> dict[str, int]:
    messages, entries = zip(*(count_kept(instance.core) for instance in site.instances.values()), strict=True)
    told = {"messages": sum(messages), "entries": sum(entries)}
    if not site.membership.is_outside:
        told["waiting"] = site.waiting_messages
        if site.least_credit is not None:
            told["credit"] = site.least_credit
    return told


def count_kept(core: Protocol) -> tuple[int, int]:
    """Different messages that a core knows by name, and the entries of all its tables."""
    seen: set[int] = set()
    messages: set[MessageId] = set()
    entries = 0
    waiting: list[Any] = [core]
    while waiting:
        thing = waiting.pop()
        kind = type(thing)
        if kind is MessageId:
            messages.add(thing)
            continue
        if isinstance(thing, _PLAIN) or id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            entries += len(thing)
            waiting += thing.keys()
            waiting += thing.values()
        elif isinstance(thing, list | set | frozenset | deque):
            entries += len(thing)
            waiting += thing
        elif isinstance(thing, tuple):
            waiting += thing
        elif (fields := _fields(kind)) is not None:
            waiting += (getattr(thing, name) for name in fields if hasattr(thing, name))
            waiting += getattr(thing, "__dict__", {}).values()
    return len(messages), entries


_FIELDS: Final[dict[type, tuple[str, ...] | None]] = {}


def _fields(kind: type) -> tuple[str, ...] | None:
    """What objects of a class hold beside their `__dict__`; None for classes of which none of ours is a base."""
    if kind not in _FIELDS:
        slots = [base.__dict__.get("__slots__", ()) for base in kind.__mro__]
        names = [name for each in slots for name in ((each,) if isinstance(each, str) else each)]
        ours = any(base.__module__.startswith(_MODULE) for base in kind.__mro__)
        _FIELDS[kind] = (*names, *getattr(kind, "__struct_fields__", ())) if ours else None
    return _FIELDS[kind]
