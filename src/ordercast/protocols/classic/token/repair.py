"""Repair: who misses turns or messages asks for them, and who has them answers, whatever list either is in.

Three wants share one question: turns and messages of the normal phase, the end of the history with which a new list
begins, and all the history that a site missed while it was not in the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ordercast.core import Multicast, Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import Ask, Data, Forgotten, ForgottenOfRoster, History
from ordercast.protocols.classic.token.packing import pack
from ordercast.protocols.classic.token.rosters import lineage, read_roster
from ordercast.protocols.classic.token.turns import Entry, Turn, is_change

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

HISTORY_TURNS_MAX = 64
"""Turns in one answer: some kilobytes."""
MISSING_MAX = 64
"""Stretches of messages in one question."""
ANSWER_PACKETS_MAX = 16
"""In one answer; who has got them all asks again. More at once from everybody who is asked, again and again, is more
than a slow medium takes, and then nothing gets through at all."""
ASK_SECONDS = 0.005
"""A message that its acknowledgement overtook is usually right behind it."""


class Repair(Part):
    """Asking and answering."""

    packets = (Data, Ask, History, Forgotten, ForgottenOfRoster)
    timers = ("ask",)
    branches = ("asked", "history-sent", "caught-up", "summary-sent")

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self._studied: History | None = None
        """An answer that waits for messages."""
        self.history_wanted = 0
        """History up to this turn is wanted from outside the list."""
        self._teacher: SiteId | None = None
        """Whom to ask first."""
        self._asking = False
        self._retries = 0
        self._in_vain = 0
        """Questions without an answer that helped, whatever list they were asked for. (Counted for each list anew: b
        lacks what everybody has forgotten, the list is given up because b does not install it, and the next one is
        formed with b before b has asked often enough to be told so.)"""
        self._asked: SiteId | None = None
        self._packets_since_ask = 0
        self._reader_awaited = False
        """Whether more can be learned only when the application has taken what was delivered to it."""

    # ------------------------------------------------------------------ wanting
    def prefer(self, teacher: SiteId) -> None:
        """Ask this site first: it has what is missing."""
        self._teacher = teacher

    def want_history(self, through: int, teacher: SiteId) -> None:
        """Catch up from outside the list."""
        self.history_wanted = through
        self._teacher = teacher
        self.ask_anew()

    def want_no_history(self) -> None:
        """Nothing is wanted from outside the list any more."""
        self.history_wanted = 0

    def _wanted_turns(self) -> Iterator[Turn]:
        """The turns whose messages are wanted, in order."""
        if self._studied is not None:
            yield from self._studied.turns
        installing = self._core.joining.installing
        if installing is not None:
            yield from installing.uncommitted
        yield from self._core.ring.pending_turns()

    def _missing(self) -> tuple[tuple[int, SiteId, int, int], ...]:
        """The messages of these turns that are not here."""
        ledger, find = self._ledger, self._core.backlog.find
        missing: list[tuple[int, SiteId, int, int]] = []
        for turn in self._wanted_turns():
            if turn.number <= ledger.committed or ledger.find(turn.number, turn.version) is not None:
                continue
            for run in turn.runs:
                source = run.first.source
                absent = [n for n in range(run.source_number, run.last + 1) if find(source, n) is None]
                if absent:
                    missing.append((turn.number, source, absent[0], absent[-1]))
                if len(missing) >= MISSING_MAX:
                    return tuple(missing)
        return tuple(missing)

    def _is_history_needed(self) -> bool:
        """Whether turns are missing, and not only messages."""
        committed = self._ledger.committed
        if self._studied is not None and self._studied.through > committed:
            return False
        installing = self._core.joining.installing
        if committed < self.history_wanted or (installing is not None and committed < installing.committed):
            return True
        return self._core.ring.misses_turns()

    # ------------------------------------------------------------------ asking
    def ask_soon(self, urgent: bool = False) -> None:
        """Something is missing: ask when it has not come after a moment; at once when that is urgent."""
        if self._asking:
            return
        if urgent:
            self._send_ask()
        else:
            self._asking = True
            self._retries = 0
            self._core.set_timer("ask", ASK_SECONDS)

    def ask_anew(self) -> None:
        """Something else is missing than before: ask at once."""
        self._retries = 0
        self._send_ask()

    def _send_ask(self) -> None:
        """Ask for everything that is missing; nothing when nothing is."""
        core, ledger = self._core, self._ledger
        after = ledger.committed if self._is_history_needed() else -1
        missing = self._missing()
        self._asking = after >= 0 or bool(missing)
        if not self._asking:
            self._in_vain = 0
            core.cancel_timer("ask")
            return
        core.set_timer("ask", core.patience.retry_after(self._retries))
        self._packets_since_ask = 0
        self._asked = teacher = self._choose_teacher()
        if teacher is not None:
            core.branch("asked")
            in_vain = self._in_vain > core.options.retries // 2
            coming = core.joining.installing if core.system.outside else None
            version = ledger.version if coming is None else coming.version
            core.send((teacher,), Ask(version, after, missing, core.delivery.settled, in_vain))

    def _choose_teacher(self) -> SiteId | None:
        """The one who is known to have it; when that one does not answer, now and then anybody."""
        if self._teacher is None or self._retries % 2:
            others = self._core.system.others or self._core.system.found
            return self._core.context.random.choice(others) if others else None
        return self._teacher

    def on_ask_timeout(self) -> None:
        """No answer, or not enough of it."""
        self._send_ask()
        self._retries += 1
        self._in_vain += 1

    # ------------------------------------------------------------------ answering
    def on_ask(self, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
        """Send what is asked for, as far as it is here."""
        core = self._core
        core.ring.note_asked(sender)
        core.settlement.note(sender, packet.settled)
        wanted = [turn for turn, *_which in packet.missing]
        if packet.after >= 0:
            wanted.append(packet.after + 1)
        gone = self._ledger.forgotten if packet.in_vain else min(core.settlement.gone, self._ledger.forgotten)
        if wanted and min(wanted) <= gone:
            self._send_summary(sender)
        elif packet.after >= self._ledger.forgotten:
            self._send_history(sender, packet)
        for data in pack(self._asked_messages(packet), ANSWER_PACKETS_MAX):
            core.send((sender,), data)

    def _send_history(self, to: SiteId, ask: Ask) -> None:
        """Committed turns; and the others behind them when both are in the same list."""
        core, ledger = self._core, self._ledger
        turns, through, version = ledger.committed_turns(ask.after, HISTORY_TURNS_MAX, core.options.window_messages)
        same_list = ask.version == ledger.version == ledger.newest and through == ledger.committed
        uncommitted = ledger.uncommitted() if same_list else ()
        if through > ask.after or uncommitted:
            core.branch("history-sent")
            core.send(
                (to,),
                History(
                    ledger.version,
                    ask.after,
                    through,
                    version,
                    tuple(turns),
                    uncommitted,
                    core.settlement.everywhere,
                    core.settlement.forgotten_in_list,
                ),
            )

    def _send_summary(self, to: SiteId) -> None:
        """Of all that is committed, and not of what is forgotten: who is so far behind would hardly ever catch up with
        a busy list.

        Only when nobody has what is wanted, or it was not found. (Else: c has returned by a summary of turn 100; b,
        which was in the list all the time and has 98, asks c, and misses two turns that a has.)
        """
        core, ledger, settlement = self._core, self._ledger, self._core.settlement
        core.branch("summary-sent")
        told = (
            ledger.version,
            settlement.everywhere,
            settlement.forgotten_in_list,
            settlement.gone,
            ledger.forgotten,
            ledger.summary(),
        )
        roster = ledger.committed_roster
        core.send((to,), Forgotten(*told) if roster.is_configured else ForgottenOfRoster(*told, roster))

    def _asked_messages(self, ask: Ask) -> Iterator[tuple[SiteId, int, Multicast]]:
        """Source, source number, message; a bounded number of them."""
        core = self._core
        left = core.options.window_messages
        for turn, source, first, last in ask.missing:
            entry = self._ledger.entries.get(turn)
            in_turn = {} if entry is None else {n: m for of, n, m in entry.numbered() if of == source}
            for number in range(first, min(last, first + left - 1) + 1):
                multicast = in_turn.get(number) or core.backlog.find(source, number)
                if multicast is not None:
                    left -= 1
                    yield source, number, multicast

    # ------------------------------------------------------------------ learning
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """Messages that are to be acknowledged, or were and are missing."""
        core = self._core
        if not packet.multicasts:
            raise WireError("data without a message")
        source = packet.multicasts[0].id.source
        if is_change(source):
            self._hear_change(packet)
        else:
            core.system.check_messages(source, packet.multicasts)
            core.backlog.keep(source, packet.source_number, packet.multicasts)
        self.learn()
        if self._asking and sender == self._asked:
            self._packets_since_ask += 1
            if self._packets_since_ask == ANSWER_PACKETS_MAX:
                self._send_ask()

    def _hear_change(self, packet: Data) -> None:
        """A new roster that a turn brings: from here on the messages are kept of those who came with it."""
        core = self._core
        roster = read_roster(packet.multicasts[0])
        if lineage(roster.version) == core.system.lineage:
            core.backlog.keep_change(packet.source_number, packet.multicasts[0])
            core.system.hear_of(roster, roster.version)
            if roster.version > self._ledger.roster.version:
                core.backlog.admit(roster)

    def on_history(self, sender: SiteId, packet: History, arrival: Arrival) -> None:
        """Committed turns are taken over whatever list either side is in; the others only within the same list."""
        core, ledger = self._core, self._ledger
        core.system.check_turns((*packet.turns, *packet.uncommitted))
        if core.loss.lost:
            return
        self._hear_forgotten(packet)
        # An answer that begins behind a gap, or tells nothing new, does not replace one that waits for messages.
        if packet.after <= ledger.committed < packet.through:
            self._studied = packet
            self._retries = self._in_vain = 0
        if packet.version == ledger.version and core.stable.in_normal_phase:
            for turn in packet.uncommitted:
                core.ring.note_turn(turn)
        before = (ledger.committed, ledger.accepted)
        self.learn()
        # After an answer that brought nothing wait for the timer, or two who miss the same ask each other for ever.
        if self._studied is packet or (self._asking and before != (ledger.committed, ledger.accepted)):
            self._send_ask()

    def _hear_forgotten(self, packet: History | Forgotten) -> None:
        core = self._core
        core.settlement.forget(packet.everywhere)
        if packet.version == self._ledger.version and core.stable.in_normal_phase:
            core.settlement.forget_in_list(packet.in_list)

    def on_forgotten(self, sender: SiteId, packet: Forgotten, arrival: Arrival) -> None:
        """What this site lacks is gone: go on behind it, with everything before it delivered.

        Not when nothing is missing after all: the site may have claimed, before a crash, what it learns only now again
        to be committed; or it has accepted the very turn that is summed up.
        """
        core, ledger, summary = self._core, self._ledger, packet.summary
        roster = packet.roster if isinstance(packet, ForgottenOfRoster) else None
        if roster is None and not core.context.groups:
            return  # the sender knows nothing yet of those who have come
        core.system.check_summary(summary, roster)
        if core.loss.lost or core.system.outside:
            return
        self._hear_forgotten(packet)
        before = ledger.committed
        if ledger.find(summary.number, summary.version) is not None:
            core.stable.commit(summary.number)
        elif ledger.committed < packet.forgotten:
            if not core.delivery.is_done:
                self.wait_for_reader()
                return
            self._studied = None
            core.stable.take_over(summary, core.stable.promised, roster)
            core.settlement.note_gone(packet.gone)
        if ledger.committed > before:
            self._retries = self._in_vain = 0
            self.learn()
            core.probing.note_progress()
            if self._asking:
                self._send_ask()

    def on_forgotten_of_roster(self, sender: SiteId, packet: ForgottenOfRoster, arrival: Arrival) -> None:
        """The same."""
        self.on_forgotten(sender, packet, arrival)

    def wait_for_reader(self) -> None:
        """What was learned can be taken over only when the application has taken what waits for it."""
        self._reader_awaited = True
        self._core.block("reader", f"{self._core.site} catches up when its application has taken what it was given")

    def note_taken(self) -> None:
        """The application has taken something."""
        if self._reader_awaited and (self._studied is not None or self._core.delivery.is_done):
            self._reader_awaited = False
            self._core.block("reader", "")
            self.learn()
            self.ask_anew()

    def learn(self) -> None:
        """Go on with whatever was waiting, as far as it is complete now."""
        core = self._core
        committed = self._ledger.committed
        if self._studied is not None:
            self._study(self._studied)
        core.joining.go_on()
        core.ring.accept_pending()
        if self._ledger.committed > committed:
            core.probing.note_progress()

    def _study(self, history: History) -> None:
        """Take over the history in hand as far as its messages are here."""
        core, ledger = self._core, self._ledger
        entries: list[Entry] = []
        for turn in history.turns:
            if turn.number <= ledger.committed:
                continue
            entry = core.backlog.assemble(turn)
            if entry is None:
                if entries:
                    self._settle(entries)
                return
            if not core.settlement.make_room_for((*entries, entry)):
                if entries:
                    self._settle(entries)
                    self._study(history)
                else:
                    self.wait_for_reader()
                return
            entries.append(entry)
        self._studied = None
        if history.through > ledger.committed:
            core.branch("caught-up")
            core.stable.settle(history.through, history.through_version, tuple(entries))
        if self._is_history_needed():
            self._send_ask()

    def _settle(self, entries: list[Entry]) -> None:
        """Take over a part of the history in hand."""
        last = entries[-1].turn
        self._core.stable.settle(last.number, last.version, tuple(entries))
