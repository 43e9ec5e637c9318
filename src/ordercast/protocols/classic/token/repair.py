"""Repair: who misses turns or messages asks for them, and who has them answers, whatever list either is in.

Three wants share one question: turns and messages of the normal phase, the end of the history with which a new list
begins, and all the history that a site missed while it was not in the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ordercast.core import Context, Multicast, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import Ask, Data, History, Install
from ordercast.protocols.classic.token.stable import StableState
from ordercast.protocols.classic.token.turns import Entry, Turn

PENDING_TURNS_MAX = 256
"""Turns heard ahead of a gap; those beyond are asked for again when the gap is closed."""
HISTORY_TURNS_MAX = 64
"""Turns in one answer: some kilobytes."""
MISSING_MAX = 64
"""Stretches of messages in one question."""
DATA_BYTES_MAX = 16_384
"""Payload in one packet, unless a single message is larger: an answer must not need a larger datagram than the message
itself did."""
DATA_MESSAGES_MAX = 64
ANSWER_PACKETS_MAX = 16
"""In one answer; who has got them all asks again. More at once from everybody who is asked, again and again, is more
than a slow medium takes, and then nothing gets through at all."""
SLOWNESS_MAX = 3
"""Doublings of a time to wait."""
ASK_SECONDS = 0.005
"""A message that its acknowledgement overtook is usually right behind it."""


class Repair(StableState):
    """Asking and answering."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pending: dict[int, Turn] = {}
        """Turns of the installed list that cannot be accepted yet."""
        self.heard = 0
        """The highest turn of the installed list that anybody has spoken of."""
        self.studied: History | None = None
        """An answer that waits for messages."""
        self.installing: Install | None = None
        """A new list that waits for the end of its history."""
        self.history_wanted = 0
        """History up to this turn is wanted from outside the list."""
        self.teacher: SiteId | None = None
        """Whom to ask first."""
        self.slowness = 0
        """How often suspicions have come one after the other: the network may be slower than the options believe."""
        self.asking = False
        self.ask_retries = 0
        self.asked: SiteId | None = None
        self.packets_since_ask = 0

    # ------------------------------------------------------------------ wanting
    def assemble(self, turn: Turn) -> Entry | None:
        """The turn with its messages, when they are all here."""
        known = self.ledger.find(turn.number, turn.version)
        if known is not None:
            return known
        multicasts: list[Multicast] = []
        for run in turn.runs:
            for number in range(run.source_number, run.last + 1):
                multicast = self.find(run.first.source, number)
                if multicast is None:
                    return None
                multicasts.append(multicast)
        return Entry(turn, tuple(multicasts))

    def find(self, source: SiteId, number: int) -> Multicast | None:
        """A message that is not committed here, wherever it is."""
        found = self.backlog.find(source, number)
        return self.ledger.find_uncommitted(source, number) if found is None else found

    def wanted_turns(self) -> Iterator[Turn]:
        """The turns whose messages are wanted, in order."""
        if self.studied is not None:
            yield from self.studied.turns
        if self.installing is not None:
            yield from self.installing.uncommitted
        yield from (self.pending[number] for number in sorted(self.pending))

    def missing(self) -> tuple[tuple[int, SiteId, int, int], ...]:
        """The messages of these turns that are not here."""
        missing: list[tuple[int, SiteId, int, int]] = []
        for turn in self.wanted_turns():
            if turn.number <= self.ledger.committed or self.ledger.find(turn.number, turn.version) is not None:
                continue
            for run in turn.runs:
                source = run.first.source
                absent = [n for n in range(run.source_number, run.last + 1) if self.find(source, n) is None]
                if absent:
                    missing.append((turn.number, source, absent[0], absent[-1]))
                if len(missing) >= MISSING_MAX:
                    return tuple(missing)
        return tuple(missing)

    def history_needed(self) -> bool:
        """Whether turns are missing, and not only messages."""
        committed = self.ledger.committed
        if self.studied is not None and self.studied.through > committed:
            return False
        if committed < self.history_wanted or (self.installing is not None and committed < self.installing.committed):
            return True
        return (
            self.in_normal_phase and self.heard > self.ledger.accepted and self.ledger.accepted + 1 not in self.pending
        )

    # ------------------------------------------------------------------ asking
    def ask_soon(self, at_once: bool = False) -> None:
        """Something is missing: ask when it has not come after a moment."""
        if at_once:
            self.send_ask()
        elif not self.asking:
            self.asking = True
            self.ask_retries = 0
            self.set_timer("ask", ASK_SECONDS)

    def send_ask(self) -> None:
        """Ask for everything that is missing; nothing when nothing is."""
        after = self.ledger.committed if self.history_needed() else -1
        missing = self.missing()
        self.asking = after >= 0 or bool(missing)
        if not self.asking:
            self.cancel_timer("ask")
            return
        self.set_timer("ask", self.retry_after(self.ask_retries))
        self.packets_since_ask = 0
        self.asked = teacher = self.choose_teacher()
        if teacher is not None:
            self.branch("asked")
            self.send((teacher,), Ask(self.ledger.version, after, missing, self.settled))

    def choose_teacher(self) -> SiteId | None:
        """The one who is known to have it; when that one does not answer, now and then anybody."""
        if self.teacher is None or self.ask_retries % 2:
            return self.context.random.choice(self.others) if self.others else None
        return self.teacher

    def on_ask_timeout(self) -> None:
        """No answer, or not enough of it."""
        self.send_ask()
        self.ask_retries += 1

    def retry_after(self, retries: int) -> float:
        """Twice as long each time, up to eight times as long; longer from the beginning where that has proved too
        short."""
        return self.options.retry_seconds * (1 << min(retries + self.slowness, SLOWNESS_MAX))

    # ------------------------------------------------------------------ answering
    def on_ask(self, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
        """Send what is asked for, as far as it is here."""
        self.note_settled(sender, packet.settled)
        if packet.after >= 0:
            self.send_history(sender, packet)
        self.send_data_packets((sender,), self.asked_messages(packet), ANSWER_PACKETS_MAX)

    def send_history(self, to: SiteId, ask: Ask) -> None:
        """Committed turns; and the others behind them when both are in the same list."""
        ledger = self.ledger
        turns, through, version = ledger.committed_turns(ask.after, HISTORY_TURNS_MAX, self.options.window_messages)
        same_list = ask.version == ledger.version == ledger.newest and through == ledger.committed
        uncommitted = ledger.uncommitted() if same_list else ()
        if through > ask.after or uncommitted:
            self.branch("history-sent")
            self.send(
                (to,),
                History(ledger.version, ask.after, through, version, tuple(turns), uncommitted, ledger.forgotten),
            )

    def asked_messages(self, ask: Ask) -> Iterator[tuple[SiteId, int, Multicast]]:
        """Source, source number, message; a bounded number of them."""
        left = self.options.window_messages
        for turn, source, first, last in ask.missing:
            entry = self.ledger.entries.get(turn)
            in_turn = {} if entry is None else {n: m for of, n, m in entry.numbered() if of == source}
            for number in range(first, min(last, first + left - 1) + 1):
                multicast = in_turn.get(number) or (self.find(source, number) if source in self.settled_at else None)
                if multicast is not None:
                    left -= 1
                    yield source, number, multicast

    def send_data_packets(
        self, to: tuple[SiteId, ...], messages: Iterable[tuple[SiteId, int, Multicast]], packets_max: int
    ) -> None:
        """Pack messages that follow each other into packets of a reasonable size, so many packets at the most."""
        packet: list[Multicast] = []
        begins, size, previous = 0, 0, ("", 0)
        for source, number, multicast in messages:
            size += len(multicast.payload)
            follows = previous == (source, number - 1) and len(packet) < DATA_MESSAGES_MAX and size <= DATA_BYTES_MAX
            if packet and not follows:
                self.send(to, Data(begins, tuple(packet)))
                packet = []
                packets_max -= 1
                if not packets_max:
                    return
            if not packet:
                begins, size = number, len(multicast.payload)
            packet.append(multicast)
            previous = (source, number)
        if packet:
            self.send(to, Data(begins, tuple(packet)))

    # ------------------------------------------------------------------ learning
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """Messages that are to be acknowledged, or were and are missing."""
        if not packet.multicasts:
            raise WireError("data without a message")
        source = packet.multicasts[0].id.source
        if source not in self.settled_at:
            raise WireError(f"a message of {source!r}, which is no site of the system")
        ordered = self.ledger.ordered[source]
        for number, multicast in enumerate(packet.multicasts, packet.source_number):
            self.backlog.keep(source, number, multicast, ordered)
        self.learn()
        if self.asking and sender == self.asked:
            self.packets_since_ask += 1
            if self.packets_since_ask == ANSWER_PACKETS_MAX:
                self.send_ask()

    def on_history(self, sender: SiteId, packet: History, arrival: Arrival) -> None:
        """Committed turns are taken over whatever list either side is in; the others only within the same list."""
        self.note_forgotten(packet.forgotten)
        # An answer that begins behind a gap, or tells nothing new, does not replace one that waits for messages.
        if packet.after <= self.ledger.committed < packet.through:
            self.studied = packet
            self.ask_retries = 0
        if packet.version == self.ledger.version and self.in_normal_phase:
            for turn in packet.uncommitted:
                self.note_turn(turn)
        before = (self.ledger.committed, self.ledger.accepted)
        self.learn()
        # After an answer that brought nothing wait for the timer, or two who miss the same ask each other for ever.
        if self.studied is packet or (self.asking and before != (self.ledger.committed, self.ledger.accepted)):
            self.send_ask()

    def note_turn(self, turn: Turn) -> None:
        """A turn of the installed list."""
        self.heard = max(self.heard, turn.number)
        if self.ledger.accepted < turn.number <= self.ledger.accepted + PENDING_TURNS_MAX:
            self.pending[turn.number] = turn

    def learn(self) -> None:
        """Go on with whatever was waiting, as far as it is complete now."""
        committed = self.ledger.committed
        self.study()
        self.go_on_installing()
        if not self.in_normal_phase:
            self.pending.clear()
        self.accept_pending()
        if self.ledger.committed > committed:
            self.on_progress()

    def study(self) -> None:
        """Take over the history in hand as far as its messages are here."""
        history = self.studied
        if history is None:
            return
        entries: list[Entry] = []
        for turn in history.turns:
            if turn.number <= self.ledger.committed:
                continue
            entry = self.assemble(turn)
            if entry is None:
                if entries:
                    last = entries[-1].turn
                    self.settle(last.number, last.version, tuple(entries))
                return
            entries.append(entry)
        self.studied = None
        if history.through > self.ledger.committed:
            self.branch("caught-up")
            self.settle(history.through, history.through_version, tuple(entries))
        if self.history_needed():
            self.send_ask()

    def accept_pending(self) -> None:
        """Accept turns in order."""
        raise NotImplementedError

    def go_on_installing(self) -> None:
        """Install the new list when its history is complete."""
        raise NotImplementedError

    def on_progress(self) -> None:
        """History has come."""
        raise NotImplementedError
