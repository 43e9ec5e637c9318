"""Frames larger than a datagram, at the receiver: fragments are collected, and missing ones asked for.

A frame of 50 fragments survives a loss of 1 % with probability 0.6 only; so what is missing is asked for by index, long
before the protocol above would ask for the whole frame.
"""

from __future__ import annotations

from collections import Counter
from math import inf

from ordercast.wire.datagram import Dropped

FRAME_BYTES_MAX = 4 << 20
"""The longest frame. Bundles are cut at about 60 kB; this leaves room for the largest packets about many bundles."""

FRAMES_MAX = 64
"""Incomplete frames of one peer at a time: with bundles of 60 kB about as much as `BYTES_MAX`."""

BYTES_MAX = 2 * FRAME_BYTES_MAX
"""Bytes of incomplete frames of one peer: the longest frame, and one more that overtakes it."""

FRAGMENTS_MAX = 8192
"""Of one frame: the longest frame in the smallest datagrams needs half of that."""

RECENT = 1024
"""Frames that are remembered as done, so that a late fragment does not begin them anew. A power of two."""

_SLOT = RECENT - 1

PATIENCE_SECONDS = 0.002
"""Silence after which fragments count as lost: those of a frame leave together, and a LAN turns none of them around for
so long. A fragment that was only late comes twice."""

ASK_SECONDS_MAX = 0.25
"""The longest wait for an answer, before asking again."""

ASKS_MAX = 6
"""In vain, one after the other. With doubling waits these are 126 ms on a LAN; after that the protocol above is better
placed to ask."""

ASK_FRAGMENTS_MAX = 512
"""Indexes in one question: it fits into the smallest datagram. The others are asked for next time."""

Fragment = tuple[int, int, int, bytes]
"""The frame's number, which fragment this is, how many there are, and its contents."""

_SLOT_BYTES = 8
"""What a fragment that has not come takes already."""


class _Partial:
    """A frame of which some fragments are here."""

    __slots__ = ("ask_again", "asked", "asked_at", "bytes_held", "fragments", "missing", "progress")

    def __init__(self, count: int, now: float) -> None:
        self.fragments: list[bytes | None] = [None] * count
        self.missing = count
        self.bytes_held = count * _SLOT_BYTES
        self.progress = now
        self.asked = 0
        self.asked_at = -inf
        self.ask_again = -inf


