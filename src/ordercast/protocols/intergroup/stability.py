"""Buffer management (3.5, 4.4): what this process acknowledges, and what becomes of what everyone has acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ordercast.core import GroupId, Part, SiteId
from ordercast.protocols.intergroup.control import GroupReport

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.protocol import InterGroup


class GroupStability(msgspec.Struct):
    """What is known of one group."""

    expected: int
    """So many have to be counted before their acknowledgement counts."""
    stable: int = 0
    """Everyone has finished what has a smaller timestamp."""
    clearing: int = 0
    """What is stable and will be cleared when the timer runs out; 0: no timer runs."""
    short: int = -1
    """The largest number counted while it was too small; -1: it is not."""
    full: bool = False
    """Whether everyone has been counted before."""
    left_out: bool = False
    """Whether somebody was not counted after that, or twice, or was given up: messages may have become stable without
    it."""
    holder: SiteId = ""
    """Who held the acknowledgement back, as the hierarchy has said last."""


class Stability(Part):
    """Acknowledgements of all groups, down into the hierarchy and back from it."""

    timers = ("clear", "recount")
    branches = ("stable", "cleared", "too-few-counted", "recounted")

    def __init__(self, core: InterGroup) -> None:
        self._core = core
        self._groups: dict[GroupId, GroupStability] = {}

    def start(self) -> None:
        """Everyone who is in a group is expected to be counted."""
        for name, group in self._core.process_groups.items():
            self._groups[name] = GroupStability(expected=len(group.members))

    def enter(self, group: ProcessGroup) -> None:
        """This process is in a group that comes and goes."""
        self._groups[group.name] = GroupStability(expected=1)

    def leave(self, group: ProcessGroup) -> None:
        """It is so no longer."""
        self._groups.pop(group.name, None)
        self._core.cancel_timer(("clear", group.name))
        self._core.cancel_timer(("recount", group.name))

    def note_view(self, group: ProcessGroup) -> None:
        """So many senders are to be counted at the least."""
        known = self._groups.get(group.name)
        if known is not None:
            known.expected = max(known.expected, len(group.senders.members))

    # ------------------------------------------------------------------ down: what we acknowledge
    def local_report(self) -> dict[GroupId, GroupReport]:
        """How far this process is in each group, and who holds it back there."""
        return {name: GroupReport(*self._acknowledge(group), 1) for name, group in self._core.process_groups.items()}

    def _acknowledge(self, group: ProcessGroup) -> tuple[int, SiteId]:
        """This process has finished with what has a smaller timestamp.

        Never more than its clock says, whatever the service: whoever chooses a reliable one tells its clock in the
        handshake, the source's next message is later than that, and nobody can have cleared it on this process's word.
        """
        core = self._core
        time, holder = core.clock.read(core.now), core.site
        for stream in group.streams.values():
            if stream.state != "idle" and stream is not group.own and stream.passed < time - 1:
                # A sender that is silent holds us up; one of which we lack something does not.
                silent = stream.state == "active" and stream.high <= stream.last
                time, holder = stream.passed + 1, stream.sender if silent else core.site
            if stream.unread and stream.unread[0] < time:
                time, holder = stream.unread[0], core.site
        if group.member is not None:
            waiting = group.member.order.oldest()
            for held in group.member.holds():
                time = min(time, held)
        else:
            waiting = core.order_of(group).oldest(group.name)
        if waiting is not None and waiting < time:
            time = waiting
        return time, holder

    # ------------------------------------------------------------------ back: what everyone acknowledges
    def on_system_report(self, name: GroupId, report: GroupReport) -> None:
        """What the hierarchy says of a group: everyone has finished what has a smaller timestamp."""
        group, known = self._core.process_groups.get(name), self._groups.get(name)
        if group is None or known is None:
            return
        known.holder = report.holder
        if not self._count(name, known, report.receivers):
            return
        core = self._core
        if report.timestamp > core.clock.read(core.now):
            # We have never acknowledged that: it is no minimum over us. (No sound process says so, as far as we know;
            # it is counted, and no branch that a campaign can reach.)
            core.branch("acknowledgement-ahead")
            return
        if report.timestamp <= known.stable:
            return
        core.branch("stable")
        known.stable = report.timestamp
        core.transmission.note_stable(group, known.stable)
        if not known.clearing:
            self._clear_later(name, known)

    def _clear_later(self, name: GroupId, known: GroupStability) -> None:
        """Keep it for one more round of the hierarchy.

        (Cleared at once: a child moves, its old coordinator has dropped it, the new one has not heard it yet; the
        minimum rises without it, and what it misses is gone.)
        """
        known.clearing = known.stable
        self._core.set_timer(("clear", name), self._core.control.round_seconds())

    def on_clear_timeout(self, name: GroupId) -> None:
        """The round is over."""
        core = self._core
        group, known = core.process_groups.get(name), self._groups.get(name)
        if group is None or known is None:
            return
        core.branch("cleared")
        group.buffer.clear(known.clearing)
        core.repair.note_cleared(group)
        core.transmission.give_credit(group)
        cleared, known.clearing = known.clearing, 0
        if known.stable > cleared:
            self._clear_later(name, known)

    def _count(self, name: GroupId, known: GroupStability, receivers: int) -> bool:
        """Whether everyone is counted who should be.

        A minimum over too few is none: at the start each process is alone in its hierarchy, and has everything that it
        has sent itself. Whoever is not counted for as long as it takes to be forgotten is not waited for.
        """
        core = self._core
        group = core.process_groups[name]
        members = len(group.members) if group.member is None else receivers
        if receivers >= known.expected:
            known.full = True
            # Whoever moves may be counted twice for a moment, and hide somebody who is not counted at all.
            known.left_out = known.left_out or receivers > members
            known.expected = min(receivers, members)
            if known.short >= 0:
                known.short = -1
                core.cancel_timer(("recount", name))
            return True
        core.branch("too-few-counted")
        known.left_out = known.left_out or known.full
        if known.short < 0:
            core.set_timer(("recount", name), core.options.stale_seconds)
        known.short = max(known.short, receivers)
        return False

    def on_recount_timeout(self, name: GroupId) -> None:
        """Those who are not counted have been silent for long: nobody waits for them any more."""
        known = self._groups.get(name)
        if known is None:
            return
        self._core.branch("recounted")
        known.expected, known.short = max(known.short, 1), -1
        known.left_out = True

    def somebody_was_left_out(self, group: ProcessGroup) -> bool:
        """Whether a request for something that was cleared can be in earnest. (Where everyone was counted all the time,
        it was delayed on its way, and whoever sent it has the message by now.)"""
        known = self._groups.get(group.name)
        return known is not None and known.left_out

    def whom_we_wait_for(self, group: ProcessGroup) -> str:
        """Who holds the acknowledgement of a group back."""
        known = self._groups[group.name]
        if known.short >= 0:
            return f"of {known.expected} processes in {group.name} only {known.short} are heard of"
        if not known.holder:
            return f"nothing is known yet of who has taken what in {group.name}"
        return f"{known.holder} has not taken what was sent to {group.name}"
