"""Loss: a site that has lost its log counts for nothing until a majority of its cell, itself not counted, has told it
where they stand, and what it said before is not believed any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from ordercast.core import Packet, Part, SiteId, WireError
from ordercast.core.effects import EnterGroup, ExitGroup
from ordercast.core.events import Arrival, Recovered
from ordercast.protocols.parts.consensus_packets import Ack, Collect, Estimate, InstanceName, Lives, OpenState, Propose
from ordercast.protocols.parts.kept_packets import CellNames
from ordercast.protocols.parts.link import Letter
from ordercast.protocols.parts.multicast import Finished
from ordercast.protocols.scalatom.entries import Entry
from ordercast.protocols.scalatom.histories import Mate
from ordercast.protocols.scalatom.packets import (
    CatchUp,
    FinishedState,
    Gone,
    History,
    KnownLoss,
    Lost,
    Overdue,
    Resumption,
    Stamps,
    State,
    Summary,
    Vouch,
)

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom

OPEN_MAX = 16
"""Consensus instances in one part of an answer: with values of 64 messages half of the largest datagram."""
NAMES_MAX = 1024
"""Finished messages in one part: some kilobytes."""
BEARERS = frozenset((Ack, Estimate, Stamps, History, Summary))
"""What counts for a majority says which lives are over, so that it never counts beside the word of one of them."""
UNANSWERED = frozenset((Propose, Ack, Collect, Estimate, Stamps, History, CatchUp, Overdue, Gone, Lost))
"""What a lost site leaves unconfirmed: it comes again."""


class Loss(Part):
    """Who has lost its log, this site or another one."""

    packets = (Lost, Vouch)
    records = (KnownLoss,)
    branches = ("vouched", "repaired")

    def __init__(self, core: Scalatom) -> None:
        self._core = core
        self.lost = False
        """Whether this site does not know what it has said."""
        self.known: dict[SiteId, int] = {}
        """Site that has lost its log -> the incarnation with which it has begun anew."""
        self.lives: Lives = ()
        """Those of our cell: what we say to majorities."""
        self.barred: dict[CellNames, int] = {}
        """Destination set -> the last batch in which we may have proposed something before the loss."""
        self._vouches: dict[SiteId, dict[int, Vouch]] = {}
        self._told: set[SiteId] = set()
        self._answered: dict[SiteId, int] = {}
        self._asking: dict[SiteId, int] = {}
        """Site of our cell -> the incarnation in which it has asked us, while we were lost."""

    @property
    def life(self) -> int:
        """The incarnation with which our log begins."""
        return self.known.get(self._core.site, 0)

    # ------------------------------------------------------------------ the lost site
    def begin(self) -> None:
        """The log is gone."""
        core = self._core
        self.lost = True
        self._note(core.site, core.context.incarnation)
        self._begin_life()

    def is_half_way(self, event: Recovered) -> bool:
        """Whether we have crashed before all that the others had given back was in the log: a checkpoint ends that."""
        first = event.records[0] if event.records and event.checkpoint is None else None
        return isinstance(first, KnownLoss) and first.site == self._core.site

    def _begin_life(self) -> None:
        core = self._core
        core.multicast.began = self.life
        core.multicast.floor = (self.life, 0)
        core.multicast.source(core.site).begin_life(self.life)

    @property
    def _needed(self) -> int:
        return (len(self._core.cellmates) + 1) // 2 + 1

    def ask(self) -> None:
        """Ask the cell."""
        core = self._core
        # No index is given twice, and none counts for a mate before it has heard what our new history lacks.
        core.histories.count = self.life << 32
        core.source.give_credit()
        if core.cells.of_site(core.site) is None:
            self._end()
            return
        self._say_for_whom_we_wait()
        for site in core.cellmates:
            core.link.post((site,), Lost(core.link.next, self.life), vital=True)

    def _ask_anew(self, site: SiteId) -> None:
        """A site has crashed, and what it was about to answer is lost with its memory."""
        core = self._core
        if self._is_vouched(site):
            core.catching.begin(site)
        elif site in core.cellmates:
            core.link.post((site,), Lost(core.link.next, self.life), vital=True)

    def _is_vouched(self, site: SiteId) -> bool:
        parts = self._vouches.get(site, {})
        return any(len(parts) == part.parts for part in parts.values())

    def _say_for_whom_we_wait(self) -> None:
        core = self._core
        if len(core.cellmates) < self._needed:
            wait = (
                f"{self._needed} others of its cell would have to vouch for it, and there are not so many: "
                "all sites must begin anew"
            )
        else:
            silent = ", ".join(site for site in core.cellmates if site not in self._told)
            wait = f"it waits for {self._needed} others of its cell to vouch for it, and for any of {silent}"
        core.block("loss", f"{core.site} has lost its log: {wait}")

    def on_vouch(self, sender: SiteId, packet: Vouch, arrival: Arrival) -> None:
        """Somebody tells where it stands; what it knows is asked for next."""
        core = self._core
        core.link.acknowledge(sender, packet)
        if not self.lost or packet.life != self.life or sender not in core.cellmates or self._is_vouched(sender):
            return
        parts = self._vouches.setdefault(sender, {})
        if any(part.number >> 32 != packet.number >> 32 for part in parts.values()):
            # It has crashed after some parts: they are of another moment.
            parts.clear()
        parts[packet.part] = packet
        if self._is_vouched(sender):
            core.catching.begin(sender)

    def on_told(self, sender: SiteId, packet: Summary) -> None:
        """Everything that a site knows is here."""
        if self.lost and self._is_vouched(sender):
            self._told.add(sender)
            if len(self._told) >= self._needed:
                self._take_over()
            else:
                self._say_for_whom_we_wait()

    def is_passed(self, sender: SiteId, entry: Entry) -> bool:
        """Whether we are lost, and go on behind a message that the sender names, since it had delivered that when it
        vouched. (Else: we wait for its body, and all who had that have taken it and forgotten it.)"""
        if not self.lost or not entry.sequence or not self._is_vouched(sender):
            return False
        mark = self._vouches[sender][0].mark
        return mark is not None and entry.key <= mark

    def _take_over(self) -> None:
        """Know what they know, stand where they stand, and go on from there."""
        core = self._core
        told = [part for site in sorted(self._told) for _, part in sorted(self._vouches[site].items())]
        self.lost = False
        core.branch("repaired")
        core.ordering.clock = max(core.ordering.clock, *(vouch.clock for vouch in told))
        for vouch in told:
            for state in vouch.addresses:
                last = max(state.next - 1, *state.above, 0)
                self.barred[state.cells] = max(self.barred.get(state.cells, 1), last + 1)
            if core.options.batch_messages_max > 1:
                for instance in vouch.open:
                    cells = instance.instance[1:]
                    self.barred[cells] = max(self.barred.get(cells, 1), instance.instance[0] + 1)
            for source, floor, above, began, retired in vouch.finished:
                core.multicast.source(source).merge(Finished(floor, above, began, retired))
        self._enter([vouch for vouch in told if vouch.part == 0])
        for vouch in told:
            for state in vouch.addresses:
                core.addresses.named(state.cells).jump(state)
        core.consensus.abandon(core.ordering.is_over)
        for entry in list(core.entries.values()):
            if core.multicast.is_finished(entry.message):
                core.keeping.forget(entry)
        self._stand_where_they_stand([state for vouch in told for state in vouch.open])
        core.ordering.stamp_again()
        core.returning.on_moved()
        self._end()
        core.catching.begin_all()
        core.histories.resume()

    def _stand_where_they_stand(self, states: list[OpenState]) -> None:
        """In each consensus: leave the rounds that one of them has left, and adopt what was adopted last.

        What we have said before counts only beside what one of them said before it vouched; so it had promised as much
        as the coordinator has heard from us, and adopted what was decided with our help.
        """
        core = self._core
        merged: dict[InstanceName, OpenState] = {}
        for state in states:
            if state.instance in core.consensus.decisions or core.ordering.is_over(state.instance):
                continue
            other = merged.get(state.instance, state)
            last = max(state, other, key=lambda each: each.adopted)
            merged[state.instance] = msgspec.structs.replace(last, round=max(state.round, other.round))
        core.consensus.restore(tuple(merged.values()))
        core.consensus.resume_without_log()

    def _enter(self, vouches: list[Vouch]) -> None:
        """Go on where the first of them is: what is not delivered there, one of them has, or it is not decided."""
        core = self._core
        marked = [(vouch.mark, vouch.offsets) for vouch in vouches if vouch.mark is not None]
        if marked:
            mark, offsets = max(marked)
            core.returning.take_over(Resumption(mark, offsets, ()))
        else:
            core.outbox.extend(ExitGroup(group) for group in core.histories.offsets)
            core.outbox.extend(EnterGroup(group, 0) for group in core.histories.offsets)

    def _end(self) -> None:
        core = self._core
        self.lost = False
        self._vouches.clear()
        core.block("loss", "")
        core.source.give_credit()
        core.checkpoint(core.checkpoint_state())
        core.declare_recovered()

    # ------------------------------------------------------------------ the others
    def on_lost(self, sender: SiteId, packet: Lost, arrival: Arrival) -> None:
        """Believe nothing that it said before; then tell it where we stand."""
        core = self._core
        if sender not in core.cellmates:
            raise WireError(f"{sender} asks {core.site}, which is in another cell, for what it has lost")
        core.link.acknowledge(sender, packet)
        self._note(sender, packet.life)
        if packet.life != self.known[sender] or self._answered.get(sender) == packet.life:
            return
        self._answered[sender] = packet.life
        core.branch("vouched")
        opens = [state for state in core.consensus.state() if sender in core.ordering.quorum(state.instance).sites]
        names = list(self._chunks())
        parts = max(1, -(-len(opens) // OPEN_MAX), len(names))
        addresses = tuple(address.state() for address in core.addresses if sender in address.sites)
        for part in range(parts):
            vouch = Vouch(
                core.link.next,
                packet.life,
                part,
                parts,
                core.ordering.clock,
                core.histories.mark,
                tuple(core.histories.offsets.items()),
                addresses,
                tuple(opens[part * OPEN_MAX : (part + 1) * OPEN_MAX]),
                names[part] if part < len(names) else (),
            )
            core.link.post((sender,), vouch, vital=True)

    def _chunks(self) -> Iterator[tuple[FinishedState, ...]]:
        for source, finished in self._core.multicast.finished.items():
            above = sorted(finished.above)
            for first in range(0, max(1, len(above)), NAMES_MAX):
                some = tuple(above[first : first + NAMES_MAX])
                yield ((source, finished.floor, some, finished.began, tuple(sorted(finished.retired))),)

    def admits(self, sender: SiteId, packet: Packet) -> bool:
        """Whether a packet is one of the sender's present life, and we are not lost for an answer."""
        if type(packet) in BEARERS and packet.lives:  # type: ignore[attr-defined]
            for site, life in packet.lives:  # type: ignore[attr-defined]
                self._note(site, life)
        if self.known and isinstance(packet, Letter) and packet.number >> 32 < self.known.get(sender, 0):
            return False
        if not self.lost or type(packet) not in UNANSWERED:
            return True
        if isinstance(packet, CatchUp) and packet.incarnation > self._asking.get(sender, -1):
            self._asking[sender] = packet.incarnation
            self._ask_anew(sender)
        return False

    def _note(self, site: SiteId, life: int) -> None:
        """A site has lost its log: nothing that it said before counts from here on."""
        core = self._core
        if life <= self.known.get(site, 0):
            return
        if site not in core.ranks:
            raise WireError(f"{site} is not a site of the system")
        if site == core.site and life != core.context.incarnation:
            return
        core.append(KnownLoss(site, life))
        self.recall_known_loss(KnownLoss(site, life))
        if site == core.site:
            return
        is_mate = site in core.cellmates
        if is_mate:
            core.histories.mates[site] = Mate()
            core.absence.on_loss(site)
        for instance in core.consensus.open.values():
            instance.acks.discard(site)
            instance.estimates.pop(site, None)
        for entry in list(core.entries.values()):
            if is_mate and not entry.delivered:
                entry.settled.discard(site)
            if entry.stamps.pop(site, None) is not None and not core.ordering.is_ready(entry):
                entry.address.ready.pop(entry.message, None)
            if core.keeping.is_over(entry):
                core.keeping.forget(entry)
            elif self._is_known_from(site, entry):
                core.entries.forget(entry)
                core.multicast.forget(entry.message)
                core.confirming.deferred.pop(entry.message, None)
        if is_mate:
            core.catching.begin(site)
        core.histories.deliver()

    def _is_known_from(self, site: SiteId, entry: Entry) -> bool:
        """Whether all that we have of a message is that the site had it, in the life that is over. Whoever else has it
        goes on telling us: we have not confirmed that."""
        letters = self._core.confirming.deferred.get(entry.message, {})
        heard = entry.stamps or entry.sequence or any(sender != site for sender, _ in letters)
        return entry.multicast is None and not heard

    # ------------------------------------------------------------------ stable storage
    def recall_known_loss(self, record: KnownLoss) -> None:
        """See `_note`."""
        core = self._core
        self.known[record.site] = record.life
        self.lives = tuple((s, life) for s, life in sorted(self.known.items()) if s in (core.site, *core.cellmates))

    def restore(self, state: State) -> None:
        """As the checkpoint says."""
        for site, life in state.lives:
            self.recall_known_loss(KnownLoss(site, life))
        self.barred = dict(state.barred)
        if self.life:
            self._begin_life()
