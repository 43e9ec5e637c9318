"""Process group membership (chapter 5): the groups of a process, what its application wants of them, and whose packets
are whose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ordercast.core import Context, GroupId, Part, SiteId, UsageError, WireError
from ordercast.core.effects import Credit, ExitGroup, JoinChannel, LeaveChannel
from ordercast.core.events import Arrival, JoinRequested, LeaveRequested, RoleChosen
from ordercast.core.tables import nearest
from ordercast.protocols.intergroup.control import CutReport
from ordercast.protocols.intergroup.membership.member import Member
from ordercast.protocols.intergroup.membership.options import MembershipOptions
from ordercast.protocols.intergroup.membership.packets import (
    EMPTY,
    MC,
    NOWHERE,
    RTC,
    SENDERS_MAX,
    Numbers,
    PFailBlock,
    PJoin,
    ProxyRequest,
    RecInfo,
    SponsorAnswer,
    SponsorRequest,
    ViewAnswer,
    ViewRequest,
    check_answer,
    check_lives,
    check_mc,
    check_numbers,
    check_own,
    check_pjoin,
)
from ordercast.protocols.intergroup.membership.roles import AS_NEEDED, OUT, RECEIVER, SENDER
from ordercast.protocols.intergroup.membership.states import BRANCHES, LED, State
from ordercast.protocols.intergroup.options import check_service
from ordercast.protocols.intergroup.packets import ViewId, check_time
from ordercast.protocols.intergroup.senders import SenderGroup
from ordercast.protocols.parts.names import NAME_CHARACTERS_MAX

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.dynamic import DynamicInterGroup
    from ordercast.protocols.intergroup.group import ProcessGroup

ROLES = (SENDER, RECEIVER)
LINGER = 12
"""Periods of the membership timer for which a process that has left a group answers those who miss something."""


class Membership(Part):
    """The membership of all groups of a process."""

    packets = (
        PJoin,
        PFailBlock,
        RecInfo,
        RTC,
        MC,
        ViewRequest,
        ViewAnswer,
        SponsorRequest,
        SponsorAnswer,
        ProxyRequest,
    )
    timers = ("membership",)
    branches = (
        *BRANCHES,
        *("suspected", "suspected-wrongly", "foreign", "invited", "stale", "said-again", "asleep", "view-over"),
        *("blocked-out", "unblocked-again"),
        *("consensus", "holes-told", "given-up", "failed-by-another", "cut-not-awaited", "recovered", "rolled-back"),
        *("accused", "accuser-failed", "holder-failed", "cut-lowered", "resigned"),
        *("other-view", "asked-for-view", "asked-for-silent", "not-so-far-yet"),
        *("proxied", "proxied-already", "proxied-again", "idle", "as-needed"),
        *("sponsored", "no-sponsor", "added-already", "changed", "view-installed"),
        "newcomer-crashed",
        *(f"crashed-leading-{state.value}" for state in LED),
    )

    def __init__(self, core: DynamicInterGroup, context: Context) -> None:
        self._core = core
        self.options = cast(MembershipOptions, context.options)
        self._numbers: dict[GroupId, int] = {}
        """Groups in which this process was a sender -> its last number: it goes on from there."""
        self._by_proxy: dict[GroupId, int] = {}
        """Groups -> the number of its last message through a proxy."""
        self._delivered_by_proxy: dict[GroupId, dict[SiteId, int]] = {}
        self._delivered: dict[GroupId, dict[SiteId, int]] = {}
        """Groups in which this process was -> sender -> the last number that was delivered here."""
        self._requests = 0
        self._lingering: dict[GroupId, int] = {}

    # ------------------------------------------------------------------ what the others need
    def next_number(self) -> int:
        """Of a request."""
        self._requests += 1
        return self._requests

    def last_number(self, group: GroupId) -> int:
        """The number of the last message of this process to a group."""
        return self._numbers.get(group, 0)

    def keep_number(self, group: GroupId, seq: int) -> None:
        """The same, when it is no sender any more."""
        self._numbers[group] = seq

    def by_proxy(self, group: GroupId) -> int:
        """The number of the last message of this process to a group through a proxy."""
        return self._by_proxy.get(group, 0)

    def delivered_by_proxy(self, group: GroupId) -> dict[SiteId, int]:
        """Source -> the number of its last message through a proxy that was delivered here, also before this process
        left the group and came again."""
        return self._delivered_by_proxy.setdefault(group, {})

    def keep_by_proxy(self, group: GroupId, number: int) -> None:
        """The same, now."""
        self._by_proxy[group] = number

    def last_delivered(self, group: GroupId, sender: SiteId) -> int:
        """The number of the last message of a sender that was delivered here, in an earlier view or before this process
        left the group and came again. (A receiver has delivered m in the order of its source and is out; it comes back
        while the others still wait with m for a sender that is silent, so that m is behind the point at which it
        begins.)"""
        return self._delivered.get(group, {}).get(sender, 0)

    def keep_delivered(self, group: ProcessGroup) -> None:
        """The streams of a group are about to be forgotten."""
        kept = self._delivered.setdefault(group.name, {})
        for sender, stream in group.streams.items():
            if stream.delivered:
                kept.pop(sender, None)
                kept[sender] = stream.delivered
        for sender in list(kept)[: max(0, len(kept) - SENDERS_MAX)]:
            del kept[sender]

    def branches_of_crash(self) -> Iterator[str]:
        """This process crashes before a group has let it in, or while a repair waits for what it leads."""
        for group in self._core.process_groups.values():
            member = group.member
            if member is None:
                continue
            if member.sponsorship is not None or (member.bootstrap is not None and not member.entered):
                yield "newcomer-crashed"
            if member.repair is not None and member.repair.leads:
                yield f"crashed-leading-{member.repair.state.value}"

    def local_cuts(self) -> dict[GroupId, CutReport]:
        """What this process has of views that end, for the hierarchy."""
        return {
            name: CutReport(group.member.epoch.key, group.member.numbers, group.member.order.last[0], 1)
            for name, group in self._core.process_groups.items()
            if group.member is not None and (group.member.repair is not None or group.member.reception is not None)
        }

    def start(self) -> None:
        """Groups of the configuration."""
        core = self._core
        for group in core.process_groups.values():
            if group.member is not None:
                core.outbox.append(JoinChannel(group.channel))
                group.member.begin_configured(group.senders)
                self._set_timer(group.name)

    def _set_timer(self, group: GroupId) -> None:
        self._core.set_timer(("membership", group), self._core.membership.options.membership_seconds)

    def on_membership_timeout(self, name: GroupId) -> None:
        """Say again what was not answered."""
        group = self._core.process_groups.get(name)
        if group is None or group.member is None:
            return
        self._set_timer(name)
        group.member.tick()
        if name in self._lingering:
            self._lingering[name] -= 1
            if self._lingering[name] <= 0:
                self._forget(group)

    def _forget(self, group: ProcessGroup) -> None:
        core = self._core
        self._lingering.pop(group.name, None)
        core.transmission.end_sending(group)
        core.outbox.append(LeaveChannel(group.channel))
        core.cancel_timer(("membership", group.name))
        core.transmission.leave(group)
        core.stability.leave(group)
        self.keep_delivered(group)
        core.forget_group(group)

    # ------------------------------------------------------------------ the application
    def join(self, event: JoinRequested) -> None:
        """The application wants to be in a group."""
        core, name = self._core, event.group
        if not 0 < len(name) <= NAME_CHARACTERS_MAX:
            raise UsageError(f"{name!r} is no name of a group: use 1 to {NAME_CHARACTERS_MAX} characters")
        role = self._check_role(event.role) if event.role else AS_NEEDED
        service = event.service or core.membership.options.service
        check_service(service)
        group = core.process_groups.get(name)
        if group is not None and name not in self._lingering:
            what = "leaves" if group.member is not None and group.member.wants == OUT else "is in"
            raise UsageError(f"{core.site} {what} {name!r} already, or wants to: it cannot be joined now")
        if group is not None:
            self._forget(group)
        group = core.enter_group(name, service, SenderGroup(NOWHERE, NOWHERE, (), {}))
        member = group.member = Member(core, group, RECEIVER if role == RECEIVER else SENDER, role)
        core.transmission.enter(group)
        core.stability.enter(group)
        core.outbox.append(JoinChannel(group.channel))
        # Whoever has been told nothing sends as it likes, and is refused until this process is in a view as a sender.
        core.outbox.append(Credit(0, group.name))
        member.begin_bootstrap()
        self._set_timer(name)

    @staticmethod
    def _check_role(role: str) -> str:
        if role not in ROLES:
            raise UsageError(f"there is no role {role!r}; {nearest(role, ROLES)}")
        return role

    def leave(self, event: LeaveRequested) -> None:
        """The application wants to be out of a group."""
        member = self._member_in(event.group, "there is nothing to leave")
        member.wants = OUT
        if member.state is State.BOOTSTRAP_RECEIVER and not member.entered:
            member.exit()
        else:
            member.follow_wish()

    def choose_role(self, event: RoleChosen) -> None:
        """The application wants another role."""
        role = self._check_role(event.role)
        member = self._member_in(event.group, "it has no role there")
        member.role = member.wants = role
        self._core.transmission.give_credit(member.group)
        member.follow_wish()

    def _member_in(self, name: GroupId, why: str) -> Member:
        group = self._core.process_groups.get(name)
        if group is None or group.member is None or group.member.wants == OUT:
            raise UsageError(f"{self._core.site} is not in {name!r}: {why}")
        return group.member

    def exit(self, member: Member) -> None:
        """A member is out."""
        name = member.group.name
        self._core.outbox.append(ExitGroup(name))
        self._core.transmission.note_placeless(name, False)
        # Whoever multicasts from now on is told that it is not in the group, and does not wait.
        self._core.outbox.append(Credit(1, name))
        self._lingering[name] = LINGER

    # ------------------------------------------------------------------ packets
    def _on_channel(self, sender: SiteId, arrival: Arrival) -> Member | None:
        group = self._core.group_on(arrival)
        if group.member is None:
            raise WireError(f"the senders of {group.name} are configured")
        return None if sender == self._core.site or group.member.state is State.OUT else group.member

    def _check_own(self, member: Member, epoch: ViewId, last: Numbers) -> None:
        """Nobody in the epoch of this process has more of it than it has sent."""
        if epoch == member.epoch:
            sending, name = member.group.sending, member.group.name
            check_own(self._core.site, last, self.last_number(name) if sending is None else sending.seq)

    def on_pjoin(self, sender: SiteId, packet: PJoin, arrival: Arrival) -> None:
        """Somebody repairs."""
        check_pjoin(packet)
        check_lives(self._core.site, packet.procs)
        member = self._on_channel(sender, arrival)
        if member is not None:
            member.on_pjoin(sender, packet)

    def on_pfail_block(self, sender: SiteId, packet: PFailBlock, arrival: Arrival) -> None:
        """Somebody cannot get a message."""
        check_numbers({packet.proc: packet.proc_seq})
        member = self._on_channel(sender, arrival)
        if member is not None:
            self._check_own(member, packet.epoch, {packet.proc: packet.proc_seq})
            member.on_pfail_block(sender, packet)

    def on_rec_info(self, sender: SiteId, packet: RecInfo, arrival: Arrival) -> None:
        """How far somebody is in its old view."""
        check_numbers({sender: packet.first_seq, **packet.seq_cut})
        check_numbers(packet.times)
        check_time(packet.cut)
        member = self._on_channel(sender, arrival)
        if member is not None:
            self._check_own(member, packet.epoch, packet.seq_cut)
            member.detector.hear(sender)
            if member.repair is not None:
                member.repair.on_rec_info(sender, packet)

    def on_rtc(self, sender: SiteId, packet: RTC, arrival: Arrival) -> None:
        """Somebody is ready."""
        check_numbers({sender: packet.first_seq, **packet.cut.last})
        check_time(packet.time)
        check_time(packet.cut.time)
        check_time(packet.cut.heard)
        check_numbers(packet.proxied)
        member = self._on_channel(sender, arrival)
        if member is None:
            return
        self._check_own(member, packet.epoch, packet.cut.last)
        member.detector.hear(sender)
        if member.repair is not None:
            member.repair.on_rtc(sender, packet)
        elif member.installed is not None and member.installed.proposal == packet.proposal:
            member.say_again(packet.epoch)

    def on_mc(self, sender: SiteId, packet: MC, arrival: Arrival) -> None:
        """A new view."""
        check_mc(packet)
        if sender == self._core.site:
            return
        group = self._core.process_groups.get(packet.group)
        if arrival.channel is not None and self._core.group_on(arrival).name != packet.group:
            raise WireError(f"an MC of {packet.group!r} on {arrival.channel}")
        member = None if group is None or group.member is None or group.member.is_out else group.member
        if member is not None:
            cut = packet.cut_of(member.epoch)
            self._check_own(member, member.epoch, {} if cut is None else cut.last)
            member.on_mc(sender, packet)

    def on_view_request(self, sender: SiteId, packet: ViewRequest, arrival: Arrival) -> None:
        """Somebody looks for a view."""
        core = self._core
        check_time(packet.time)
        group = core.process_groups.get(packet.group)
        member = None if group is None else group.member
        if member is None or group is None:
            return
        core.clock.observe(packet.time, core.now)
        if packet.epoch not in (NOWHERE, EMPTY):
            ended = next((each for each in member.endings if each.cut_of(packet.epoch) is not None), None)
            if ended is not None:
                core.send((sender,), ended)
                return
        if member.state is not State.SENDER or sender in group.streams:
            return
        member.hold(sender)
        first = {each: stream.ordered + 1 for each, stream in group.streams.items()}
        answer = ViewAnswer(
            group.name,
            packet.attempt,
            group.senders.epoch,
            group.senders.view,
            group.senders.members,
            member.came,
            first,
            member.order.reached,
            member.left,
            member.order.count,
            member.proxied,
        )
        core.send((sender,), answer)

    def on_view_answer(self, sender: SiteId, packet: ViewAnswer, arrival: Arrival) -> None:
        """A sender tells its view."""
        check_answer(packet)
        group = self._core.process_groups.get(packet.group)
        member = None if group is None else group.member
        if member is None:
            return
        if member.bootstrap is not None:
            member.bootstrap.on_answer(packet)
        elif member.reception is not None and packet.epoch != member.epoch:
            member.reception.on_other_view()
        elif member.state is State.RECEIVER and packet.epoch == member.epoch:
            member.on_left(packet.left)

    def on_proxy_request(self, sender: SiteId, packet: ProxyRequest, arrival: Arrival) -> None:
        """Somebody who is no sender multicasts through this process."""
        check_numbers({sender: packet.number})
        check_time(packet.time)
        group = self._core.process_groups.get(packet.group)
        if group is not None and group.member is not None and sender != self._core.site:
            group.member.proxying.on_request(sender, packet)

    def on_sponsor_request(self, sender: SiteId, packet: SponsorRequest, arrival: Arrival) -> None:
        """Somebody wants to be a sender."""
        check_numbers({sender: packet.first_seq})
        group = self._core.process_groups.get(packet.group)
        member = None if group is None else group.member
        if member is not None and member.state is State.SENDER and packet.epoch == member.epoch:
            member.changes.add(sender, packet.first_seq)
            self._core.send((sender,), SponsorAnswer(packet.group, packet.epoch))

    def on_sponsor_answer(self, sender: SiteId, packet: SponsorAnswer, arrival: Arrival) -> None:
        """A sponsor has said that it will do so."""
        group = self._core.process_groups.get(packet.group)
        member = None if group is None else group.member
        if member is not None and member.sponsorship is not None and packet.epoch == member.epoch:
            member.sponsorship.on_confirmed()
