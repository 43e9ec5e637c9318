"""Loss: a site that has lost its log counts for nothing until a majority of its cell, itself not counted, has told it
where they stand, and what it said before is not believed any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ordercast.core import Packet, Part, SiteId, WireError
from ordercast.core.effects import EnterGroup, ExitGroup
from ordercast.core.events import Arrival
from ordercast.protocols.parts.consensus_packets import Ack, Collect, Estimate, Lives, Propose
from ordercast.protocols.parts.link import Letter
from ordercast.protocols.scalatom.histories import Mate
from ordercast.protocols.scalatom.packets import (
    CatchUp,
    CellNames,
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
from ordercast.protocols.scalatom.stable import finished_from, finished_states

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
    branches = ("vouched", "repaired", "life-over")

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

    def _say_for_whom_we_wait(self) -> None:
        core = self._core
        if len(core.cellmates) < self._needed:
            wait = f"{self._needed} others of its cell would have to vouch for it, and there are not so many: all sites must begin anew"
        else:
            silent = ", ".join(site for site in core.cellmates if site not in self._told)
            wait = f"it waits for {self._needed} others of its cell to vouch for it, and for any of {silent}"
        core.block("loss", f"{core.site} has lost its log: {wait}")

    def on_vouch(self, sender: SiteId, packet: Vouch, arrival: Arrival) -> None:
        """Somebody tells where it stands; what it knows is asked for next."""
        core = self._core
        core.link.acknowledge(sender, packet)
        if not self.lost or packet.life != self.life or sender not in core.cellmates:
            return
        parts = self._vouches.setdefault(sender, {})
        if packet.part not in parts:
            parts[packet.part] = packet
            if len(parts) == packet.parts:
                core.catching.begin(sender)

    def on_told(self, sender: SiteId, packet: Summary) -> None:
        """Everything that a site knows is here."""
        core = self._core
        parts = self._vouches.get(sender, {})
        if self.lost and parts and len(parts) == next(iter(parts.values())).parts:
            self._told.add(sender)
            if len(self._told) >= self._needed:
                self._take_over()
            else:
                self._say_for_whom_we_wait()

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
            for finished in vouch.finished:
                core.multicast.source(finished[0]).merge(finished_from(finished))
        self._enter([vouch for vouch in told if vouch.part == 0])
        for vouch in told:
            for state in vouch.addresses:
                core.addresses.named(state.cells).jump(state)
        core.consensus.abandon(core.ordering.is_over)
        for entry in list(core.entries.values()):
            if core.multicast.is_finished(entry.message):
                core.keeping.forget(entry)
        core.consensus.take_over([instance for vouch in told for instance in vouch.open])
        core.ordering.stamp_again()
        core.returning.on_moved()
        self._end()
        core.catching.begin_all()
        core.histories.resume()

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
        for source, floor, above, began, retired in finished_states(self._core):
            for first in range(0, max(1, len(above)), NAMES_MAX):
                yield ((source, floor, above[first : first + NAMES_MAX], began, retired),)

    def admits(self, sender: SiteId, packet: Packet) -> bool:
        """Whether a packet is one of the sender's present life, and we are not lost for an answer."""
        if type(packet) in BEARERS and packet.lives:  # type: ignore[attr-defined]
            for site, life in packet.lives:  # type: ignore[attr-defined]
                self._note(site, life)
        if self.known and isinstance(packet, Letter) and packet.number >> 32 < self.known.get(sender, 0):
            self._core.branch("life-over")
            return False
        return not (self.lost and type(packet) in UNANSWERED)

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
        core.consensus.disbelieve(site)
        for entry in list(core.entries.values()):
            if is_mate and not entry.delivered:
                entry.settled.discard(site)
            if entry.stamps.pop(site, None) is not None and not core.ordering.is_ready(entry):
                entry.address.ready.pop(entry.message, None)
            if core.keeping.is_over(entry):
                core.keeping.forget(entry)
        if is_mate:
            core.catching.begin(site)

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
