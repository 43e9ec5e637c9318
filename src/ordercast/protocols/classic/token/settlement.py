"""Settlement: which site has delivered how much, what all can forget, and how much is kept for those who have not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Part, SiteId
from ordercast.protocols.classic.token.records import State
from ordercast.protocols.classic.token.rosters import Roster
from ordercast.protocols.classic.token.turns import Entry

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

SPARE = 8
"""One eighth of the bound in bytes is for the turn that fills the history; as much again is cleared at once."""


class Settlement(Part):
    """The only one who clears the history, and who says how much it takes.

    What every site has settled is of no use to anybody. When the history is full, what every member of the list has
    settled goes as well, the oldest first: those who are down, or were left out, go on behind a gap when they come
    back. A member that is slow holds the others up.
    """

    branches = ("history-full", "history-forgotten-past-absent")

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self._messages_max = core.options.history_messages_max
        self._bytes_max = core.options.history_bytes_max
        self.turn_bytes_max = max(1, self._bytes_max // SPARE)
        """What a turn may add."""
        self._full_bytes = self._bytes_max - self.turn_bytes_max
        """Above this, no turn is added."""
        self._settled_at: dict[SiteId, int] = dict.fromkeys(core.system.all, 0)
        """Site -> a turn up to which it is known to have delivered everything."""
        self.everywhere = 0
        """Every site has delivered everything up to this turn."""
        self.gone = 0
        """Nothing up to this turn is kept anywhere in the list, as far as is known here. Less than `forgotten` of the
        ledger at a site that took over a summary: others may have what it never had."""
        self.held_up = False
        """Whether this site may not add to the history although it has room for more."""
        self._full = False

    def at(self, site: SiteId) -> int:
        """A turn up to which the site is known to have delivered everything."""
        return self._settled_at.get(site, 0)

    def admit(self, roster: Roster, settled: int) -> None:
        """The history is kept for these sites, too; whoever is new among them has no need of what lies before."""
        for site, _life in roster.sites:
            self._settled_at.setdefault(site, settled)

    def dismiss(self, roster: Roster) -> None:
        """It is kept for nobody else."""
        for site in [site for site in self._settled_at if roster.life(site) is None and site != self._core.site]:
            del self._settled_at[site]

    def note(self, site: SiteId, settled: int) -> None:
        """A site has delivered everything up to a turn; that is for ever, so every way to hear of it will do."""
        if settled > self._settled_at.get(site, settled):
            self._settled_at[site] = settled
            self.forget(min(self._settled_at.values()))

    def forget(self, through: int) -> None:
        """Every site, this one too, has delivered everything up to a turn: nobody will ask for it."""
        self.everywhere = max(self.everywhere, through)
        if through > self._ledger.forgotten:
            self._believe(through, tuple(self._settled_at))

    def forget_in_list(self, through: int) -> None:
        """Every member of the list, this one too, has delivered everything up to a turn, and somebody has no room for
        it."""
        if through > self._ledger.forgotten:
            self._believe(through, self._ledger.members)

    def _believe(self, through: int, sites: tuple[SiteId, ...]) -> None:
        """These sites have delivered everything up to a turn, and nobody else needs it.

        This one may have forgotten how far it was: it delivered up to turn 90, learned that the null turns up to 100
        are committed, said so, and crashed. What it has accepted up to there is the history.
        """
        ledger, core = self._ledger, self._core
        self.note_gone(through)
        settled_at = self._settled_at
        for site in sites:
            if settled_at.get(site, 0) < through:
                settled_at[site] = through
        core.stable.commit(min(through, ledger.accepted))
        ledger.forget(min(through, core.delivery.settled))

    def note_gone(self, through: int) -> None:
        """Nothing up to this turn is kept anywhere in the list."""
        self.gone = max(self.gone, through)

    # ------------------------------------------------------------------ the bound
    @property
    def is_full(self) -> bool:
        """Whether the history takes no more."""
        ledger = self._ledger
        return ledger.messages >= self._messages_max or ledger.bytes > self._full_bytes

    def room(self) -> int:
        """How many more messages this site may add to the history.

        None while a member has not settled what this site has forgotten, or never had. (Else: c takes a summary and
        enters with an empty history, while a slow reader in the list keeps a full one; c acknowledges, and that one has
        to keep twice as much.)
        """
        self.held_up = self._floor() < self._ledger.forgotten
        return 0 if self.held_up or self.is_full else self._messages_max - self._ledger.messages

    def make_room_for(self, entries: Sequence[Entry]) -> bool:
        """Whether these fit, in the place of what is accepted and not committed. When they do not, that is because of
        what waits for this site's own application."""
        ledger = self._ledger
        messages = sum(len(entry.multicasts) for entry in entries) - ledger.uncommitted_messages
        fits = self._make_room(messages, sum(entry.bytes for entry in entries) - ledger.uncommitted_bytes())
        return fits or ledger.messages == ledger.uncommitted_messages

    def _make_room(self, messages: int, occupied: int) -> bool:
        """Forget what is kept for those who are not in the list, the oldest first, until so much more fits; whether it
        does."""
        ledger = self._ledger
        messages_max, bytes_max = self._messages_max - messages, self._bytes_max - occupied
        if ledger.messages > messages_max or ledger.bytes > bytes_max:
            floor, before = self._floor(), ledger.messages
            while (ledger.messages > messages_max or ledger.bytes > bytes_max) and ledger.forgotten < floor:
                ledger.forget(ledger.forgotten + 1)
            if ledger.messages < before:
                self._core.branch("history-forgotten-past-absent")
                if self._core.stable.in_normal_phase:
                    self.note_gone(ledger.forgotten)
        return ledger.messages <= messages_max and ledger.bytes <= bytes_max

    def _floor(self) -> int:
        """How far everybody is for whom the history must be kept: the members of the list. Who is in none, and learns
        what it has missed, is not needed by the others, and keeps what it has to deliver itself."""
        core = self._core
        return self._settled_in_list() if core.stable.in_normal_phase else core.delivery.settled

    def finish_step(self) -> None:
        """Is the history full, and whose fault is it?"""
        ledger = self._ledger
        full = ledger.messages >= self._messages_max or ledger.bytes > self._full_bytes
        if not (full or self.held_up or self._full):
            return
        if self.held_up:
            self.held_up = self._floor() < ledger.forgotten
        if full and self._core.stable.in_normal_phase:
            self._make_room(max(1, self._messages_max // SPARE), 2 * self.turn_bytes_max)
            full = self.is_full
        if full or self.held_up:
            if not self._full:
                self._full = True
                self._core.branch("history-full")
            names = ", ".join(self.slowest_sites())
            self._core.block("history", f"the history is full: waiting until {names} has delivered it")
        elif self._full:
            self._full = False
            self._core.block("history", "")

    @property
    def forgotten_in_list(self) -> int:
        """How far the history was cleared here, and every member of the list has settled it. Less than `forgotten` of
        the ledger at a site that took over a summary, and knows of others' deliveries only what they say."""
        return min(self._ledger.forgotten, self._settled_in_list())

    def _settled_in_list(self) -> int:
        settled_at = self._settled_at
        return min(self._core.delivery.settled, *[settled_at.get(site, 0) for site in self._ledger.members])

    def slowest_sites(self) -> tuple[SiteId, ...]:
        """For whom the history is kept."""
        members = self._ledger.members
        lowest = min(self.at(site) for site in members)
        return tuple(sorted(site for site in members if self.at(site) == lowest))

    # ------------------------------------------------------------------ stable storage
    def stable_state(self) -> tuple[tuple[SiteId, int], ...]:
        """For a checkpoint."""
        return tuple(self._settled_at.items())

    def restore(self, state: State) -> None:
        """As the checkpoint says."""
        self._settled_at.update(state.settled)

    def resume(self, forgotten: int) -> None:
        """The log has been read, which says how far this site is, and how far the history was cleared."""
        settled = self._core.delivery.settled
        self._ledger.forget(min(forgotten, settled))
        self._settled_at[self._core.site] = settled

    def check_invariants(self) -> None:
        """Nothing is forgotten too early, nor kept beyond the bound, unless a single turn is larger."""
        ledger, settled = self._ledger, self._core.delivery.settled
        if ledger.messages > self._messages_max:
            raise InvariantViolation(f"the history has {ledger.messages} messages, more than {self._messages_max}")
        if ledger.bytes > self._bytes_max:
            sizes = [entry.bytes for entry in ledger.entries.values()]
            if sum(sizes) != ledger.bytes or ledger.bytes > self._bytes_max + max(sizes):
                raise InvariantViolation(f"the history has {ledger.bytes} bytes, more than {self._bytes_max}")
        if ledger.forgotten > settled:
            raise InvariantViolation(f"forgot turn {ledger.forgotten}, settled only up to {settled}")
