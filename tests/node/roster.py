"""A small dynamic protocol for tests of the node: who founds a group orders it, for networks that lose nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ordercast import protocols
from ordercast.core import (
    Arrangement,
    Context,
    Contract,
    GroupId,
    Multicast,
    Packet,
    Protocol,
    SiteId,
    Tuning,
    UsageError,
    WireError,
    no_options,
)
from ordercast.core.effects import (
    Activate,
    Credit,
    EnterGroup,
    ExitGroup,
    InstallView,
    JoinRefused,
    ServiceUnavailable,
)
from ordercast.core.events import (
    Arrival,
    Discovered,
    JoinRequested,
    LeaveRequested,
    MulticastRequested,
    RemovalRequested,
    RoleChosen,
    ServiceChosen,
    Started,
)


class Ask(Packet, frozen=True):
    """Who is in the group?"""

    group: GroupId


class Unknown(Packet, frozen=True):
    """I am not its founder."""

    group: GroupId


class Members(Packet, frozen=True):
    """Who is in it from here on, and how many messages were ordered before."""

    group: GroupId
    number: int
    members: tuple[SiteId, ...]
    offset: int


class Leave(Packet, frozen=True):
    """I want to be out."""

    group: GroupId


class Submit(Packet, frozen=True):
    """To be ordered."""

    multicast: Multicast


class Ordered(Packet, frozen=True):
    """The group's next message."""

    multicast: Multicast


