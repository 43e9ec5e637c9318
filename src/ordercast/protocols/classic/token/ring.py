"""The ring (Spauster 2.3): the token site acknowledges what waits, and with that the token goes on around the list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Multicast, Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import Accept, Acknowledge, Beacon, Open
from ordercast.protocols.classic.token.rosters import announce, announcing_run
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Entry, Run, Turn, Version

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

PENDING_TURNS_MAX = 256
"""Turns heard ahead of a gap; those beyond are asked for again when the gap is closed."""


class Ring(Part):
    """What a site does in its list."""

    packets = (Acknowledge, Accept, Beacon, Open)
    timers = ("token", "pass")
    branches = (
        "acknowledged",
        "null-acknowledged",
        "beacon-sent",
        "beacon-found-gap",
        "token-waits-for-message",
        "accepted-again",
        "pass-retried",
        "opened",
    )

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self.alive = False
        """Whether a token site of the installed list was heard."""
        self._members: tuple[SiteId, ...] = ()
        self._peers: tuple[SiteId, ...] = ()
        """The list, and the rest of it, when that was last worked out."""
        self._opened: Version = FIRST_VERSION
        """The list of which this site knows that a majority has installed it (and of the first one everybody has)."""
        self._pending: dict[int, Turn] = {}
        """Turns of the installed list that cannot be accepted yet."""
        self._heard = 0
        """The highest turn of the installed list that anybody has spoken of."""
        self._passing: Turn | None = None
        """The turn with which this site passed the token on, until the next one is known to have accepted it."""
        self._pass_retries = 0
        self._token_awaited = False
        """Whether the next site has asked for what it needs to accept the token."""
        self._idle_passes = 0
        self._token_timed = False
        """Whether the time is running after which the token is passed on, or a beacon sent, if nothing comes. It is
        not started anew by what comes and cannot be acknowledged: a full history and a stream of messages would
        silence the beacon."""
        self._resting = False
        """Whether that is the time until a beacon. It is cut short when somebody else has to acknowledge what comes."""

    def peers(self) -> tuple[SiteId, ...]:
        """The rest of the list; for a site that is not in one, everybody."""
        core, members = self._core, self._ledger.members
        if not core.stable.in_normal_phase:
            return core.system.others
        if members is not self._members:
            self._members, self._peers = members, tuple(site for site in members if site != core.site)
        return self._peers

    # ------------------------------------------------------------------ a list begins and ends
    def begin(self, base: int) -> None:
        """A list was installed that goes on behind this turn."""
        self._heard = base

    def on_open(self, sender: SiteId, packet: Open, arrival: Arrival) -> None:
        """A majority has installed the list of which this site is the first."""
        self.open(packet.version)

    def open(self, version: Version) -> None:
        """Begin the normal phase."""
        core, ledger = self._core, self._ledger
        if version == ledger.version and self._opened != version and core.stable.in_normal_phase:
            core.branch("opened")
            self._opened = version
            self.alive = True
            core.stable.commit(ledger.base)
            self.take_token()

    def leave(self) -> None:
        """This site has joined a later list: forget what belongs to the installed one only."""
        self._pending.clear()
        self._heard = 0
        self.alive = False
        self._token_timed = False
        self._core.cancel_timer("token")
        self._stop_passing()

    # ------------------------------------------------------------------ the token site
    @property
    def holds_token(self) -> bool:
        """Whether it is this site's turn. The first turn of a list has to wait until a majority has installed the
        list."""
        ledger, core = self._ledger, self._core
        if ledger.token_site != core.site or not core.stable.in_normal_phase:
            return False
        return ledger.accepted > ledger.base or self._opened == ledger.version

    def take_token(self) -> None:
        """Acknowledge what waits, or pass the token on so that others can commit; else keep it for a while.

        Fast while there is something to commit, slow while only the others' buffers are to be cleared, not at all when
        they are.
        """
        while self.holds_token:
            if not self._is_busy():
                if not self._token_timed or (self._resting and self._core.settlement.held_up):
                    self._token_timed = True
                    self._resting = self._is_quiet()
                    seconds = self._core.options.beacon_seconds if self._resting else self._idle_seconds()
                    self._core.set_timer("token", seconds)
                return
            self._idle_passes = 0
            self._issue()

    def _is_busy(self) -> bool:
        """Whether there is something to acknowledge, and room for it; or messages that the list cannot know to be
        committed yet."""
        ledger, core = self._ledger, self._core
        if (core.backlog.has_next() or self._is_change_due()) and core.settlement.room() > 0:
            return True
        if ledger.accepted > ledger.base:
            known = max(ledger.base, ledger.accepted - core.system.transfers_needed(len(ledger.members)))
            return ledger.last_message_turn > known
        # The first turn tells everybody that the list has begun, and with that what it began with.
        return ledger.version != FIRST_VERSION

    def _is_change_due(self) -> bool:
        """Whether the list has brought a roster that is not in the history: that comes before any other message."""
        return self._core.system.roster.version != self._ledger.roster.version

    def _is_quiet(self) -> bool:
        """Whether everybody in the list has delivered everything, as far as it matters here."""
        last, settlement = self._ledger.last_message_turn, self._core.settlement
        return not settlement.held_up and all(settlement.at(site) >= last for site in self._ledger.members)

    def _idle_seconds(self) -> float:
        """Slower and slower: who has not delivered everything by now is a slow reader."""
        options = self._core.options
        doubled = options.pass_seconds * (1 << min(self._idle_passes // len(self._ledger.members), 16))
        return min(doubled, options.beacon_seconds)

    def _issue(self) -> None:
        """Give the next sequence numbers to what waits, log it, tell everybody; with that the token goes to the next
        site.

        The log comes first. (Acknowledge turn 7, crash before the log: the site comes back, does not know of it, and
        acknowledges something else with the same number.)
        """
        ledger, core = self._ledger, self._core
        count = min(core.options.batch_messages_max, core.settlement.room())
        runs, multicasts = self._choose(count)
        core.branch("acknowledged" if runs else "null-acknowledged")
        turn = Turn(ledger.accepted + 1, ledger.version, ledger.sequence + 1, runs)
        core.stable.accept(Entry(turn, multicasts))
        self._heard = max(self._heard, turn.number)
        self._token_timed = False
        core.cancel_timer("token")
        core.suspicion.watch_ring()
        self._send_acknowledge(self.peers(), turn)
        if len(ledger.members) > 1:
            self._passing = turn
            self._pass_retries = 0
            core.set_timer("pass", core.patience.retry_after(0))

    def _choose(self, count: int) -> tuple[tuple[Run, ...], tuple[Multicast, ...]]:
        """What comes next in the order. The list's new roster comes first and by itself, so that everything before it
        is delivered in the groups as they were, and everything behind it as they are."""
        core = self._core
        if not self._is_change_due():
            return core.backlog.choose(count, core.settlement.turn_bytes_max)
        roster = core.system.roster
        return ((announcing_run(roster),), (announce(roster),)) if count > 0 else ((), ())

    def _send_acknowledge(self, to: tuple[SiteId, ...], turn: Turn) -> None:
        ledger, core = self._ledger, self._core
        forgotten = core.settlement.forgotten_in_list
        core.send(to, Acknowledge(ledger.version, turn, ledger.committed, core.delivery.settled, forgotten))

    def on_token_timeout(self) -> None:
        """Nothing came meanwhile."""
        self._token_timed = False
        if not self.holds_token:
            return
        if self._is_quiet():
            ledger, core = self._ledger, self._core
            settled, forgotten = core.delivery.settled, core.settlement.forgotten_in_list
            core.branch("beacon-sent")
            core.send(core.system.others, Beacon(ledger.version, ledger.accepted, ledger.committed, settled, forgotten))
            core.suspicion.watch_ring()
        else:
            self._idle_passes += 1
            self._issue()
        self.take_token()

    def on_pass_timeout(self) -> None:
        """The next site has not accepted the token."""
        turn, core = self._passing, self._core
        if turn is None:
            return
        self._pass_retries += 1
        if self._pass_retries > core.options.retries:
            self._passing = None
            core.probing.suspect("the token is not accepted")
            return
        core.branch("pass-retried")
        # While the next one is catching up nobody else hears anything: tell all that the list is alive.
        self._send_acknowledge(self.peers() if self._token_awaited else (self._ledger.issuer(turn.number + 1),), turn)
        self._token_awaited = False
        core.set_timer("pass", core.patience.retry_after(self._pass_retries))

    def on_accept(self, sender: SiteId, packet: Accept, arrival: Arrival) -> None:
        """The next site has the token."""
        self._core.settlement.note(sender, packet.settled)
        if packet.version != self._ledger.version:
            self._core.probing.hear_other_list(sender, packet.version)
        elif self._passing is not None and packet.number >= self._passing.number:
            self._stop_passing()

    def note_asked(self, sender: SiteId) -> None:
        """A site that cannot accept the token because it misses something is alive."""
        if self._passing is not None and sender == self._ledger.issuer(self._passing.number + 1):
            self._pass_retries = 0
            self._token_awaited = True

    def _stop_passing(self) -> None:
        """The token is somebody else's now."""
        self._passing = None
        self._core.cancel_timer("pass")

    # ------------------------------------------------------------------ the receiver
    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        """A turn of the token site."""
        core, ledger = self._core, self._ledger
        core.system.check_turns((packet.turn,))
        core.settlement.note(sender, packet.settled)
        if not self._hear(sender, packet):
            return
        turn = packet.turn
        if turn.number <= ledger.accepted:
            # Sent again because the sender does not know that the token was accepted.
            if ledger.issuer(turn.number + 1) == core.site:
                core.branch("accepted-again")
                self._send_accept(sender)
                self.take_token()
            return
        core.repair.prefer(sender)
        self.note_turn(turn)
        self.accept_pending()
        core.stable.commit(min(packet.committed, ledger.accepted))

    def on_beacon(self, sender: SiteId, packet: Beacon, arrival: Arrival) -> None:
        """The token site is there."""
        core = self._core
        core.settlement.note(sender, packet.settled)
        if self._hear(sender, packet) and packet.number > self._ledger.accepted:
            core.branch("beacon-found-gap")
            self._heard = max(self._heard, packet.number)
            core.repair.prefer(sender)
            core.repair.ask_soon()

    def _hear(self, sender: SiteId, packet: Acknowledge | Beacon) -> bool:
        """A token site spoke: False when it is not, or no longer, one of ours."""
        core, ledger = self._core, self._ledger
        if packet.version != ledger.version or not core.stable.in_normal_phase:
            core.probing.hear_other_list(sender, packet.version)
            return False
        self.alive = True
        core.source.forgive()
        core.suspicion.note_alive()
        core.stable.commit(min(packet.committed, ledger.accepted))
        core.settlement.forget_in_list(packet.forgotten)
        return True

    def note_turn(self, turn: Turn) -> None:
        """A turn of the installed list."""
        self._heard = max(self._heard, turn.number)
        if self._ledger.accepted < turn.number <= self._ledger.accepted + PENDING_TURNS_MAX:
            self._pending[turn.number] = turn

    def pending_turns(self) -> Iterator[Turn]:
        """Those that cannot be accepted yet, in order."""
        return (self._pending[number] for number in sorted(self._pending))

    def misses_turns(self) -> bool:
        """Whether the next turn is missing, and not only its messages."""
        following = self._ledger.accepted + 1
        return self._heard >= following and following not in self._pending and self._core.stable.in_normal_phase

    def accept_pending(self) -> None:
        """Accept turns in order, each only with all its messages; the site behind the last one has the token then."""
        ledger, core, pending = self._ledger, self._core, self._pending
        if pending and not core.stable.in_normal_phase:
            pending.clear()
        accepted_before = ledger.accepted
        while (turn := pending.get(ledger.accepted + 1)) is not None:
            entry = core.backlog.assemble(turn)
            if entry is None:
                break
            core.stable.accept(entry)
            del pending[turn.number]
        if pending:
            for number in [number for number in pending if number <= ledger.accepted]:
                del pending[number]
        if self._passing is not None and ledger.accepted > self._passing.number:
            self._stop_passing()
        if self._heard > ledger.accepted and core.stable.in_normal_phase:
            # Who is to have the token next holds everybody up.
            next_turn = pending.get(ledger.accepted + 1)
            urgent = next_turn is not None and ledger.issuer(next_turn.number + 1) == core.site
            if urgent:
                core.branch("token-waits-for-message")
            core.repair.ask_soon(urgent=urgent)
        if self.holds_token:
            if ledger.accepted > accepted_before and not self._is_busy():
                self._send_accept(ledger.issuer(ledger.accepted))
            self.take_token()

    def _send_accept(self, to: SiteId) -> None:
        """Tell the site before that the token has arrived."""
        core = self._core
        if to != core.site:
            core.send((to,), Accept(self._ledger.version, self._ledger.accepted, core.delivery.settled))

    def check_invariants(self) -> None:
        """What waits is bounded."""
        if len(self._pending) > PENDING_TURNS_MAX:
            raise InvariantViolation(f"{len(self._pending)} turns wait, at most {PENDING_TURNS_MAX} should")
