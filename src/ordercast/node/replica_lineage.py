"""Which state a group has, where it began, and who holds it: in groups that processes join and leave while they run.

A state begins once. Where files name the processes, or the protocol keeps one history, that is when somebody founds the
group. Where no file names anybody, processes that do not find each other may each found the group, and one of these
histories is given up when they meet. So there

- nobody acknowledges a call before the state has begun: as many replicas as `quorum` says hold it, or two, and they
  have said so in the order of the group;
- of two histories that meet, those who have given theirs up come to the others and ask for the state, and say what they
  had. If the others have applied no call yet, they take that state instead of their own, at the place of the question
  in the order. Else the state of the history that goes on is the one that survives;
- with a `quorum`, calls are applied only in views of so many members. If that is more than half of all processes that
  can ever be there, two histories never both apply calls, and no call that was acknowledged is ever lost.

Whoever leaves waits until somebody else holds the state who stays.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ordercast.core import SiteId
from ordercast.node.deliveries import View
from ordercast.node.replica_messages import Hold, Part, Want

logger = logging.getLogger("ordercast.node")

State = TypeVar("State")

COMPANY = 2
"""Replicas with which a state begins where nobody has said otherwise: whoever is alone may have found nobody because
its own network is cut."""


class Brought(NamedTuple, Generic[State]):
    """The state of a history that has ended here."""

    state: State
    birth: str
    calls: int
    time: float


class Lineage:
    """What one replica knows of the state of its group."""

    def __init__(self, process: SiteId, group: str, send: Callable[[Hold | Part], object]) -> None:
        self.birth = f"{process}.{os.urandom(8).hex()}"
        """The name of the state: who drew it has founded the group."""
        self.calls = 0
        """How many calls the state contains."""
        self.time = 0.0
        """The time of the last of them."""
        self.lacking = ""
        """Why calls are not applied in this view; empty when they are."""
        self._process = process
        self._group = group
        self._send = send
        self._members: tuple[SiteId, ...] = (process,)
        self._holders: set[SiteId] = set()
        """Who has said to have the state."""
        self._parting: set[SiteId] = set()
        """Of those, who leaves soon."""
        self._needed = 1
        self._quorum = 1
        self._changed: asyncio.Future[None] | None = None

    def guard(self, quorum: int | None) -> None:
        """No file names the processes of this cluster, and a group may be founded more than once."""
        self._needed = COMPANY if quorum is None else quorum
        self._quorum = quorum or 1

    # ------------------------------------------------------------------ the state
    def take_over(self, birth: str, calls: int, time: float) -> None:
        """This replica goes on with a state of which this is known."""
        self.birth, self.calls = birth, calls
        self.go_on(time)
        self.tell_change()

    def go_on(self, time: float) -> None:
        """Somebody's clock says this; time does not go back."""
        self.time = max(self.time, time)

    def count_call(self, time: float) -> None:
        """A call is applied."""
        self.calls += 1
        self.go_on(time)
        if self.calls == 1:
            self.tell_change()

    def gives_way(self, want: Want) -> bool:
        """Whether the group takes the state that somebody brings along who asks for ours. All who have a state agree:
        they have applied the same calls, or none."""
        return self.calls == 0 < want.calls and want.birth != self.birth

    def tell_given_up(self, calls: int, giver: SiteId) -> None:
        """This replica had another state, and takes the one of the others: what was done here is lost."""
        logger.error(
            "process %s gives up the state of group %s with its %d calls: the group was founded twice, and %s goes on "
            "with a state in which they are not; Replicated(…, quorum=N) with more than half of all processes prevents "
            "that",
            self._process,
            self._group,
            calls,
            giver,
        )

    @property
    def waits_for(self) -> str:
        """Why no call may leave yet; empty once the state has begun."""
        here = len(self._holders.intersection(self._members) | {self._process})
        if self.calls or here >= self._needed:
            return ""
        count = "no other replica is" if here == 1 else f"{here} replicas are"
        alone = "; Replicated(…, quorum=1) begins alone" if self._quorum == 1 else ""
        return f"{count} in group {self._group} yet, and its state begins with {self._needed}: start more{alone}"

    # ------------------------------------------------------------------ who has it
    def on_view(self, view: View) -> None:
        """The members of the group have changed."""
        self._members = view.members
        self._holders.intersection_update(view.members)
        self._parting.intersection_update(view.members)
        count = len(view.members)
        self.lacking = "" if count >= self._quorum else f"{count} replicas are here, and quorum is {self._quorum}"
        if self.lacking:
            logger.warning("group %s: %s; calls wait for more", self._group, self.lacking)
        self.tell_change()

    def say_held(self) -> None:
        """Tell the others that this replica has the state. As long as that has not begun, they tell the same."""
        self._send(Hold(self._process, asks=not self.calls and self._needed > 1))

    def ask_holders(self) -> None:
        """Let everybody say who has the state."""
        self._send(Hold(self._process, asks=True))

    def on_said(self, said: Hold | Part, has_state: bool) -> None:
        """Somebody has the state, or leaves soon; `has_state`: this replica has it, too."""
        if isinstance(said, Part):
            self._parting.add(said.process)
            self.tell_change()
            return
        self.note_holder(said.process)
        if said.asks and has_state and said.process != self._process:
            self._send(Hold(self._process, asks=False))

    def note_holder(self, process: SiteId) -> None:
        """Somebody has the state."""
        self._holders.add(process)
        self.tell_change()

    # ------------------------------------------------------------------ leaving
    def say_parting(self) -> None:
        """Tell the others that this replica leaves."""
        self._send(Part(self._process))

    @property
    def others(self) -> list[SiteId]:
        """Who else is in the group, and stays."""
        return [name for name in self._members if name != self._process and name not in self._parting]

    @property
    def has_heir(self) -> bool:
        """Whether somebody who stays has the state. Of two who leave at once, the one that says so later is told that
        the other one does not stay."""
        return self._process in self._parting and not self._holders.isdisjoint(self.others)

    # ------------------------------------------------------------------ waiting
    def changed(self) -> asyncio.Future[None]:
        """Done when any of this is not as it was."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed

    def tell_change(self) -> None:
        """Something is not as it was."""
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)
