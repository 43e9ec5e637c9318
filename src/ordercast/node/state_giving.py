"""The giver's side of a state transfer: states that others take, kept while they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec

from ordercast.core import GroupId, Packet, SiteId
from ordercast.node.state_packets import CHUNK_BYTES, Chunk, Fetch, NoState, Offer, Soon

STATES_MAX = 2
"""States that are kept at a time: each is as large as the application's own. Whoever asks for another is told to ask
somebody else."""

TAKERS_MAX = 64
"""Who may take them at a time."""

IDLE_SECONDS = 30.0
"""Until a state is forgotten that nobody has fetched anything of: longer than any taker waits for an answer."""


class Head(msgspec.Struct, frozen=True):
    """What there is to know of a state beside its bytes."""

    group: GroupId
    offset: int
    """The group's next delivery that it does not contain."""
    schema: str
    birth: str = ""
    calls: int = 0
    time: float = 0.0
    """Which state it is, how many calls are in it, and when the last of them was made."""


class GivenState(msgspec.Struct, frozen=True):
    """A state as it was at one place of the order, as bytes."""

    head: Head
    chunks: Sequence[bytes]
    """All of `CHUNK_BYTES` but the last."""
    digest: bytes

    @property
    def size(self) -> int:
        """In bytes."""
        return (len(self.chunks) - 1) * CHUNK_BYTES + len(self.chunks[-1]) if self.chunks else 0


class _Giving(msgspec.Struct):
    state: GivenState | None
    """None while its digest is worked out."""
    heard: float
    sent: int = 0
    """Chunks."""


class Givings:
    """Who takes what from this process. Without sockets and clocks."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._givings: dict[tuple[SiteId, int], _Giving] = {}
        self._refused: dict[tuple[SiteId, int], NoState] = {}
        """The last refusals: they may come before the taker knows that its question was delivered."""

    def knows(self, taker: SiteId, transfer: int) -> bool:
        """Whether somebody takes a state under this name already."""
        return (taker, transfer) in self._givings

    def find(self, group: GroupId, since: int) -> GivenState | None:
        """A state that is given to somebody already, and that serves whoever has everything since that offset."""
        for giving in self._givings.values():
            state = giving.state
            if state is not None and state.head.group == group and state.head.offset >= since:
                return state
        return None

    @property
    def is_full(self) -> bool:
        """Whether no other state can be kept."""
        # (Until the digest is there, those who wait for the same state have the same number.)
        states = {
            transfer if giving.state is None else id(giving.state) for (_, transfer), giving in self._givings.items()
        }
        return len(states) >= STATES_MAX or len(self._givings) >= TAKERS_MAX

    def prepare(self, taker: SiteId, transfer: int, now: float) -> None:
        """A state will be there soon; it counts from now on."""
        self._givings[taker, transfer] = _Giving(None, now)

    def give(self, taker: SiteId, transfer: int, state: GivenState, now: float) -> Packet:
        """From now on somebody may take a state; what to tell it."""
        if (taker, transfer) not in self._givings and len(self._givings) >= TAKERS_MAX:
            return NoState(transfer, f"it gives its state to {TAKERS_MAX} others already")
        self._givings[taker, transfer] = _Giving(state, now)
        return _offer(transfer, state)

    def on_fetch(self, taker: SiteId, fetch: Fetch, now: float) -> list[Packet]:
        """Somebody asks for chunks; the answers. Whoever asks too early hears nothing, and asks again."""
        giving = self._givings.get((taker, fetch.transfer))
        if giving is None:
            if fetch.count:
                self._counters["state-unknown-fetches"] += 1
            refusal = self._refused.get((taker, fetch.transfer))
            return [] if refusal is None else [refusal]
        giving.heard = now
        state = giving.state
        if state is None:
            return [Soon(fetch.transfer)]
        if not fetch.count:
            return [_offer(fetch.transfer, state)]
        end = fetch.first + fetch.count
        if end > len(state.chunks):
            self._counters["state-bad-fetches"] += 1
            return []
        giving.sent += fetch.count
        return [Chunk(fetch.transfer, index, state.chunks[index]) for index in range(fetch.first, end)]

    def refuse(self, taker: SiteId, refusal: NoState) -> None:
        """Somebody who asks is told this, now and when it asks again."""
        self._refused[taker, refusal.transfer] = refusal
        if len(self._refused) > TAKERS_MAX:
            del self._refused[next(iter(self._refused))]

    def forget(self, taker: SiteId, transfer: int) -> None:
        """Nobody takes it any more."""
        self._givings.pop((taker, transfer), None)

    def forget_idle(self, now: float) -> list[SiteId]:
        """Forget what nobody has fetched for long; who should have."""
        idle = [key for key, giving in self._givings.items() if now - giving.heard >= IDLE_SECONDS]
        for key in idle:
            del self._givings[key]
        return [taker for taker, _ in idle]

    @property
    def deadline(self) -> float:
        """When `forget_idle` has something to do, at the earliest."""
        return min((giving.heard + IDLE_SECONDS for giving in self._givings.values()), default=inf)

    def progress(self) -> list[dict[str, Any]]:
        """Who takes what, and how much of it was sent."""
        return [
            {
                "group": giving.state.head.group,
                "to": taker,
                "bytes": min(giving.sent * CHUNK_BYTES, giving.state.size),
                "of": giving.state.size,
            }
            for (taker, _), giving in self._givings.items()
            if giving.state is not None
        ]


def _offer(transfer: int, state: GivenState) -> Offer:
    head = state.head
    return Offer(transfer, head.offset, state.size, state.digest, head.schema, head.birth, head.calls, head.time)
