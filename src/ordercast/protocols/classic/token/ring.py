"""The normal phase (Spauster 2.3): sources broadcast, the token site acknowledges and passes the token on."""

from __future__ import annotations

from ordercast.core import Context, SiteId, UsageError
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.protocols.classic.token.packets import Accept, Acknowledge, Ask, Beacon, Status
from ordercast.protocols.classic.token.records import Own
from ordercast.protocols.classic.token.repair import Repair
from ordercast.protocols.classic.token.state import WINDOWS_HEARD
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Entry, Turn, Version

RETRY_PACKETS_MAX = 4
"""What a source sends again at a time. A token site that has some of its messages acknowledges them, and the others
follow; and all of them when the source is the token site itself."""


class Ring(Repair):
    """What a site does in its list."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.opened: Version = FIRST_VERSION
        """The list of which this site knows that a majority has installed it (and of the first one everybody has)."""
        self.passing: Turn | None = None
        """The turn with which this site passed the token on, until the next one is known to have accepted it."""
        self.pass_retries = 0
        self.token_awaited = False
        """Whether the next site has asked for what it needs to accept the token."""
        self.idle_passes = 0
        self.token_timed = False
        """Whether the time is running after which the token is passed on, or a beacon sent, if nothing comes. It is
        not started anew by what comes and cannot be acknowledged: a full history and a stream of messages would
        silence the beacon."""
        self.source_retries = 0
        self.ordered_at_retry = 0

    # ------------------------------------------------------------------ the source
    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Number it, log it, broadcast it to the list."""
        if len(self.own) >= WINDOWS_HEARD * self.options.window_messages:
            raise UsageError(f"{len(self.own)} messages of {self.site} are on their way: wait for credit")
        self.own_number = number = self.own_number + 1
        multicast = event.multicast
        self.append(Own(number, multicast))
        self.own[number] = multicast
        self.backlog.keep(self.site, number, multicast, self.ledger.ordered[self.site])
        self.send_data_packets(self.peers(), [(self.site, number, multicast)], 1)
        self.watch_own_messages()
        self.take_token()

    def peers(self) -> tuple[SiteId, ...]:
        """The rest of the list; for a site that is not in one, everybody."""
        if not self.in_normal_phase:
            return self.others
        return tuple(site for site in self.ledger.members if site != self.site)

    def watch_own_messages(self) -> None:
        """Until they are acknowledged."""
        if len(self.own) == 1:
            self.source_retries = 0
            self.ordered_at_retry = self.ledger.ordered[self.site]
            self.set_timer("source", self.retry_after(1))

    def send_data_again(self) -> None:
        """After a crash, before anything new: the log has messages that may never have left.

        (Otherwise: message 4 is in the log, crash, the application multicasts 5, and to all the world 5 was multicast
        first.)
        """
        if self.own:
            own = [(self.site, number, multicast) for number, multicast in self.own.items()]
            self.send_data_packets(self.peers(), own, len(own))
            self.ordered_at_retry = self.ledger.ordered[self.site]
            self.set_timer("source", self.retry_after(1))

    def on_source_timeout(self) -> None:
        """Broadcast again what nobody has acknowledged; after R times in vain, and no token site heard, that is a
        failure.

        When the history is full nobody may acknowledge, and that is no failure. Nor is it one while a list is being
        formed. (Else: every source originates a list of its own before any of the others' can begin.)
        """
        if not self.own:
            return
        ordered = self.ledger.ordered[self.site]
        waiting = [(self.site, number, multicast) for number, multicast in self.own.items() if number > ordered]
        if ordered > self.ordered_at_retry or not waiting or self.room <= 0:
            self.source_retries = 0
        else:
            self.branch("source-retried")
            self.source_retries += 1
            self.send_data_packets(self.peers(), waiting, RETRY_PACKETS_MAX)
            if self.source_retries > self.options.retries and self.in_normal_phase:
                self.source_retries = 0
                self.suspect("no acknowledgement")
        self.ordered_at_retry = ordered
        self.set_timer("source", self.retry_after(self.source_retries + 1))

    # ------------------------------------------------------------------ the token site
    @property
    def holds_token(self) -> bool:
        """Whether it is this site's turn. The first turn of a list has to wait until a majority has installed the
        list."""
        ledger = self.ledger
        if not self.in_normal_phase or ledger.token_site != self.site:
            return False
        return ledger.accepted > ledger.base or self.opened == ledger.version

    def take_token(self) -> None:
        """Acknowledge what waits, or pass the token on so that others can commit; else keep it for a while.

        Fast while there is something to commit, slow while only the others' buffers are to be cleared, not at all when
        they are.
        """
        if not self.holds_token:
            return
        while self.holds_token and self.is_busy():
            self.idle_passes = 0
            self.issue()
        if self.holds_token and not self.token_timed:
            self.token_timed = True
            self.set_timer("token", self.options.beacon_seconds if self.is_quiet() else self.idle_seconds())

    def is_busy(self) -> bool:
        """Whether there is something to acknowledge, and room for it; or messages that the list cannot know to be
        committed yet."""
        ledger = self.ledger
        if self.room > 0 and self.backlog.has_next(ledger.ordered):
            return True
        if ledger.accepted > ledger.base:
            known = max(ledger.base, ledger.accepted - self.transfers_needed(len(ledger.members)))
            return ledger.last_message_turn > known
        # The first turn tells everybody that the list has begun, and with that what it began with.
        return ledger.version != FIRST_VERSION

    def is_quiet(self) -> bool:
        """Whether everybody in the list has delivered everything."""
        last = self.ledger.last_message_turn
        return all(self.settled_at[site] >= last for site in self.ledger.members)

    def idle_seconds(self) -> float:
        """Slower and slower: who has not delivered everything by now is a slow reader."""
        doubled = self.options.pass_seconds * (1 << min(self.idle_passes // len(self.ledger.members), 16))
        return min(doubled, self.options.beacon_seconds)

    def issue(self) -> None:
        """Give the next sequence numbers to what waits, log it, tell everybody; with that the token goes to the next
        site.

        The log comes first. (Acknowledge turn 7, crash before the log: the site comes back, does not know of it, and
        acknowledges something else with the same number.)
        """
        ledger = self.ledger
        runs, multicasts = self.backlog.choose(
            ledger.ordered, min(self.options.batch_messages_max, max(0, self.room)), ledger.accepted
        )
        self.branch("acknowledged" if runs else "null-acknowledged")
        turn = Turn(ledger.accepted + 1, ledger.version, ledger.sequence + 1, runs)
        self.accept_entry(Entry(turn, multicasts))
        self.heard = max(self.heard, turn.number)
        self.token_timed = False
        self.cancel_timer("token")
        self.watch_ring()
        self.send_acknowledge(self.peers(), turn)
        if len(ledger.members) > 1:
            self.passing = turn
            self.pass_retries = 0
            self.set_timer("pass", self.retry_after(0))

    def send_acknowledge(self, to: tuple[SiteId, ...], turn: Turn) -> None:
        """Tell of a turn."""
        ledger = self.ledger
        self.send(to, Acknowledge(ledger.version, turn, ledger.committed, self.settled, ledger.forgotten))

    def on_token_timeout(self) -> None:
        """Nothing came meanwhile."""
        self.token_timed = False
        if not self.holds_token:
            return
        if self.is_quiet():
            ledger = self.ledger
            beacon = Beacon(ledger.version, ledger.accepted, ledger.committed, self.settled, ledger.forgotten)
            self.branch("beacon-sent")
            self.send(self.others, beacon)
            self.watch_ring()
        else:
            self.idle_passes += 1
            self.issue()
        self.take_token()

    def on_pass_timeout(self) -> None:
        """The next site has not accepted the token."""
        turn = self.passing
        if turn is None:
            return
        self.pass_retries += 1
        if self.pass_retries > self.options.retries:
            self.passing = None
            self.suspect("the token is not accepted")
            return
        self.branch("pass-retried")
        # While the next one is catching up nobody else hears anything: tell all that the list is alive.
        self.send_acknowledge(self.peers() if self.token_awaited else (self.ledger.issuer(turn.number + 1),), turn)
        self.token_awaited = False
        self.set_timer("pass", self.retry_after(self.pass_retries))

    def on_accept(self, sender: SiteId, packet: Accept, arrival: Arrival) -> None:
        """The next site has the token."""
        self.note_settled(sender, packet.settled)
        if packet.version != self.ledger.version:
            self.on_other_version(sender, packet.version)
        elif self.passing is not None and packet.number >= self.passing.number:
            self.stop_passing()

    def on_ask(self, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
        """A site that cannot accept the token because it misses something is alive."""
        if self.passing is not None and sender == self.ledger.issuer(self.passing.number + 1):
            self.pass_retries = 0
            self.token_awaited = True
        super().on_ask(sender, packet, arrival)

    def stop_passing(self) -> None:
        """The token is somebody else's now."""
        self.passing = None
        self.cancel_timer("pass")

    # ------------------------------------------------------------------ the receiver
    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        """A turn of the token site."""
        self.note_settled(sender, packet.settled)
        if not self.hear_ring(sender, packet.version, packet.committed, packet.forgotten):
            return
        turn = packet.turn
        if turn.number <= self.ledger.accepted:
            # Sent again because the sender does not know that the token was accepted.
            if self.ledger.issuer(turn.number + 1) == self.site:
                self.branch("accepted-again")
                self.send_accept(sender)
                self.take_token()
            return
        self.teacher = sender
        self.note_turn(turn)
        self.accept_pending()
        self.commit(min(packet.committed, self.ledger.accepted))

    def on_beacon(self, sender: SiteId, packet: Beacon, arrival: Arrival) -> None:
        """The token site is there."""
        self.note_settled(sender, packet.settled)
        if not self.hear_ring(sender, packet.version, packet.committed, packet.forgotten):
            return
        if packet.number > self.ledger.accepted:
            self.branch("beacon-found-gap")
            self.heard = max(self.heard, packet.number)
            self.teacher = sender
            self.ask_soon()

    def hear_ring(self, sender: SiteId, version: Version, committed: int, forgotten: int) -> bool:
        """A token site spoke: False when it is not, or no longer, one of ours."""
        if version != self.ledger.version or not self.in_normal_phase:
            self.on_other_version(sender, version)
            return False
        self.watch_ring()
        self.source_retries = 0
        self.on_ring_alive()
        self.commit(min(committed, self.ledger.accepted))
        self.note_forgotten(forgotten)
        return True

    def accept_pending(self) -> None:
        """Accept turns in order, each only with all its messages; the site behind the last one has the token then."""
        ledger = self.ledger
        accepted_before = ledger.accepted
        while self.in_normal_phase and (turn := self.pending.get(ledger.accepted + 1)) is not None:
            entry = self.assemble(turn)
            if entry is None:
                break
            self.accept_entry(entry)
            del self.pending[turn.number]
        for number in [number for number in self.pending if number <= ledger.accepted]:
            del self.pending[number]
        if self.passing is not None and ledger.accepted > self.passing.number:
            self.stop_passing()
        if self.in_normal_phase and self.heard > ledger.accepted:
            # Who is to have the token next holds everybody up.
            next_turn = self.pending.get(ledger.accepted + 1)
            urgent = next_turn is not None and ledger.issuer(next_turn.number + 1) == self.site
            if urgent:
                self.branch("token-waits-for-message")
            self.ask_soon(at_once=urgent and not self.asking)
        if self.holds_token:
            if ledger.accepted > accepted_before and not self.is_busy():
                self.send_accept(ledger.issuer(ledger.accepted))
            self.take_token()

    def send_accept(self, to: SiteId) -> None:
        """Tell the site before that the token has arrived."""
        if to != self.site:
            self.send((to,), Accept(self.ledger.version, self.ledger.accepted, self.settled))

    def on_other_version(self, sender: SiteId, version: Version) -> None:
        """Somebody speaks in the name of another list than ours."""
        if version < self.promised:
            # A token site that slept while the others went on: it must not wait for ever for its list.
            self.branch("stale-version")
            self.send_status(sender, 0)
        if version > self.ledger.version:
            self.on_left_out(version)

    def send_status(self, to: SiteId, attempt: int) -> None:
        """Say which list is ours."""
        ledger = self.ledger
        status = Status(attempt, self.promised, ledger.version, to in ledger.members, ledger.committed, self.settled)
        self.send((to,), status)

    # ------------------------------------------------------------------ for the reformation
    def suspect(self, reason: str) -> None:
        """Something has failed."""
        raise NotImplementedError

    def on_left_out(self, version: Version) -> None:
        """There is a later list that this site has not installed."""
        raise NotImplementedError

    def on_ring_alive(self) -> None:
        """The list makes progress."""
        raise NotImplementedError

    def watch_ring(self) -> None:
        """Suspect a failure when nothing is heard from here on."""
        raise NotImplementedError