class Roster(Protocol):
    """The founder of a group is its first member, and stays."""

    contract = Contract("roster", "", "", (), (), "", (), dynamic=True, services={"slow": ()})
    arrangement = Arrangement(order="", crash="", campaign=Tuning(options=no_options, settle=1.0), live=no_options)
    packets = (Ask, Unknown, Members, Leave, Submit, Ordered)
    timers = ("again",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.mine: dict[GroupId, Members] = {}
        self.others: tuple[SiteId, ...] = ()
        self.settled = False
        self.removed: set[SiteId] = set()
        self.asked: dict[GroupId, set[SiteId]] = {}
        """Groups that this site wants to be in, and who is not their founder."""

    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        return dict(self.context.groups) | {name: roster.members for name, roster in self.mine.items()}

    @property
    def sites(self) -> tuple[SiteId, ...]:
        return tuple(sorted({self.site, *self.others, *self.context.sites} - self.removed))

    def on_started(self, event: Started) -> None:
        for group, members in self.context.groups.items():
            if self.site in members:
                self.mine[group] = Members(group, 1, members, 0)

    # ------------------------------------------------------------------ in and out
    def on_discovered(self, event: Discovered) -> None:
        self.others, self.settled = event.sites, event.settled
        for group in tuple(self.asked):
            self.seek(group)

    def on_join_requested(self, event: JoinRequested) -> None:
        if event.group in self.mine or event.group in self.asked:
            raise UsageError(f"{self.site} is in {event.group}")
        if event.role not in ("", "reader"):
            raise UsageError(f"roster has the role reader: {event.role!r} cannot be chosen")
        if event.group == "full":
            self.outbox.append(JoinRefused("full", "it is full"))
            return
        self.asked[event.group] = set()
        self.seek(event.group)

    def seek(self, group: GroupId) -> None:
        self.send(tuple(site for site in self.others if site not in self.asked[group]), Ask(group))
        self.set_timer("again", 0.1)
        self.found(group)

    def on_again_timeout(self) -> None:
        for group in tuple(self.asked):
            self.seek(group)

    def found(self, group: GroupId) -> None:
        if self.settled and group != "nobody" and self.asked[group] >= set(self.others):
            self.enter(Members(group, 1, (self.site,), 0))

    def on_ask(self, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
        roster = self.mine.get(packet.group)
        if roster is None or roster.members[0] != self.site:
            self.send((sender,), Unknown(packet.group))
        elif sender not in roster.members:
            self.change(Members(packet.group, roster.number + 1, (*roster.members, sender), roster.offset), ())

    def on_unknown(self, sender: SiteId, packet: Unknown, arrival: Arrival) -> None:
        if packet.group in self.asked:
            self.asked[packet.group].add(sender)
            self.found(packet.group)

    def change(self, roster: Members, also: tuple[SiteId, ...]) -> None:
        self.send((*roster.members[1:], *also), roster)
        self.enter(roster)

    def on_members(self, sender: SiteId, packet: Members, arrival: Arrival) -> None:
        if self.site in packet.members:
            self.enter(packet)
        elif self.mine.pop(packet.group, None) is not None:
            self.outbox.append(ExitGroup(packet.group))

    def enter(self, roster: Members) -> None:
        group, members = roster.group, roster.members
        before = self.mine.get(group)
        self.mine[group] = roster
        self.asked.pop(group, None)
        if before is None:
            self.outbox.append(EnterGroup(group, roster.offset))
        self.outbox.append(
            InstallView(str(roster.number), tuple(sorted(members)), () if before is None else before.members, (group,))
        )
        if before is None:
            self.outbox.append(Credit(0 if group.startswith("slow") else 4, group))

    def on_leave_requested(self, event: LeaveRequested) -> None:
        group = event.group
        if self.asked.pop(group, None) is not None:
            self.outbox.append(ExitGroup(group))
        elif group not in self.mine:
            raise UsageError(f"{self.site} is not in {group}")
        elif self.mine[group].members == (self.site,):
            del self.mine[group]
            self.outbox.append(ExitGroup(group))
        elif self.mine[group].members[0] == self.site:
            raise UsageError("the founder leaves last")
        else:
            self.send((self.mine[group].members[0],), Leave(group))

    def on_leave(self, sender: SiteId, packet: Leave, arrival: Arrival) -> None:
        roster = self.mine[packet.group]
        members = tuple(site for site in roster.members if site != sender)
        self.change(Members(packet.group, roster.number + 1, members, roster.offset), (sender,))

    def on_removal_requested(self, event: RemovalRequested) -> None:
        self.removed.add(event.site)
        for group, roster in tuple(self.mine.items()):
            if event.site in roster.members and roster.members[0] == self.site:
                members = tuple(site for site in roster.members if site != event.site)
                self.change(Members(group, roster.number + 1, members, roster.offset), ())

    # ------------------------------------------------------------------ messages
    def on_multicast_requested(self, event: MulticastRequested) -> None:
        (group,) = event.multicast.groups
        if group not in self.mine:
            raise UsageError(f"{self.site} is not in {group}")
        if self.mine[group].members[0] == self.site:
            self.order(event.multicast)
        else:
            self.send(self.mine[group].members[:1], Submit(event.multicast))
        self.outbox.append(Credit(4, group))

    def on_submit(self, sender: SiteId, packet: Submit, arrival: Arrival) -> None:
        self.order(packet.multicast)

    def order(self, multicast: Multicast) -> None:
        (group,) = multicast.groups
        if group not in self.mine:
            raise WireError(f"no group {group}")
        self.send(self.mine[group].members[1:], Ordered(multicast))
        self.take(multicast)

    def on_ordered(self, sender: SiteId, packet: Ordered, arrival: Arrival) -> None:
        if packet.multicast.groups[0] in self.mine:
            self.take(packet.multicast)

    def take(self, multicast: Multicast) -> None:
        (group,) = multicast.groups
        roster = self.mine[group]
        self.mine[group] = Members(group, roster.number, roster.members, roster.offset + multicast.count)
        self.deliver(multicast)

    # ------------------------------------------------------------------ roles and services
    def on_role_chosen(self, event: RoleChosen) -> None:
        if event.role not in ("", "waiter"):
            raise UsageError(f"roster has the role waiter: {event.role!r} cannot be chosen")
        self.block("role", "somebody waits" if event.role else "", event.group)

    def on_service_chosen(self, event: ServiceChosen) -> None:
        for source in event.sources or (None,):
            if event.service == "slow":
                self.outbox.append(Activate(event.group, "slow", source))
            else:
                self.outbox.append(ServiceUnavailable(event.group, event.service, source, "roster is slow"))


@contextmanager
def known() -> Iterator[None]:
    """The protocol can be chosen by its name."""
    own: dict[str, Any] = vars(protocols)["_OWN"]
    own["roster"] = "tests.node.roster:Roster"
    try:
        yield
    finally:
        del own["roster"]
