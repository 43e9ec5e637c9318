"""Self-determination (2.5): whether this process should be a coordinator, or a child, by what it knows itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.protocols.intergroup.control.appropriateness import (
    Appropriateness,
    child_continues,
    coordinator_continues,
    draw,
    of_child,
    of_coordinator,
    timer_interval,
)
from ordercast.protocols.intergroup.control.search import Purpose
from ordercast.protocols.intergroup.control.states import Cause, State

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.control.control import Control


class SelfDetermination:
    """The nested rules of Tables 2.2 to 2.4, and the timer between the decision and the change."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._host = control.host
        self._options = control.options
        self._waiting = False
        """Whether the timer of Table 2.4 runs."""
        self._wanted = False
        """Whether somebody has wanted this process as coordinator since the timer was set: 2.5 (1) to (3)."""

    def cancel(self) -> None:
        """The state has changed."""
        if self._waiting:
            self._waiting = False
            self._host.cancel_timer("control-determination")

    def on_wanted(self) -> None:
        """A process has asked for a coordinator and got an answer, or has become a child here."""
        self._wanted = True

    def run(self) -> None:
        """The periodic execution. A timer that runs is left alone: it is checked again when it has run out."""
        hierarchy = self._control.hierarchy
        if self._waiting or hierarchy.in_change():
            return
        appropriateness = self.appropriateness()
        if appropriateness is None:
            return
        if not self._continues(appropriateness, hierarchy.num_coords):
            if not self.is_far():
                return
            # There may be a nearer coordinator by now, even if nobody needs another one.
            appropriateness = Appropriateness.INAPPROPRIATE
        self._waiting = True
        self._wanted = False
        interval = timer_interval(self._options, appropriateness)
        self._host.set_timer("control-determination", draw(self._host.context.random, *interval))

    def on_timeout(self) -> None:
        """The timer has run out: check again. A child asks the coordinators around it first, whose answers are newer
        than what it knows; and where one has appeared nearby, it becomes that one's child."""
        self._waiting = False
        hierarchy = self._control.hierarchy
        if hierarchy.in_change():
            return
        if hierarchy.state is State.CHILD:
            hierarchy.search.begin(Purpose.LOOK)
        elif self._wanted:
            self._host.branch("wanted")
        elif self._still_continues(None):
            hierarchy.become_child()

    def recheck_child(self, num_coords: int | None) -> None:
        """A child has looked around, and there are so many coordinators, by their own account."""
        if self._still_continues(num_coords):
            self._control.hierarchy.become_coordinator(Cause.DETERMINED)

    def _still_continues(self, num_coords: int | None) -> bool:
        appropriateness = self.appropriateness()
        known = self._control.hierarchy.num_coords
        return appropriateness is not None and self._continues(appropriateness, max(known, num_coords or 0))

    # ------------------------------------------------------------------ the tables, for this process
    def appropriateness(self) -> Appropriateness | None:
        """Table 2.2; None where a child has not heard its coordinator yet."""
        hierarchy = self._control.hierarchy
        if hierarchy.state is State.COORDINATOR and hierarchy.own is not None:
            close = self._control.distances.to_close_coordinator() < self._options.coordinator_closeness_seconds
            return of_coordinator(self._options, hierarchy.num_coords, len(hierarchy.own.locals), close)
        joined = hierarchy.joined
        if hierarchy.state is State.CHILD and joined is not None:
            return of_child(self._options, joined.size, self.is_far())
        return None

    def is_far(self) -> bool:
        """Whether this is a child, and its coordinator is far away."""
        hierarchy = self._control.hierarchy
        joined = hierarchy.joined
        return hierarchy.state is State.CHILD and joined is not None and joined.head.hops > self._options.boundary_ttl

    def _continues(self, appropriateness: Appropriateness, num_coords: int) -> bool:
        """Table 2.3."""
        if self._control.hierarchy.state is State.CHILD:
            return child_continues(self._options, appropriateness, num_coords)
        return coordinator_continues(self._options, appropriateness, num_coords)
