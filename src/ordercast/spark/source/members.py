"""The members of a group that can be asked for it: through the control socket of whichever of their nodes answers.

Nodes die, are started again, and starve on a busy machine. So silence is no news: another member is asked, and when
none answers they are asked again, for as long as whoever asks is patient. Only what every member that could know has
answered is final.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from ordercast.core import UsageError
from ordercast.node.configuration import Configuration, read_configuration
from ordercast.node.control import NodeSilent, ask, ask_once, read
from ordercast.node.reading import HeldBatch, Stretch
from ordercast.node.receipts import NEEDED
from ordercast.node.run_posting import PackedRun
from ordercast.protocols import find_protocol

ANSWER_SECONDS_MAX: Final = 10.0
"""For one question. A process that is stopped keeps the connection open and says nothing: then the next one is
asked."""
PATIENCE_SECONDS: Final = 60.0
"""A node that was killed is up again, and has caught up, in less."""
PAUSE_SECONDS: Final = 0.2
RUNS_AHEAD: Final = 16
"""Under way through a member, a megabyte as a rule: on a busy machine it takes a while until a run has its place."""

Ask: TypeAlias = Callable[[Sequence[str], dict[str, Any]], Sequence[dict[str, Any] | UsageError]]
"""From the sockets of some nodes and a request to what each answers, or why it does not."""
OnLost: TypeAlias = Callable[[int, int], None]
"""Told that these offsets, the second one excluded, are lost; raises if that must not be."""
_Found = TypeVar("_Found")


class NoNews(UsageError):
    """Nobody can tell now, but somebody may later."""

    is_final = False
    """Whether it is no use to ask again."""


class Lost(NoNews):
    """Whoever answers has it no more."""

    def __init__(self, why: str, following: int, *, is_final: bool) -> None:
        super().__init__(why)
        self.following = following
        """The next offset that there is."""
        self.is_final = is_final


class Extent(NamedTuple):
    """What there is of a group."""

    first: int
    """The oldest offset that some member still has."""
    end: int
    """The offset of the next delivery."""


def ask_nodes(paths: Sequence[str], request: dict[str, Any]) -> Sequence[dict[str, Any] | UsageError]:
    """All at once."""

    async def ask(path: str) -> dict[str, Any] | UsageError:
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return await ask_once(Path(path), request)
        except UsageError as error:
            return error
        except (OSError, TimeoutError) as error:
            return NodeSilent(str(error) or f"no answer on {path} in {ANSWER_SECONDS_MAX:g} s")

    async def ask_all() -> list[dict[str, Any] | UsageError]:
        return list(await asyncio.gather(*map(ask, paths)))

    return asyncio.run(ask_all())


@dataclass(frozen=True)
class Members:
    """Of one group, each by its name and the path of its socket, in the order in which they are asked."""

    group: str
    sockets: Sequence[tuple[str, str]]
    patience: float = PATIENCE_SECONDS
    ask: Ask = ask_nodes
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def look(self) -> Extent:
        """From where to where there is anything, by all who answer; `NoNews` when nobody does."""
        found = self._answers([path for _, path in self.sockets], self._reading(2**62, 2**62))
        stretches = [msgspec.convert(each, Stretch) for each in found]
        return Extent(min(each.first for each in stretches), max(each.end for each in stretches))

    def extent(self) -> Extent:
        """The same; when nobody answers, somebody may in a moment."""
        return self._patiently(self.look)

    def read(self, start: int, stop: int, on_lost: OnLost) -> Iterator[HeldBatch]:
        """The bundles with these offsets; another member goes on where one has ended. What has been lost at all of them
        is told, and left out."""
        at = start
        order = list(self.sockets)
        while at < stop:
            try:
                held = self._patiently(partial(self._read_some, order, at, stop))
            except Lost as lost:
                on_lost(at, min(lost.following, stop))
                at = lost.following
                continue
            yield from held
            at = held[-1].offset + held[-1].count

    def _read_some(self, order: list[tuple[str, str]], start: int, stop: int) -> list[HeldBatch]:
        """What follows from an offset on; whoever has it is asked first from now on."""
        following: list[int] = []
        reasons: list[UsageError] = []
        for member in tuple(order):
            answer = self.ask([member[1]], self._reading(start, stop))[0]
            if isinstance(answer, UsageError):
                reasons.append(answer)
                continue
            stretch = msgspec.convert(answer, Stretch)
            held = stretch.held()
            found = _unbroken(held, start)
            if found:
                order.remove(member)
                order.insert(0, member)
                return found
            if stretch.end <= start:
                reasons.append(NoNews(f"{member[0]} has delivered group {self.group!r} up to offset {stretch.end}"))
            else:
                following.append(held[0].offset if held else stretch.end)
        if following:
            # A member that is behind delivers it in time, and one that is silent may have it.
            is_final = not any(isinstance(reason, NodeSilent | NoNews) for reason in reasons)
            why = f"offset {start} of group {self.group!r} is no longer held"
            raise Lost(why, min(following), is_final=is_final)
        raise self._unknown(reasons)

    def last_run(self, client: str) -> int:
        """The highest number of a client's runs that has been delivered, as far as it is known."""
        request = {"command": "last-run", "group": self.group, "client": client}
        found = self._patiently(lambda: self._answers([path for _, path in self.sockets], request))
        return max(int(answer["last"]) for answer in found)

    def send(self, client: str, runs: Sequence[PackedRun]) -> None:
        """Multicast the runs of a client in this order, and wait until they are ordered. What a member took before it
        died is sent again: it has its number."""
        left = deque(runs)
        while left:
            # Each run that is ordered is news.
            self._patiently(partial(self._send, client, left))

    def _send(self, client: str, left: deque[PackedRun]) -> None:
        """Some of them, which are left no more."""
        count, reasons = len(left), []
        for name, path in self.sockets:
            try:
                asyncio.run(_send(path, self.group, client, left, self.patience))
            except UsageError as error:
                reasons.append(type(error)(f"{name}: {error}"))
            if len(left) < count:
                return
        raise self._unknown(reasons)

    def _reading(self, start: int, stop: int) -> dict[str, Any]:
        return {"command": "read", "group": self.group, "from": start, "to": stop}

    def _answers(self, paths: Sequence[str], request: dict[str, Any]) -> list[dict[str, Any]]:
        """Of those who answer, at least one."""
        told = self.ask(paths, request)
        answers = [each for each in told if not isinstance(each, UsageError)]
        if not answers:
            raise self._unknown([each for each in told if isinstance(each, UsageError)])
        return answers

    def _unknown(self, reasons: Sequence[UsageError]) -> UsageError:
        names = ", ".join(name for name, _ in self.sockets)
        if all(isinstance(reason, NodeSilent) for reason in reasons):
            return NoNews(
                f"no node with group {self.group!r} answers (asked: {names}): start one with `ordercast node`"
            )
        told = "; ".join(str(reason) for reason in reasons if not isinstance(reason, NodeSilent))
        kind = NoNews if any(isinstance(reason, NodeSilent | NoNews) for reason in reasons) else UsageError
        return kind(f"no member of group {self.group!r} can do it (asked: {names}): {told}")

    def _patiently(self, find: Callable[[], _Found]) -> _Found:
        give_up = self.clock() + self.patience
        while True:
            try:
                return find()
            except NoNews as silence:
                if silence.is_final or self.clock() >= give_up:
                    raise
            self.pause(PAUSE_SECONDS)


