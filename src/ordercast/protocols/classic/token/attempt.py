"""An attempt to form a list: which stage it is in, and how often that stage has been repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from ordercast.core import Part

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

Stage = Literal["", "probing", "catching-up", "inviting", "admitting", "installing"]


class Attempt(Part):
    """This site's own one; there is at most one at a time."""

    timers = ("reform",)
    branches = ("attempt-failed", "crashed-inviting", "crashed-admitting", "crashed-installing", "crashed-opening")

    def __init__(self, core: Token) -> None:
        self._core = core
        self.stage: Stage = ""
        self.rounds = 0
        """Of this stage that have brought no end of it."""
        self._on_round: Callable[[], None] = self.end

    def begin(self, stage: Stage, on_round: Callable[[], None]) -> None:
        """From here on retries count for this stage; `on_round` is called after each time to wait."""
        self.stage = stage
        self.rounds = 0
        self._on_round = on_round
        self._core.set_timer("reform", self._core.patience.retry_after(1))

    def end(self) -> None:
        """This site forms no list at the moment."""
        self.stage = ""
        self._core.reformation.forget()
        self._core.repair.want_no_history()
        self._core.cancel_timer("reform")

    def fail(self, why: str) -> None:
        """Try again later, and later each time."""
        self._core.branch("attempt-failed")
        self._core.block("majority", why)
        self.end()
        self._core.suspicion.back_off()

    def note_progress(self) -> None:
        """Something has come: the rounds count anew."""
        self.rounds = 0

    def branches_of_crash(self) -> Iterator[str]:
        """The originator crashes while the others wait for it: for the list to begin, and no longer."""
        if self.stage == "installing" and not self._core.ring.alive:
            yield "crashed-opening" if self._core.reformation.is_confirmed else "crashed-installing"
        elif self.stage in ("inviting", "admitting"):
            yield f"crashed-{self.stage}"

    def on_reform_timeout(self) -> None:
        """A round of the current stage is over."""
        if self.stage:
            self.rounds += 1
            self._on_round()
            if self.stage:
                self._core.set_timer("reform", self._core.patience.retry_after(self.rounds + 1))
