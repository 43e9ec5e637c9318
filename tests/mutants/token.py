"""Mutants of the token protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ordercast.core import GroupId, Multicast, SiteId
from ordercast.core.effects import Append, Credit, Deliver, EnterGroup
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.changes import Changes
from ordercast.protocols.classic.token.delivery import Delivery
from ordercast.protocols.classic.token.ledger import Ledger
from ordercast.protocols.classic.token.packets import Ask, Install, InstallOfRoster
from ordercast.protocols.classic.token.probing import Probing
from ordercast.protocols.classic.token.records import Accepted, Admission, Delivered, Gone, NewList, Own, Promised
from ordercast.protocols.classic.token.reformation import Reformation
from ordercast.protocols.classic.token.repair import Repair
from ordercast.protocols.classic.token.rosters import Roster, is_majority, read_roster
from ordercast.protocols.classic.token.settlement import Settlement
from ordercast.protocols.classic.token.source import Source
from ordercast.protocols.classic.token.stable import Stable
from ordercast.protocols.classic.token.suspicion import Suspicion
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
def forgets_its_promise_behind_a_gap(
    self: Stable, summary: Summary, promised: Version, roster: Roster | None = None
) -> None:
    """A site that goes on behind a gap takes up again whatever list it was in."""
    Stable.take_over(self, summary, FIRST_VERSION, roster)


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
    self._take(self._ledger.committed_roster)
    self._positions = {group: self._ledger.offset(group, self.delivered) for group in self._positions}


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


# ---------------------------------------------------------------------- sites that come and go
@mutant(Token, "delivery._enter")
def enters_at_offset_0(self: Delivery, group: GroupId, offset: int) -> None:
    """Whoever enters a group counts from the beginning, wherever the others are."""
    Delivery._enter(self, group, 0)


@mutant(Token, "delivery.queue")
def tells_a_view_before_its_deliveries(self: Delivery, entries: Iterable[Entry]) -> None:
    """A change is told when it is committed, while messages before it still wait for the application."""
    for entry in entries:
        Delivery.queue(self, [entry])
        if entry.turn.is_change:
            _turn, sequence, multicast, _changes = self._undelivered.pop()
            self._change(read_roster(multicast), sequence)


@mutant(Token, "stable.install")
def logs_the_list_without_its_roster(self: Stable, record: NewList) -> None:
    """The list is in the log, and the change with which it came is not."""
    before = len(self._core.outbox)
    Stable.install(self, record)
    for at, effect in enumerate(self._core.outbox[before:], before):
        if isinstance(effect, Append) and effect.record is record and record.admission is None:
            self._core.outbox[at] = Append(replace(record, roster=None, before=None))


@mutant(Token, "delivery.queue")
def delivers_old_messages_in_the_new_list(self: Delivery, entries: Iterable[Entry]) -> None:
    """What was ordered in the list before goes to those who are in the groups of the list that is installed."""
    for entry in entries:
        if not self._core.system.outside and not entry.turn.is_change:
            self._groups = frozenset(self._own_groups(self._core.system.roster))
        Delivery.queue(self, [entry])


@mutant(Token, "changes.check_source", caught_by="termination")
def multicasts_while_it_leaves(self: Changes) -> None:
    """A site goes on multicasting until it has left, and the others go on without what was under way."""


@mutant(Token, "reformation._is_installed", caught_by="uniform-agreement")
def opens_with_a_majority_of_the_new_list(self: Reformation, proposal: Install) -> bool:
    """A list that brings a new roster begins when a majority of the new one has installed it. Of a, b and c, a forms a
    list with d and e, which b and c join; the network splits before they install it. a, d and e are three of five and
    go on; b and c are two of three and go on as well."""
    roster = proposal.roster if isinstance(proposal, InstallOfRoster) else self._core.system.configured
    return is_majority(roster.sites, self._confirmed)


@mutant(Token, "reformation._send_admit")
def installs_before_those_who_come(self: Reformation) -> None:
    """The others install a list of which those who come with it may never hear."""
    Reformation._send_admit(self)
    if self._core.attempt.stage == "admitting":
        self._begin_installing()


@mutant(Token, "reformation._send_install")
def asks_only_those_who_stay(self: Reformation, proposal: Install) -> None:
    """Those who leave with a list are not asked to install it, although they are needed for a majority."""
    core = self._core
    core.send(tuple(s for s in proposal.members if s not in self._confirmed and s != core.site), proposal)
    if core.site not in self._confirmed:
        core.joining.begin(proposal)


@mutant(Token, "changes.finish_step")
def forgets_that_it_has_left(self: Changes) -> None:
    """Whoever has left and crashed is in its old list again."""
    call_without_log(self._core, Gone, Changes.finish_step, self)


@mutant(Token, "stable.prepare")
def comes_with_an_empty_history(self: Stable, admission: Admission, promised: Version) -> None:
    """A site that comes believes that nothing was ordered in the groups before."""
    empty = replace(admission.summary, counts=())
    Stable.prepare(self, replace(admission, summary=empty), promised)


@mutant(Token, "delivery.deliver", caught_by="offset-agreement", alone=True)
def passes_by_what_was_under_way_when_it_came(self: Delivery) -> None:
    """Whoever enters a group goes without what was multicast before it came, although it is ordered afterwards: nobody
    is owed that, and only its offsets show that it was in the group when the others delivered it."""
    core, before = self._core, len(self._core.outbox)
    Delivery.deliver(self)
    delivered = core.outbox[before:]
    entered = {effect.group for effect in delivered if isinstance(effect, EnterGroup)}
    if entered:
        waiting = (multicast for heard in core.backlog._heard.values() for multicast in heard.values())
        self.__dict__["passed_by"] = frozenset(each.id for each in waiting if entered.issuperset(each.groups))
    passed_by = self.__dict__.get("passed_by", frozenset())
    core.outbox[before:] = [
        effect for effect in delivered if not (isinstance(effect, Deliver) and effect.multicast.id in passed_by)
    ]
    self._unconsumed -= before + len(delivered) - len(core.outbox)


@mutant(Token, "delivery._change", caught_by="offset-agreement")
def counts_from_the_end_of_the_history(self: Delivery, roster: Roster, sequence: int) -> None:
    """Whoever enters a group says that everything is before it that is ordered so far, and delivers some of it."""
    before = len(self._core.outbox)
    Delivery._change(self, roster, sequence)
    self._core.outbox[before:] = [
        replace(effect, offset=self._ledger.counts.get(effect.group, 0)) if isinstance(effect, EnterGroup) else effect
        for effect in self._core.outbox[before:]
    ]


# ---------------------------------------------------------------------- at rest
@mutant(Token, "suspicion.note_recovered", caught_by="recovery", alone=True)
def never_says_that_it_is_recovered(self: Suspicion) -> None:
    """A site that has come back takes part again, and never says so."""


@mutant(Token, "source.give_credit", caught_by="credit-returned")
def loses_its_credit(self: Source) -> None:
    """After a crash a site gives its application credit for one message less each time than there is."""
    Source.give_credit(self)
    if self._core.context.incarnation:
        credit = self._core.outbox.pop()
        if isinstance(credit, Credit):
            self._core.outbox.append(Credit(max(0, credit.available - 1)))
