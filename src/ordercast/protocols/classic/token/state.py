"""What a site knows, what it hands to its application, and how much it lets its application send."""

from __future__ import annotations

from collections import deque
from typing import cast

from ordercast.core import Context, Multicast, Protocol, SiteId, UsageError, WireError
from ordercast.core.effects import Credit
from ordercast.core.events import Consumed, Event, Received
from ordercast.protocols.classic.token.backlog import Backlog
from ordercast.protocols.classic.token.ledger import Ledger
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.records import Delivered
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Entry, Version

WINDOWS_HEARD = 2
"""A source may overrun its window by one more: a `Credit` that waits for the log is computed before what is sent
meanwhile."""


class TokenState(Protocol):
    """The state that all parts of the protocol share."""

    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(TokenOptions, context.options)
        sites = context.sites
        self.others = tuple(site for site in sites if site != self.site)
        self.majority = len(sites) // 2 + 1
        resilience = self.options.resilience
        if resilience is not None and resilience >= len(sites):
            raise UsageError(f"option resilience of token is below the number of sites, {len(sites)}, not {resilience}")
        self.resilience = len(sites) // 2 if resilience is None else resilience
        self.ledger = Ledger(sites)
        self.backlog = Backlog(sites, WINDOWS_HEARD * self.options.window_messages)
        self.promised: Version = FIRST_VERSION
        """The largest version of a list that this site has joined; nothing of a smaller one is accepted."""
        self.own_number = 0
        self.own: dict[int, Multicast] = {}
        """This site's own messages that are not committed."""
        self.undelivered: deque[tuple[int, int, Multicast]] = deque()
        """Turn, sequence number and message, of what is committed and addressed to this site."""
        self.delivered = 0
        """Sequence number of the last delivery."""
        self.unconsumed = 0
        self.settled_at: dict[SiteId, int] = dict.fromkeys(sites, 0)
        """Site -> a turn up to which it is known to have delivered everything."""
        """What keeps the site from making progress, and why."""
        self.reading = False
        """The log is being read: what it says has happened already, and nothing leaves the site."""

    # ------------------------------------------------------------------ the phases
    @property
    def in_normal_phase(self) -> bool:
        """Whether this site takes part in its list: it has joined no later one, and knows of no turn of a later one."""
        return self.promised == self.ledger.version == self.ledger.newest

    def transfers_needed(self, members: int) -> int:
        """L; a list that is too small for it has to know the message at every site."""
        return min(self.resilience, members - 1)

    # ------------------------------------------------------------------ commitment and delivery
    def count_transfers(self) -> None:
        """Commit what L token transfers have followed (Spauster 2.3).

        A turn is issued only by a site that has all before it in its log. So turn t is known at the issuers of t, t+1
        … t+L; and at the site that has just accepted the token behind t+L-1. The first turn of a list shows that a
        majority has installed it, with everything before it.
        """
        ledger = self.ledger
        if ledger.accepted > ledger.base:
            needed = self.transfers_needed(len(ledger.members))
            accepted_here = 1 if needed and ledger.token_site == self.site else 0
            self.commit(max(ledger.base, ledger.accepted - needed + accepted_here))

    def commit(self, through: int) -> None:
        """These turns are the same everywhere, for ever."""
        if through > self.ledger.committed:
            self.note_committed(self.ledger.commit(through))

    def note_committed(self, entries: list[Entry]) -> None:
        """Queue what is addressed to this site, and stop caring for what was its own."""
        own = False
        for entry in entries:
            sequence = entry.turn.first_sequence
            for source, number, multicast in entry.numbered():
                if self.site in self.context.destinations(multicast):
                    self.undelivered.append((entry.turn.number, sequence, multicast))
                if source == self.site:
                    own = True
                    self.own.pop(number, None)
                sequence += 1
        self.deliver_committed()
        self.note_settled(self.site, self.settled)
        if own and not self.reading:
            self.give_credit()

    def deliver_committed(self) -> None:
        """Deliver in the order of the sequence numbers, as far as the application keeps up.

        The log says so first. (Deliver, crash before the log: after the recovery the same message is delivered again.)
        """
        if self.reading:
            return
        count = min(len(self.undelivered), self.options.reader_messages_max - self.unconsumed)
        if count < len(self.undelivered):
            self.branch("reader-slow")
        if count <= 0:
            return
        chosen = [self.undelivered.popleft() for _ in range(count)]
        self.delivered = chosen[-1][1]
        self.unconsumed += count
        self.log_delivered(Delivered(self.ledger.committed, self.delivered))
        for _turn, sequence, multicast in chosen:
            self.deliver(multicast, order_key=(sequence,))

    def log_delivered(self, record: Delivered) -> None:
        """Append to the log."""
        raise NotImplementedError

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.unconsumed = max(0, self.unconsumed - event.count)
        self.deliver_committed()
        self.note_settled(self.site, self.settled)

    # ------------------------------------------------------------------ what can be forgotten
    @property
    def settled(self) -> int:
        """Everything up to this turn is delivered here."""
        return self.undelivered[0][0] - 1 if self.undelivered else self.ledger.committed

    def note_settled(self, site: SiteId, settled: int) -> None:
        """A site has delivered everything up to a turn; that is for ever, so every way to hear of it will do."""
        if settled > self.settled_at[site]:
            self.settled_at[site] = settled
            self.note_forgotten(min(self.settled_at.values()))

    def note_forgotten(self, through: int) -> None:
        """Every site, this one too, has delivered everything up to a turn: nobody will ask for it.

        This one may have forgotten how far it was: it delivered up to turn 90, learned that the null turns up to 100
        are committed, said so, and crashed. What it has accepted up to there is the history.
        """
        if through > self.ledger.forgotten:
            self.commit(min(through, self.ledger.accepted))
            self.ledger.forget(min(through, self.settled))

    def slowest_sites(self) -> tuple[SiteId, ...]:
        """For whom the history is kept."""
        lowest = min(self.settled_at.values())
        return tuple(site for site, settled in self.settled_at.items() if settled == lowest)

    # ------------------------------------------------------------------ what the application is told
    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        self.outbox.append(Credit(max(0, self.options.window_messages - len(self.own))))

    @property
    def room(self) -> int:
        """How many more messages the history takes."""
        return self.options.history_messages_max - self.ledger.messages

    def step(self, now: float, event: Event) -> None:
        """Only the sites of the system take part. At the end of each step: is the history full?"""
        if type(event) is Received and event.sender not in self.settled_at:
            raise WireError(f"{event.sender!r} is no site of the system")
        super().step(now, event)
        if self.room <= 0:
            if not self.obstacle("history"):
                self.branch("history-full")
            names = ", ".join(self.slowest_sites())
            self.block("history", f"the history is full: waiting until {names} has delivered it")
        else:
            self.block("history", "")
