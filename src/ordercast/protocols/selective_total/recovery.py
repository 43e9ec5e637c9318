"""Recovery from losses (section 4): all processes agree on the sort line, what was lost is sent again, logs are put in
order, and a new epoch begins.

The same agreement establishes clusters: its members need not be those of the epoch that ends (establishment.py).
"""

from __future__ import annotations

from ordercast.core import InvariantViolation, Packet, SiteId, WireError
from ordercast.core.effects import InstallView
from ordercast.core.events import Arrival
from ordercast.protocols.selective_total.agreement import Agreement
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import (
    NO_EPOCH,
    Epoch,
    Head,
    Reset,
    ResetAck,
    ResetPreAck,
    Restored,
    Vector,
    check_lengths,
)
from ordercast.protocols.selective_total.plan import Plan, highest, lowest
from ordercast.protocols.selective_total.receipt_log import Entry, closed, inserted, lowered, sort_point, sorted_log
from ordercast.protocols.selective_total.retransmission import AT_ONCE_MAX, Retransmitting

ROUNDS_MAX = 4096
"""Each round lowers the line by a message at least, so there are at most as many as messages under way."""


class Recovery(Retransmitting):
    """What a process does when something is lost."""

    # ------------------------------------------------------------------ beginning
    def on_loss(self, source: int, number: int, expected: int) -> None:
        """Something of a source is missing: everyone has to agree where it goes, also when it was the last."""
        self.start_reset()

    def start_reset(self) -> None:
        """Step 1 of the agreement procedure: RST."""
        cluster = self.cluster
        if cluster is None or self.agreement is not None or self.aborted:
            return
        self.branch("reset")
        number, proposer, resets = cluster.epoch
        self.send_reset((number, proposer, resets + 1), cluster.members)

    def send_reset(self, identifier: Epoch, members: tuple[SiteId, ...]) -> None:
        """RST, and join."""
        cluster = self.cluster
        treq, preq = ((), ()) if cluster is None else (tuple(cluster.treq), tuple(cluster.preq))
        incarnations = tuple(self.incarnations[member] for member in members)
        self.broadcast(Reset(identifier, members, incarnations, self.epoch, treq, preq))
        self.join(identifier, members, incarnations)

    def belongs(self, packet: Reset | ResetPreAck, resets: dict[SiteId, Reset] | None = None) -> bool:
        """Whether a message is of the agreement that this process is in, which it joins now if it is the latest.

        An agreement that means an earlier incarnation is none of its own. (Else: c says RST_PAK, crashes, comes back,
        and says another one; those who heard the first count on what c had, and the others do not.)
        """
        packet.check(self.size_of(packet.base))
        identifier, members, incarnations = packet.agreement, packet.members, packet.incarnations
        self.seen = max(self.seen, identifier[0])
        if self.aborted or (self.site, self.context.incarnation) not in zip(members, incarnations, strict=False):
            return False
        agreement = self.agreement
        if identifier > (self.epoch if agreement is None else agreement.identifier):
            if list(members) != sorted(set(members)) or not set(members) <= set(self.context.sites):
                raise WireError(f"agreement {identifier} has members that are no processes: {members}")
            self.join(identifier, members, incarnations, resets)
        else:
            self.help_laggard(identifier)
        return self.agreement is not None and self.agreement.identifier == identifier

    def size_of(self, epoch: Epoch) -> int | None:
        """How many processes are in an epoch, if this process knows."""
        if self.cluster is not None and epoch == self.epoch:
            return len(self.cluster.members)
        ended = (each for each in (self.agreement, self.restored) if each is not None and each.identifier == epoch)
        return next((len(each.members) for each in ended), None)

    def join(
        self,
        identifier: Epoch,
        members: tuple[SiteId, ...],
        incarnations: Vector,
        resets: dict[SiteId, Reset] | None = None,
    ) -> None:
        """Step 2: send nothing more, and say how far this process is (RST_PAK)."""
        previous = self.agreement
        if previous is not None:
            self.branch("superseded")
            if previous.has_said_restored:
                self.restored = previous
        agreement = self.agreement = Agreement(identifier, members, incarnations)
        self.incarnations.update(zip(members, incarnations, strict=False))
        agreement.resets.update(resets or {})
        if identifier[2]:
            self.window = max(1, self.window // 2)
            self.accepted_in_a_row = 0
        cluster, restored = self.cluster, self.restored
        self.say(
            ResetPreAck(
                identifier,
                members,
                incarnations,
                self.epoch,
                NO_EPOCH if restored is None else restored.identifier,
                () if restored is None else restored.members,
                () if cluster is None else self.first_line(cluster, agreement),
                () if cluster is None else tuple(cluster.accepted_by_all),
                () if cluster is None else tuple(cluster.delivered),
            )
        )

    def first_line(self, cluster: Cluster, agreement: Agreement) -> Vector:
        """Where this log may change: from the first message on that someone has lost, and where its own gaps are.

        The gaps are kept even when the log has lost messages of others. (As printed, a process with both says only
        where the others' are, and nobody learns of its own.)
        """
        line = tuple(cluster.treq)
        log = list(self.log)
        for index, entry in enumerate(log):
            if any(self.lacks(cluster, sender, reset, entry) for sender, reset in agreement.resets.items()):
                return lowered(line, log[index:])
        return line

    def lacks(self, cluster: Cluster, sender: SiteId, reset: Reset, entry: Entry) -> bool:
        """Whether the sender of a RST has lost this message."""
        place = cluster.place.get(sender)
        if place is None or reset.base != cluster.epoch:
            return False
        destinations = self.context.destinations(entry.data.multicast)
        return sender in destinations and entry.data.pseq[place] >= reset.preq[entry.source]

    def say(self, packet: Packet) -> None:
        """Say something in the agreement. It counts here, too, when the channel brings it back: until then, messages of
        this process's own may come."""
        if self.agreement is not None:
            self.agreement.said.append(packet)
            self.broadcast(packet)

    # ------------------------------------------------------------------ what others say
    def on_reset(self, sender: SiteId, packet: Reset, arrival: Arrival) -> None:
        """RST: someone has found a loss, or proposes a cluster."""
        agreement = self.agreement
        if agreement and agreement.identifier == packet.agreement and sender not in (self.site, *agreement.resets):
            self.branch("resets-merged")
        self.belongs(packet, {sender: packet})

    def on_reset_pre_ack(self, sender: SiteId, packet: ResetPreAck, arrival: Arrival) -> None:
        """RST_PAK: nothing more comes from the sender in the old epoch."""
        if self.belongs(packet) and self.agreement is not None:
            if sender not in self.agreement.stage:
                raise WireError(f"{sender} speaks in an agreement of {packet.members}")
            self.agreement.take_pre_ack(sender, packet)
            self.advance()

    def on_reset_ack(self, sender: SiteId, packet: ResetAck, arrival: Arrival) -> None:
        """RST_ACK: the line as the sender's log has it."""
        agreement = self.agreement
        if agreement is not None and agreement.identifier == packet.agreement and sender in agreement.stage:
            if not 0 < packet.round <= ROUNDS_MAX:
                raise WireError(f"{sender} is in round {packet.round} of an agreement")
            packet.check()
            agreement.take_ack(sender, packet)
            self.advance()
        else:
            self.help_laggard(packet.agreement)

    def on_restored(self, sender: SiteId, packet: Restored, arrival: Arrival) -> None:
        """The sender has everything."""
        agreement = self.agreement
        if agreement is not None and agreement.identifier == packet.agreement and sender in agreement.stage:
            agreement.take_restored(sender)
            self.advance()
        else:
            self.help_laggard(packet.agreement)

    def help_laggard(self, identifier: Epoch) -> None:
        """Who still speaks of an agreement that has ended is told with the next frame that it has."""
        if self.agreement is None and identifier == self.epoch != NO_EPOCH:
            self.say_soon()

    def note_epoch(self, epoch: Epoch) -> None:
        """Someone speaks in an epoch: it has begun, or goes on without this process."""
        self.seen = max(self.seen, epoch[0])
        agreement = self.agreement
        if agreement is None:
            if self.cluster is not None and epoch > self.epoch:
                self.leave_cluster()
        elif epoch == agreement.identifier:
            # It begins only when everyone has everything: this process, too.
            if not agreement.has_said_restored:
                raise WireError(f"epoch {epoch} cannot have begun")
            self.branch("heard-of-the-end")
            self.finish(agreement)
        elif epoch > agreement.identifier:
            self.leave_cluster()

    # ------------------------------------------------------------------ stage by stage
    def advance(self) -> None:
        """Go as far as what was said allows."""
        agreement = self.agreement
        if agreement is None or not agreement.has_all_pre_acks:
            return
        if not agreement.acks_said:
            agreement.resolve()
            self.settle_base(agreement)
            self.send_reset_ack(agreement, lowest(self.lines(agreement)))
        while not agreement.has_said_restored:
            acks = agreement.round_of_participants(agreement.acks_said)
            if acks is None:
                return
            check_lengths(self.size_of(agreement.base), *(ack.treq for ack in acks.values()))
            line = lowest(ack.treq for ack in acks.values())
            if any(ack.treq != line for ack in acks.values()):
                self.branch("line-lowered")
                self.send_reset_ack(agreement, line)
                continue
            if agreement.plan is None and self.cluster is not None:
                self.make_plan(agreement, self.cluster, acks)
            if not self.has_everything(agreement):
                return
            agreement.has_said_restored = True
            self.say(Restored(agreement.identifier))
        if agreement.is_restored:
            self.finish(agreement)

    def settle_base(self, agreement: Agreement) -> None:
        """Which epoch ends is known: begin it, if this process has not; or be new, if it was not in it."""
        if agreement.base != self.epoch:
            restored = self.restored
            if restored is not None and restored.identifier == agreement.base:
                self.branch("began-late")
                self.begin_epoch(restored)
            else:
                self.forget_cluster()
        self.restored = None

    def lines(self, agreement: Agreement) -> list[Vector]:
        """The lines of all RST_PAK, as far as they concern this process. Who begins the epoch only now has nothing of
        it."""
        if self.cluster is None:
            return []
        ones = (1,) * len(self.cluster.members)
        pre_acks = (agreement.pre_acks[site] for site in agreement.participants)
        return [pre_ack.treq if pre_ack.base == agreement.base else ones for pre_ack in pre_acks]

    def send_reset_ack(self, agreement: Agreement, line: Vector) -> None:
        """Step 4: the line, closed over this log; what is missing here; what this process has sent."""
        agreement.acks_said += 1
        cluster = self.cluster
        if cluster is None:
            # New here: what was before does not concern this process.
            self.say(ResetAck(agreement.identifier, agreement.acks_said, (), (), (), (), (), None))
            return
        line = self.close_line(line)
        index = sort_point(self.log, line)
        participants = set(agreement.participants)
        orphans = tuple(
            (entry.source, entry.tseq) for entry in self.log if cluster.members[entry.source] not in participants
        )
        self.say(
            ResetAck(
                agreement.identifier,
                agreement.acks_said,
                line,
                tuple(cluster.preq),
                tuple(tuple(numbers) for numbers in cluster.beyond),
                tuple(cluster.pseq),
                orphans,
                None if index is None else self.head(cluster, self.log[index]),
            )
        )

    def close_line(self, line: Vector) -> Vector:
        """One log's share in closing the line; rounds go on until no log lowers it."""
        return closed(self.log, line)

    def head(self, cluster: Cluster, entry: Entry) -> Head:
        """What others must know of a sort point."""
        destinations = self.context.destinations(entry.data.multicast)
        places = tuple(cluster.place[site] for site in destinations if site in cluster.place)
        return Head(entry.source, entry.tseq, entry.data.pseq, places)

    def make_plan(self, agreement: Agreement, cluster: Cluster, acks: dict[SiteId, ResetAck]) -> None:
        """All lines are the same: find out what is to be done about it, and send again what others miss."""
        ones = (1,) * len(cluster.members)

        def told(site: SiteId, vector: Vector) -> Vector:
            return vector if agreement.pre_acks[site].base == agreement.base else ones

        frozen = highest(told(site, agreement.pre_acks[site].pre_acknowledged) for site in acks)
        delivered = {site: told(site, agreement.pre_acks[site].delivered) for site in acks}
        plan = agreement.plan = self.plan(cluster.members, acks, frozen, delivered)
        if plan.losses == 1:
            self.branch("insertion" if plan.inserts else "single-loss-sorted")
        elif plan.losses:
            self.branch("sorting")
        if plan.orphans:
            self.branch("orphans")
        self.send_again(agreement)
        if plan.losses > AT_ONCE_MAX:
            self.ask(agreement)

    def plan(
        self,
        members: tuple[SiteId, ...],
        acks: dict[SiteId, ResetAck],
        frozen: Vector,
        delivered: dict[SiteId, Vector],
    ) -> Plan:
        """What the agreement amounts to."""
        return Plan(members, acks, frozen, delivered)

    # ------------------------------------------------------------------ ending
    def finish(self, agreement: Agreement) -> None:
        """Everyone has everything: the new epoch begins here."""
        self.agreement = self.restored = None
        self.begin_epoch(agreement)
        self.say_blocked("")
        self.send_receive_ready()
        self.transmit()

    def begin_epoch(self, agreement: Agreement) -> None:
        """Put the log in order, deliver all of it, and begin with new numbers.

        All of it: everyone has it, and will put it in the same order whatever happens. (Who crashes now has delivered
        what the others can still deliver.)
        """
        cluster, plan = self.cluster, agreement.plan
        if cluster is not None and plan is not None and self.site in agreement.participants:
            for entry in self.restored_log(agreement, cluster, plan):
                self.hand_over(entry)
        self.forget_cluster()
        self.cluster = Cluster(agreement.identifier, agreement.members, self.site, self.options.buffer_messages)
        self.cluster.buf[self.cluster.me] = self.free_buffers
        view = "{}:{}:{}".format(*agreement.identifier)
        self.outbox.append(InstallView(view, agreement.members, groups=tuple(self.context.groups)))

    def restored_log(self, agreement: Agreement, cluster: Cluster, plan: Plan) -> list[Entry]:
        """The log with what was lost, in the order on which all agree."""
        if self.options.recovery == "go-back-n":
            # From the cut on everything goes, here as everywhere; its sources send it again.
            self.pending.extendleft(data.multicast for data in reversed(self.sent) if data.tseq >= plan.cut[cluster.me])
            return [entry for entry in self.log if entry.tseq < plan.cut[entry.source]]
        own = {(entry.source, entry.tseq) for entry in self.log}
        lost = [
            Entry(key[0], data)
            for key, data in agreement.aside.items()
            if self.missed(cluster, plan, key, data)
            or (key in plan.orphans and key not in own and self.is_destination(data.multicast))
        ]
        if not plan.losses and not plan.orphans:
            # Someone was wrong, or the members change: the order of the channel stands.
            return list(self.log)
        if plan.inserts:
            self.branches["messages-inserted"] += len(lost)
            return inserted(self.log, plan.line, lost)
        moved = sum(entry.tseq >= plan.cut[entry.source] for entry in self.log) + len(lost)
        self.branches["messages-sorted"] += moved
        return self.sort(plan, lost)

    def sort(self, plan: Plan, lost: list[Entry]) -> list[Entry]:
        """The sorting rule; any order of sources will do on which all agree, and that of their names is one."""
        return sorted_log(self.log, plan.cut, lost, range(len(plan.cut)))

    def forget_cluster(self) -> None:
        """Nothing of the old epoch counts any more."""
        self.cluster = None
        self.log.clear()
        self.sent.clear()
        self.sent_again.clear()

    def leave_cluster(self) -> None:
        """The others go on without this process: begin again, as a stranger."""
        self.branch("excluded")
        self.agreement = self.restored = None
        self.forget_cluster()
        self.say_blocked("the others took this process for crashed and went on without it")

    def check_invariants(self) -> None:
        """The log is in the order of each source, below what was delivered nothing is left."""
        super().check_invariants()
        cluster = self.cluster
        if cluster is None:
            if self.log or self.sent:
                raise InvariantViolation("a process in no cluster has messages of one")
            return
        last = list(cluster.delivered)
        for entry in self.log:
            if entry.tseq < last[entry.source]:
                raise InvariantViolation(f"message {entry.tseq} of {cluster.members[entry.source]} is out of order")
            last[entry.source] = entry.tseq + 1
