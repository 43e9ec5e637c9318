"""Protocol 5 (Spauster 7.2.2): the messages of a group pass down a tree; when its root fails, the next in rank goes
on."""

from __future__ import annotations

from typing import ClassVar, cast

from ordercast.core import (
    AtRest,
    Context,
    Contract,
    GroupId,
    InvariantViolation,
    Packet,
    Protocol,
    SiteId,
    UsageError,
    WireError,
)
from ordercast.core.effects import Credit, Replay
from ordercast.core.events import Arrival, MulticastRequested, Recovered, Started
from ordercast.protocols.tree_5.arrangement import TREE_5
from ordercast.protocols.tree_5.bounds import promise
from ordercast.protocols.tree_5.member import Member
from ordercast.protocols.tree_5.options import Tree5Options
from ordercast.protocols.tree_5.packets import (
    Acknowledge,
    Answer,
    Heartbeat,
    Logged,
    NewRoot,
    NewTree,
    Null,
    Pass,
    Progress,
    Request,
    RequestOfSource,
    Sent,
    Submit,
    Taken,
)
from ordercast.protocols.tree_5.source import Source


class Tree5(Protocol):
    """Each group is a tree of its own; a site takes part in those of its groups, and may be a source for any."""

    contract = Contract(
        name="tree-5",
        title="a tree that orders the messages of a group and goes on when its root fails for good",
        paper="Spauster 1991, 7.2.2 (Protocol 5)",
        guarantees=(
            "integrity",
            "no-duplication",
            "single-source-order",
            "group-source-order",
            "R2-multiple-source",
            "agreement",
            "termination",
            "P2",
            "P4",
            "Q1",
        ),
        faults=("duplication", "delay"),
        crash="the next in rank takes over when the root crashes; nobody else may crash, and nobody comes back",
        branches=(
            "old",
            "early",
            "early-from-source",
            "null-found-gap",
            "resent-by-source",
            "gap-asked",
            "took-over",
            "reported",
            "caught-up",
            "helped",
            "opened",
            "told-new-root",
            "blocked",
        ),
        options=Tree5Options,
        at_rest=lambda sites, groups, options: AtRest(
            packets=groups * sites * (1 / options.heartbeat_seconds + 1 / options.delta),
            entries=45 + 5 * sites,
            credit=options.log_messages_max,
        ),
        promised=promise,
        successive_deaths=True,
        several_groups=False,
    )
    arrangement = TREE_5
    packets: ClassVar[tuple[type[Packet], ...]] = (
        Submit,
        Null,
        RequestOfSource,
        Acknowledge,
        NewRoot,
        Pass,
        Heartbeat,
        Taken,
        Request,
        NewTree,
        Answer,
    )
    records = (Logged, Sent, Progress)
    timers = ("null", "heartbeat", "silence", "open")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(Tree5Options, context.options)
        self.members = {
            group: self.make_member(group, members) for group, members in context.groups.items() if self.site in members
        }
        self.sources = {group: Source(self, group, members[0]) for group, members in context.groups.items()}
        self.back = False
        """Whether this site has failed: then it stays out."""

    def make_member(self, group: GroupId, ranks: tuple[SiteId, ...]) -> Member:
        """This site's part in a group."""
        return Member(self, group, ranks)

    def sources_of(self, group: GroupId) -> tuple[SiteId, ...]:
        """Those who must know the root."""
        return self.options.sources or self.context.sites

    def _member(self, group: GroupId, sender: SiteId) -> Member | None:
        """The state that a packet of the tree speaks to; None where this site takes part no more."""
        member = self.members.get(group)
        if member is None or sender not in self.context.sites:
            raise WireError(f"{self.site} has no part in a tree of {group!r} with {sender}")
        return None if self.back or member.out_since is not None else member

    # ------------------------------------------------------------------ the source
    def on_started(self, event: Started) -> None:
        for member in self.members.values():
            member.start()
        self.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        if self.options.sources and self.site not in self.options.sources:
            raise UsageError(f"{self.site} is not among the sources {', '.join(self.options.sources)}")
        if self.back:
            raise UsageError(f"{self.site} has failed, and tree-5 lets nobody come back: take another name")
        self.sources[event.multicast.groups[0]].multicast(event.multicast)
        if self.room() <= 0:
            self.branch("blocked")
            self.give_credit()

    def on_null_timeout(self, group: GroupId) -> None:
        self.sources[group].announce()
        self._say_whether_full()

    def on_request_of_source(self, sender: SiteId, packet: RequestOfSource, arrival: Arrival) -> None:
        source = self.sources.get(packet.group)
        if source is not None and sender in self.context.groups[packet.group]:
            source.send_again(sender, packet.missing)

    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        source = self.sources.get(packet.group)
        if source is not None and sender in self.context.groups[packet.group]:
            source.acknowledge(packet.number)
            self._say_whether_full()
            self.give_credit()

    def on_new_root(self, sender: SiteId, packet: NewRoot, arrival: Arrival) -> None:
        source = self.sources.get(packet.group)
        if source is not None and sender in self.context.groups[packet.group]:
            source.turn_to(sender, packet.epoch)

    def room(self) -> int:
        """How many more messages the log takes."""
        streams = self.sources.values()
        if sum(stream.kept_bytes for stream in streams) >= self.options.log_bytes_max:
            return 0
        return max(0, self.options.log_messages_max - sum(len(stream.kept) for stream in streams))

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        self.outbox.append(Credit(0 if self.back else self.room()))

    def _say_whether_full(self) -> None:
        waiting = next((stream for stream in self.sources.values() if stream.kept), None)
        if self.room() > 0 or waiting is None:
            self.block("log", "")
        else:
            self.block("log", f"the log of {self.site} is full: waiting for {waiting.group} behind {waiting.to}")

    # ------------------------------------------------------------------ the member
    def on_submit(self, sender: SiteId, packet: Submit, arrival: Arrival) -> None:
        member = self._member(packet.group, sender)
        if packet.multicast.id.source != sender:
            raise WireError(f"{sender} submits a message of {packet.multicast.id.source}")
        if member is not None:
            member.accept(sender, packet)

    def on_null(self, sender: SiteId, packet: Null, arrival: Arrival) -> None:
        member = self._member(packet.group, sender)
        if member is not None:
            member.on_null(sender, packet.highest)

    def _of_tree(self, sender: SiteId, group: GroupId, epoch: int) -> Member | None:
        """The state that a packet among members speaks to. Whoever speaks of an old tree to which it no longer belongs
        is told of the new one."""
        member = self._member(group, sender)
        if member is None:
            return None
        if sender not in self.context.groups[group]:
            raise WireError(f"{sender} is in no tree of {group!r}")
        if epoch < member.epoch and sender not in member.ranks:
            self.send((sender,), NewTree(group, member.epoch, member.ranks, member.place))
            return None
        if sender == member.ranks[0]:
            member.heard_at = self.now
        return member

    def on_pass(self, sender: SiteId, packet: Pass, arrival: Arrival) -> None:
        member = self._of_tree(sender, packet.group, packet.epoch)
        if member is not None:
            member.on_pass(sender, packet)

    def on_heartbeat(self, sender: SiteId, packet: Heartbeat, arrival: Arrival) -> None:
        member = self._of_tree(sender, packet.group, packet.epoch)
        if member is not None:
            member.on_heartbeat(sender, packet)

    def on_taken(self, sender: SiteId, packet: Taken, arrival: Arrival) -> None:
        member = self._of_tree(sender, packet.group, packet.epoch)
        if member is not None:
            member.on_taken(sender, packet)

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        member = self._of_tree(sender, packet.group, packet.epoch)
        if member is not None:
            member.on_request(sender, packet.epoch, packet.missing)

    def on_new_tree(self, sender: SiteId, packet: NewTree, arrival: Arrival) -> None:
        member = self._of_tree(sender, packet.group, packet.epoch)
        if member is not None:
            member.on_new_tree(sender, packet)

    def on_answer(self, sender: SiteId, packet: Answer, arrival: Arrival) -> None:
        member = self._of_tree(sender, packet.group, packet.epoch)
        if member is not None:
            member.on_answer(sender, packet)

    def on_heartbeat_timeout(self, group: GroupId) -> None:
        if self.members[group].is_root and self.members[group].out_since is None:
            self.members[group].beat()

    def on_silence_timeout(self, group: GroupId) -> None:
        if self.members[group].out_since is None:
            self.members[group].on_silence()

    def on_open_timeout(self, group: GroupId) -> None:
        self.members[group].on_open()

    # ------------------------------------------------------------------ stable storage
    def on_recovered(self, event: Recovered) -> None:
        """[A7]: a site that failed does not take part again. Its application gets what it had, and the reason."""
        self.back = True
        for record in event.records:
            if isinstance(record, Logged):
                self.outbox.append(Replay(record.multicast))
        self.give_credit()
        self.block("tree", f"{self.site} has failed, and tree-5 lets nobody come back: take another name")

    def checkpoint_state(self) -> Progress:
        return Progress(tuple((group, member.place) for group, member in self.members.items()))

    def check_invariants(self) -> None:
        """Nobody has delivered what is not in LOG, and nothing waits that has its place."""
        super().check_invariants()
        for member in self.members.values():
            member.log.check_invariants()
            member.early.check_invariants()
            if member.early.released != member.place:
                raise InvariantViolation(f"{member.early.released} is released, and L_D is {member.place}")
        for source in self.sources.values():
            source.check_invariants()
