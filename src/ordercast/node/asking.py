"""Questions to a group, and the answers of its members.

A question is ordered like every message, and so is each answer; neither has an offset, and no application sees them
among its deliveries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from ordercast.core import Address, GroupId, Multicast, Payload, SiteId, UsageError
from ordercast.node.bundles import ASKING_MARK, BUNDLE_BYTES_MAX, as_bytes
from ordercast.node.errors import NotAnswered
from ordercast.node.waiting import wait_unless_blocked

if TYPE_CHECKING:
    from ordercast.node.internals import Internals

Wait: TypeAlias = Literal["first", "majority", "all"]
"""How many answers are waited for."""

QUESTION_BYTES_MAX = BUNDLE_BYTES_MAX - 1_000
"""Of a question, and of an answer."""

ASKED_MAX = 10_000
"""Questions of one process that wait for their answers."""


class Question(msgspec.Struct, frozen=True, tag="question", array_like=True):
    """What somebody wants to know."""

    number: int
    incarnation: int
    payload: bytes


class Reply(msgspec.Struct, frozen=True, tag="reply", array_like=True):
    """What a member says."""

    asker: SiteId
    incarnation: int
    number: int
    payload: bytes
    error: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Question | Reply).decode


class _Asked:
    """A question of this process."""

    def __init__(self, members: Callable[[], tuple[SiteId, ...]], wait: Wait) -> None:
        self._members = members
        self._wait = wait
        self.answers: dict[SiteId, bytes] = {}
        self.errors: dict[SiteId, str] = {}
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def silent(self) -> list[SiteId]:
        """Members who have not said anything."""
        return [name for name in self._members() if name not in self.answers and name not in self.errors]

    def look(self) -> None:
        """Whether there are enough answers, or cannot be. Of all, those count who are members now."""
        members = self._members()
        needed = {"first": 1, "majority": len(members) // 2 + 1, "all": len(members)}[self._wait]
        if self.future.done():
            return
        if len(self.answers) >= needed:
            self.future.set_result(None)
        elif len(self.answers) + len(self.silent()) < needed:
            why = "; ".join(f"{name}: {error}" for name, error in sorted(self.errors.items()))
            self.future.set_exception(NotAnswered(f"too few answer ({why})"))


class Asking:
    """The questions and answers of one process."""

    def __init__(self, internals: Internals) -> None:
        self._internals = internals
        self._handlers: dict[GroupId, Callable[[bytes], bytes]] = {}
        self._asked: dict[int, _Asked] = {}
        self._number = 0
        internals.receiver.on_asked = self._on_delivered

    def answer_with(self, group: GroupId, handler: Callable[[bytes], bytes]) -> None:
        """From now on this function answers the questions to a group."""
        self._handlers[group] = handler

    async def ask(self, group: GroupId, payload: bytes, wait: Wait) -> dict[SiteId, bytes]:
        """Ask, and wait for answers; member -> what it says."""
        if wait not in ("first", "majority", "all"):
            raise UsageError(f'wait={wait!r}: "first", "majority" or "all"')
        if len(self._asked) >= ASKED_MAX:
            raise UsageError(f"{ASKED_MAX} questions wait for their answers: wait for some of them")
        internals = self._internals
        self._number += 1
        number, asked = self._number, _Asked(lambda: internals.views.members(group), wait)
        self._asked[number] = asked
        try:
            await self._send(group, Question(number, internals.engine.journal.incarnation, as_bytes(payload)))
            await wait_unless_blocked(asked.future, lambda: self._told(group, asked), "the question was asked")
            return asked.answers
        finally:
            del self._asked[number]

    def _told(self, group: GroupId, asked: _Asked) -> str:
        asked.look()  # who was waited for may have left
        over = self._internals.over.is_set()
        return "" if asked.future.done() else "the node is closed" if over else self._internals.told_obstacles((group,))

    async def _send(self, group: GroupId, message: Question | Reply) -> None:
        if len(message.payload) > QUESTION_BYTES_MAX:
            raise UsageError(f"a question or an answer has {QUESTION_BYTES_MAX} bytes at the most")
        address: Address = self._internals.address((group,))
        sender = self._internals.sender
        while not sender.add_uncounted(address, ASKING_MARK + _encode(message)):
            await sender.wait_for_room()

    # ------------------------------------------------------------------ what comes
    def _on_delivered(self, multicast: Multicast, payload: Payload, replayed: bool) -> None:
        if replayed or len(multicast.groups) != 1:
            return
        try:
            message = _decode(payload[len(ASKING_MARK) :])
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._internals.receiver.counters["bad-bundles"] += 1
            return
        source = multicast.id.source
        if isinstance(message, Question):
            self._answer(multicast.groups[0], source, message)
        elif message.asker == self._internals.process:
            asked = self._asked.get(message.number)
            if asked is not None and message.incarnation == self._internals.engine.journal.incarnation:
                if message.error:
                    asked.errors[source] = message.error
                else:
                    asked.answers[source] = message.payload
                asked.look()

    def _answer(self, group: GroupId, asker: SiteId, question: Question) -> None:
        handler, answer, error = self._handlers.get(group), b"", ""
        if handler is None:
            error = "it answers no questions"
        else:
            try:
                answer = as_bytes(handler(question.payload))
                if len(answer) > QUESTION_BYTES_MAX:
                    answer, error = b"", f"its answer has more than {QUESTION_BYTES_MAX} bytes"
            except Exception as raised:
                answer, error = b"", f"{type(raised).__name__}: {raised}"[:500]
        reply = Reply(asker, question.incarnation, question.number, answer, error)
        # An answer that finds no room is not sent: whoever asks waits for a time of its own.
        address: Address = ((group,), None)
        self._internals.senders.find(address).add_uncounted(address, ASKING_MARK + _encode(reply))
