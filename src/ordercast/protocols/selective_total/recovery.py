"""Recovery from losses (section 4): all sites agree on the sort line, what was lost is sent again, logs are put in
order, and a new epoch begins.

The same agreement establishes clusters: its members need not be those of the epoch that ends (establishment.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Packet, Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.selective_total.agreement import Agreement
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import (
    NO_EPOCH,
    Epoch,
    Reset,
    ResetAck,
    ResetPreAck,
    Restored,
    Vector,
    check_lengths,
)
from ordercast.protocols.selective_total.plan import lowest

if TYPE_CHECKING:
    from ordercast.protocols.selective_total.protocol import SelectiveTotal

ROUNDS_MAX = 4096
"""Each round lowers the line by a message at least, so there are at most as many as messages under way."""


class Recovery(Part):
    """The agreement that a site has joined, stage by stage."""

    packets = (Reset, ResetPreAck, ResetAck, Restored)
    branches = ("reset", "resets-merged", "line-lowered", "superseded", "began-late", "heard-of-the-end")

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core
        self.agreement: Agreement | None = None
        """The one that this site has joined; while there is one, nothing is sent or delivered."""
        self._restored: Agreement | None = None
        """An earlier one for which it has said `Restored`, and of which it does not know whether it ended."""

    # ------------------------------------------------------------------ beginning
    def start_reset(self) -> None:
        """Step 1 of the agreement procedure: RST."""
        cluster = self._core.open_cluster
        if cluster is not None:
            self._core.branch("reset")
            number, proposer, resets = cluster.epoch
            self.send_reset((number, proposer, resets + 1), cluster.members)

    def send_reset(self, identifier: Epoch, members: tuple[SiteId, ...]) -> None:
        """RST, and join."""
        core, cluster = self._core, self._core.cluster
        treq, preq = ((), ()) if cluster is None else (tuple(cluster.treq), tuple(cluster.preq))
        incarnations = core.presence.incarnations_of(members)
        core.broadcast(Reset(identifier, members, incarnations, core.epoch, treq, preq))
        self._join(identifier, members, incarnations)

    def _belongs(self, packet: Reset | ResetPreAck, resets: dict[SiteId, Reset] | None = None) -> bool:
        """Whether a packet is of the agreement that this site is in, which it joins now if it is the latest.

        An agreement that means an earlier incarnation is none of its own. (Else: c says RST_PAK, crashes, comes back,
        and says another one; those who heard the first count on what c had, and the others do not.)
        """
        core = self._core
        packet.check(self._size_of(packet.base))
        identifier, members, incarnations = packet.agreement, packet.members, packet.incarnations
        core.presence.note_number(identifier[0])
        meant = zip(members, incarnations, strict=False)
        if core.establishment.aborted or (core.site, core.context.incarnation) not in meant:
            return False
        agreement = self.agreement
        if identifier > (core.epoch if agreement is None else agreement.identifier):
            if list(members) != sorted(set(members)) or not set(members) <= set(core.context.sites):
                raise WireError(f"agreement {identifier} has members that are no processes: {members}")
            self._join(identifier, members, incarnations, resets)
        else:
            self._help_laggard(identifier)
        return self.agreement is not None and self.agreement.identifier == identifier

    def _size_of(self, epoch: Epoch) -> int | None:
        """How many sites are in an epoch, if this site knows."""
        cluster = self._core.cluster
        if cluster is not None and epoch == cluster.epoch:
            return len(cluster.members)
        ended = (each for each in (self.agreement, self._restored) if each is not None and each.identifier == epoch)
        return next((len(each.members) for each in ended), None)

    def _join(
        self,
        identifier: Epoch,
        members: tuple[SiteId, ...],
        incarnations: Vector,
        resets: dict[SiteId, Reset] | None = None,
    ) -> None:
        """Step 2: send nothing more, and say how far this site is (RST_PAK)."""
        core, previous = self._core, self.agreement
        if previous is not None:
            core.branch("superseded")
            if previous.has_said_restored:
                self._restored = previous
        agreement = self.agreement = Agreement(identifier, members, incarnations, resets or {})
        core.presence.note_incarnations(members, incarnations)
        if identifier[2]:
            core.transmission.halve_window()
        cluster, restored = core.cluster, self._restored
        self._say(
            agreement,
            ResetPreAck(
                identifier,
                members,
                incarnations,
                core.epoch,
                NO_EPOCH if restored is None else restored.identifier,
                () if restored is None else restored.members,
                () if cluster is None else core.sorting.first_line(cluster, agreement),
                () if cluster is None else tuple(cluster.accepted_by_all),
                () if cluster is None else tuple(cluster.delivered),
            ),
        )

    def _say(self, agreement: Agreement, packet: Packet) -> None:
        """Say something in the agreement. It counts here, too, when the channel brings it back: until then, messages of
        this site's own may come."""
        agreement.said.append(packet)
        self._core.broadcast(packet)

    def repeat(self) -> None:
        """A period is over: say again what someone may not have heard."""
        agreement = self.agreement
        if agreement is not None:
            for packet in agreement.to_repeat():
                self._core.broadcast(packet)
            self._core.retransmission.repeat(agreement)

    # ------------------------------------------------------------------ what others say
    def on_reset(self, sender: SiteId, packet: Reset, arrival: Arrival) -> None:
        """RST: someone has found a loss, or proposes a cluster."""
        core, agreement = self._core, self.agreement
        if agreement and agreement.identifier == packet.agreement and sender not in (core.site, *agreement.resets):
            core.branch("resets-merged")
        self._belongs(packet, {sender: packet})

    def on_reset_pre_ack(self, sender: SiteId, packet: ResetPreAck, arrival: Arrival) -> None:
        """RST_PAK: nothing more comes from the sender in the old epoch."""
        if self._belongs(packet) and self.agreement is not None:
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
            self._help_laggard(packet.agreement)

    def on_restored(self, sender: SiteId, packet: Restored, arrival: Arrival) -> None:
        """The sender has everything."""
        agreement = self.agreement
        if agreement is not None and agreement.identifier == packet.agreement and sender in agreement.stage:
            agreement.take_restored(sender)
            self.advance()
        else:
            self._help_laggard(packet.agreement)

    def _help_laggard(self, identifier: Epoch) -> None:
        """Who still speaks of an agreement that has ended is told with the next frame that it has."""
        if self.agreement is None and identifier == self._core.epoch != NO_EPOCH:
            self._core.acknowledgement.say_soon()

    def hears(self, sender: SiteId) -> bool:
        """Whether what a member says in its epoch still counts."""
        return self.agreement is None or self.agreement.hears(sender)

    def note_epoch(self, epoch: Epoch) -> None:
        """Someone speaks in an epoch: it has begun, or goes on without this site."""
        core, agreement = self._core, self.agreement
        core.presence.note_number(epoch[0])
        if agreement is None:
            if core.cluster is not None and epoch > core.cluster.epoch:
                self._leave()
        elif epoch == agreement.identifier:
            # It begins only when everyone has everything: this site, too.
            if not agreement.has_said_restored:
                raise WireError(f"epoch {epoch} cannot have begun")
            core.branch("heard-of-the-end")
            self._finish(agreement)
        elif epoch > agreement.identifier:
            self._leave()

    # ------------------------------------------------------------------ stage by stage
    def advance(self) -> None:
        """Go as far as what was said allows."""
        core, agreement = self._core, self.agreement
        if agreement is None or not agreement.has_all_pre_acks:
            return
        if not agreement.acks_said:
            agreement.resolve()
            self._settle_base(agreement)
            self._send_reset_ack(agreement, lowest(self._lines(agreement)))
        while not agreement.has_said_restored:
            acks = agreement.round_of_participants(agreement.acks_said)
            if acks is None:
                return
            check_lengths(self._size_of(agreement.base), *(ack.treq for ack in acks.values()))
            line = lowest(ack.treq for ack in acks.values())
            if any(ack.treq != line for ack in acks.values()):
                core.branch("line-lowered")
                self._send_reset_ack(agreement, line)
                continue
            if agreement.plan is None and core.cluster is not None:
                agreement.plan = core.sorting.make_plan(agreement, core.cluster, acks)
                core.retransmission.begin(agreement, agreement.plan, core.cluster)
            if not core.retransmission.has_everything(agreement):
                return
            agreement.has_said_restored = True
            self._say(agreement, Restored(agreement.identifier))
        if agreement.is_restored:
            self._finish(agreement)

    def _settle_base(self, agreement: Agreement) -> None:
        """Which epoch ends is known: begin it, if this site has not; or be new, if it was not in it."""
        core, restored = self._core, self._restored
        if agreement.base != core.epoch:
            if restored is not None and restored.identifier == agreement.base:
                core.branch("began-late")
                self._begin_epoch(restored)
            else:
                core.forget_cluster()
        self._restored = None

    def _lines(self, agreement: Agreement) -> list[Vector]:
        """The lines of all RST_PAK, as far as they concern this site. Who begins the epoch only now has nothing of
        it."""
        cluster = self._core.cluster
        if cluster is None:
            return []
        ones = (1,) * len(cluster.members)
        pre_acks = (agreement.pre_acks[site] for site in agreement.participants)
        return [pre_ack.treq if pre_ack.base == agreement.base else ones for pre_ack in pre_acks]

    def _send_reset_ack(self, agreement: Agreement, line: Vector) -> None:
        """Step 4: the line, closed over this log; what is missing here; what this site has sent."""
        agreement.acks_said += 1
        cluster, sorting = self._core.cluster, self._core.sorting
        if cluster is None:
            # New here: what was before does not concern this site.
            self._say(agreement, ResetAck(agreement.identifier, agreement.acks_said, (), (), (), (), (), None))
            return
        line = sorting.close_line(line)
        self._say(
            agreement,
            ResetAck(
                agreement.identifier,
                agreement.acks_said,
                line,
                tuple(cluster.preq),
                tuple(tuple(numbers) for numbers in cluster.beyond),
                tuple(cluster.pseq),
                sorting.orphans(cluster, agreement.participants),
                sorting.sort_point(cluster, line),
            ),
        )

    # ------------------------------------------------------------------ ending
    def _finish(self, agreement: Agreement) -> None:
        """Everyone has everything: the new epoch begins here."""
        core = self._core
        self.agreement = self._restored = None
        cluster = self._begin_epoch(agreement)
        core.say_blocked("")
        core.acknowledgement.send_receive_ready(cluster)
        core.transmission.transmit()

    def _begin_epoch(self, agreement: Agreement) -> Cluster:
        """Put the log in order, deliver all of it, and begin with new numbers.

        All of it: everyone has it, and will put it in the same order whatever happens. (Who crashes now has delivered
        what the others can still deliver.)
        """
        core = self._core
        cluster, plan = core.cluster, agreement.plan
        if cluster is not None and plan is not None and core.site in agreement.participants:
            core.receipt.deliver_all(cluster, core.sorting.restored_log(agreement, cluster, plan))
        return core.begin_cluster(agreement.identifier, agreement.members)

    def _leave(self) -> None:
        """The others go on without this site: begin again, as a stranger."""
        core = self._core
        core.branch("excluded")
        self.agreement = self._restored = None
        core.forget_cluster()
        core.say_blocked("the others took this process for crashed and went on without it")

    def abandon(self) -> None:
        """The cluster is over, and with it what was to be agreed on."""
        self.agreement = None
