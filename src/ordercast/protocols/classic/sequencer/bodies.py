"""At a destination: large messages that came straight from their sources, until their places come from the sequencer.

Kaashoek et al. 1989 call the two ways PB (the sequencer broadcasts the message) and BB (the source does, and the
sequencer broadcasts its place). BB carries a large message once over each wire instead of twice over the sequencer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, SiteId
from ordercast.protocols.classic.sequencer.packets import Placed

if TYPE_CHECKING:
    from ordercast.protocols.classic.sequencer.protocol import Sequencer


class Bodies:
    """Messages without places, and places without messages. Whichever of the two is lost, a request brings both."""

    def __init__(self, core: Sequencer) -> None:
        self._core = core
        self._bodies: dict[MessageId, Multicast] = {}
        self._places: dict[MessageId, Placed] = {}
        self._last: dict[SiteId, MessageId] = {}
        """Source -> its last message that was delivered here."""
        # Two windows of each source. (With one: the sequencer sends the places of a window to its destinations in turn;
        # the first of them see their own messages placed and send us the next window before the sequencer comes to us;
        # that finds no room here, and everybody waits for a time-out.) What does not fit is dropped, as if lost.
        self._most = 2 * core.options.window_messages * len(core.context.sites)

    def on_body(self, multicast: Multicast) -> Placed | None:
        """A message from its source; its place, when that was here first."""
        message = multicast.id
        last = self._last.get(message.source)
        if last is not None and message <= last:
            # (Kept: its place came with a resent copy, nobody asks for it again, and it stays for ever.)
            return None
        placed = self._places.pop(message, None)
        if placed is None and len(self._bodies) < self._most:
            self._bodies[message] = multicast
        return placed

    def on_placed(self, placed: Placed) -> Multicast | None:
        """A place from the sequencer; its message, when that was here first."""
        message = placed.message
        if message.source == self._core.site:
            submit = self._core.source.pending.get(message)
            return None if submit is None else submit.multicast
        body = self._bodies.pop(message, None)
        if body is None and len(self._places) < self._most:
            self._places[message] = placed
        return body

    def on_delivered(self, message: MessageId) -> None:
        """It is delivered, however it came."""
        self._last[message.source] = message
        self._bodies.pop(message, None)
        self._places.pop(message, None)
