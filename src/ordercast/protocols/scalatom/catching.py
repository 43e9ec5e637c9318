"""Catching up: what a site asks for when it has lost its memory in a crash, or letters because it was away for long, or
when a message has been here for long and those who should have told more of it are gone.

The answer comes in pieces, each asked for when the one before has been worked off (the bodies that it names are here),
so that neither side has to buffer what the other one knows. A question is answered once and an answer is taken once,
however many copies come. (Else: each copy of a piece brings a question, each copy of that a new piece, and a site that
has missed some thousands of messages drowns in them.)

Both sides of a crash ask: the one that crashed has forgotten what it had heard, and what it had posted and was not
confirmed is lost with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import MessageId, Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.parts.consensus_packets import Decide, InstanceName, Value
from ordercast.protocols.scalatom.entries import Entry
from ordercast.protocols.scalatom.packets import CatchUp, Known, Overdue, Resumption, Summary

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom

PIECE_MAX = 64
"""Messages in one piece of an answer: with the decisions about them some kilobytes. Fewer where the link keeps so few
letters that the bodies would not fit in a quarter of them."""
OVERDUE_MAX = 256
"""Messages of either kind in one question: some kilobytes."""


class Catching(Part):
    """Asking and answering."""

    packets = (Overdue, CatchUp, Summary)
    branches = ("catching-up", "catching-up-further", "overdue")

    def __init__(self, core: Scalatom) -> None:
        self._core = core
        self._piece_max = max(1, min(PIECE_MAX, core.options.letters_max // 4))
        self._incarnations: dict[SiteId, int] = {}
        self._taken: dict[SiteId, int] = {}
        """Site -> the number of the last piece of an answer that we have taken."""
        self._pieces: dict[SiteId, int] = {}
        """Site -> the number of a piece of its answer that is not worked off, when it is not the last one."""
        self._answered: dict[SiteId, int] = {}
        """Site -> the number of its last question that we have answered."""
        self._answers: dict[SiteId, tuple[int, Resumption | None]] = {}
        """Site -> the entries in our history when it began to ask, and what we no longer had for it."""

    def begin(self, site: SiteId) -> None:
        """Ask a site from the beginning, unless we are asking already."""
        if not self._open_questions(site):
            self._core.branch("catching-up")
            self._pieces.pop(site, None)
            self._ask(site, 0)

    def _begin_anew(self, site: SiteId) -> None:
        """The site has crashed: ask it again, also if it has not confirmed our last question.

        (Else: it was asked, answered, and crashed, its answer is lost, and its receipt is under way. It comes back, and
        we believe that it will be asked anyway; then the receipt comes. Its timestamps are never heard of.)
        """
        self._core.link.withdraw(site, self._open_questions(site))
        self.begin(site)

    def _open_questions(self, site: SiteId) -> list[int]:
        unconfirmed = self._core.link.unconfirmed(site)
        return [letter.number for letter in unconfirmed if isinstance(letter, CatchUp) and letter.cursor == 0]

    def _ask(self, site: SiteId, cursor: int) -> None:
        core = self._core
        core.link.post((site,), CatchUp(core.link.next, core.context.incarnation, cursor), vital=True)

    def begin_all(self) -> None:
        """After a crash: ask the cell, and everyone who takes part in something that is in the log.

        Whoever else has told us something goes on telling it: a letter about a message that was not in the log was not
        confirmed.
        """
        core = self._core
        sites = set(core.cellmates)
        for entry in core.entries.values():
            sites.update(entry.address.sites)
            sites.add(entry.message.source)
        for site in sorted(sites - {core.site}):
            self.begin(site)

    def on_catch_up(self, sender: SiteId, packet: CatchUp, arrival: Arrival) -> None:
        """Tell a site what it should know; if it has crashed, there is something to ask as well."""
        core = self._core
        core.link.acknowledge(sender, packet)
        if packet.number <= self._answered.get(sender, 0):
            return
        if packet.cursor and (sender not in self._answers or core.link.is_estranged(sender)):
            # We have crashed since it began, or it has missed letters: it must begin anew.
            core.link.estrange(sender)
            return
        self._answered[sender] = packet.number
        if packet.cursor == 0:
            core.link.restore(sender)
            resumption = core.returning.resumption_for(sender) if sender in core.cellmates else None
            self._answers[sender] = (core.histories.count, resumption)
        if packet.incarnation > self._incarnations.get(sender, 0):
            self._incarnations[sender] = packet.incarnation
            self._begin_anew(sender)
        if packet.cursor == 0:
            core.consensus.resume_with(sender)
        self._answer(sender, packet)

    def _answer(self, site: SiteId, question: CatchUp) -> None:
        core = self._core
        base, resumption = self._answers[site]
        cursor = question.cursor
        known: list[Known] = []
        decisions: dict[InstanceName, Value] = {}
        last = True
        for entry in core.entries.values():
            if entry.ordinal <= cursor:
                continue
            takes_part = site in entry.address.sites
            if not (takes_part or site == entry.message.source):
                continue
            if (
                entry.delivered
                and resumption is not None
                and entry.key <= resumption.through
                and site not in core.loss.known
            ):
                # Others have forgotten it already, or will.
                continue
            if entry.multicast is None and not entry.sequence:
                # Whoever has it tells of it. (Told by us: all who had it are gone, and the asker waits for its body,
                # and with that for the rest of our answer, for ever.)
                continue
            if len(known) == self._piece_max:
                last = False
                break
            settled = core.site in entry.settled
            known.append(
                Known(entry.message, entry.address.cells, core.histories.told_index(entry), entry.timestamp, settled)
            )
            cursor = entry.ordinal
            if takes_part and entry.instance in core.consensus.decisions:
                decisions[entry.instance] = core.consensus.decisions[entry.instance]
        core.link.post(
            (site,),
            Summary(
                core.link.next,
                question.number,
                cursor,
                last,
                base,
                tuple(known),
                tuple(decisions.items()),
                core.histories.mark,
                resumption if last else None,
                core.loss.lives,
            ),
        )
        if last and site in core.cellmates:
            core.histories.tell_again(site)

    def on_summary(self, sender: SiteId, packet: Summary, arrival: Arrival) -> None:
        """A piece of the answer."""
        core = self._core
        if packet.number <= self._taken.get(sender, -1) or not core.link.is_of_this_incarnation(packet.question):
            # A copy, which is confirmed when the bodies are here; or the answer to an earlier incarnation: the pieces
            # before it are forgotten. (Not whatever answers an old question: the sender has crashed, a copy of that
            # question comes to it, and it has dropped letters to us for the sake of this answer.)
            core.confirming.acknowledge(sender, packet)
            return
        self._taken[sender] = packet.number
        core.source.note_reached(sender, packet.reached)
        for name, value in packet.decisions:
            if core.site in core.ordering.address_named(name).sites:
                core.consensus.learn(name, value)
        for known in packet.known:
            address = core.addresses.named(known.cells)
            entry = core.entries.get(known.message)
            if core.site in address.sites:
                entry = core.entries.note(known.message, address)
                if sender in core.cellmates and known.index:
                    core.histories.mates[sender].add(known.index, known.message, known.timestamp)
            if entry is None:
                continue
            if entry.multicast is None:
                core.entries.want(entry, sender)
            if known.timestamp and sender in address.sites and core.site in address.sites:
                core.ordering.note_stamp(entry, sender, known.timestamp)
            if known.settled and sender in address.sites:
                core.keeping.note_settled(entry, sender)
            core.ordering.propose(address)
        if sender in core.cellmates and packet.last:
            mate = core.histories.mates[sender]
            mate.skip_to(packet.base)
            mate.resumption = packet.given_up
            core.returning.on_told()
            core.histories.on_applied(mate)
        core.multicast.ask_at_once()
        if not packet.last:
            self._pieces[sender] = packet.number
        core.confirming.acknowledge(sender, packet)

    def on_worked_off(self, sender: SiteId, packet: Summary) -> None:
        """All that a piece names is here: ask for the next one."""
        if packet.last:
            self._core.loss.on_told(sender, packet)
        if self._pieces.get(sender) == packet.number:
            del self._pieces[sender]
            self._core.branch("catching-up-further")
            self._ask(sender, packet.cursor)

    # ------------------------------------------------------------------ what has been here for long
    def ask_overdue(self, entries: Iterable[Entry]) -> None:
        """Ask for what we have not heard of these messages, the oldest first.

        What somebody has taken. (Else: b tells all what it has taken, and our copy is lost; b hears the same of all,
        forgets the message, and crashes before it repeats its letter. We keep the message for ever, and its source
        gets no more credit in the end.)

        Which number a message got. (Else: a and we have stamped m; a proposes, c adopts it, and a tells c the decision
        and is gone, before its timestamp and its decision have come to us. c knows the number before it has m, so it
        gives no timestamp, and we wait for a second one for ever.)
        """
        core = self._core
        questions: dict[SiteId, tuple[list[Entry], list[Entry]]] = {}
        for entry in entries:
            is_settled = core.site in entry.settled
            if entry.sequence and not is_settled:
                continue
            is_member = core.site in entry.address.sites
            # Of what no majority has taken nobody can say where it stands in the order.
            is_open = not entry.sequence if is_member else not entry.taken
            for site in entry.address.others:
                if (is_open and is_member) or site not in entry.settled:
                    questions.setdefault(site, ([], []))[is_open].append(entry)
        for site, (unsettled, undecided) in questions.items():
            if not any(isinstance(letter, Overdue) for letter in core.link.unconfirmed(site)):
                self._ask_about(site, unsettled[:OVERDUE_MAX], undecided[:OVERDUE_MAX])

    def ask_undecided(self) -> None:
        """Ask the cell for the numbers of everything that waits for one here."""
        core = self._core
        undecided = [e for e in core.entries.values() if not e.sequence and core.site in e.address.sites]
        for first in range(0, len(undecided), OVERDUE_MAX):
            for site in core.cellmates:
                self._ask_about(site, [], undecided[first : first + OVERDUE_MAX])

    def _ask_about(self, site: SiteId, unsettled: list[Entry], undecided: list[Entry]) -> None:
        core = self._core
        core.branch("overdue")
        marks = [entry.key if entry.sequence else core.source.reached_by(site) for entry in unsettled]
        question = Overdue(
            core.link.next,
            tuple(entry.message for entry in unsettled),
            max((mark for mark in marks if mark is not None), default=None),
            tuple(entry.message for entry in undecided),
        )
        core.link.post((site,), question)

    def on_overdue(self, sender: SiteId, packet: Overdue, arrival: Arrival) -> None:
        """Say what we know of it."""
        core = self._core
        core.keeping.tell_settled(sender, packet.unsettled, packet.through)
        core.keeping.tell_settled(sender, packet.undecided, None)
        self.tell_decisions(sender, packet.undecided)
        core.returning.tell_gone(sender, packet.undecided)
        core.link.acknowledge(sender, packet)

    def tell_decisions(self, site: SiteId, messages: Iterable[MessageId]) -> None:
        """Tell a participant the numbers that we know."""
        core = self._core
        known = (core.entries.get(name) for name in messages)
        for name in dict.fromkeys(entry.instance for entry in known if entry is not None):
            decision = core.consensus.decisions.get(name)
            if decision is not None and site in core.ordering.address_named(name).sites:
                core.link.post((site,), Decide(core.link.next, name, decision))