class Reassembly:
    """The incomplete frames of one session of one peer."""

    __slots__ = (
        "_bytes_held",
        "_counters",
        "_done",
        "_highest",
        "_partials",
        "_round_trip_seconds",
        "deadline",
        "wanted",
    )

    def __init__(self, counters: Counter[str]) -> None:
        self.deadline = inf
        """When `ask` has something to do, at the earliest."""
        self.wanted: list[tuple[int, list[int]]] = []
        """Frames, and the indexes of their fragments that the peer is to send again; the endpoint takes them."""
        self._counters = counters
        self._partials: dict[int, _Partial] = {}
        self._bytes_held = 0
        self._highest = -1
        self._done = [-1] * RECENT
        self._round_trip_seconds = 0.0

    def add(self, frame: int, index: int, count: int, fragment: bytes, now: float) -> bytes | None:
        """The frame, if this fragment was the last one that it lacked."""
        partial = self._partials.get(frame)
        if partial is None:
            partial = self._begin(frame, index, count, now)
        fragments = partial.fragments
        if index >= count or count != len(fragments):
            raise Dropped("fragment-garbage")
        if fragments[index] is not None:
            raise Dropped("fragment-twice")
        fragments[index] = fragment
        partial.missing -= 1
        if partial.asked:
            self._on_answer(partial, now)
        if not partial.missing:
            self._forget(frame, partial)
            if self._partials:
                self._ask_for_earlier(frame, now)
            return b"".join(fragments)  # type: ignore[arg-type]  # none is missing
        partial.progress = now
        partial.bytes_held += len(fragment)
        self._bytes_held += len(fragment)
        if self._bytes_held > BYTES_MAX:
            self._give_up(next(iter(self._partials)), "reassembly-overflow")
        return None

    def add_many(self, fragments: list[Fragment], now: float) -> list[bytes]:
        """The frames that are complete with these fragments; what is not as it should be is dropped."""
        frames: list[bytes] = []
        partials, last, partial = self._partials, -1, None
        for frame, index, count, fragment in fragments:
            if frame != last:
                last, partial = frame, partials.get(frame)
            # Simply one more of a frame that is still being sent, as almost all are.
            if (
                partial is not None
                and partial.missing > 1
                and not partial.asked
                and index < count == len(partial.fragments)
                and partial.fragments[index] is None
                and self._bytes_held < BYTES_MAX - len(fragment)
            ):
                partial.fragments[index] = fragment
                partial.missing -= 1
                partial.progress = now
                partial.bytes_held += len(fragment)
                self._bytes_held += len(fragment)
                continue
            try:
                content = self.add(frame, index, count, fragment, now)
            except Dropped as dropped:
                self._counters[dropped.reason] += 1
            else:
                if content is not None:
                    frames.append(content)
            partial = partials.get(frame)
        return frames

    def ask(self, now: float) -> None:
        """Ask for what is missing for too long; forget what was asked for in vain."""
        self.deadline = inf
        for frame, partial in tuple(self._partials.items()):
            due = max(partial.progress + PATIENCE_SECONDS, partial.ask_again)
            if due <= now:
                if partial.asked == ASKS_MAX:
                    self._give_up(frame, "frame-lost")
                    continue
                due = self._want(frame, partial, now)
            self.deadline = min(self.deadline, due)

    def _begin(self, frame: int, index: int, count: int, now: float) -> _Partial:
        if not index < count <= FRAGMENTS_MAX:
            raise Dropped("fragment-garbage")
        # Repaired after all, and then the first copy came. Beginning anew would ask for all the others again.
        if frame <= self._highest - RECENT or self._done[frame & _SLOT] == frame:
            raise Dropped("fragment-late")
        self._highest = max(self._highest, frame)
        if len(self._partials) == FRAMES_MAX:
            self._give_up(next(iter(self._partials)), "reassembly-overflow")
        partial = self._partials[frame] = _Partial(count, now)
        self._bytes_held += partial.bytes_held
        self.deadline = min(self.deadline, now + PATIENCE_SECONDS)
        return partial

    def _forget(self, frame: int, partial: _Partial) -> None:
        del self._partials[frame]
        self._bytes_held -= partial.bytes_held
        slot = frame & _SLOT
        # A frame that is a whole turn behind is late anyway, and must not erase a later one.
        if frame > self._done[slot]:
            self._done[slot] = frame

    def _give_up(self, frame: int, reason: str) -> None:
        self._forget(frame, self._partials[frame])
        self._counters[reason] += 1

    def _ask_for_earlier(self, complete: int, now: float) -> None:
        """A later frame is complete: what earlier ones lack will not come by itself any more."""
        for frame, partial in self._partials.items():
            if frame < complete and not partial.asked:
                self.deadline = min(self.deadline, self._want(frame, partial, now))

    def _want(self, frame: int, partial: _Partial, now: float) -> float:
        """Ask once; when to look again."""
        missing = [index for index, fragment in enumerate(partial.fragments) if fragment is None]
        self.wanted.append((frame, missing[:ASK_FRAGMENTS_MAX]))
        self._counters["repair-asked"] += 1
        patience = max(PATIENCE_SECONDS, 2 * self._round_trip_seconds)
        partial.ask_again = now + min(patience * 2**partial.asked, ASK_SECONDS_MAX)
        if not partial.asked:
            partial.asked_at = now
        partial.asked += 1
        return partial.ask_again

    def _on_answer(self, partial: _Partial, now: float) -> None:
        # The first fragment after the first question tells how long an answer takes, or longer if that was lost.
        if partial.asked_at > -inf:
            self._round_trip_seconds += (now - partial.asked_at - self._round_trip_seconds) / 4
            partial.asked_at = -inf
        # Only questions in vain count: a frame that lacks more than one question can name takes many.
        partial.asked = 1
