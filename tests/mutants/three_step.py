"""Mutants of three steps: each rule left out, by the letter that the README gives it."""

from __future__ import annotations

from collections import deque

from ordercast.core import SiteId
from ordercast.core.effects import EnterGroup, ExitGroup
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.kept import Kept
from ordercast.protocols.parts.multicast import Mark
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.primary_packets import Resumption, Started
from ordercast.protocols.three_step import ThreeStep
from ordercast.protocols.three_step.asking import Asking
from ordercast.protocols.three_step.delivery import Delivery
from ordercast.protocols.three_step.ordering import Ordering
from ordercast.protocols.three_step.packets import Acceptance, Delivered, Skipped
from ordercast.protocols.three_step.returning import Returning
from ordercast.protocols.three_step.taking import Taking
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


@mutant(ThreeStep, "delivery.is_primary_past")
def c_does_not_wait_for_the_primary(self: Delivery, t: int) -> bool:
    """(c) Without (i): the clocks of the followers count, whatever the primary may still give."""
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
            self._place(acceptances, proposal.message, entry, proposal.timestamp)


@mutant(ThreeStep, "primary._install")
def i_forgets_its_start(self: Primary, start: Started) -> None:
    """(i) A start is taken and not logged: after a crash the epoch has never begun."""
    call_without_log(self._host, Started, Primary._install, self, start)


@mutant(ThreeStep, "delivery.is_lowest", printed=True)
def j_leaves_out_equal_timestamps(self: Delivery, t: int) -> bool:
    """(j) What has the same timestamp, and perhaps the lower name, is not waited for."""
    return Delivery.is_lowest(self, t - 1)


# ---------------------------------------------------------------------- (k) to (n): stuck
@mutant(ThreeStep, "primary.hear", caught_by="termination")
def l_follows_nobody(self: Primary, sender: SiteId, epoch: int) -> bool:
    """(l) Who hears of a higher epoch does not promise it."""
    return epoch == self.promised


@mutant(ThreeStep, "ordering.is_needed", caught_by="termination")
def m_cares_for_what_it_has_not_delivered(self: Ordering) -> bool:
    """(m) A cell that has delivered everything stays between two epochs, and another one needs its words."""
    return any(not entry.delivered and entry.place for entry in self._core.entries.values())


@mutant(ThreeStep, "keeping._forget_taken", caught_by="termination")
def n_forgets_what_it_has_delivered(self: Taking, address: Destinations, kept: deque[Kept]) -> None:
    """(n) Who has delivered a message forgets it."""
    while kept and self.has_taken(self._core.site, kept[0]):
        self.forget(kept.popleft())


# ---------------------------------------------------------------------- the log, asking, absence
@mutant(ThreeStep, "delivery.deliver", caught_by="no-duplication")
def forgets_deliveries(self: Delivery) -> None:
    """After a crash what was delivered is delivered again."""
    call_without_log(self._core, Delivered, Delivery.deliver, self)


@mutant(ThreeStep, "watching._ask", caught_by="termination")
def does_not_ask(self: Asking, entries: list[Kept]) -> None:
    """What is lost is not asked for."""


@mutant(ThreeStep, "keeping.note_taken", caught_by="termination")
def counts_more_as_taken_than_was_taken(self: Taking, site: SiteId, through: Mark) -> None:
    """Who has taken everything up to a place counts as if it had taken what stands behind that, too."""
    Taking.note_taken(self, site, max((entry.key for entry in self._core.entries.values()), default=through))


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
