"""Which state a group has, where it began, and who holds it: in groups that processes join and leave while they run.

A state begins once. Where files name the processes, or the protocol keeps one history, that is when somebody founds the
group. Where no file names anybody, processes that do not find each other may each found the group, and one of these
histories is given up when they meet. So there

- nobody acknowledges a call before the state has begun: as many replicas as `quorum` says hold it, or two, and they
  have said so in the order of the group. Without a `quorum` every seed has to be there as well. (Else: a and b, who
  have the state, are down; c and d look for them in vain, found the group, and acknowledge calls; a and b come back,
  and one of the two histories is given up.)
- of two histories that meet, those who have given theirs up come to the others and ask for the state, and say what they
  had. If the others have applied no call yet, they take that state instead of their own, at the place of the question
  in the order. Else the state of the history that goes on is the one that survives;
- with a `quorum`, calls are applied only in views of so many members. If that is more than half of all processes that
  can ever be there, two histories never both apply calls, and no call that was acknowledged is ever lost.

Whoever leaves waits for heirs: it tells the others, then asks who has the state, anew in each view. Only an answer
counts, for the others cannot know from the view who is alive. Who has said before that it leaves is no heir; who says
so later is one, for it has to find its own. Where the protocol decides changes by a majority, half of all members have
to be heirs, so that some of them are among those who decide that this one is out, and who they are that come meanwhile;
elsewhere one is enough. Schedules that lose the state otherwise:

- b has the state and is dead, a leaves and takes it for an heir; c and d, who have come meanwhile, know what was
  ordered from their entry on, and b returns with less than that;
- b answers and dies, and the list without a is made by c and d, with newcomers who know what is ordered from there on;
- a, c, d and e leave at once, b answers all of them and dies; they make the lists with which they leave, and the last
  of these with a newcomer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Generic, NamedTuple, TypeVar

from ordercast.core import SiteId
from ordercast.node.deliveries import View
from ordercast.node.replica_messages import Call, Hold, Part, Want

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
        self.birth = ""
        """The name of the state: that of the first call in it, so that it is the same after every restart."""
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
        self._parting: list[SiteId] = []
        """Who leaves soon, in the order in which they have said so."""
        self._replicas: set[SiteId] = set()
        """Who has said anything that only replicas say."""
        self._views = 0
        """Counted here: the number of the question that is asked in the last of them."""
        self._answers: set[SiteId] = set()
        """Who has answered that one."""
        self._by_majority = False
        """Whether a majority decides who is in the group."""
        self._needed = 1
        self._quorum = 1
        self._apart_seeds: Callable[[], Collection[str]] = tuple
        self._changed: asyncio.Future[None] | None = None

    def guard(self, quorum: int | None, by_majority: bool, apart_seeds: Callable[[], Collection[str]]) -> None:
        """No file names the processes of this cluster, and a group may be founded more than once. `by_majority`:
        whether a majority decides who is in it; `apart_seeds`: addresses at which somebody may be who has another
        history."""
        self._needed = COMPANY if quorum is None else quorum
        self._quorum = quorum or 1
        self._by_majority = by_majority
        if quorum is None:
            self._apart_seeds = apart_seeds

    # ------------------------------------------------------------------ the state
    def take_over(self, birth: str, calls: int, time: float) -> None:
        """This replica goes on with a state of which this is known."""
        self.birth, self.calls = birth, calls
        self.go_on(time)
        self.tell_change()

    def go_on(self, time: float) -> None:
        """Somebody's clock says this; time does not go back."""
        self.time = max(self.time, time)

    def count_call(self, call: Call) -> None:
        """A call is applied."""
        self.calls += 1
        self.go_on(call.time)
        if self.calls == 1:
            self.birth = f"{call.caller}.{call.incarnation}.{call.number}"
            self.tell_change()

    def gives_way(self, want: Want) -> bool:
        """Whether the group takes the state that somebody brings along who asks for ours. All who have a state agree:
        they have applied the same calls, or none."""
        return self.calls == 0 < want.calls

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
        if self.calls:
            return ""
        here = len(self._holders.intersection(self._members) | {self._process})
        if here >= self._needed:
            # That a seed answers is not enough: it may have come back with its own list a moment ago.
            apart = ", ".join(self._apart_seeds())
            return apart and (
                f"seed {apart} has not come together with this process, and may have the state of group {self._group}: "
                f"start it and let it join, or say with how many the state begins: Replicated(…, quorum=N)"
            )
        count = "no other replica is" if here == 1 else f"{here} replicas are"
        alone = "; Replicated(…, quorum=1) begins alone" if self._quorum == 1 else ""
        return f"{count} in group {self._group} yet, and its state begins with {self._needed}: start more{alone}"

    # ------------------------------------------------------------------ who has it
    def on_view(self, view: View) -> None:
        """The members of the group have changed."""
        self._members = view.members
        self._views += 1
        self._answers.clear()
        self._parting = [name for name in self._parting if name in view.members]
        for names in (self._holders, self._replicas):
            names.intersection_update(view.members)
        count = len(view.members)
        self.lacking = "" if count >= self._quorum else f"{count} replicas are here, and quorum is {self._quorum}"
        if self.lacking:
            logger.warning("group %s: %s; calls wait for more", self._group, self.lacking)
        self.tell_change()

    def say_held(self) -> None:
        """Tell the others that this replica has the state. As long as that has not begun, they tell the same."""
        self._send(Hold(self._process, asks=not self.calls and self._needed > 1))

    def on_said(self, said: Hold | Part, has_state: bool) -> None:
        """Somebody has the state, or leaves soon; `has_state`: this replica has it, too, and after a crash as well."""
        self.note_replica(said.process)
        if isinstance(said, Part):
            if said.process not in self._parting:
                self._parting.append(said.process)
            self.tell_change()
            return
        if said.answers == self._process and said.number == self._views:
            self._answers.add(said.process)
        self.note_holder(said.process)
        if said.asks and has_state and said.process != self._process:
            self._send(Hold(self._process, asks=False, number=said.number, answers=said.process))

    def note_holder(self, process: SiteId) -> None:
        """Somebody has the state."""
        self._holders.add(process)
        self.tell_change()

    def note_replica(self, process: SiteId) -> None:
        """Somebody is a replica, whether it has the state or not."""
        self._replicas.add(process)

    # ------------------------------------------------------------------ leaving
    def say_parting(self) -> None:
        """Tell the others that this replica leaves."""
        self._send(Part(self._process))

    def ask_holders(self) -> int:
        """Let everybody say who has the state; the number of the question, which is another one in each view."""
        self._send(Hold(self._process, asks=True, number=self._views))
        return self._views

    @property
    def question(self) -> int:
        """The number of the question that counts."""
        return self._views

    @property
    def others(self) -> list[SiteId]:
        """Who else is in the group, and stays for longer than this replica."""
        own = self._process
        before = self._parting[: self._parting.index(own)] if own in self._parting else self._parting
        return [name for name in self._members if name != own and name not in before]

    @property
    def unknown(self) -> list[SiteId]:
        """Of those who stay, who has not said anything that only replicas say."""
        return [name for name in self.others if name not in self._replicas]

    def has_heirs(self, no_replicas: Collection[SiteId]) -> bool:
        """Whether enough of those who stay have the state; some are known to be no replicas."""
        able = [name for name in self._members if name not in no_replicas]
        needed = (len(able) + 1) // 2 if self._by_majority else 1
        return self._process in self._parting and len(self._answers.intersection(self.others)) >= needed

    def why_no_heirs(self) -> str:
        """For people."""
        have = sorted(self._answers.intersection(self.others))
        return (
            f"of those who stay in group {self._group} ({', '.join(self.others)}) "
            f"{'only ' + ', '.join(have) if have else 'nobody'} says that it has the state"
        )

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
