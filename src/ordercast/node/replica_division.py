"""What becomes of a replicated state where members of a group that lose each other go on apart, each side with a view
of its own (`Contract.partitionable`).

In each view the replicas say first where they stand, and apply nothing before all of them have. Then one of two rules
holds, which the application has chosen:

- `quorum`: calls are applied only in views of so many members. Of the replicas that meet in one, those that were in the
  last such view are right, and the others take their state. It is a number that no two views at a time can both have:
  more than half of all processes that can ever be there. (To count from view to view instead, a majority of the last
  one, is not offered: with a crash in the middle of a view change, two sides can both believe that they have it.)
- `merge`: every side goes on. When sides meet, each gets the states of the others, and a function of the application
  makes one of them, the same at every replica.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

from ordercast.core import SiteId
from ordercast.node.deliveries import View
from ordercast.node.internals import Internals
from ordercast.node.replica_messages import Stand, encode_value
from ordercast.node.state_giving import Head
from ordercast.node.state_packets import Offer

logger = logging.getLogger("ordercast.node")

State = TypeVar("State")

ASK_AGAIN_SECONDS = 2.0
"""Until somebody who did not give its side's state is asked again: there is nobody else, or a view without it comes."""


class Hooks(NamedTuple, Generic[State]):
    """What the rules need of a replica."""

    hold: Callable[[], State | None]
    """Apply everything that was delivered before the view, and from now on nothing; the state, if there is one."""
    show: Callable[[State | None], None]
    """Let the state be read, while calls are not applied."""
    resume: Callable[[State], None]
    """Apply to this state what was delivered in the view, and go on."""
    seek: Callable[[Collection[SiteId]], None]
    """Get the state of one of these."""
    unpack: Callable[[bytes | bytearray, str, str], State]
    """Bytes become a state: they are what the text says, and of this schema."""
    stand: Callable[[Stand], object]
    """Tell the group where this replica stands."""


