"""Mutants of three steps: each rule left out, by the letter that the README gives it."""

from __future__ import annotations

from ordercast.core import SiteId
from ordercast.core.effects import EnterGroup, ExitGroup
from ordercast.protocols.parts.keeping import Keeping
from ordercast.protocols.parts.kept import Kept
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.primary_packets import Place, Promise, Promised, Resumption, Started
from ordercast.protocols.three_step import ThreeStep
from ordercast.protocols.three_step.asking import Asking
from ordercast.protocols.three_step.delivery import Delivery
from ordercast.protocols.three_step.ordering import Ordering
from ordercast.protocols.three_step.packets import Acceptance, Accepted, Delivered, Skipped
from ordercast.protocols.three_step.returning import Returning
from ordercast.protocols.three_step.voices import Voices
from tests.mutants.registry import call_without_log, mutant


# ---------------------------------------------------------------------- (a) to (j): wrong order
@mutant(ThreeStep, "ordering.on_turn_timeout")
def a_accepts_after_it_has_promised(self: Ordering) -> None:
    """(a) A site goes on in an epoch when it has promised a later one."""
    self._dirty = False
    if self.cell is not None:
        self._take_part()
        for cell in sorted(self._heard):
            self.voices[cell].fix()
        self._heard.clear()
        self._core.delivery.deliver()


@mutant(ThreeStep, "primary.clock_of")
def b_starts_with_its_own_clock(self: Primary, reports: list[Promise]) -> int:
    """(b) The clock of the new primary is its own, not the highest that was reported."""
    own = reports[-1]
    return max((own.clock, *(place.timestamp for place in Primary.choose(self, reports).places)))


@mutant(ThreeStep, "delivery.is_primary_past")
def c_does_not_wait_for_the_primary(self: Delivery, t: int) -> bool:
    """(c) Without (i): the clocks of the followers count, whatever the primary may still give."""
    return True


@mutant(ThreeStep, "delivery.is_majority_past")
def d_does_not_wait_for_a_majority(self: Delivery, t: int) -> bool:
    """(d) Without (ii): the clock of the primary counts, though it may be alone with it."""
    return True


@mutant(ThreeStep, "ordering._accept")
def e_accepts_with_gaps(self: Ordering, acceptances: list[Acceptance]) -> None:
    """(e) A follower accepts what has come, whatever is missing before it."""
    if self._early_epoch != self._core.primary.started:
        return
    for place, proposal in sorted(self._early.items()):
        entry = self._core.entries.get(proposal.message)
        last = self.places[-1].timestamp if self.places else 0
        if (entry is None or entry.multicast is not None) and proposal.timestamp > last:
            del self._early[place]
            acceptances.append(self._place(proposal.message, proposal.timestamp))


@mutant(ThreeStep, "delivery.is_majority_past")
def f_counts_words_of_later_epochs(self: Delivery, t: int) -> bool:
    """(f) For (ii) words of later epochs count, which were said after the promise."""
    voices = self._core.ordering.own_voices
    clocks = [voice.clock for voice in voices.said.values() if voice.epoch >= self._core.primary.started]
    return sum(clock >= t for clock in clocks) >= voices.majority


@mutant(ThreeStep, "primary.choose")
def g_takes_the_longest_report(self: Primary, reports: list[Promise]) -> Promise:
    """(g) The longest report, not the one of the latest epoch."""
    return max(reports, key=lambda report: report.base + len(report.places))


@mutant(ThreeStep, "ordering._hear")
def h_adds_words_of_two_epochs(
    self: Ordering, voices: Voices, site: SiteId, epoch: int, count: int, clock: int
) -> bool:
    """(h) What was accepted in an epoch counts in the next one as well."""
    return Ordering._hear(self, voices, site, epoch, max(count, voices.said[site].count), clock)


@mutant(ThreeStep, "ordering.recall_accepted")
def i_forgets_its_clock(self: Ordering, record: Accepted) -> None:
    """(i) After a crash the clock knows the timestamps that were accepted, not those of other cells that raised it."""
    Ordering.recall_accepted(self, Accepted(record.first, record.acceptances, 0))


@mutant(ThreeStep, "primary._promise")
def i_forgets_its_promise(self: Primary, epoch: int) -> None:
    """(i) A promise is made and not logged."""
    call_without_log(self._host, Promised, Primary._promise, self, epoch)


@mutant(ThreeStep, "primary._install")
def i_forgets_its_start(self: Primary, start: Started) -> None:
    """(i) A start is taken and not logged: after a crash the epoch has never begun."""
    call_without_log(self._host, Started, Primary._install, self, start)


@mutant(ThreeStep, "delivery.is_lowest")
def j_leaves_out_equal_timestamps(self: Delivery, t: int) -> bool:
    """(j) What has the same timestamp, and perhaps the lower name, is not waited for."""
    return Delivery.is_lowest(self, t - 1)


# ---------------------------------------------------------------------- (k) to (n): stuck
@mutant(ThreeStep, "ordering.has_bodies", caught_by="termination")
def k_starts_without_bodies(self: Ordering, holder: SiteId, places: tuple[Place, ...]) -> bool:
    """(k) A report counts, and a start is taken, when the messages are known by name only."""
    return True


@mutant(ThreeStep, "primary.hear", caught_by="termination")
def l_follows_nobody(self: Primary, sender: SiteId, epoch: int) -> bool:
    """(l) Who hears of a higher epoch does not promise it."""
    return epoch == self.promised


@mutant(ThreeStep, "ordering.is_needed", caught_by="termination")
def m_cares_for_what_it_has_not_delivered(self: Ordering) -> bool:
    """(m) A cell that has delivered everything stays between two epochs, and another one needs its words."""
    return any(not entry.delivered and entry.place for entry in self._core.entries.values())


@mutant(ThreeStep, "keeping.is_over", caught_by="termination")
def n_forgets_what_it_has_delivered(self: Keeping, entry: Kept) -> bool:
    """(n) Who has delivered a message forgets it."""
    return self._core.site in entry.settled


# ---------------------------------------------------------------------- the log, asking, absence
@mutant(ThreeStep, "delivery.deliver", caught_by="no-duplication")
def forgets_deliveries(self: Delivery) -> None:
    """After a crash what was delivered is delivered again."""
    call_without_log(self._core, Delivered, Delivery.deliver, self)


@mutant(ThreeStep, "watching._ask", caught_by="termination")
def does_not_ask(self: Asking, entries: list[Kept]) -> None:
    """What is lost is not asked for."""


@mutant(ThreeStep, "returning.resumption_for", caught_by="termination")
def does_not_say_what_it_has_forgotten(self: Returning, site: SiteId) -> Resumption | None:
    """A site that comes back hears of nothing that is gone."""
    return None


@mutant(ThreeStep, "returning.recall_skipped", caught_by="termination")
def skips_without_a_word(self: Returning, record: Skipped) -> None:
    """A site that skips what is gone does not leave its groups: its application believes that nothing is missing."""
    before = len(self._core.outbox)
    Returning.recall_skipped(self, record)
    self._core.outbox[before:] = [
        effect for effect in self._core.outbox[before:] if not isinstance(effect, EnterGroup | ExitGroup)
    ]
