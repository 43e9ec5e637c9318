"""The token protocol: its contract, its start, its timers, and what must always be true of it."""

from __future__ import annotations

from typing import cast

from ordercast.core import EVERY_FAULT, TOTAL_ORDER, Contract, InvariantViolation
from ordercast.core.events import Recovered, Started, TimerFired
from ordercast.protocols.classic.token.arrangement import ARRANGEMENT
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.packets import (
    Accept,
    Acknowledge,
    Ask,
    Beacon,
    Data,
    History,
    Install,
    Installed,
    Invite,
    Join,
    Open,
    Probe,
    Refuse,
    Status,
)
from ordercast.protocols.classic.token.records import Accepted, Delivered, NewList, Own, Promised, Settled, State
from ordercast.protocols.classic.token.reformation import Reformation
from ordercast.protocols.classic.token.repair import PENDING_TURNS_MAX
from ordercast.protocols.classic.token.state import WINDOWS_HEARD


class Token(Reformation):
    """Chang and Maxemchuk's reliable broadcast with a rotating token site, one token for all groups."""

    contract = Contract(
        name="token",
        title="rotating token site with L-resilience and reformation: one order for all groups, any minority may crash",
        paper="Chang, Maxemchuk 1984, as described in Spauster 1991, 2.3",
        guarantees=TOTAL_ORDER,
        faults=EVERY_FAULT,
        crash="the others, if a majority, form a new token list without it; when it comes back it gets everything",
        branches=(
            "acknowledged",
            "null-acknowledged",
            "beacon-sent",
            "beacon-found-gap",
            "asked",
            "history-sent",
            "caught-up",
            "token-waits-for-message",
            "accepted-again",
            "pass-retried",
            "source-retried",
            "stale-version",
            "reader-slow",
            "history-full",
            "suspected",
            "no-majority",
            "attempt-failed",
            "recovered-in-place",
            "left-out",
            "member-gone",
            "caught-up-outside",
            "originated",
            "joined",
            "refused",
            "gave-way",
            "formed",
            "formed-without-some",
            "not-resilient",
            "caught-up-to-install",
            "installed",
            "acknowledgement-lost",
            "opened",
        ),
        options=TokenOptions,
        minority_may_die=True,
    )
    arrangement = ARRANGEMENT
    packets = (
        Data,
        Acknowledge,
        Accept,
        Beacon,
        Ask,
        History,
        Probe,
        Status,
        Invite,
        Join,
        Refuse,
        Install,
        Installed,
        Open,
    )
    records = (Own, Promised, Accepted, Settled, NewList, Delivered, State)

    def on_started(self, event: Started) -> None:
        """Everybody begins with the list of all sites."""
        self.begin()
        self.take_token()

    def on_recovered(self, event: Recovered) -> None:
        """Read the log; then find out whether the list goes on without this site."""
        self.recover(event.records, event.checkpoint)
        self.seen = self.promised
        self.recovering = True
        self.begin()
        self.deliver_committed()
        self.send_data_again()
        self.suspect("recovery")

    def begin(self) -> None:
        """Tell the application who is in the list and how much it may send."""
        self.install_view()
        self.give_credit()
        self.watch_ring()

    def on_timer_fired(self, event: TimerFired) -> None:
        """Timers have the names of their handlers."""
        getattr(self, f"on_{cast(str, event.timer)}_timeout")()

    def check_invariants(self) -> None:
        """Of the ledger, the backlog, the list, and of the bounds."""
        super().check_invariants()
        ledger, options = self.ledger, self.options
        ledger.check_invariants()
        self.backlog.check_invariants(ledger.ordered)
        if self.delivered > ledger.sequence - ledger.uncommitted_messages:
            raise InvariantViolation(f"delivered {self.delivered}, which is not committed")
        if ledger.messages > options.history_messages_max:
            raise InvariantViolation(
                f"the history has {ledger.messages} messages, more than {options.history_messages_max}"
            )
        if ledger.forgotten > self.settled:
            raise InvariantViolation(f"forgot turn {ledger.forgotten}, settled only up to {self.settled}")
        if self.own and min(self.own) <= ledger.committed_source_number(self.site):
            raise InvariantViolation(f"message {min(self.own)} of {self.site} is committed and still kept as its own")
        if len(self.own) > WINDOWS_HEARD * options.window_messages or len(self.pending) > PENDING_TURNS_MAX:
            raise InvariantViolation("more messages or turns wait than their bounds allow")