async def _send(path: str, group: str, client: str, left: deque[PackedRun], timeout: float) -> None:
    """Runs through one member; those that are ordered are left no more."""
    request = {"command": "runs", "group": group, "client": client, "timeout": timeout}
    silent = NodeSilent(f"no answer on {path}")
    try:
        reader, writer = await ask(Path(path), request)
        try:
            sending = iter(tuple(left))
            for run in islice(sending, RUNS_AHEAD):
                writer.write(run.encode())
            while left:
                async with asyncio.timeout(timeout + ANSWER_SECONDS_MAX):
                    answer = await read(reader)
                if answer is None:
                    raise silent
                if not answer["ordered"] or answer["number"] != left[0].number:
                    raise NoNews(answer["why"] or f"run {left[0].number} is not ordered yet")
                left.popleft()
                for run in islice(sending, 1):
                    writer.write(run.encode())
        finally:
            writer.close()
    except (OSError, TimeoutError) as error:
        raise silent from error


def find_members(config: str, group: str, process: str | None, patience: float = PATIENCE_SECONDS) -> Members:
    """Whom to ask; `UsageError` in one line when the configuration does not say. A `process` is asked alone, and has to
    be named where members do not agree on offsets."""
    configuration = read_configuration(config, os.environ, {})
    names = members_of(configuration, config, group, process)
    if configuration.control is None:
        raise UsageError(
            f'{config} has no `control`, so nobody can read its groups: add control = "unix:run/{{process}}.sock" and '
            f"restart the nodes"
        )
    paths = [(name, str(configuration.control_path(name))) for name in names]
    # Workers have working folders of their own.
    return Members(group, [(name, os.path.abspath(path)) for name, path in paths], patience)


def members_of(configuration: Configuration, config: str, group: str, process: str | None) -> list[str]:
    """The processes that have a group, or the one that is named."""
    known = configuration.groups
    contract = find_protocol(configuration.protocol).contract
    if group not in known and not contract.dynamic:
        raise UsageError(f"there is no group {group!r} in {config}; known: {', '.join(sorted(known))}")
    if process is not None:
        if configuration.processes and process not in configuration.processes:
            raise UsageError(
                f"there is no process {process!r} in {config}; known: {', '.join(configuration.processes)}"
            )
        return [process]
    if not all(name in contract.guarantees for name in NEEDED):
        raise UsageError(
            f"under {contract.name} members do not agree on offsets: name the one to read with the option process"
        )
    return sorted(known.get(group, ())) or sorted(configuration.processes)


def _unbroken(held: list[HeldBatch], start: int) -> list[HeldBatch]:
    """Those that follow each other from an offset on: what one member has missed another may have."""
    found: list[HeldBatch] = []
    for batch in held:
        if batch.offset > start:
            break
        found.append(batch)
        start = batch.offset + batch.count
    return found
