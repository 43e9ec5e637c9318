"""The taker's side of a state transfer: one state from one giver, chunk by chunk. Without sockets and clocks."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from ordercast.core import SiteId
from ordercast.node.state_packets import CHUNK_BYTES, DIGEST_BYTES, FETCH_CHUNKS_MAX, Chunk, Fetch, Offer, count_chunks
from ordercast.node.state_window import Window

OFFER_SECONDS = 4.0
"""Until a giver that has offered nothing is given up when nothing comes of it. While it makes bytes of its state, it
says so."""

SILENT_SECONDS = 2.0
"""Until a giver is given up of which nothing has come since."""

POLL_SECONDS, POLL_SECONDS_MAX = 0.05, 1.0
"""Until the giver is asked again whether there is a state: twice as long each time."""

AHEAD_MAX = 256
"""Chunks that may come before an earlier one that is missing: 8 MB."""


class Taking:
    """One transfer, from the question to the last byte."""

    def __init__(self, giver: SiteId, transfer: int, window: Window, counters: Counter[str], now: float) -> None:
        self.giver = giver
        self.transfer = transfer
        self.offer: Offer | None = None
        self.content = bytearray()
        """What has come without a gap."""
        self._window = window
        self._counters = counters
        self._digest = blake2b(digest_size=DIGEST_BYTES)
        self._count = 0
        self._next = 0
        """The first chunk that is missing."""
        self._unasked = 0
        """The first chunk that was never asked for."""
        self._ahead: dict[int, bytes] = {}
        """Chunks that have come before an earlier one."""
        self._asked: dict[int, float] = {}
        """Chunk -> when it was asked for last, the oldest question first."""
        self._again: set[int] = set()
        """Chunks that were asked for more than once."""
        self._lost: list[int] = []
        """Chunks to ask for again, the first one last."""
        self._heard = now
        self._poll_at, self._poll_seconds = now, POLL_SECONDS

    # ------------------------------------------------------------------ in
    def on_soon(self, now: float) -> None:
        """The giver has to make it ready first."""
        self._heard = now

    def on_offer(self, offer: Offer, now: float) -> None:
        """The giver says what there is. Said again, it is no news."""
        self._heard = now
        if self.offer is None:
            self.offer = offer
            self._count = count_chunks(offer.size)

    def on_chunk(self, chunk: Chunk, now: float) -> str | None:
        """A chunk has come. What is wrong with it, in which case it is dropped; None as a rule."""
        offer, index = self.offer, chunk.index
        if offer is None or index >= self._count:
            self._counters["state-bad-chunks"] += 1
            return f"chunk {index} of {self._count}"
        if len(chunk.content) != min(CHUNK_BYTES, offer.size - index * CHUNK_BYTES):
            self._counters["state-bad-chunks"] += 1
            return f"a chunk of {len(chunk.content)} bytes"
        asked = self._asked.pop(index, None)
        if asked is None:
            # Asked for again, and both answers have come; or nobody has ever asked.
            name = "state-repeated-chunks" if index < self._unasked else "state-unasked-chunks"
            self._counters[name] += 1
            if name == "state-unasked-chunks":
                return f"chunk {index}, which nobody has asked for"
            if index < self._next or index in self._ahead:
                return None
            self._lost.remove(index)
        self._window.on_answer(None if asked is None or index in self._again else now - asked)
        self._heard = now
        self._again.discard(index)
        self._ahead[index] = chunk.content
        while (content := self._ahead.pop(self._next, None)) is not None:
            self.content += content
            self._digest.update(content)
            self._next += 1
        return None

    @property
    def is_complete(self) -> bool:
        """Whether everything has come."""
        return self.offer is not None and self._next == self._count

    @property
    def is_sound(self) -> bool:
        """Whether what has come is what was offered."""
        return self.offer is not None and self._digest.digest() == self.offer.digest

    def is_given_up(self, now: float) -> bool:
        """Whether the giver has been silent for too long."""
        return now >= self._patience

    @property
    def _patience(self) -> float:
        return self._heard + (OFFER_SECONDS if self.offer is None else SILENT_SECONDS)

    # ------------------------------------------------------------------ out
    def questions(self, now: float) -> list[Fetch]:
        """What to ask the giver now."""
        if self.offer is None:
            if now < self._poll_at:
                return []
            self._poll_at = now + self._poll_seconds
            self._poll_seconds = min(2 * self._poll_seconds, POLL_SECONDS_MAX)
            return [Fetch(self.transfer)]
        self._find_lost(now)
        return [Fetch(self.transfer, first, count) for first, count in _runs(self._choose(now))]

    def _find_lost(self, now: float) -> None:
        timeout = self._window.timeout
        lost = []
        for index, asked in self._asked.items():
            if now < asked + timeout:
                break
            lost.append(index)
        if lost:
            self._window.on_loss()
            for index in lost:
                del self._asked[index]
            self._again.update(lost)
            self._lost = sorted({*self._lost, *lost}, reverse=True)

    def _choose(self, now: float) -> list[int]:
        chosen: list[int] = []
        end = min(self._count, self._next + AHEAD_MAX)
        while len(self._asked) < self._window.chunks:
            if self._lost:
                index = self._lost.pop()
            elif self._unasked < end:
                index = self._unasked
                self._unasked += 1
            else:
                break
            self._asked[index] = now
            chosen.append(index)
        return chosen

    @property
    def deadline(self) -> float:
        """When `questions` has something to ask, or the giver is given up, at the earliest."""
        if self.offer is None:
            return min(self._poll_at, self._patience)
        oldest = next(iter(self._asked.values()), None)
        return self._patience if oldest is None else min(self._patience, oldest + self._window.timeout)


def _runs(indexes: list[int]) -> list[tuple[int, int]]:
    """Chunks one behind the other, as where they begin and how many they are."""
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and runs[-1][0] + runs[-1][1] == index and runs[-1][1] < FETCH_CHUNKS_MAX:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
    return runs
