"""Words: how far this site has come, said to whoever needs to hear it, and when.

In a cell of three or four a follower is a quorum with the primary, so the primary needs the word of one of them. The
next in the cell speaks at once; the others' words wait for a while, and one stands for all until then. (At once: of
seven datagrams that serve a message in a cell of four, two tell the primary what it knows, while everybody waits for
processors.) When the next one is silent the primary asks for all words with its next proposals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, Part, SiteId
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.three_step.entries import Entry
from ordercast.protocols.three_step.packets import Word

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep

NEXT_SECONDS = 0.005
"""How long the next one in the cell may take until the primary asks for all words. Longer than a round trip of a local
network; on a slower one all speak at once."""
WORD_SECONDS = 0.02
"""How long a word waits that nobody needs as long as the next one speaks: when that is silent, the primary delivers the
first message so much later, and the others as before."""


class Speaking(Part):
    """Our last word, and to whom it goes."""

    timers = ("word",)

    def __init__(self, core: ThreeStep) -> None:
        self._core = core
        self.said = (0, 0, 0)
        """Our last word: epoch, count, clock."""
        self.is_asked = False
        """At a follower: whether the primary wants all words at once."""
        self._owed: MessageId | None = None
        """What the word that waits is said for."""
        self._judged = (0.0, 0, 0)
        """At the primary: when it was last looked whether the next one speaks, in which epoch, and how many places
        there were."""
        self._wants_all = False
        voices = core.ordering.own_voices
        self._needs_one = core.ordering.cell is not None and voices.quorum == 2
        """Whether a follower and the primary are a quorum of our cell."""
        self._follows = (-1, False)
        """An epoch, and whether we are neither its primary nor the next one."""

    # ------------------------------------------------------------------ the primary
    def wants_all(self) -> bool:
        """Whether the next one in the cell has not said yet what it has accepted of older proposals."""
        core = self._core
        now, epoch = core.now, core.primary.started
        if self._needs_one and abs(now - self._judged[0]) >= NEXT_SECONDS:
            voice = core.ordering.own_voices.said[core.primary.primary_of(epoch + 1)]
            _, then, count = self._judged
            self._wants_all = then == epoch and not (voice.epoch == epoch and voice.count >= count)
            self._judged = now, epoch, core.ordering.count
        return self._wants_all

    # ------------------------------------------------------------------ speaking
    def speak(self, words: dict[Destinations | None, MessageId]) -> bool:
        """Say our word to whoever needs it, and for which message's sake; None: to our cell. Whether it is another word
        than the last: to ourselves it is said as soon as it is logged."""
        core, ordering = self._core, self._core.ordering
        before = self.said
        self.said = said = (core.primary.started, ordering.count, ordering.clock)
        spoken: set[SiteId] = set()
        for address, message in words.items():
            if self._may_wait(address):
                if self._owed is None:
                    core.set_timer("word", WORD_SECONDS)
                self._owed = message
                continue
            to = self._who_needs_word(address)
            if len(words) > 1:
                to = tuple(site for site in to if site not in spoken)
                spoken.update(to)
            core.send(to, Word(*said, (message,)))
        return said != before

    def _may_wait(self, address: Destinations | None) -> bool:
        """Whether nobody but the primary needs the word, and it has another one."""
        if self.is_asked or not self._needs_one:
            return False
        core = self._core
        epoch = core.primary.started
        if self._follows[0] != epoch:
            speakers = core.primary.primary_of(epoch), core.primary.primary_of(epoch + 1)
            self._follows = epoch, core.site not in speakers
        return self._follows[1] and (address is None or address.cells == (core.ordering.cell,))

    def waits_with_word(self, entry: Entry) -> bool:
        """Whether the word for the sake of a message of our cell may wait; then it does."""
        epoch, follows = self.said[0], self._follows
        if self.is_asked or not (follows[1] if follows[0] == epoch else self._may_wait(None)):
            return False
        if self._owed is None:
            self._core.set_timer("word", WORD_SECONDS)
        self._owed = entry.message
        return True

    def on_word_timeout(self) -> None:
        """It has waited for long enough."""
        owed, self._owed = self._owed, None
        primary = self._core.primary
        if owed is not None and not primary.leads:
            self.say((primary.primary_of(primary.started),), (owed,))

    def _who_needs_word(self, address: Destinations | None) -> tuple[SiteId, ...]:
        """In a cell of three or four, a follower is a quorum with the primary: it needs no word of another one."""
        core = self._core
        others = core.cellmates if address is None else address.others
        if not self._needs_one or core.primary.leads:
            return others
        primary = core.primary.primary_of(core.primary.started)
        return tuple(site for site in others if site == primary or site not in core.cellmates)

    def say(self, to: tuple[SiteId, ...], messages: tuple[MessageId, ...]) -> None:
        """Our word again, as it was said last; it is in the log."""
        if self._core.primary.may_speak:
            self._core.send(to, Word(*self.said, messages))
