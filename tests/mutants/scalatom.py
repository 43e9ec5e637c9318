"""Mutants of SCALATOM: the printed algorithm where it is wrong, the naive rule, and what our own additions rest on."""

from __future__ import annotations

from ordercast.core import Multicast, SiteId
from ordercast.core.effects import EnterGroup, ExitGroup
from ordercast.protocols.parts.consensus import Consensus
from ordercast.protocols.parts.consensus_packets import Decided, InstanceName, Value
from ordercast.protocols.parts.kept_packets import Sent
from ordercast.protocols.parts.multicast import Mark
from ordercast.protocols.parts.source import Source
from ordercast.protocols.scalatom import Scalatom
from ordercast.protocols.scalatom.catching import Catching
from ordercast.protocols.scalatom.entries import Entry
from ordercast.protocols.scalatom.histories import Histories, Mate
from ordercast.protocols.scalatom.keeping import Keeping
from ordercast.protocols.scalatom.ordering import Ordering
from ordercast.protocols.scalatom.packets import Delivered, Resumption, Stamped
from ordercast.protocols.scalatom.returning import Returning
from tests.mutants.registry import call_without_log, mutant


# ---------------------------------------------------------------------- the printed algorithm
@mutant(Scalatom, "histories.is_first", printed=True)
def logs_the_incremented_clock(self: Histories, sequence: int) -> bool:
    """As printed in step 2: a history holds the clock after it was incremented, and predecessors are those lower than
    the sequence number."""
    undecided = [
        timestamp
        for timestamp, message in self._blockers
        if message in self._core.entries and not self._core.entries[message].sequence
    ]
    return not any(timestamp + 1 < sequence for timestamp in undecided)


@mutant(Scalatom, "histories.is_first", printed=True)
def leaves_out_equal_timestamps(self: Histories, sequence: int) -> bool:
    """As printed in section 4.2: predecessors have a timestamp lower than the sequence number, not equal to it."""
    return Histories.is_first(self, sequence - 1)


@mutant(Scalatom, "histories.is_complete", caught_by="termination", printed=True)
def waits_for_equal_sequence_numbers(self: Histories, sequence: int) -> bool:
    """As printed in step 5: a predecessor has a higher number, or a lower one and is delivered. With equal ones two
    messages wait for each other."""
    equal = sum(number == sequence for number, _ in self._decided)
    return equal < 2 and Histories.is_complete(self, sequence)


@mutant(Scalatom, "histories.is_complete")
def delivers_the_lowest_that_it_knows(self: Histories, sequence: int) -> bool:
    """The naive rule: deliver what is minimal among the messages known here, without anybody's history."""
    return True


# ---------------------------------------------------------------------- order
@mutant(Scalatom, "ordering.is_ready")
def needs_no_majority_of_each_cell(self: Ordering, entry: Entry) -> bool:
    """Timestamps of a majority of all destinations instead of a qualified one."""
    return len(entry.stamps) > len(entry.address.sites) // 2


@mutant(Scalatom, "ordering.recall_stamped")
def forgets_its_clock(self: Ordering, record: Stamped) -> None:
    """After a crash the clock does not know the timestamps in the log, and gives them again."""
    clock = self.clock
    Ordering.recall_stamped(self, record)
    self.clock = clock


# ---------------------------------------------------------------------- the log
@mutant(Scalatom, "ordering.stamp")
def forgets_timestamps(self: Ordering, entry: Entry, multicast: Multicast) -> None:
    """A timestamp is told and not logged: after a crash the message gets another one, and lower ones are given."""
    call_without_log(self._core, Stamped, Ordering.stamp, self, entry, multicast)


@mutant(Scalatom, "histories.deliver", caught_by="no-duplication")
def forgets_deliveries(self: Histories) -> None:
    """After a crash what was delivered is delivered again."""
    call_without_log(self._core, Delivered, Histories.deliver, self)


@mutant(Scalatom, "source.multicast", caught_by="termination")
def forgets_its_messages(self: Source, multicast: Multicast) -> None:
    """A source outside the groups that crashes has never heard of its message."""
    call_without_log(self._core, Sent, Source.multicast, self, multicast)


@mutant(Scalatom, "consensus._decide")
def forgets_decisions(self: Consensus, name: InstanceName, value: Value) -> None:
    """A decision is acted upon and not logged."""
    call_without_log(self._host, Decided, Consensus._decide, self, name, value)


# ---------------------------------------------------------------------- agreement and progress
@mutant(Scalatom, "keeping.is_over", caught_by="termination")
def forgets_what_a_majority_has(self: Keeping, entry: Entry) -> bool:
    """A message is forgotten as soon as a qualified majority has taken it."""
    return entry.address.quorum.is_met(entry.settled)


@mutant(Scalatom, "catching.begin_all", caught_by="termination")
def does_not_catch_up(self: Catching) -> None:
    """A site that has crashed does not ask for what it has forgotten."""


# ---------------------------------------------------------------------- absence and return
@mutant(Scalatom, "histories.is_usable", caught_by="termination")
def takes_histories_with_holes(self: Histories, mate: Mate) -> bool:
    """The history of a site counts although it has forgotten what we lack: we go past that without a word."""
    return True


@mutant(Scalatom, "returning._through_for", caught_by="termination")
def does_not_say_what_it_has_forgotten(self: Returning, site: SiteId) -> Mark | None:
    """A site that comes back hears of nothing that is gone."""
    return None


@mutant(Scalatom, "returning.take_over", caught_by="termination")
def skips_without_a_word(self: Returning, resumption: Resumption) -> None:
    """A site that skips what is gone does not leave its groups: its application believes that nothing is missing."""
    before = len(self._core.outbox)
    Returning.take_over(self, resumption)
    self._core.outbox[before:] = [
        effect for effect in self._core.outbox[before:] if not isinstance(effect, EnterGroup | ExitGroup)
    ]


@mutant(Scalatom, "returning._skip", caught_by="termination")
def never_enters_again(self: Returning, resumption: Resumption) -> None:
    """A site that was given up waits for what nobody has any more."""


# ---------------------------------------------------------------------- at rest
@mutant(Scalatom, "consensus.forget", caught_by="no-leak", alone=True)
def keeps_decisions_after_a_crash(self: Consensus, name: InstanceName) -> None:
    """A site that has come back keeps every decision for ever."""
    if not self._host.context.incarnation:
        Consensus.forget(self, name)
