"""Mutants of the token protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ordercast.core import GroupId, Multicast, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.delivery import Delivery
from ordercast.protocols.classic.token.ledger import Ledger
from ordercast.protocols.classic.token.packets import Ask
from ordercast.protocols.classic.token.probing import Probing
from ordercast.protocols.classic.token.records import Accepted, Delivered, NewList, Own, Promised
from ordercast.protocols.classic.token.reformation import Reformation
from ordercast.protocols.classic.token.repair import Repair
from ordercast.protocols.classic.token.settlement import Settlement
from ordercast.protocols.classic.token.source import Source
from ordercast.protocols.classic.token.stable import Stable
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Entry, Summary, Version
from tests.mutants.registry import call_without_log, mutant


@mutant(Token, "stable.count_transfers")
def delivers_before_the_transfers(self: Stable) -> None:
    """A message is delivered when one site has it, not L + 1, and a list without that site begins without it."""
    ledger = self._core.ledger
    if ledger.accepted > ledger.base:
        self.commit(ledger.accepted)


@mutant(Token, "stable.promise")
def forgets_its_promise(self: Stable, version: Version) -> None:
    """A site that has joined a list and crashed goes on in the old one."""
    call_without_log(self._core, Promised, Stable.promise, self, version)


@mutant(Token, "stable.accept")
def forgets_what_it_accepted(self: Stable, entry: Entry) -> None:
    """A turn counts for the resilience of its messages, and is not logged."""
    call_without_log(self._core, Accepted, Stable.accept, self, entry)


@mutant(Token, "stable.install")
def forgets_its_list(self: Stable, record: NewList) -> None:
    """A new list is not logged: after a crash the site adds its turns to the old one."""
    call_without_log(self._core, NewList, Stable.install, self, record)


@mutant(Token, "delivery.log", caught_by="no-duplication")
def forgets_its_deliveries(self: Delivery, record: Delivered) -> None:
    """After a crash what is committed is delivered again."""


@mutant(Token, "source.multicast")
def forgets_its_messages(self: Source, multicast: Multicast) -> None:
    """A message is not logged at its source, which crashes before anybody has heard of it."""
    call_without_log(self._core, Own, Source.multicast, self, multicast)


@mutant(Token, "source.on_source_timeout", caught_by="termination")
def broadcasts_once(self: Source) -> None:
    """No retransmission by the source."""


@mutant(Token, "reformation.on_inviting_round")
def forms_a_list_with_anybody(self: Reformation) -> None:
    """No majority test: two parts of a split network have a list each."""
    if not self.form():
        self.send_invite()


@mutant(Token, "probing.hear_other_list")
def has_no_version_test(self: Probing, sender: SiteId, version: Version) -> None:
    """A site that was left out hears of a later list and does not care."""


@mutant(Token, "settlement.note")
def forgets_what_one_has(self: Settlement, site: SiteId, settled: int) -> None:
    """The history is cleared of what one site has delivered, not of what all have."""
    if settled > self._settled_at[site]:
        self._settled_at[site] = settled
        self._settled_at[self._core.site] = self._core.delivery.settled
        self.forget(max(self._settled_at.values()))


@mutant(Token, "repair.on_ask", caught_by="termination")
def does_not_answer(self: Repair, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
    """No retransmission to those who miss something."""


# ---------------------------------------------------------------------- return by a summary
@mutant(Token, "ledger.summary")
def sums_up_what_is_not_committed(self: Ledger) -> Summary:
    """A summary has everything that is accepted, which a later list may begin without."""
    last = self.entries[self.accepted].turn.version if self.accepted > self.committed else self.committed_version
    return Summary(
        self.accepted,
        last,
        self.last_message_turn,
        self.sequence,
        tuple(self.ordered.items()),
        tuple(self.counts.items()),
    )


@mutant(Token, "stable.take_over")
def forgets_its_promise_behind_a_gap(self: Stable, summary: Summary, promised: Version) -> None:
    """A site that goes on behind a gap takes up again whatever list it was in."""
    Stable.take_over(self, summary, FIRST_VERSION)


@mutant(Token, "source.skip", caught_by="no-duplication")
def sends_again_what_was_ordered_in_the_gap(self: Source, ordered: int) -> None:
    """Messages of a site that was away were ordered meanwhile; when it returns it gives them new numbers."""
    again = [multicast for number, multicast in self._own.items() if number <= ordered]
    Source.skip(self, ordered)
    if not self._core.stable._reading:
        for multicast in again:
            self.multicast(multicast)


@mutant(Token, "delivery.skip", caught_by="uniform-agreement")
def says_nothing_about_the_gap(self: Delivery, before: Mapping[GroupId, int], anything: bool) -> None:
    """A site goes on behind a gap, and its application takes it for a full member all the time."""
    self.delivered = self._ledger.sequence


@mutant(Token, "settlement.room")
def adds_to_a_full_history(self: Settlement) -> int:
    """Whoever has room acknowledges, although a slow member has to keep more than that."""
    return 0 if self.is_full else self._messages_max - self._ledger.messages


@mutant(Token, "delivery.queue", caught_by="integrity")
def delivers_what_is_for_others_after_a_crash(self: Delivery, entries: Iterable[Entry]) -> None:
    """Whoever has been down delivers all that is committed, for whomever it is."""
    groups = self._groups
    if self._core.context.incarnation > 0:
        self._groups = frozenset(self._core.groups)
    Delivery.queue(self, entries)
    self._groups = groups
