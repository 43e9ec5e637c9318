"""Receipts: who sends a letter learns where it stands in the order, when it stands there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from ordercast.core import Address, Contract, GroupId, MessageId, SiteId, UsageError
from ordercast.node.bundles import as_bytes
from ordercast.node.errors import GroupBlocked
from ordercast.node.keys import Place
from ordercast.node.letters import Letter, check_key
from ordercast.node.receiver import Receiver
from ordercast.node.runs import Run
from ordercast.node.runs_under_way import RunsUnderWay
from ordercast.node.sender import Sender
from ordercast.node.waiting import wait_unless_blocked

Confirm: TypeAlias = bool | Literal["majority"]
"""Whether a sender waits until its message is ordered; with "majority", until nothing but the loss of a majority could
undo that."""

NEEDED = ("single-source-order", "multiple-source-order", "uniform-agreement")
"""What a protocol guarantees under which a message has one place that all members agree on."""

MAY_BE_ORDERED = "the message was taken and may be ordered all the same"
AGAIN = f"{MAY_BE_ORDERED}: send it again with its key, which is harmless"
UNKEYED = f"{MAY_BE_ORDERED}: give messages a key, and sending again is harmless"


class Receipt(msgspec.Struct, frozen=True):
    """Where a message stands in the order of its groups."""

    message: str
    """Its name, as `Delivery.message`; empty where the group no longer remembers it."""
    offsets: Mapping[GroupId, int]
    """Group -> its offset there, of the groups that this process is in."""
    repeated: bool = False
    """Whether the key was used before: then all of this is about the message that was the first to have it."""

    @property
    def offset(self) -> int:
        """Its offset in the group; of several, in the one whose name comes first. -1 where the group remembers that a
        client's message was ordered, and no longer where."""
        return self.offsets[min(self.offsets)]


class _Waiting(msgspec.Struct):
    groups: tuple[GroupId, ...]
    future: asyncio.Future[Receipt]
    key: tuple[GroupId, str, str] | None = None


