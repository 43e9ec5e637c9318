"""The ways out: one for the whole process, and one for each group in which the protocol counts the credit apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ordercast.core import Address, GroupId
from ordercast.node.sender import Sender


class Senders:
    """Every sender of a process. (With one queue for all groups, one that has no credit would hold the others up.)"""

    def __init__(self, loop: asyncio.AbstractEventLoop, make: Callable[[], Sender]) -> None:
        self._loop = loop
        self._make = make
        self.main = make()
        """The way of everything whose credit is not counted by group."""
        self._of_group: dict[GroupId, Sender] = {}

    def find(self, to: Address) -> Sender:
        """The way of messages to an address. What goes to several groups at once goes the common way."""
        if self._of_group and len(to[0]) == 1:
            return self._of_group.get(to[0][0], self.main)
        return self.main

    def _all(self) -> Iterable[Sender]:
        return (self.main, *self._of_group.values())

    # ------------------------------------------------------------------ flow
    def start(self) -> None:
        """The protocol takes bundles from now on."""
        self.main.start()

    def on_credit(self, available: int, group: GroupId | None, under_way: int | None) -> None:
        """The protocol takes so many more bundles, to a group or to all together."""
        if group is None:
            self.main.on_credit(available, under_way)
            return
        if group not in self._of_group:
            self._of_group[group] = self._make()
        self._of_group[group].on_credit(available, under_way)

    def on_blocked(self, reason: str, group: GroupId | None) -> None:
        """Nothing goes on, in a group or everywhere; an empty reason says that it does again."""
        for sender in self._all() if group is None else (self.find(((group,), None)),):
            sender.on_blocked(reason)

    def forget(self, group: GroupId, why: BaseException) -> None:
        """A group was left: what waits for it goes nowhere."""
        self.main.forget(group)
        gone = self._of_group.pop(group, None)
        if gone is not None:
            gone.fail(why)

    # ------------------------------------------------------------------ all together
    def fail(self, error: BaseException) -> None:
        """Nothing will ever leave again."""
        for sender in self._all():
            sender.fail(error)

    @property
    def holds_messages(self) -> bool:
        """Whether some have not even left."""
        return any(sender.holds_messages for sender in self._all())

    @property
    def is_idle(self) -> bool:
        """Whether everything has left and is accepted."""
        return all(sender.is_idle for sender in self._all())

    async def drain(self) -> None:
        """Wait until everything has left and is accepted."""
        for sender in tuple(self._all()):
            await sender.drain()

    async def drain_while_moving(self, seconds_max: float, still_seconds: float) -> bool:
        """The same, but only as long as there is progress; whether everything was accepted."""
        deadline = self._loop.time() + seconds_max
        for sender in tuple(self._all()):
            await sender.drain_while_moving(max(0.0, deadline - self._loop.time()), still_seconds)
        return self.is_idle
