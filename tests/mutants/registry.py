"""Mutants: protocols with one method broken on purpose.

A mutant is a function that stands in for one method of a protocol, or of one of the parts that a core is made of. It
says in its docstring what it breaks. It must pass every run without faults (else any test would find it), and the
campaign must catch it by a property that the protocol claims: this is how we know that the oracles work.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ordercast.core import Context, Protocol, Record
from ordercast.core.effects import Append


@dataclass(frozen=True)
class Mutant:
    """One broken protocol."""

    name: str
    protocol: type[Protocol]
    method: str
    breaks: str
    caught_by: str | None
    """The property that must be among those that catch it; None: any that is claimed."""
    alone: bool
    """No other property may be violated: it is exactly this one that the mutant breaks."""
    broken: type[Protocol]
    printed: bool = False
    """It may fail without faults as well: the rule as a paper prints it, or what happens every day left out of one."""

    def __str__(self) -> str:
        return f"{self.protocol.contract.name}-{self.name.replace('_', '-')}"


MUTANTS: list[Mutant] = []

CAUGHT: dict[str, tuple[str, int]] = {}
"""Mutant -> the properties that caught it, and how many seeds that took: the table at the end of `make mutants`."""

SHOWN: dict[str, int] = {}
"""Mutant -> the first seed that shows what it must be caught by."""

SEEDS_FILE = Path(__file__).with_name("seeds.json")
REWRITE_SEEDS = "ORDERCAST_REWRITE_SEEDS"
"""With this in the environment `make mutants` writes the seeds that it finds; read the diff."""

KNOWN_SEEDS: dict[str, int] = json.loads(SEEDS_FILE.read_text(encoding="utf-8"))

Method = Callable[..., Any]


def mutant(
    protocol: type[Protocol],
    method: str,
    *,
    caught_by: str | None = None,
    alone: bool = False,
    printed: bool = False,
) -> Callable[[Method], Method]:
    """Register a function as the replacement of `method`, or of `part.method`, in a subclass of the protocol."""

    def register(function: Method) -> Method:
        made = make_mutant(protocol, method, function)
        MUTANTS.append(replace(made, caught_by=caught_by, alone=alone, printed=printed))
        return function

    return register


def make_mutant(protocol: type[Protocol], method: str, function: Method) -> Mutant:
    """The protocol with that function in place of `method`, or of `part.method`."""
    if not function.__doc__:
        raise TypeError(f"the mutant {function.__name__} does not say what it breaks")
    part, _, name = method.rpartition(".")
    broken = with_part(protocol, part, name, function) if part else _with_method(protocol, name, function)
    broken.__name__ = function.__name__
    breaks = " ".join(function.__doc__.split())
    return Mutant(function.__name__, protocol, method, breaks, None, False, broken)


def _with_method(owner: type[Any], name: str, function: Method) -> type[Any]:
    if not hasattr(owner, name):
        raise TypeError(f"{owner.__name__} has no method {name} that could be broken")
    replacement = staticmethod(function) if isinstance(owner.__dict__.get(name), staticmethod) else function
    return type(owner.__name__, (owner,), {name: replacement, "__slots__": ()})


def with_part(protocol: type[Protocol], part: str, name: str, function: Method) -> type[Protocol]:
    """The protocol with one method of one of its parts replaced."""

    def begin(self: Protocol, context: Context) -> None:
        protocol.__init__(self, context)
        break_part(self, getattr(self, part), name, function)

    def begin_anew(self: Any) -> None:
        protocol.begin_anew(self)  # type: ignore[attr-defined]
        break_part(self, getattr(self, part), name, function)

    methods = {"__init__": begin} | ({"begin_anew": begin_anew} if hasattr(protocol, "begin_anew") else {})
    return type(protocol.__name__, (protocol,), methods)


def break_part(core: Protocol, part: Any, name: str, function: Method) -> None:
    """Replace one method of a part that the core has just made: in its class, and where the core calls it by itself."""
    part.__class__ = _with_method(type(part), name, function)
    broken = getattr(part, name)
    tables: tuple[dict[Any, Method], ...] = (core._on_packet, core._on_timer, core._on_record)
    for handlers in tables:
        for key, handler in handlers.items():
            if _is_method(handler, part, name):
                handlers[key] = broken
    lists: tuple[list[Any], ...] = (core._listeners, core._finishers, core._checkers)
    for hooks in lists:
        hooks[:] = [broken if _is_method(hook, part, name) else hook for hook in hooks]


def _is_method(handler: Method, owner: object, name: str) -> bool:
    return getattr(handler, "__self__", None) is owner and handler.__name__ == name


def call_without_log(core: Protocol, kind: type[Record], method: Method, *arguments: Any) -> Any:
    """Call a method whose records of that kind do not reach the log: "forgets one log write"."""
    before = len(core.outbox)
    result = method(*arguments)
    core.outbox[before:] = [
        effect
        for effect in core.outbox[before:]
        if not (isinstance(effect, Append) and isinstance(effect.record, kind))
    ]
    return result
