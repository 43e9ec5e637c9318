"""Hierarchy maintenance (2.6): how a control process starts, changes its state, and moves between local groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, SiteId
from ordercast.core.effects import Broadcast, JoinChannel, LeaveChannel
from ordercast.protocols.intergroup.control.appropriateness import draw
from ordercast.protocols.intergroup.control.local_group import LocalGroup
from ordercast.protocols.intergroup.control.pacing import PATIENCE_INTERVALS
from ordercast.protocols.intergroup.control.packets import COORDINATORS, SEARCH, CoordinatorLeave
from ordercast.protocols.intergroup.control.search import Answer, Purpose, RingSearch
from ordercast.protocols.intergroup.control.states import TRANSITIONS, Cause, State
from ordercast.protocols.intergroup.control.tables import Table
from ordercast.protocols.parts.back_off import ticks_in

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.control.control import Control


class Hierarchy:
    """The place of one control process in the hierarchy."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._host = host = control.host
        self._options = control.options
        self._site: SiteId = host.site
        self.search = RingSearch(host, control.options, self._found, self._search_failed)
        self.state = State.START
        self.changes = 0
        """How often the state has changed."""
        self.tick = 0
        """Periods of the check since the start."""
        self.own: LocalGroup | None = None
        """The local group of which this process is the coordinator: amCoord is that there is one."""
        self.joined: LocalGroup | None = None
        """The local group in which it is a child; with `approached`, amChild is that there is one."""
        self.approached: LocalGroup | None = None
        """The local group that it wants to be in, until the coordinator's CCon lists it. It reports to both until
        then. (Else: the old coordinator has dropped it, the new one has not heard it, the acknowledgement of 3.5
        rises, and what it still lacks is cleared.)"""
        self.coords = Table(control.options)
        """The other coordinators."""
        self._coordinating_since = 0
        """When it has begun to be a coordinator."""

    # ------------------------------------------------------------------ what the others ask
    @property
    def coordinator(self) -> SiteId:
        """myCoord: the coordinator with which the process is associated, itself when it has no other."""
        group = self.joined or (self.approached if self.own is None else None)
        return self._site if group is None else group.coordinator

    @property
    def num_coords(self) -> int:
        """numCoords: how many coordinators there are, this one included, as far as it knows; those that leave do not
        count. A child knows what its coordinator says."""
        if self.own is None and self.joined is not None:
            return self.joined.num_coords
        mine = self.own is not None and self.state is not State.TO_CHILD
        return mine + self._others_that_stay()

    def _others_that_stay(self) -> int:
        return len(self.coords) - len(self.coords.leaving)

    def local_groups(self) -> Iterator[LocalGroup]:
        """Those in which the process is: one, or two while it changes, or three while it changes and moves."""
        for group in (self.own, self.joined, self.approached):
            if group is not None:
                yield group

    def in_change(self) -> bool:
        """Whether self-determination has to wait (2.5)."""
        return (
            self.state not in (State.COORDINATOR, State.CHILD)
            or self.approached is not None
            or self.search.purpose is not None
        )

    def allows_children(self) -> bool:
        """Whether the process answers those who look for a coordinator (Figure 2.4)."""
        return self.own is not None and self.state is not State.TO_CHILD

    # ------------------------------------------------------------------ the start (2.6.1)
    def start(self) -> None:
        """Listen to the coordinators for a while."""
        self._host.outbox.append(JoinChannel(COORDINATORS))
        self._host.set_timer("control-start", draw(self._host.context.random, 0.0, self._options.start_seconds))

    def decide(self, num_coords: int) -> None:
        """That while is over, and there are so many coordinators."""
        if num_coords == 0:
            self._begin_as_coordinator(Cause.NOBODY_HEARD)
        elif num_coords <= (self._options.coordinators_low + self._options.coordinators_high) / 2:
            self._begin_as_coordinator(Cause.FEW_COORDINATORS)
        else:
            self.search.begin(Purpose.JOIN)

    def _begin_as_coordinator(self, cause: Cause) -> None:
        self._host.branch("started-as-coordinator")
        self._go(cause)
        self._coordinate()

    # ------------------------------------------------------------------ searches
    def _found(self, purpose: Purpose, answer: Answer) -> None:
        if self.state is State.START:
            self._host.branch("started-as-child")
            self._go(Cause.FOUND)
            self._stop_hearing_coordinators()
        joined = self.joined
        if purpose is Purpose.LOOK and joined is not None:
            nearer = answer.hops <= self._options.boundary_ttl < joined.head.hops
            if not nearer:
                self._control.determination.recheck_child(answer.num_coords)
                return
        if joined is not None and joined.coordinator == answer.site:
            # It was silent, or about to leave, and no longer is.
            joined.listed_at = self.tick
            return
        self._approach(LocalGroup(self._options, answer.site, self.tick, answer.hops, answer.num_local))

    def _search_failed(self, purpose: Purpose) -> None:
        match self.state:
            case State.START:
                self._begin_as_coordinator(Cause.SEARCH_FAILED)
            case State.TO_CHILD:
                self._stay(Cause.SEARCH_FAILED)
            case State.CHILD if purpose is Purpose.LOOK:
                self._control.determination.recheck_child(None)
            case State.CHILD if self._is_deserted():
                self._host.branch("search-failed")
                self.become_coordinator(Cause.SEARCH_FAILED)
            case _:
                # The coordinator is there again, or has decided to stay.
                pass

    def _is_deserted(self) -> bool:
        """Whether a child has no coordinator, or one that still wants to leave."""
        joined = self.joined
        if joined is None or self._is_lost(joined):
            return True
        patience = self._ticks(self._control.local_pace.patience_seconds)
        return joined.leaving_at is not None and self.tick - joined.leaving_at <= patience

    # ------------------------------------------------------------------ from one local group to another
    def _approach(self, group: LocalGroup) -> None:
        """Report to a coordinator that would take this process, and be its child when it says so."""
        if self.approached is not None:
            self._bid_farewell(self.approached)
        self.approached = group
        self._control.enter(group)

    def on_listed(self, group: LocalGroup) -> None:
        """The CCon of a coordinator has this process among its children."""
        group.listed_at = self.tick
        if group.listed:
            return
        group.listed = True
        if group is self.approached:
            left, self.joined, self.approached = self.joined, group, None
            if left is not None:
                self._host.branch("moved")
                self._bid_farewell(left)
            self.go_on()

    def on_coordinator_leaves(self, group: LocalGroup) -> None:
        """A child attempts to find another coordinator (Figure 2.4)."""
        group.leaving_at = self.tick
        if group is self.approached:
            self._bid_farewell(group)
            self.approached = None
        elif group is not self.joined or self.approached is not None:
            return
        if self._may_search():
            self._host.branch("coordinator-leaves")
            self.search.begin(Purpose.LEAVE)

    def _may_search(self) -> bool:
        """Whether a child has nothing better to do than to look for another coordinator."""
        return self.state in (State.CHILD, State.TO_CHILD) and self.search.purpose in (None, Purpose.LOOK)

    def _bid_farewell(self, group: LocalGroup) -> None:
        """Leave a local group, and say so once. Whoever does not hear it removes this process later (2.6.3)."""
        self._control.send_farewell(group)
        self._control.quit(group)

    # ------------------------------------------------------------------ child to coordinator
    def become_coordinator(self, cause: Cause) -> None:
        """Join the coordinators, and stay in the local group until they know of it: both get its reports until
        then."""
        self._host.branch("to-coordinator")
        self._go(cause)
        if self.approached is not None:
            self._bid_farewell(self.approached)
            self.approached = None
        joined = self.joined
        to_coordinator = 0.0 if joined is None else joined.head.distance or 0.0
        for entry in self.coords:
            entry.begin_anew(None if entry.reported is None else to_coordinator + entry.reported)
        if joined is not None and self._is_lost(joined):
            # Others have lost it, too, and report to nobody yet: what all together had counts until they do.
            until = self.tick + self._ticks(self._stale_seconds())
            self.coords.linger(joined.coordinator, until, self._control.system)
        elif joined is not None and joined.coordinator not in self.coords:
            self.coords.add(joined.coordinator, self.tick).begin_anew(joined.head.distance)
        self._host.outbox.append(JoinChannel(COORDINATORS))
        self._coordinate()
        self.go_on()

    def on_known_as_coordinator(self) -> None:
        """Another coordinator lists this one."""
        if self.state is State.TO_COORDINATOR:
            self._finish_coordinator()

    def _finish_coordinator(self) -> None:
        self._go(Cause.HEARD)
        if self.joined is not None:
            self._bid_farewell(self.joined)
            self.joined = None

    def _coordinate(self) -> None:
        """Be in the coordinator group, and allow children."""
        self._coordinating_since = self.tick
        self.own = LocalGroup(self._options, self._site, self.tick)
        self._host.outbox.append(JoinChannel(SEARCH))
        self._control.enter(self.own)
        self._control.send_global()

    # ------------------------------------------------------------------ coordinator to child: Figure 2.4
    def become_child(self) -> None:
        """Look for a coordinator, and ask the children to do so."""
        self._go(Cause.DETERMINED)
        if self._has_coordinator_as_child() or not self.coords.entries:
            self._host.branch("cannot-leave")
            self._go(Cause.CANNOT_LEAVE)
            return
        self._host.branch("to-child")
        # Before any answer: others who are about to leave should know that there is one coordinator less.
        self._control.send_global()
        self.search.begin(Purpose.JOIN)
        self.ask_to_leave()

    def ask_to_leave(self) -> None:
        """Coordinator Leave to the local group, with each local control message."""
        if self.own is not None and self.own.locals.entries:
            self._host.outbox.append(Broadcast(self.own.channel, CoordinatorLeave(), self._control.far_ttl()))

    def _has_coordinator_as_child(self) -> bool:
        return self.own is not None and any(site in self.coords for site in self.own.locals.entries)

    def go_on(self) -> None:
        """Something has happened that a change of state may have waited for."""
        if self.state is State.TO_COORDINATOR:
            patience = self._ticks(self._control.global_pace.patience_seconds)
            alone = self.joined is None or self._is_lost(self.joined) or not self.coords.entries
            if alone or self.tick - self._coordinating_since > patience:
                self._finish_coordinator()
        elif self.state is State.TO_CHILD:
            if self._others_that_stay() < self._options.coordinators_low:
                # Two that leave at the same moment do not know of each other before.
                self._stay(Cause.CANNOT_LEAVE)
            elif self.joined is not None and self.children_have_left():
                self._leave_coordinators()

    def children_have_left(self) -> bool:
        """localLeft of Figure 2.4."""
        return self.own is None or not self.own.locals.entries

    def _leave_coordinators(self) -> None:
        if self.own is None or self.own.locals.entries:
            raise InvariantViolation(f"{self._site} stops being a coordinator before its children have left")
        self._go(Cause.LEFT)
        self._host.outbox.append(Broadcast(COORDINATORS, CoordinatorLeave(), self._options.system_ttl))
        self._control.quit(self.own)
        self.own = None
        self._host.outbox.append(LeaveChannel(SEARCH))
        self._host.cancel_timer("control-global")
        self._stop_hearing_coordinators()

    def _stop_hearing_coordinators(self) -> None:
        self._host.outbox.append(LeaveChannel(COORDINATORS))
        self.coords.leaving.clear()
        for entry in self.coords:
            entry.begin_anew(None)

    def _stay(self, cause: Cause) -> None:
        """Allow children again, and be a coordinator only."""
        self._host.branch("stayed")
        self._go(cause)
        self.search.stop()
        for group in (self.joined, self.approached):
            if group is not None:
                self._bid_farewell(group)
        self.joined = self.approached = None
        self._control.send_global()

    # ------------------------------------------------------------------ faults (2.6.3)
    def check(self) -> None:
        """One period of the check: whoever has not been heard for long is removed, and a child that has lost its
        coordinator looks for another one."""
        self.tick += 1
        control = self._control
        local = self.tick - self._ticks(max(self._options.stale_seconds, control.local_pace.patience_seconds))
        for group in self.local_groups():
            if group.locals.remove_stale(local, self.tick):
                self._host.branch("stale-local")
        if self.coords.remove_stale(self.tick - self._ticks(self._stale_seconds()), self.tick):
            self._host.branch("stale-coordinator")
        if self.own is not None:
            # Of those that it has heard of as a child, some may be gone for as long as others take to remove them.
            patience = self._ticks(PATIENCE_INTERVALS * control.global_seconds())
            if self.tick - self._coordinating_since > patience:
                self.coords.remove_unheard()
        if self.approached is not None and self._is_lost(self.approached):
            self._bid_farewell(self.approached)
            self.approached = None
            self.search.begin(Purpose.JOIN)
        elif self.joined is not None and self.approached is None and self._is_lost(self.joined) and self._may_search():
            self._host.branch("lost-coordinator")
            self.search.begin(Purpose.JOIN)
        self.go_on()

    def _stale_seconds(self) -> float:
        """How long a coordinator that is not heard is remembered: its children must report to another one by then."""
        control = self._control
        silence = max(self._options.silence_seconds, control.local_pace.patience_seconds)
        between = silence + self._options.search_seconds + control.messages_seconds()
        return max(self._options.stale_seconds, between, PATIENCE_INTERVALS * control.global_seconds())

    def _is_lost(self, group: LocalGroup) -> bool:
        """Whether a coordinator has not listed this process for long: it is gone, or does not hear it."""
        seconds = max(self._options.silence_seconds, self._control.local_pace.patience_seconds)
        return self.tick - group.listed_at > self._ticks(seconds)

    def _ticks(self, seconds: float) -> int:
        return ticks_in(seconds, self._options.check_seconds)

    # ------------------------------------------------------------------ the table
    def _go(self, cause: Cause) -> None:
        target = TRANSITIONS.get((self.state, cause))
        if target is None:
            raise InvariantViolation(f"{self._site} has no way out of {self.state.value} for {cause.value!r}")
        self.state = target
        self.changes += 1
        self._control.determination.cancel()

    def check_invariants(self) -> None:
        """What a process is, and in which local groups, says its state."""
        state, coordinates = self.state, self.own is not None
        is_child = self.joined is not None or self.approached is not None
        must_coordinate = state is not State.CHILD and state is not State.START
        may_be_child = state is not State.START and state is not State.COORDINATOR
        if coordinates is not must_coordinate or (is_child and not may_be_child):
            raise InvariantViolation(
                f"{self._site} is in the state {self.state.value}, coordinator: {coordinates}, child: {is_child}"
            )
