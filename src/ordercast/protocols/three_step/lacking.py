"""Bodies for which a report or a start waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, SiteId
from ordercast.protocols.parts.primary_packets import Place

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep


class Lacking:
    """Messages that are wanted because a report or a start names them."""

    def __init__(self, core: ThreeStep) -> None:
        self._core = core
        self.messages: set[MessageId] = set()

    def ask_for(self, holder: SiteId, places: tuple[Place, ...]) -> bool:
        """Whether a message at these places is neither here nor over; the holder is asked for all that are not."""
        core, lacking = self._core, self.messages
        is_lacking = False
        for place in places:
            message = place.message
            if core.body(message) is not None or core.is_over(message):
                lacking.discard(message)
            else:
                is_lacking = True
                lacking.add(message)
                core.multicast.want(message, (holder, *core.cellmates, message.source))
        if is_lacking:
            core.multicast.ask_at_once()
            core.watching.keep_watching()
        return is_lacking

    def is_last(self, message: MessageId) -> bool:
        """A message has come; whether it was the last one that was lacking.

        (Looking at all places with every one of them: who is back after three seconds of full load lacks twenty
        thousand, and does nothing else for minutes.)
        """
        if message not in self.messages:
            return False
        self.messages.discard(message)
        return not self.messages

    @property
    def is_waiting(self) -> bool:
        """Whether a report or a start waits for a body."""
        return bool(self.messages)

    def look(self) -> None:
        """Go on when what was lacking is over without ever having come.

        (Else: a start names m; we are told to go on behind m, which is over, so that nothing is unfinished here and
        nobody sends the start again; it is held, with all its places, as long as the process lives.)
        """
        core = self._core
        if self.messages and self._has_all():
            self.messages.clear()
            core.primary.on_bodies()

    def _has_all(self) -> bool:
        core = self._core
        return all(core.body(message) is not None or core.is_over(message) for message in self.messages)

    def clear(self) -> None:
        """An epoch has begun. (Else: what a start named, of which nobody has the body, is asked for as long as the
        process lives.)"""
        for message in self.messages:
            if message not in self._core.entries:
                self._core.multicast.forget(message)
        self.messages.clear()
