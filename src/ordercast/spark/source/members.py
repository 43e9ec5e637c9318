"""The members of a group that can be asked for it: through the control socket of whichever of their nodes answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ordercast.core import UsageError
from ordercast.node.configuration import read_configuration
from ordercast.node.control import ask_once, send
from ordercast.node.reading import HeldBatch, Stretch
from ordercast.node.receipts import NEEDED
from ordercast.protocols import find_protocol


class Extent(NamedTuple):
    """What there is of a group."""

    first: int
    """The oldest offset that some member still has."""
    end: int
    """The offset of the next delivery."""


@dataclass(frozen=True)
class Members:
    """Of one group, each by its name and the path of its socket, in the order in which they are asked."""

    group: str
    sockets: Sequence[tuple[str, str]]

    def extent(self) -> Extent:
        """From where to where there is anything, by all who answer."""
        found = [stretch for _, stretch in self._ask(2**62, 2**62)]
        if not found:
            raise self._silent()
        return Extent(min(each.first for each in found), max(each.end for each in found))

    def read(self, start: int, stop: int) -> Iterator[HeldBatch]:
        """The bundles with these offsets; another member goes on where one has ended. `UsageError` where nobody has
        them any more."""
        at = start
        while at < stop:
            held = self._read_some(at, stop)
            yield from held
            at = held[-1].offset + held[-1].count

    def _read_some(self, start: int, stop: int) -> list[HeldBatch]:
        firsts: list[int] = []
        for _, stretch in self._ask(start, stop):
            firsts.append(stretch.first)
            held = _unbroken(stretch.held(), start)
            if held:
                return held
        if not firsts:
            raise self._silent()
        raise UsageError(
            f"offset {start} of group {self.group!r} is no longer held; the lowest that is: {min(firsts)} "
            f"(failOnDataLoss = false goes on there; history_bytes of the configuration is how much nodes hold)"
        )

    def used(self, owner: str, keys: Sequence[str]) -> list[bool]:
        """Of each key whether a message with it has been delivered, as far as it is known."""
        request = {"command": "used", "group": self.group, "owner": owner, "keys": list(keys)}
        for _, answer in self._answers(request):
            return list(answer["used"])
        raise self._silent()

    def send(self, payloads: Sequence[bytes], key: str, owner: str, timeout: float) -> None:
        """Multicast these in this order, message N with the key `KEY/N`, and wait until they are ordered."""
        reasons: list[str] = []
        for name, path in self.sockets:
            try:
                answer = asyncio.run(send(Path(path), [self.group], iter(payloads), key, timeout, owner))
            except UsageError as error:
                reasons.append(f"{name}: {error}")
                continue
            if answer["ordered"]:
                return
            reasons.append(f"{name}: {answer['why'] or 'not ordered yet'}")
        raise UsageError(f"nobody has multicast the rows to group {self.group!r}: {'; '.join(reasons)}")

    def _ask(self, start: int, stop: int) -> Iterator[tuple[str, Stretch]]:
        request = {"command": "read", "group": self.group, "from": start, "to": stop}
        for name, answer in self._answers(request):
            yield name, msgspec.convert(answer, Stretch)

    def _answers(self, request: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        refused = ""
        answered = False
        for name, path in self.sockets:
            try:
                answer = asyncio.run(ask_once(Path(path), request))
            except UsageError as error:
                refused = str(error)
                continue
            except OSError:
                continue
            answered = True
            yield name, answer
        if not answered and refused and "no node answers" not in refused:
            raise UsageError(refused)

    def _silent(self) -> UsageError:
        names = ", ".join(name for name, _ in self.sockets)
        return UsageError(
            f"no node with group {self.group!r} answers (asked: {names}): start one with `ordercast node`"
        )


def find_members(config: str, group: str, process: str | None) -> Members:
    """Whom to ask; `UsageError` in one line when the configuration does not say. A `process` is asked alone, and has to
    be named where members do not agree on offsets."""
    configuration = read_configuration(config, os.environ, {})
    known = configuration.groups
    contract = find_protocol(configuration.protocol).contract
    if group not in known and not contract.dynamic:
        raise UsageError(f"there is no group {group!r} in {config}; known: {', '.join(sorted(known))}")
    if configuration.control is None:
        raise UsageError(
            f'{config} has no `control`, so nobody can read its groups: add control = "unix:run/{{process}}.sock" and '
            f"restart the nodes"
        )
    names = sorted(known.get(group, ())) or sorted(configuration.processes)
    if process is not None:
        names = [process]
        if configuration.processes and process not in configuration.processes:
            raise UsageError(
                f"there is no process {process!r} in {config}; known: {', '.join(configuration.processes)}"
            )
    elif not all(name in contract.guarantees for name in NEEDED):
        raise UsageError(
            f"under {contract.name} members do not agree on offsets: name the one to read with the option process"
        )
    paths = [(name, str(configuration.control_path(name))) for name in names]
    # Workers have working folders of their own.
    return Members(group, [(name, os.path.abspath(path)) for name, path in paths])


def _unbroken(held: list[HeldBatch], start: int) -> list[HeldBatch]:
    """Those that follow each other from an offset on: what one member has missed another may have."""
    found: list[HeldBatch] = []
    for batch in held:
        if batch.offset > start:
            break
        found.append(batch)
        start = batch.offset + batch.count
    return found