class Division(Generic[State]):
    """One replica's part in the agreement about the state of a view."""

    def __init__(
        self,
        internals: Internals,
        group: str,
        schema: str,
        replica: Hooks[State],
        quorum: int | None,
        merge: Callable[[list[State]], State] | None,
    ) -> None:
        self.lacking = ""
        """Why calls are not applied in this view; empty when they are."""
        self._internals = internals
        self._group = group
        self._schema = schema
        self._replica = replica
        self._quorum = quorum
        self._merge = merge
        self._view: View | None = None
        self._stands: dict[SiteId, Stand] = {}
        self._held: State | None = None
        self._line = 0
        """How many views with a quorum the state has lived through; -1 while there is none."""
        self._side = ""
        """The view in which the state was last the same everywhere; empty while it is the initial one."""
        self._parts: dict[str, State] = {}
        """Side -> its state, while sides are merged."""
        self._takings: list[int] = []

    # ------------------------------------------------------------------ views
    def on_view(self, view: View) -> None:
        """The members of the group have changed."""
        self._drop_parts()
        applied = self._replica.hold()
        if applied is not None:
            # Else it is the one from before the last view, about which nobody has agreed yet; or there is none.
            self._held = applied
        if self._held is None:
            self._line, self._side = -1, ""
        self._view, self._stands = view, {}
        if self._quorum is not None and len(view.members) < self._quorum:
            self.lacking = f"{len(view.members)} replicas are here, and quorum is {self._quorum}"
            logger.warning("group %s is divided: %s; calls wait for more", self._group, self.lacking)
            self._replica.show(self._held)
            return
        self.lacking = ""
        self._replica.stand(Stand(self._internals.process, view.view, self._line, self._side))

    def on_stand(self, stand: Stand) -> None:
        """A replica has said where it stands. When all have, they agree."""
        view = self._view
        if view is None or stand.view != view.view or stand.process not in view.members:
            return
        self._stands[stand.process] = stand
        if len(self._stands) == len(view.members):
            if self._merge is None:
                self._follow_the_last_quorum()
            else:
                self._bring_together(view, self._merge)

    def on_resumed(self) -> None:
        """The replica has its state, and has applied what was delivered in the view."""
        self._line = 1 + max((stand.line for stand in self._stands.values()), default=-1)
        self._side = "" if self._view is None else self._view.view
        self._held = None

    # ------------------------------------------------------------------ quorum
    def _follow_the_last_quorum(self) -> None:
        last = max(stand.line for stand in self._stands.values())
        self._take_from([name for name, stand in self._stands.items() if stand.line == last])

    def _take_from(self, right: Collection[SiteId]) -> None:
        """Some replicas have the state of all: whoever is none of them takes it from there."""
        if self._held is not None and self._internals.process in right:
            self._replica.resume(self._held)
        else:
            self._held = None
            self._replica.seek(right)

    # ------------------------------------------------------------------ merge
    def _bring_together(self, view: View, merge: Callable[[list[State]], State]) -> None:
        speakers: dict[str, SiteId] = {}
        for name, stand in sorted(self._stands.items()):
            if stand.side:
                speakers.setdefault(stand.side, name)
        if len(speakers) <= 1:
            # One side and newcomers, or newcomers only.
            with_state = {name: stand for name, stand in self._stands.items() if stand.line >= 0}
            sides = {stand.side for stand in with_state.values() if stand.side} or {""}
            self._take_from([name for name, stand in with_state.items() if stand.side in sides])
            return
        logger.info("group %s was divided into %d sides: their states are merged", self._group, len(speakers))
        for side, speaker in speakers.items():
            number = _number(self._group, view.view, side)
            if side != self._side:
                self._takings.append(number)
                _Part(self, view, side, speaker, number, len(speakers), merge).take()
            elif self._held is not None:
                content = encode_value(self._held)
                # A copy like those that the others get.
                self._parts[side] = self._replica.unpack(content, "its own state", self._schema)
                if speaker == self._internals.process:
                    others = [name for name in view.members if name != speaker]
                    head = Head(self._group, 0, self._schema)
                    self._internals.transfer.give_packed(others, number, head, content)

    def take_part(self, view: View, side: str, state: State, sides: int, merge: Callable[[list[State]], State]) -> None:
        """The state of another side is here; with the last one, all become one."""
        if view is self._view:
            self._parts[side] = state
            if len(self._parts) == sides:
                states = [self._parts[each] for each in sorted(self._parts)]
                self._drop_parts()
                self._replica.resume(merge(states))

    def _drop_parts(self) -> None:
        self._parts.clear()
        for number in self._takings:
            self._internals.transfer.give_up(number)
        self._takings.clear()

    def is_current(self, view: View) -> bool:
        """Whether this is still the view, and the node runs."""
        return view is self._view and not self._internals.over.is_set()

    def take(self, number: int, speaker: SiteId, part: _Part[State]) -> None:
        """Begin to take the state of another side."""
        self._internals.transfer.take(number, self._group, speaker, part)

    def unpack(self, content: bytearray, giver: SiteId, schema: str) -> State:
        """The state that somebody gave."""
        return self._replica.unpack(content, f"the state that {giver} gave", schema)


class _Part(Generic[State]):
    """The state of another side, on its way."""

    def __init__(
        self,
        division: Division[State],
        view: View,
        side: str,
        speaker: SiteId,
        number: int,
        sides: int,
        merge: Callable[[list[State]], State],
    ) -> None:
        self._division = division
        self._view = view
        self._side = side
        self._speaker = speaker
        self._number = number
        self._sides = sides
        self._merge = merge

    def take(self) -> None:
        """Ask for it, unless there is another view by now."""
        if self._division.is_current(self._view):
            self._division.take(self._number, self._speaker, self)

    def accepts(self, offer: Offer) -> bool:
        """It is the one of this view: its number says so."""
        return True

    def waits_for(self, giver: SiteId) -> bool:
        """A view without it ends this."""
        return True

    def on_state(self, giver: SiteId, offer: Offer, content: bytearray) -> None:
        """It is here."""
        state = self._division.unpack(content, giver, offer.schema)
        self._division.take_part(self._view, self._side, state, self._sides, self._merge)

    def on_followed(self, giver: SiteId) -> None:
        """Nobody says that here: each side has its part."""
        self.on_no_state(giver, "")

    def on_no_state(self, giver: SiteId, reason: str) -> None:
        """Nobody else speaks for that side: it gives it later, or a view without it comes."""
        asyncio.get_running_loop().call_later(ASK_AGAIN_SECONDS, self.take)


def _number(group: str, view: str, side: str) -> int:
    """The same at every replica, without a word."""
    content = f"{len(group)} {group} {len(view)} {view} {side}".encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest()) >> 1