class Receipts:
    """The letters of one process that are under way."""

    def __init__(
        self,
        process: SiteId,
        contract: Contract,
        told_obstacles: Callable[[Sequence[GroupId]], str],
    ) -> None:
        self._process = process
        self._contract = contract
        self._has_places = all(name in contract.guarantees for name in NEEDED)
        self._told_obstacles = told_obstacles
        self._waiting: dict[int, _Waiting] = {}
        """Ticket -> who waits, or has given up: whoever sends with the same key waits for the same letter."""
        self._of_key: dict[tuple[GroupId, str, str], int] = {}
        self._runs = RunsUnderWay()
        self.early = self._runs.overtook
        """Gets the ticket of a run that came before the one that it has to follow: it is sent again."""
        self._ticket = 0
        self._end: BaseException | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    # ------------------------------------------------------------------ out
    async def send(
        self,
        receiver: Receiver,
        sender: Sender,
        to: Address,
        payload: bytes,
        confirm: Confirm = False,
        key: str | None = None,
        owner: str = "",
    ) -> Receipt | None:
        """Send a message that is to be confirmed, or that has a key, or both; its receipt if it is confirmed."""
        self._check_confirm(confirm)
        future = await self.post(receiver, sender, to, payload, key, owner)
        return await self.wait(future, to[0], key) if confirm else None

    async def post(
        self,
        receiver: Receiver,
        sender: Sender,
        to: Address,
        payload: bytes,
        key: str | None = None,
        owner: str = "",
    ) -> asyncio.Future[Receipt]:
        """Send a message; who waits for what is given back gets its receipt. `UsageError` where there can be none."""
        self._check(receiver, to[0], key)
        name = None if key is None else (to[0][0], owner or self._process, key)
        if name is not None:
            place = receiver.letters.find(*name)
            if place is not None:
                return _known(name[0], place)
        waiting = None if name is None else self._waiting.get(self._of_key.get(name, 0))
        if waiting is None:
            waiting = await self._post(sender, to, Letter(as_bytes(payload), 0, key or "", owner), name)
        return waiting.future

    def post_run(self, receiver: Receiver, sender: Sender, to: Address, run: Run) -> asyncio.Future[Receipt] | None:
        """Send a run of a client; who waits for what is given back gets the receipt of its first message. None when
        there is no room for it now."""
        self._check(receiver, to[0], None)
        place = receiver.letters.find_number(to[0][0], run.client, run.number)
        if place is not None:
            return _known(to[0][0], place)
        self._ticket += 1
        run = msgspec.structs.replace(run, ticket=self._ticket)
        if not sender.add_letter(to, run):
            return None
        self._runs.add(run, to, sender.add_letter)
        waiting = self._waiting[self._ticket] = _Waiting(to[0], asyncio.get_running_loop().create_future())
        return waiting.future

    async def wait(self, future: asyncio.Future[Receipt], groups: tuple[GroupId, ...], key: str | None) -> Receipt:
        """Wait for a receipt; `GroupBlocked` when the groups cannot go on."""
        told = self._told_obstacles
        return await wait_unless_blocked(future, lambda: told(groups), UNKEYED if key is None else AGAIN)

    async def _post(
        self, sender: Sender, to: Address, letter: Letter, name: tuple[GroupId, str, str] | None
    ) -> _Waiting:
        self._ticket += 1
        ticket = self._ticket
        waiting = self._waiting[ticket] = _Waiting(to[0], asyncio.get_running_loop().create_future(), name)
        if name is not None:
            self._of_key[name] = ticket
        try:
            letter = msgspec.structs.replace(letter, ticket=ticket)
            while not sender.add_letter(to, letter):
                await sender.wait_for_room()
        except BaseException:
            self._fail(ticket, GroupBlocked("who sent the message with this key has given up before it left"))
            raise
        return waiting

    def _check_confirm(self, confirm: Confirm) -> None:
        if confirm not in (True, False, "majority"):
            raise UsageError(f'confirm={confirm!r}: True, or "majority"')
        if confirm == "majority" and not self._contract.minority_may_die:
            raise UsageError(
                f"{self._contract.name} does not say when a majority has a message: confirm=True tells when it is "
                f"ordered"
            )

    def _check(self, receiver: Receiver, groups: tuple[GroupId, ...], key: str | None) -> None:
        contract = self._contract
        if self._end is not None:
            raise self._end
        if not self._has_places:
            raise UsageError(
                f"under {contract.name} a message has no place that all members agree on: send it without confirm and "
                f"key, or choose a protocol that orders everything"
            )
        if key is not None:
            check_key(key)
            if len(groups) != 1:
                raise UsageError("a key belongs to one group: send a message with a key to each of them")
        inboxes = [receiver.find(group) for group in groups]
        if not any(inbox is not None and len(inbox.groups) == 1 for inbox in inboxes):
            several = next((inbox for inbox in inboxes if inbox is not None), None)
            if several is not None:
                raise UsageError(
                    f"{', '.join(several.groups)} are taken in one order, in which nobody counts the offsets of each: "
                    f"join them one by one"
                )
            raise UsageError(
                f"process {self._process} is not in {', '.join(groups) or 'the group'} and does not see what is "
                f"ordered there: join it, or send through a process that is in it"
            )

    # ------------------------------------------------------------------ in
    def ordered(
        self, ticket: int, bundle: MessageId, index: int, offsets: Mapping[GroupId, int], repeated: bool
    ) -> None:
        """A letter of this process has its place."""
        waiting = self._forget(ticket)
        if waiting is not None and not waiting.future.done():
            waiting.future.set_result(_make(bundle, index, offsets, repeated))

    def _forget(self, ticket: int) -> _Waiting | None:
        waiting = self._waiting.pop(ticket, None)
        self._runs.end(ticket)
        if waiting is not None and waiting.key is not None:
            self._of_key.pop(waiting.key, None)
        return waiting

    def drop(self, groups: tuple[GroupId, ...], why: BaseException) -> None:
        """What is under way to these groups may go nowhere."""
        for ticket, waiting in tuple(self._waiting.items()):
            if not set(groups).isdisjoint(waiting.groups):
                self._fail(ticket, GroupBlocked(f"{why}; {MAY_BE_ORDERED}"))

    def close(self, why: BaseException) -> None:
        """No receipt will come any more."""
        self._end = why
        for ticket in tuple(self._waiting):
            self._fail(ticket, why)

    def _fail(self, ticket: int, why: BaseException) -> None:
        waiting = self._forget(ticket)
        if waiting is not None and not waiting.future.done():
            waiting.future.set_exception(why)
            waiting.future.exception()  # perhaps nobody waits any more


def _make(bundle: MessageId, index: int, offsets: Mapping[GroupId, int], repeated: bool) -> Receipt:
    return Receipt(f"{bundle}/{index}" if bundle.source else "", offsets, repeated)


def _known(group: GroupId, place: Place) -> asyncio.Future[Receipt]:
    known: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
    known.set_result(_make(place.bundle, place.index, {group: place.offset}, repeated=True))
    return known
