"""InterGroup with sender groups that change (chapter 5): processes come, go, crash, are cut off and return, and every
application sees views. With fixed views it is the InterGroup of chapters 2 to 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ordercast.core import LATER, PROXY, Context, Contract, GroupId, Multicast, Options, SiteId
from ordercast.core.events import JoinRequested, LeaveRequested, RoleChosen
from ordercast.protocols.intergroup.arrangement import DYNAMIC_ARRANGEMENT
from ordercast.protocols.intergroup.control import CutReport
from ordercast.protocols.intergroup.group import ProcessGroup
from ordercast.protocols.intergroup.membership import ROLES, Membership
from ordercast.protocols.intergroup.membership.member import Member
from ordercast.protocols.intergroup.membership.options import CHANGE, MembershipOptions
from ordercast.protocols.intergroup.membership.roles import RECEIVER, SENDER
from ordercast.protocols.intergroup.membership.services import IN_VIEWS
from ordercast.protocols.intergroup.membership.states import State
from ordercast.protocols.intergroup.packets import TIMESTAMP_MAX
from ordercast.protocols.intergroup.protocol import InterGroup
from ordercast.protocols.intergroup.senders import SenderGroup
from ordercast.protocols.intergroup.services import GroupTimestamp

_VIEWS = ("view-agreement", "transitional-set", "virtual-synchrony")
_FIXED = msgspec.structs.replace(
    InterGroup.contract,
    branches=tuple(dict.fromkeys((*InterGroup.contract.branches, *Membership.branches))),
    options=MembershipOptions,
)
_CHANGING = msgspec.structs.replace(
    _FIXED,
    guarantees=(*_FIXED.guarantees, *_VIEWS),
    faults=(*_FIXED.faults, "crash"),
    crash="the others go on without it in a new view; whoever comes back is another process",
    dynamic=True,
    another_process=True,
    minority_may_die=True,
    partitionable=True,
    roles=ROLES,
    services={
        name: (*promises, "virtual-synchrony") if name == GroupTimestamp.name else promises
        for name, promises in _FIXED.services.items()
    },
)


def _adapted(contract: Contract, options: Options) -> Contract:
    """What is promised where sender groups change, and where they do not."""
    if isinstance(options, MembershipOptions) and options.views == CHANGE:
        return contract
    return InterGroup.contract.adapted(_FIXED, options)


class DynamicInterGroup(InterGroup):
    """Senders come and go; each view has the same messages for all who go on from it together."""

    contract = msgspec.structs.replace(_CHANGING, adapted=_adapted)
    arrangement = DYNAMIC_ARRANGEMENT
    parts = (*InterGroup.parts, Membership)

    def __init__(self, context: Context) -> None:
        # Before anything else: a configured group that is entered has a view.
        self.membership = Membership(self, context)
        super().__init__(context)
        self.attach(self.membership)

    @property
    def _changes(self) -> bool:
        """Whether views change here."""
        return self.membership.options.views == CHANGE

    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        """The groups in which this process is, with their senders and itself; those of the configuration, where
        nothing changes."""
        if not self._changes:
            return super().groups
        return {
            name: group.known
            for name, group in self.process_groups.items()
            if group.member is not None and group.member.entered and group.member.state is not State.OUT
        }

    # ------------------------------------------------------------------ groups
    def _follow_views(self, group: ProcessGroup) -> None:
        if self._changes:
            group.service = IN_VIEWS[self.options.service](self, group, None)
            group.member = Member(self, group, SENDER if group.own is not None else RECEIVER)

    def _start_views(self) -> None:
        self.membership.start()

    def _local_cuts(self) -> Mapping[GroupId, CutReport]:
        return self.membership.local_cuts()

    def _rank(self, sender: SiteId) -> tuple[int, ...]:
        # Where senders change, no file names all of them.
        return tuple(sender.encode()) if self._changes else super()._rank(sender)

    def enter_group(self, name: GroupId, service: str, senders: SenderGroup) -> ProcessGroup:
        """A group that comes and goes."""
        group = self._add(ProcessGroup(name, self.site, (), senders, self.options))
        group.service = IN_VIEWS[service](self, group, None)
        group.by_proxy = self.membership.delivered_by_proxy(name)
        return group

    def forget_group(self, group: ProcessGroup) -> None:
        """It is gone. Its channel is known for good: packets that are under way come later, and are no errors. (So
        what was early, and what waited for its turn, would be kept for good, too.)"""
        del self.process_groups[group.name]
        group.streams, group.others = {}, ()
        if group.member is not None:
            group.member.order.queue.clear()
        group.buffer.clear(TIMESTAMP_MAX)
        self.repair.forget_group(group)

    def branches_of_crash(self) -> Iterator[str]:
        """What it interrupts of the membership; of fixed views, nothing."""
        return self.membership.branches_of_crash()

    # ------------------------------------------------------------------ what the application wants
    def announcement(self, multicast: Multicast) -> str | None:
        """What goes through a proxy is said to; what waits until this process is a sender is multicast then."""
        group = self.process_groups.get(multicast.groups[0])
        member = None if group is None else group.member
        if group is None or member is None:
            return None
        if member.multicasts_by_proxy:
            return PROXY
        # Also when that was at once, for then the view begins in the very step; and behind others that wait.
        if not member.multicasts_later(multicast.id):
            return None
        if group.sending is not None and group.sending.waiting:
            member.unannounced.add(multicast.id)
        return LATER

    def on_join_requested(self, event: JoinRequested) -> None:
        """The application wants to be in a group."""
        if self._changes:
            self.membership.join(event)
        else:
            super().on_join_requested(event)

    def on_leave_requested(self, event: LeaveRequested) -> None:
        """The application wants to be out of a group."""
        if self._changes:
            self.membership.leave(event)
        else:
            super().on_leave_requested(event)

    def on_role_chosen(self, event: RoleChosen) -> None:
        """The application wants another role in a group."""
        if self._changes:
            self.membership.choose_role(event)
        else:
            super().on_role_chosen(event)
