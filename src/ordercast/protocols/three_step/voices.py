"""Rule 4: what the sites of a cell have said, and which timestamps are fixed by that."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from ordercast.core import MessageId, SiteId
from ordercast.protocols.three_step.entries import Entry, Standing

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep

EPOCHS_MAX = 64
"""Epochs in which messages may stand at the same time, before it is looked whether they still do."""


class Voice(msgspec.Struct, gc=False):
    """The last word of one site."""

    epoch: int = 0
    count: int = 0
    clock: int = 0


class Voices:
    """The words of one cell, which may be ours."""

    def __init__(self, core: ThreeStep, cell: int) -> None:
        self._core = core
        self.cell = cell
        self.sites = core.cells.cells[cell]
        self.quorum = (len(self.sites) + 1) // 2
        """So many meet every majority, and each later start needs the reports of a majority: half of an even cell is
        enough (Howard, Malkhi, Spiegelman 2016). In a cell of four, as in one of three, a follower and the primary are
        a quorum."""
        self.said: dict[SiteId, Voice] = {site: Voice() for site in self.sites}
        self._voices = tuple(self.said.values())
        self._latest = 0
        """The latest epoch of which anybody has spoken; of that one:"""
        self._count = 0
        """what a quorum has accepted,"""
        self._clock = 0
        """the clock that a quorum has said,"""
        self._has_most = self._is_latest = self._voices[0]
        """whoever has accepted most, and whoever has said the highest clock."""
        self._waiting: dict[int, list[tuple[int, MessageId]]] = {}
        """Epoch -> messages that stand in it and are not fixed, by place, as a heap; dead items are dropped later."""
        self._here: deque[Entry] = deque()
        """In our own cell instead: what is accepted here in S and not fixed, by place. What we have not accepted we
        cannot deliver, so it need not be fixed."""
        self._epoch = 0
        """The latest epoch in which a quorum has spoken: in earlier ones nothing is fixed any more that is not."""

    def hear(self, site: SiteId, epoch: int, count: int, clock: int) -> bool:
        """A word; an older one does not take a later one back. Whether a quorum has said more by it.

        Only the words of the latest epoch are kept, and words of two epochs are never added. (Else: place 4 of epoch 0
        at a, and another place 4 of epoch 1 at b, are no quorum for either.)
        """
        voice = self.said[site]
        if epoch > voice.epoch:
            voice.epoch, voice.count, voice.clock = epoch, count, clock
            if epoch > self._latest:
                self._latest = epoch
                self._count = self._clock = 0
                self._has_most = self._is_latest = voice
        elif epoch < voice.epoch or (count <= voice.count and clock <= voice.clock):
            return False
        else:
            if count > voice.count:
                voice.count = count
            if clock > voice.clock:
                voice.clock = clock
        if epoch < self._latest:
            return True
        if count <= self._count and clock <= self._clock:
            # A quorum has said as much before.
            return False
        before_count, before_clock = self._count, self._clock
        if self.quorum == 2:
            # The second highest of each, without looking at all of them: half of the work for a word.
            most, latest = self._has_most, self._is_latest
            if voice is not most:
                if voice.count > most.count:
                    self._count, self._has_most = most.count, voice
                elif voice.count > before_count:
                    self._count = voice.count
            if voice is not latest:
                if voice.clock > latest.clock:
                    self._clock, self._is_latest = latest.clock, voice
                elif voice.clock > before_clock:
                    self._clock = voice.clock
        else:
            spoken = [voice for voice in self._voices if voice.epoch == epoch]
            if len(spoken) >= self.quorum:
                # As in `_quorum_of`, without two calls for every word.
                self._count = sorted([voice.count for voice in spoken])[-self.quorum]
                self._clock = sorted([voice.clock for voice in spoken])[-self.quorum]
        return self._count != before_count or self._clock != before_clock

    def count_in(self, epoch: int) -> int:
        """So many places a quorum has accepted in an epoch."""
        if epoch == self._latest:
            return self._count
        return self._quorum_of([voice.count for voice in self.said.values() if voice.epoch == epoch])

    def clock_in(self, epoch: int) -> int:
        """Of a quorum, everyone has said at least this clock in an epoch.

        (Words of later epochs do not count: they were said after the promise, whose reports may not have known the
        clock that a start took from elsewhere.)
        """
        if epoch == self._latest:
            return self._clock
        return self._quorum_of([voice.clock for voice in self.said.values() if voice.epoch == epoch])

    def _quorum_of(self, numbers: list[int]) -> int:
        return sorted(numbers, reverse=True)[self.quorum - 1] if len(numbers) >= self.quorum else 0

    def begin(self) -> None:
        """In our own cell: another epoch has begun."""
        self._here.clear()

    def stand_here(self, entry: Entry, epoch: int, place: int, timestamp: int) -> None:
        """In our own cell: we have accepted a message at the next place of S."""
        if entry.standings:
            known = entry.standings.get(self.cell)
            if known is not None and known.timestamp != timestamp:
                self._core.branch("proposed-again")
        entry.standings[self.cell] = Standing(epoch, place, timestamp)
        if not entry.sequence and self.cell not in entry.fixed:
            self._here.append(entry)

    def stand(self, entry: Entry, epoch: int, place: int, timestamp: int) -> bool:
        """A message stands at a place of another cell; whether that was not known."""
        known = entry.standings.get(self.cell)
        if known is not None:
            if known.epoch >= epoch:
                return False
            if known.timestamp != timestamp:
                self._core.branch("proposed-again")
        entry.standings[self.cell] = Standing(epoch, place, timestamp)
        if self.cell not in entry.fixed:
            waiting = self._waiting.get(epoch)
            if waiting is None:
                waiting = self._waiting[epoch] = []
                if len(self._waiting) > EPOCHS_MAX:
                    self._drop_dead()
                    waiting = self._waiting.setdefault(epoch, [])
            heappush(waiting, (place, entry.message))
        return True

    def _drop_dead(self) -> None:
        """Keep what still stands where it was said to stand. (Else: who proposes one message in a million epochs fills
        the memory.)"""
        entries, cell = self._core.entries, self.cell
        for epoch, waiting in list(self._waiting.items()):
            alive = [
                (place, message)
                for place, message in waiting
                if (entry := entries.get(message)) is not None and entry.standings[cell].epoch == epoch
            ]
            if alive:
                self._waiting[epoch] = alive
                heapify(alive)
            else:
                del self._waiting[epoch]

    def drop_over(self) -> None:
        """Messages are over: the first that stand here may be among them. (Else: what others have told us to be final
        waits here until the cell says more, and it may have nothing more to say.)"""
        entries = self._core.entries
        for epoch, waiting in tuple(self._waiting.items()):
            while waiting and waiting[0][1] not in entries:
                heappop(waiting)
            if not waiting:
                del self._waiting[epoch]

    def fix(self) -> None:
        """Fix what a quorum has accepted."""
        cell, entries = self.cell, self._core.entries
        here = self._here
        if here:
            epoch = self._core.primary.started
            count = self._count if epoch == self._latest else self.count_in(epoch)
            on_final = self._core.delivery.on_final
            while here and here[0].place <= count:
                entry = here.popleft()
                if entry.message in entries and not entry.sequence:
                    timestamp = entry.fixed[cell] = entry.standings[cell].timestamp
                    if len(entry.address.cells) == 1:
                        on_final(entry, timestamp)
                    elif len(entry.fixed) == len(entry.address.cells):
                        on_final(entry, max(entry.fixed.values()))
        if not self._waiting:
            return
        for epoch, waiting in tuple(self._waiting.items()):
            count = self._count if epoch == self._latest else self.count_in(epoch)
            if count and epoch > self._epoch:
                self._epoch = epoch
            while waiting and waiting[0][0] <= count:
                place, message = heappop(waiting)
                found = entries.get(message)
                if found is None or cell in found.fixed:
                    continue
                standing = found.standings[cell]
                if standing.place == place and standing.epoch == epoch:
                    found.fixed[cell] = standing.timestamp
                    if len(found.fixed) == len(found.address.cells) and not found.sequence:
                        self._core.delivery.on_final(found, max(found.fixed.values()))
            if not waiting or epoch < self._epoch:
                del self._waiting[epoch]
