"""Rule 7: what has been here for long is asked about, and the application hears whom we wait for.

Packets are sent once. What is lost shows here: a message that is not finished after a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.parts.back_off import BackOff
from ordercast.protocols.parts.watch import Watch
from ordercast.protocols.three_step.entries import Entry
from ordercast.protocols.three_step.packets import Answer, Ask, Asked, Told
from ordercast.protocols.three_step.refusals import ASKED_MAX, check_asked, check_told

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep

URGENT_MAX = 16
"""Messages that are asked about at every second interval: those that come first."""
MISSING_MAX = 64
"""Places that are told to somebody who lacks them: the others follow when it has these."""
MISSING_MANY = 512
"""Whoever lacks more than so many is sent all of them. (Else: who was paused for seconds hears of 64 every 0.2 s, and
the others give places faster than that.)"""
START_TICKS_MAX = 8
"""Intervals between two starts of the same epoch for a site that asks."""
NAMELESS_TICKS = 256
"""Intervals after which a message is forgotten that nobody has more of than the name: all who had it are gone."""


def is_time_to_ask(ticks: int) -> bool:
    """Whether to ask about a message that is so old: after 2 intervals, after 4, 8 and 16, then after every 32. (At
    every one: on a slow medium the questions are most of the traffic, and keep the answers away.)"""
    return ticks in (2, 4, 8, 16) or (ticks > 0 and ticks % 32 == 0)


class Asking(Watch):
    """Whatever is not finished after a while is asked about."""

    packets = (Ask, Answer)
    branches = ("asked", "told", "relayed", "nameless", *Watch.branches)

    def __init__(self, core: ThreeStep) -> None:
        super().__init__(core, core.options.ask_seconds)
        self._core = core
        self._begun_tick = 0
        """When the last epoch began."""
        self._start_told: dict[SiteId, tuple[int, BackOff]] = {}
        """Site of our cell -> the epoch whose start it was sent when it asked, and when it may be sent again."""
        self._count_asked: dict[SiteId, int] = {}
        """Site of our cell -> how many places it had accepted when it asked last."""

    # ------------------------------------------------------------------ watching
    def look(self) -> bool:
        """Ask about what has been here for long; forget what nobody has."""
        core = self._core
        core.ordering.lacking.look()
        if not core.entries:
            # (Else: all is over before the next look at the bound, and who was watched there is pinged for ever.)
            core.absence.on_tick()
        if self.tick % core.options.blocked_ticks == 0:
            core.absence.on_tick()
            core.returning.call_back()
        old: list[Entry] = list(self.old())
        self._ask(list(self._due(old)))
        for entry in old:
            if entry.multicast is None and not entry.delivered and self.tick - entry.born_tick >= NAMELESS_TICKS:
                core.branch("nameless")
                core.drop(entry)
        return True

    def is_needed(self) -> bool:
        """While there are messages, or bodies for which a start waits, or somebody who has to be called back, or who is
        not sent the start again before some intervals are over."""
        core = self._core
        return (
            super().is_needed()
            or core.ordering.lacking.is_waiting
            or core.returning.is_waiting
            or any(again.next_tick > self.tick for _, again in self._start_told.values())
        )

    def _due(self, old: list[Entry]) -> Iterator[Entry]:
        """What to ask about now: the first that are not delivered here more often, because everything waits for them.

        (Else: where one packet in five is lost, the questions about one of them are lost four times in a row, and
        nobody delivers anything for two seconds.)
        """
        urgent = 0
        for entry in old:
            ticks = self.tick - max(entry.born_tick, self._begun_tick)
            urgent += not entry.delivered
            if is_time_to_ask(ticks) or (not entry.delivered and urgent <= URGENT_MAX and ticks > 0 and ticks % 2 == 0):
                yield entry

    def begin_anew(self) -> None:
        """Another site orders, or one is back: ask soon again about everything. (Else: what was in vain so far is asked
        about every 32 intervals only.)"""
        self._begun_tick = self.tick

    def _ask(self, entries: list[Entry]) -> None:
        """Ask those who may know more."""
        core = self._core
        questions: dict[SiteId, list[Asked]] = {}
        for entry in entries:
            asked = Asked(entry.message, entry.address.cells, entry.multicast is not None)
            for site in self._whom_to_ask(entry):
                question = questions.setdefault(site, [])
                if len(question) < ASKED_MAX:
                    question.append(asked)
        for site, question in questions.items():
            core.branch("asked")
            self._send(site, tuple(question))

    def _whom_to_ask(self, entry: Entry) -> Iterable[SiteId]:
        """Of what is delivered here, or goes elsewhere, those not known to have taken it; of the rest, our cell, and
        those where it is not fixed.

        (Without our own: the other cells have given us up and forgotten m, which our own keeps for us.)
        """
        core = self._core
        if entry.delivered or core.site not in entry.address.sites:
            return (site for site in entry.address.others if not core.keeping.has_taken(site, entry))
        lacking = () if entry.sequence else (cell for cell in entry.address.cells if cell not in entry.fixed)
        elsewhere = (site for cell in lacking if cell != core.ordering.cell for site in core.cells.cells[cell])
        return (*core.cellmates, *elsewhere)

    def _send(self, site: SiteId, asked: tuple[Asked, ...]) -> None:
        self._core.send((site,), self._question(asked, site in self._core.cellmates))

    def _question(self, asked: tuple[Asked, ...], is_for_mates: bool) -> Ask:
        """With where we stand, for sites of our cell."""
        core = self._core
        if not is_for_mates:
            return Ask(0, 0, 0, None, asked)
        primary = core.primary
        return Ask(primary.promised, primary.started, core.ordering.count, core.delivery.mark, asked)

    def ask_cell(self) -> None:
        """We are back, and ask our cell where it stands. Who had suspected us was right.

        (Each by itself: what goes to all of them leaves first, and they take the suspicion for wrong.)
        """
        self._core.send(self._core.cellmates, self._question((), True))

    # ------------------------------------------------------------------ answering
    def on_ask(self, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
        """Say what we know."""
        core = self._core
        check_asked(core, sender, packet)
        told: list[Told] = []
        standing: list[Entry] = []
        for asked in packet.asked:
            address = core.addresses.named(asked.cells)
            entry = core.entries.note(asked.message, address)
            if entry is None:
                told.append(Told(asked.message, 0, True))
                continue
            if entry.delivered:
                told.append(Told(asked.message, entry.sequence, core.keeping.has_taken(core.site, entry)))
            elif entry.place and core.primary.may_speak and sender in address.sites:
                standing.append(entry)
            if entry.multicast is None and asked.is_here:
                core.entries.want(entry, sender)
                core.multicast.ask_at_once()
        if told or (not packet.asked and sender in core.cellmates):
            self._answer(sender, tuple(told))
        if standing:
            core.ordering.tell_standings(sender, standing)
        if sender in core.cellmates:
            self._answer_mate(sender, packet)
        elif standing:
            core.speaking.say((sender,), (standing[-1].message,))

    def answer_cell(self, site: SiteId) -> None:
        """Tell a site of our cell how far we are."""
        self._answer(site, ())

    def _answer(self, site: SiteId, told: tuple[Told, ...]) -> None:
        core = self._core
        core.send((site,), Answer(told, core.delivery.mark, core.keeping.taken))

    def _answer_mate(self, sender: SiteId, packet: Ask) -> None:
        """A site of our cell also hears where the cell stands; from the primary, what it has missed."""
        core = self._core
        core.returning.note_reached(sender, packet.mark)
        needed = core.absence.given_up.get(sender)
        if needed is not None and (packet.mark is None or packet.mark < needed):
            core.returning.tell(sender)
        if not core.primary.hear(sender, packet.promised):
            return
        if core.primary.leads:
            count_before = self._count_asked.get(sender)
            self._count_asked[sender] = packet.count
            if packet.started < core.primary.started:
                self._tell_start(sender)
            elif packet.count < core.ordering.count:
                self._tell_missing(sender, packet.count, packet.count == count_before)
        core.speaking.say((sender,), packet.served()[:1])

    def _tell_start(self, site: SiteId) -> None:
        """At the primary: send a site of our cell the start that it has not taken; ever more seldom, however much it
        asks about. (Else: who is back with thousands of messages gets all places with every answer. Who has lost a
        start collects again, which is answered at once.)"""
        epoch = self._core.primary.started
        told, again = self._start_told.get(site, (None, None))
        if again is None or told != epoch:
            again = BackOff(START_TICKS_MAX)
            self._start_told[site] = epoch, again
        if self.tick >= again.next_tick:
            again.note_attempt(self.tick)
            self._core.primary.send_start(site)
            self.keep_watching()

    def _tell_missing(self, site: SiteId, count: int, is_stuck: bool) -> None:
        """At the primary: send a site of our cell the proposals that it has not accepted, some of them; or everything,
        where they are over, or many.

        Many are sent only to a site that has come no further since it asked last. (Else: who is back reads what came
        while it was busy, and is a second behind; it is sent twenty thousand places ten times a second, accepts them
        anew, and stays behind.)
        """
        core, places = self._core, self._core.ordering.places
        first = count - core.ordering.base
        is_many = len(places) - first > MISSING_MANY
        if first < 0 or is_many:
            if first < 0 or is_stuck:
                self._tell_start(site)
            return
        missing = [places[index] for index in range(first, min(len(places), first + MISSING_MAX))]
        known = (core.entries.get(place.message) for place in missing)
        found = [entry for entry in known if entry is not None]
        if len(found) < len(missing):
            self._tell_start(site)
        else:
            core.ordering.tell_standings(site, found)

    def on_answer(self, sender: SiteId, packet: Answer, arrival: Arrival) -> None:
        """What somebody has delivered. Its final timestamp is everybody's, and so is the order of deliveries."""
        core = self._core
        check_told(core, sender, packet)
        core.source.note_reached(sender, packet.reached)
        core.returning.note_reached(sender, packet.reached)
        for told in packet.told:
            entry = core.entries.get(told.message)
            if entry is None or sender not in entry.address.sites:
                continue
            if told.sequence and not entry.sequence and core.site in entry.address.sites:
                core.branch("told")
                core.delivery.on_final(entry, told.sequence)
                core.ordering.on_final(entry)
            if told.is_taken:
                core.keeping.note_settled(entry, sender)
        if packet.taken is not None:
            core.keeping.note_taken(sender, packet.taken)
        if len(packet.told) >= ASKED_MAX and all(told.is_taken for told in packet.told):
            self._ask_on(sender)

    def _ask_on(self, site: SiteId) -> None:
        """Somebody has taken all that one question could name: ask it about the rest at once.

        (Else: a source outside, which knows no final timestamps, comes back with five thousand messages in its log,
        asks about 128 of them every 32 intervals, and may send nothing for two minutes.)

        Not about what it has taken, as it has said. (Else: who is back waits for bodies of a start, and has 128
        messages that it cannot deliver before; it asks about these as fast as it is answered, for half a minute.)
        """
        has_taken = self._core.keeping.has_taken
        # What it has taken first, which is most. (Else: who is back with twelve thousand messages spends a third of its
        # time on whom else to ask about those that it need not ask about.)
        untaken = (entry for entry in self.old() if site not in entry.settled and not has_taken(site, entry))
        rest = islice((entry for entry in untaken if site in self._whom_to_ask(entry)), ASKED_MAX)
        asked = tuple(Asked(entry.message, entry.address.cells, entry.multicast is not None) for entry in rest)
        if asked:
            self._send(site, asked)

    # ------------------------------------------------------------------ waiting
    def whom_we_wait_for(self) -> str:
        """Why the oldest message that should be delivered here, or taken elsewhere, is not; empty when it is young."""
        core = self._core
        for entry in core.entries.values():
            if self.tick - entry.born_tick < core.options.blocked_ticks:
                break
            if core.site not in entry.address.sites:
                missing = entry.address.quorum.missing(entry.settled)
                if missing:
                    return f"{entry.message} is not taken by {', '.join(missing)}"
            elif not entry.sequence:
                return self._what_is_not_fixed(entry)
            elif not entry.delivered:
                return core.delivery.whom_we_wait_for(entry)
        return core.absence.whom_we_wait_for()

    def _what_is_not_fixed(self, entry: Entry) -> str:
        cells = self._core.cells.cells
        for cell in entry.address.cells:
            if cell not in entry.standings:
                return f"{entry.message} has no place in the cell {', '.join(cells[cell])}"
            if cell not in entry.fixed:
                return f"{entry.message} is not accepted by enough of {', '.join(cells[cell])}"
        return f"{entry.message} has no final timestamp"
