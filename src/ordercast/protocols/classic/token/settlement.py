"""Settlement: which site has delivered how much, what all can forget, and how much is kept for those who have not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Part, SiteId
from ordercast.protocols.classic.token.records import State

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token


class Settlement(Part):
    """The only one who clears the history, and who says how much it takes."""

    branches = ("history-full",)

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self._messages_max = core.options.history_messages_max
        self._settled_at: dict[SiteId, int] = dict.fromkeys(core.sites.all, 0)
        """Site -> a turn up to which it is known to have delivered everything."""
        self._full = False

    def at(self, site: SiteId) -> int:
        """A turn up to which the site is known to have delivered everything."""
        return self._settled_at[site]

    def note(self, site: SiteId, settled: int) -> None:
        """A site has delivered everything up to a turn; that is for ever, so every way to hear of it will do."""
        if settled > self._settled_at[site]:
            self._settled_at[site] = settled
            self.forget(min(self._settled_at.values()))

    def forget(self, through: int) -> None:
        """Every site, this one too, has delivered everything up to a turn: nobody will ask for it.

        This one may have forgotten how far it was: it delivered up to turn 90, learned that the null turns up to 100
        are committed, said so, and crashed. What it has accepted up to there is the history.
        """
        ledger, core = self._ledger, self._core
        if through > ledger.forgotten:
            core.stable.commit(min(through, ledger.accepted))
            ledger.forget(min(through, core.delivery.settled))

    # ------------------------------------------------------------------ the bound
    @property
    def room(self) -> int:
        """How many more messages the history takes."""
        return self._messages_max - self._ledger.messages

    def finish_step(self) -> None:
        """Is the history full, and whose fault is it?"""
        if self._ledger.messages >= self._messages_max:
            if not self._full:
                self._full = True
                self._core.branch("history-full")
            names = ", ".join(self.slowest_sites())
            self._core.block("history", f"the history is full: waiting until {names} has delivered it")
        elif self._full:
            self._full = False
            self._core.block("history", "")

    def slowest_sites(self) -> tuple[SiteId, ...]:
        """For whom the history is kept."""
        lowest = min(self._settled_at.values())
        return tuple(site for site, settled in self._settled_at.items() if settled == lowest)

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
        """Nothing is forgotten too early, nor kept beyond the bound."""
        ledger, settled = self._ledger, self._core.delivery.settled
        if ledger.messages > self._messages_max:
            raise InvariantViolation(f"the history has {ledger.messages} messages, more than {self._messages_max}")
        if ledger.forgotten > settled:
            raise InvariantViolation(f"forgot turn {ledger.forgotten}, settled only up to {settled}")
