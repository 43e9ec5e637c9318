"""A tiny dynamic protocol, to try changes with: one site keeps the lists of all groups and orders everything. It is
right as long as packets come, in order, and that site stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ordercast.core import (
    Arrangement,
    Context,
    Contract,
    GroupId,
    MessageId,
    Multicast,
    Packet,
    Protocol,
    SiteId,
    Tuning,
    UsageError,
    no_options,
)
from ordercast.core.effects import EnterGroup, ExitGroup, InstallView, JoinRefused, Rollback
from ordercast.core.events import Arrival, Discovered, JoinRequested, LeaveRequested, MulticastRequested

CLOSED = "closed"
"""A group that nobody may join."""


class Ask(Packet, frozen=True):
    """What a member wants ordered: a message, or that it joins or leaves."""

    group: GroupId
    origin: SiteId
    join: bool = False
    multicast: Multicast | None = None

    def served(self) -> tuple[MessageId, ...]:
        return () if self.multicast is None else (self.multicast.id,)


class Tell(Packet, frozen=True):
    """What comes next in a group: a message, or another list of members."""

    group: GroupId
    number: int
    members: tuple[SiteId, ...] = ()
    messages: int = 0
    multicast: Multicast | None = None

    def served(self) -> tuple[MessageId, ...]:
        return () if self.multicast is None else (self.multicast.id,)


class Desk(Protocol):
    """One site keeps the lists: the first of those that a file names, or whoever has found nobody. The others ask whom
    they have found first, who passes it on."""

    contract = Contract(
        "desk",
        "",
        "",
        (
            "integrity",
            "no-duplication",
            "multiple-source-order",
            "uniform-agreement",
            "termination",
        ),
        ("pause", "skew"),
        "",
        ("joined", "left", "last-left"),
        several_groups=False,
        dynamic=True,
    )
    arrangement = Arrangement(
        order="total",
        crash="everyone",
        campaign=Tuning(options=no_options, settle=3.0, networks={"point-to-point": 1}),
        live=no_options,
    )
    packets = (Ask, Tell)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.found: list[Discovered] = []
        self.lists = {group: members for group, members in context.groups.items() if self.site in members}
        """Of the groups in which this site is."""
        self.all_lists = dict(context.groups)
        self.numbers: dict[GroupId, int] = {}
        self.messages: dict[GroupId, int] = {}
        self.keeper = context.sites[0] if len(context.sites) > 1 else ""
        self.waiting: list[Ask] = []

    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        return self.lists

    def on_discovered(self, event: Discovered) -> None:
        self.found.append(event)
        if not self.keeper and (event.settled or (event.sites and len(self.found) == 1)):
            self.keeper = self.site if event.settled else event.sites[0]
            waiting, self.waiting = self.waiting, []
            for ask in waiting:
                self.send((self.keeper,), ask)

    def ask(self, ask: Ask) -> None:
        if self.keeper:
            self.send((self.keeper,), ask)
        else:
            self.waiting.append(ask)

    def on_join_requested(self, event: JoinRequested) -> None:
        if event.group in self.lists:
            raise UsageError(f"{self.site} is in {event.group} already")
        if event.group == CLOSED:
            self.outbox.append(JoinRefused(event.group, "nobody may"))
        else:
            self.ask(Ask(event.group, self.site, join=True))

    def on_leave_requested(self, event: LeaveRequested) -> None:
        if event.group not in self.lists:
            raise UsageError(f"{self.site} is not in {event.group}")
        self.ask(Ask(event.group, self.site))

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        (group,) = event.multicast.groups
        self.ask(Ask(group, self.site, multicast=event.multicast))

    def on_ask(self, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
        if self.keeper != self.site:
            self.ask(packet)
            return
        group, origin, before = packet.group, packet.origin, self.all_lists.get(packet.group, ())
        number = self.numbers[group] = self.numbers.get(group, 0) + 1
        if packet.multicast is not None:
            self.messages[group] = self.messages.get(group, 0) + 1
            self.send(before, Tell(group, number, multicast=packet.multicast))
            return
        others = [site for site in before if site != origin]
        members = tuple(sorted((*others, origin) if packet.join else others))
        self.all_lists[group] = members
        self.branch("joined" if packet.join else "left" if members else "last-left")
        self.send(tuple(sorted({*before, *members})), Tell(group, number, members, self.messages.get(group, 0)))

    def on_tell(self, sender: SiteId, packet: Tell, arrival: Arrival) -> None:
        group = packet.group
        if packet.multicast is not None:
            if group in self.lists:
                self.deliver(packet.multicast)
            return
        if self.site not in packet.members:
            if self.lists.pop(group, None) is not None:
                self.outbox.append(ExitGroup(group))
            return
        if group not in self.lists:
            self.outbox.append(EnterGroup(group, packet.messages))
        self.lists[group] = packet.members
        self.outbox.append(InstallView(f"{group}-{packet.number}", packet.members, (), (group,)))


class Repenting(Desk):
    """With every third message of a group its members take the two before it back, and deliver all three the other way
    round."""

    contract = replace(
        Desk.contract,
        name="repenting",
        guarantees=("integrity", "no-duplication", "uniform-agreement", "termination", "R3"),
        dynamic=False,
    )
    arrangement = replace(Desk.arrangement)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.last: list[Multicast] = []

    def deliver(self, multicast: Multicast, **details: Any) -> None:
        super().deliver(multicast)
        self.last.append(multicast)
        if len(self.last) == 3:
            back, self.last = self.last, []
            self.outbox.pop()
            for each in reversed(back[:2]):
                self.outbox.append(Rollback(each))
            for each in reversed(back):
                super().deliver(each)
