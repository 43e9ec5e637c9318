"""Mutants of the token protocol."""

from __future__ import annotations

from ordercast.core import SiteId
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.packets import Ask
from ordercast.protocols.classic.token.records import Accepted, Delivered, NewList, Own, Promised
from ordercast.protocols.classic.token.turns import Entry, Version
from tests.mutants.registry import call_without_log, mutant


@mutant(Token, "count_transfers")
def delivers_before_the_transfers(self: Token) -> None:
    """A message is delivered when one site has it, not L + 1, and a list without that site begins without it."""
    if self.ledger.accepted > self.ledger.base:
        self.commit(self.ledger.accepted)


@mutant(Token, "promise")
def forgets_its_promise(self: Token, version: Version) -> None:
    """A site that has joined a list and crashed goes on in the old one."""
    call_without_log(self, Promised, Token.promise, self, version)


@mutant(Token, "accept_entry")
def forgets_what_it_accepted(self: Token, entry: Entry) -> None:
    """A turn counts for the resilience of its messages, and is not logged."""
    call_without_log(self, Accepted, Token.accept_entry, self, entry)


@mutant(Token, "install")
def forgets_its_list(self: Token, record: NewList) -> None:
    """A new list is not logged: after a crash the site adds its turns to the old one."""
    call_without_log(self, NewList, Token.install, self, record)


@mutant(Token, "log_delivered", caught_by="no-duplication")
def forgets_its_deliveries(self: Token, record: Delivered) -> None:
    """After a crash what is committed is delivered again."""


@mutant(Token, "on_multicast_requested")
def forgets_its_messages(self: Token, event: MulticastRequested) -> None:
    """A message is not logged at its source, which crashes before anybody has heard of it."""
    call_without_log(self, Own, Token.on_multicast_requested, self, event)


@mutant(Token, "on_source_timeout", caught_by="termination")
def broadcasts_once(self: Token) -> None:
    """No retransmission by the source."""


@mutant(Token, "on_inviting_timeout")
def forms_a_list_with_anybody(self: Token) -> None:
    """No majority test: two parts of a split network have a list each."""
    if not self.form():
        self.send_invite()


@mutant(Token, "on_other_version")
def has_no_version_test(self: Token, sender: SiteId, version: Version) -> None:
    """A site that was left out hears of a later list and does not care."""


@mutant(Token, "note_settled")
def forgets_what_one_has(self: Token, site: SiteId, settled: int) -> None:
    """The history is cleared of what one site has delivered, not of what all have."""
    if settled > self.settled_at[site]:
        self.settled_at[site] = settled
        self.settled_at[self.site] = self.settled
        self.note_forgotten(max(self.settled_at.values()))


@mutant(Token, "on_ask", caught_by="termination")
def does_not_answer(self: Token, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
    """No retransmission to those who miss something."""
