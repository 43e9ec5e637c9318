"""Rules 2 and 3: places, timestamps and the clock of our cell, and what is said about them.

What comes in a turn is answered together at its end: one record in the log, one packet for each address.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from ordercast.core import InvariantViolation, MessageId, Multicast, Part, SiteId, WireError
from ordercast.core.effects import SetTimer
from ordercast.core.events import Arrival
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.primary_packets import Place, Resumption, Started
from ordercast.protocols.three_step.entries import Entry
from ordercast.protocols.three_step.lacking import Lacking
from ordercast.protocols.three_step.packets import Acceptance, Accepted, Body, Proposal, Propose, Word
from ordercast.protocols.three_step.refusals import check_proposals, check_resumption
from ordercast.protocols.three_step.telling import send_proposals, standings_by_address
from ordercast.protocols.three_step.voices import Voices

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep


class Ordering(Part):
    """The places of our cell, and the words of all cells."""

    packets = (Propose, Word)
    timers = ("turn",)
    records = (Body, Accepted)
    branches = ("early-proposal", "gave-up-proposal", "proposed-again", "proposed-by-the-next", "clock-raised")

    def __init__(self, core: ThreeStep) -> None:
        self._core = core
        self.cell = core.cells.of_site(core.site)
        self.voices: dict[int, Voices] = {cell: Voices(core, cell) for cell in range(len(core.cells.cells))}
        self._own = cast(int, self.cell)
        self.own_voices = cast(Voices, None if self.cell is None else self.voices[self.cell])
        """What our cell has said. A site outside all cells has none, and takes no part."""
        self.clock = 0
        """Never below a timestamp that was given or accepted here, or a clock that was said."""
        self.base = 0
        """So many places, from the first, are over here."""
        self.places: deque[Place] = deque()
        """Those that follow."""
        self.count = 0
        """n: the places that we have accepted; those that are over, and those that follow."""
        self.unplaced: dict[MessageId, Entry] = {}
        """Messages that are here and stand at no place of our cell."""
        self._early: dict[int, Proposal] = {}
        """Proposals of our cell for places that are not accepted, of one epoch: S, or a later one."""
        self._early_epoch = 0
        self._complete: list[Entry] = []
        """What may have got its last proposal, or a higher one, since the last turn."""
        self._heard: set[int] = set()
        """Cells of which something was heard since the last turn."""
        self.lacking = Lacking(core)
        self._logs = core.context.stable
        self._dirty = False
        self._end_of_turn = SetTimer("turn", core.options.turn_seconds)

    def touch(self) -> None:
        """Something is to be done at the end of the turn."""
        if not self._dirty:
            self._dirty = True
            self._core.outbox.append(self._end_of_turn)

    # ------------------------------------------------------------------ what comes
    def on_body(self, entry: Entry) -> None:
        """Step 1: a message is here."""
        if not entry.place and not entry.delivered:
            self.unplaced[entry.message] = entry
        if not self._dirty and (self._early or entry.sequence or self._core.primary.leads):
            self.touch()

    def on_propose(self, sender: SiteId, packet: Propose, arrival: Arrival) -> None:
        """Where messages stand in the sender's cell."""
        address = self._core.addresses.shared_with(sender, packet.cells)
        check_proposals(self._core, sender, address, packet.epoch, packet.proposals)
        self.hear_proposals(sender, address, packet.epoch, packet.proposals, packet.all_speak)

    def hear_proposals(
        self, sender: SiteId, address: Destinations, epoch: int, proposals: tuple[Proposal, ...], all_speak: bool
    ) -> None:
        """Messages stand in the sender's cell."""
        core = self._core
        cell = core.cells.of_site(sender)
        voices = self.voices[cell] if cell is not None else self.own_voices
        primary = voices.sites[epoch % len(voices.sites)]
        entries, is_own = core.entries, cell == self.cell
        if is_own:
            core.primary.hear(sender, epoch)
            self._keep_early(epoch, proposals)
        for proposal in proposals:
            entry = entries.get(proposal.message)
            if entry is None:
                entry = entries.note(proposal.message, address)
            if entry is not None:
                if entry.multicast is None:
                    entries.want(entry, sender)
                if not is_own and voices.stand(entry, epoch, proposal.place, proposal.timestamp):
                    self._complete.append(entry)
        if sender == primary and proposals:
            last = proposals[-1]
            if is_own:
                self._hear_place(sender, epoch, last, all_speak)
            else:
                self._hear(voices, sender, epoch, last.place, last.timestamp)
        self._heard.add(voices.cell)
        self.touch()

    def hear_placed(self, sender: SiteId, epoch: int, proposal: Proposal, all_speak: bool) -> None:
        """A message that is here stands in our cell."""
        if epoch != self._core.primary.promised:
            self._core.primary.hear(sender, epoch)
        self._keep_early(epoch, (proposal,))
        if sender == self._core.primary.primary_of(epoch):
            self._hear_place(sender, epoch, proposal, all_speak)
        self._heard.add(self._own)
        self.touch()

    def _hear_place(self, primary: SiteId, epoch: int, last: Proposal, all_speak: bool) -> None:
        """A proposal is also the primary's word. Rule 5 (i) hears of it when it is accepted."""
        self.own_voices.hear(primary, epoch, last.place, last.timestamp)
        self._core.speaking.is_asked = all_speak

    def _keep_early(self, epoch: int, proposals: tuple[Proposal, ...]) -> None:
        """Places of our cell; their epoch may begin here later."""
        early = self._early
        if epoch > self._early_epoch:
            early.clear()
            self._early_epoch = epoch
        if epoch == self._early_epoch:
            known = 0 if epoch > self._core.primary.started else self.count
            for proposal in proposals:
                if proposal.place > known:
                    early[proposal.place] = proposal

    def on_word(self, sender: SiteId, packet: Word, arrival: Arrival) -> None:
        """How far a site of some cell has come."""
        cell, primary = self._core.cells.of_site(sender), self._core.primary
        if cell is None:
            raise WireError(f"{sender} is in no cell, and gives its word")
        if cell == self.cell and packet.epoch != primary.promised:
            primary.hear(sender, packet.epoch)
        voices = self.voices[cell]
        if self._hear(voices, sender, packet.epoch, packet.count, packet.clock):
            if self._dirty or self.cell is None:
                self._heard.add(cell)
                self.touch()
            else:
                voices.fix()
                self._core.delivery.deliver()

    def _hear(self, voices: Voices, site: SiteId, epoch: int, count: int, clock: int) -> bool:
        """A word; whether anything may follow from it."""
        is_news = voices.hear(site, epoch, count, clock)
        if voices.cell == self.cell:
            primary = self._core.primary
            if epoch == primary.started and site == primary.primary_of(epoch):
                return self._core.delivery.hear_primary(count, clock) or is_news
        return is_news

    def on_final(self, entry: Entry) -> None:
        """Somebody has told us the final timestamp: it stands for all proposals.

        (Else: the others have delivered m and forgotten what they proposed; our clock, which nobody raises, is below.)
        """
        self._complete.append(entry)
        self.touch()

    # ------------------------------------------------------------------ the end of a turn
    def on_turn_timeout(self) -> None:
        """Propose or accept, raise the clock, log, speak, fix, deliver: in this order."""
        self._dirty = False
        core = self._core
        if self.cell is not None:
            has_part = self._complete or self._early or self.unplaced or self.clock > core.speaking.said[2]
            if has_part and core.primary.may_speak:
                # Else only words have come, or we are between two epochs.
                self._take_part()
            heard = self._heard
            for cell in sorted(heard) if len(heard) > 1 else heard:
                self.voices[cell].fix()
            heard.clear()
            core.delivery.deliver()

    def _take_part(self) -> None:
        core = self._core
        leads = core.primary.leads
        first, clock = self.count + 1, self.clock
        acceptances: list[Acceptance] = []
        proposed: dict[Destinations, list[Proposal]] = {}
        if leads:
            self._propose(acceptances, proposed)
        else:
            self._accept(acceptances)
        if self.count >= first:
            self._heard.add(self._own)
            core.delivery.hear_primary(self.count, self.places[-1].timestamp)
        words = self._raise_clock(leads)
        if self._logs and (acceptances or self.clock > clock):
            core.append(Accepted(first, tuple(acceptances), self.clock))
        for address, proposals in proposed.items():
            core.forwarding.send(address, proposals)
        self._speak(words)
        if (proposed or words) and core.keeping.is_report_due:
            # In the same datagram.
            core.keeping.report()

    def _propose(self, acceptances: list[Acceptance], proposed: dict[Destinations, list[Proposal]]) -> None:
        """Rule 2: the primary gives the next place, and a timestamp above its clock."""
        unplaced, self.unplaced = self.unplaced, {}
        for entry in unplaced.values():
            clock = self.clock = self.clock + 1
            self._place(acceptances, entry.message, entry, clock)
            proposals = proposed.get(entry.address)
            if proposals is None:
                proposals = proposed[entry.address] = []
            proposals.append(Proposal(entry.place, entry.message, clock))

    def _accept(self, acceptances: list[Acceptance]) -> None:
        """Rule 3: a follower accepts in the order of places, with the body.

        (With gaps: the longest report lacks a place that is fixed.)
        """
        early = self._early
        if not early or self._early_epoch != self._core.primary.started:
            return
        following, entries = self.count + 1, self._core.entries
        while (proposal := early.get(following)) is not None:
            entry = entries.get(proposal.message)
            if entry is not None and entry.multicast is None:
                return
            del early[following]
            if self.places and proposal.timestamp <= self.places[-1].timestamp:
                return  # it came before the epoch began here, and no primary has given it
            self._place(acceptances, proposal.message, entry, proposal.timestamp)
            following += 1
        if early:
            self._core.branch("early-proposal")

    def _place(self, acceptances: list[Acceptance], message: MessageId, entry: Entry | None, timestamp: int) -> None:
        """One more place."""
        self.places.append(Place(message, timestamp))
        self.count += 1
        if timestamp > self.clock:
            self.clock = timestamp
        multicast: Multicast | None = None
        if entry is not None:
            self.unplaced.pop(message, None)
            self._stand(entry, self.count, timestamp)
            self._complete.append(entry)
            if not entry.logged:
                multicast = entry.multicast
                entry.logged = True
        if self._logs:
            acceptances.append(Acceptance(message, timestamp, multicast))

    def _stand(self, entry: Entry, place: int, timestamp: int) -> None:
        core = self._core
        entry.place = place
        self.own_voices.stand_here(entry, core.primary.started, place, timestamp)
        if not entry.delivered:
            core.delivery.open.append((timestamp, entry.message))

    def _raise_clock(self, leads: bool) -> dict[Destinations | None, MessageId]:
        """Rule 3: whoever has a message at a place, and a proposal for it of every other cell, raises its clock to the
        highest of them. To whom that is to be said, and for which message's sake; None: to our cell."""
        words: dict[Destinations | None, MessageId] = {}
        for entry in self._complete:
            highest, standings = entry.sequence, entry.standings
            if not entry.place or not (highest or len(standings) == len(entry.address.cells)):
                continue
            for standing in standings.values():
                if standing.timestamp > highest:
                    highest = standing.timestamp
            if highest <= entry.highest:
                continue
            if highest > self.clock:
                self._core.branch("clock-raised")
                self.clock = highest
            if entry.highest or leads:
                # Later a higher one; or the primary, whose proposal was its word.
                if highest > entry.standings[self._own].timestamp:
                    words[None] = entry.message
            else:
                words[entry.address] = entry.message
            entry.highest = highest
        self._complete.clear()
        return words

    def advance(self, clock: int) -> None:
        """Raise the clock; who has skipped so far gives nothing below."""
        self.clock = max(self.clock, clock)

    # ------------------------------------------------------------------ speaking
    def _speak(self, words: dict[Destinations | None, MessageId]) -> None:
        """Say our word to whoever needs it, and to ourselves."""
        core = self._core
        if core.speaking.speak(words):
            epoch, count, clock = core.speaking.said
            self.own_voices.hear(core.site, epoch, count, clock)
            if core.primary.leads:
                core.delivery.hear_primary(count, clock)
            self._heard.add(self._own)

    def tell_standings(self, site: SiteId, entries: list[Entry]) -> None:
        """Say to somebody who asked where messages stand in our cell."""
        for address, proposals in standings_by_address(self._own, entries).items():
            send_proposals(self._core, (site,), address, proposals)

    @property
    def is_waiting(self) -> bool:
        """Whether proposals of our cell wait for what stands before them, or a report or a start for a body."""
        return bool(self._early or self.lacking.messages)

    def speak_of(self, entry: Entry) -> None:
        """Say our word about a message that stands here, at the end of the turn."""
        entry.highest = 0
        self._complete.append(entry)
        self.touch()

    # ------------------------------------------------------------------ what the epochs ask
    def report(self) -> tuple[int, tuple[Place, ...], int]:
        """How many places are over, those that follow, and the clock."""
        return self.base, tuple(self.places), self.clock

    def is_needed(self) -> bool:
        """Whether anything is unfinished, delivered here or not.

        (Undelivered only: a cell that has delivered m stays between two epochs, silent, and another one needs its
        words.)
        """
        return self._core.entries.here > 0

    def has_bodies(self, holder: SiteId, places: tuple[Place, ...]) -> bool:
        """Whether every message at these places is here, or over; if not, the holder is asked for the rest."""
        return not self.lacking.ask_for(holder, places)

    def log_bodies(self, places: tuple[Place, ...]) -> None:
        """Log first what of these messages is not in the log."""
        core = self._core
        for place in places:
            entry = core.entries.get(place.message)
            if entry is not None and not entry.logged and entry.multicast is not None:
                entry.logged = True
                core.append(Body(entry.multicast))

    def install(self, started: Started) -> None:
        """An epoch begins with these places: what was accepted before and is not among them stands nowhere. A start is
        the primary's word as well."""
        core = self._core
        self.lacking.clear()
        self._replace(started.epoch, started.base, started.places, started.clock)
        self._hear(
            self.voices[self._own], core.primary.primary_of(started.epoch), started.epoch, self.count, started.clock
        )
        core.delivery.hear_primary(self.count, started.clock)

    def _replace(self, epoch: int, base: int, places: tuple[Place, ...], clock: int) -> None:
        core = self._core
        for entry in core.entries.values():
            entry.highest = 0
            if entry.place:
                entry.place = 0
                if entry.multicast is not None and not entry.delivered:
                    self.unplaced[entry.message] = entry
        self.base = self.count = base
        self.places.clear()
        self.clock = max(self.clock, clock)
        core.delivery.begin()
        self.own_voices.begin()
        voice = self.own_voices.said[core.primary.primary_of(epoch)]
        if voice.epoch == epoch:
            # A start of the epoch that we are in may be older than a word that we have. (Else: we take it, and forget
            # what the primary has said since; it says nothing new, and we wait for that for ever.)
            core.delivery.hear_primary(voice.count, voice.clock)
        for place in places:
            self.places.append(place)
            self.count += 1
            standing = core.entries.get(place.message)
            if standing is not None:
                self.unplaced.pop(place.message, None)
                self._stand(standing, self.count, place.timestamp)
                self._complete.append(standing)
        if self._early_epoch == epoch:
            self._early = {place: proposal for place, proposal in self._early.items() if place > self.count}
        else:
            self._early.clear()
            self._early_epoch = epoch
        self.trim()

    def on_epoch_started(self) -> None:
        """It has begun: our word goes to the cell, and for each unfinished message as in rule 3; the primary proposes
        the unfinished places to the destinations in other cells, and what is at no place anew."""
        core = self._core
        given_up = sum(self._own in entry.standings for entry in self.unplaced.values())
        if given_up:
            core.branch("gave-up-proposal")
        if core.primary.leads:
            if self.unplaced:
                core.branch("proposed-by-the-next")
            elsewhere = (each for each in core.entries.values() if each.place and len(each.address.cells) > 1)
            for address, proposals in standings_by_address(self._own, elsewhere).items():
                to = tuple(site for site in address.others if site not in core.cellmates)
                send_proposals(core, to, address, proposals)
        else:
            self._speak({})
            core.speaking.say(core.cellmates, ())
            core.forwarding.send_again()
        self._complete.extend(entry for entry in core.entries.values() if entry.place)
        core.watching.begin_anew()
        self.touch()

    def resumption_for(self, site: SiteId) -> Resumption | None:
        """What we no longer have for a site of our cell."""
        return self._core.returning.resumption_for(site)

    def check_resumption(self, sender: SiteId, resumption: Resumption) -> None:
        """`WireError` for a state in which no site of our cell can be."""
        check_resumption(self._core, sender, resumption)

    def go_behind(self, resumption: Resumption) -> None:
        """Somebody has forgotten what we lack."""
        self._core.returning.go_behind(resumption)

    # ------------------------------------------------------------------ what is over
    def forget_all(self, over: Iterable[Entry]) -> None:
        """Messages are over, or delivered elsewhere."""
        places, unplaced, entries = self.places, self.unplaced, self._core.entries
        for entry in over:
            message = entry.message
            if unplaced:
                unplaced.pop(message, None)
            if places and places[0].message == message and message not in entries:
                # As mostly: `trim` would look whether it is over.
                places.popleft()
                self.base += 1
        for voices in self.voices.values() if len(self.voices) > 1 else ():
            voices.drop_over()
        self.trim()

    def trim(self) -> None:
        """Places of messages that are over go, from the first on; the numbers go on."""
        places, entries, finished = self.places, self._core.entries, self._core.multicast.finished
        while places and (message := places[0].message) not in entries:
            known = finished.get(message.source)
            if known is None or message not in known:
                break
            places.popleft()
            self.base += 1

    # ------------------------------------------------------------------ after a crash
    def recall_body(self, record: Body) -> None:
        """A message of a start."""
        self._core.recall(record.multicast)

    def recall_accepted(self, record: Accepted) -> None:
        """Places that were accepted, and the clock."""
        if record.acceptances and record.first != self.count + 1:
            raise InvariantViolation(f"place {record.first} follows {self.count} in the log")
        for acceptance in record.acceptances:
            if acceptance.multicast is not None:
                self._core.recall(acceptance.multicast)
            self._place([], acceptance.message, self._core.entries.get(acceptance.message), acceptance.timestamp)
        if record.acceptances:
            self._core.delivery.hear_primary(self.count, self.places[-1].timestamp)
        self.clock = max(self.clock, record.clock)

    def restore(self, base: int, places: tuple[Place, ...], clock: int) -> None:
        """From a checkpoint."""
        self._replace(self._core.primary.started, base, places, clock)
        if places:
            self._core.delivery.hear_primary(self.count, places[-1].timestamp)

    def resume(self) -> None:
        """After a crash: what we have said is in the log."""
        if self.cell is not None and self._core.primary.may_speak:
            self._speak({})
        self._complete.extend(entry for entry in self._core.entries.values() if entry.place)
        self.touch()

    def check_invariants(self) -> None:
        """Timestamps ascend with places, and none is above the clock."""
        last = 0
        for place in self.places:
            if place.timestamp <= last:
                raise InvariantViolation(f"{place} stands behind a timestamp of {last}")
            last = place.timestamp
        if last > self.clock:
            raise InvariantViolation(f"the clock {self.clock} is below the timestamp {last}")
        if self.count != self.base + len(self.places):
            raise InvariantViolation(f"{self.count} places are not {self.base} and {len(self.places)}")
