"""The runs of clients that a process has sent and that have no place yet; those that overtook others are sent again.

Which run has overtaken another one the order of the group decides, so every member passes over the same ones. Whoever
has sent it sees that too, and sends it once more when a run before it has its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from ordercast.core import Address, GroupId
from ordercast.node.runs import Run

ROOM_SECONDS = 0.01
"""Until a run is offered again for which there was no room."""

Add: TypeAlias = Callable[[Address, Run], bool]
"""Takes a run if there is room; whether there was."""


class _UnderWay(NamedTuple):
    run: Run
    to: Address
    add: Add

    @property
    def client(self) -> tuple[GroupId, str]:
        return self.to[0][0], self.run.client


class RunsUnderWay:
    """Of one process."""

    def __init__(self) -> None:
        self._all: dict[int, _UnderWay] = {}
        """By their tickets."""
        self._early: dict[tuple[GroupId, str], set[int]] = {}
        """Group and client -> the tickets of the runs that have overtaken another one."""

    def add(self, run: Run, to: Address, add: Add) -> None:
        """One is sent; `add` sends it again."""
        self._all[run.ticket] = _UnderWay(run, to, add)

    def end(self, ticket: int) -> None:
        """It has its place, or nobody waits for it any more."""
        ended = self._all.pop(ticket, None)
        if ended is not None and ended.client in self._early:
            self._early[ended.client].discard(ticket)
            # Not at once: the group is in the middle of a delivery.
            asyncio.get_running_loop().call_soon(self._send_early, ended.client)

    def overtook(self, ticket: int) -> None:
        """It does not count where it stands."""
        early = self._all.get(ticket)
        if early is None:
            return
        of_client = self._early.setdefault(early.client, set())
        of_client.add(ticket)
        first = min(of_client, key=lambda ticket: self._all[ticket].run.number)
        number = self._all[first].run.number
        if not any(each.client == early.client and each.run.number < number for each in self._all.values()):
            # What it has to follow is not under way: the group has it, and has forgotten the client.
            self._all[first] = self._all[first]._replace(run=msgspec.structs.replace(self._all[first].run, after=0))
            asyncio.get_running_loop().call_soon(self._send_early, early.client)

    def _send_early(self, client: tuple[GroupId, str]) -> None:
        """All of them in their order: what they have to follow is on its way before them, or there."""
        tickets = self._early.pop(client, set())
        for ticket in sorted(tickets & self._all.keys(), key=lambda ticket: self._all[ticket].run.number):
            each = self._all[ticket]
            if client in self._early or not each.add(each.to, each.run):
                # Whoever comes behind one for which there is no room waits with it.
                if client not in self._early:
                    asyncio.get_running_loop().call_later(ROOM_SECONDS, self._send_early, client)
                self._early.setdefault(client, set()).add(ticket)
