"""State transfer: a state goes from one process to another in chunks, beside the protocol, while the group goes on.

This is the driver of `Taking` and `Givings`: packets, timers, and what people read about it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from ordercast.core import GroupId, Packet, SiteId
from ordercast.net.site import LiveSite
from ordercast.node.state_giving import GivenState, Givings, Head
from ordercast.node.state_packets import (
    CHUNK_BYTES,
    DIGEST_BYTES,
    STATE_INSTANCE,
    Chunk,
    Fetch,
    NoState,
    Offer,
    Soon,
    Taken,
    WantKeys,
    recut,
)
from ordercast.node.state_taking import Taking
from ordercast.node.state_window import Window

logger = logging.getLogger("ordercast.node")

WINDOW_BYTES_MAX = 1 << 20
"""Under way at a time: with round trips of a millisecond, a gigabyte a second."""

BUFFER_SHARE = 4
"""Of the sockets' buffers, a transfer uses one part in so many: the rest is the protocol's."""

PROGRESS_SECONDS = 5.0
"""Between two lines of the log about a transfer that takes long."""

MEGABYTE = 1e6


class Taker(Protocol):
    """Whoever wants a state: a replica."""

    def accepts(self, offer: Offer) -> bool:
        """Whether this state would do."""

    def waits_for(self, giver: SiteId) -> bool:
        """Whether it can still come from there."""

    def on_state(self, giver: SiteId, offer: Offer, content: bytearray) -> None:
        """It is here."""

    def on_no_state(self, giver: SiteId, reason: str) -> None:
        """It will not come from there."""

    def on_followed(self, giver: SiteId) -> None:
        """The others take the state that this replica has brought along."""


class _Entry(msgspec.Struct):
    group: GroupId
    taking: Taking
    taker: Taker
    began: float
    told: float
    """When the log last said how far it is."""
    has_complained: bool = False


class StateTransfer:
    """The states that one process gives and takes."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        process: SiteId,
        site: LiveSite,
        buffer_bytes: int,
        counters: Counter[str],
    ) -> None:
        """`buffer_bytes` is what a socket's buffer holds."""
        self._loop = loop
        self._process = process
        self._site = site
        self._window_max = min(WINDOW_BYTES_MAX, buffer_bytes // BUFFER_SHARE) // CHUNK_BYTES
        self._counters = counters
        self._givings = Givings(counters)
        self.sought: set[GroupId] = set()
        """Groups whose state this process needs."""
        self.on_keys_wanted: Callable[[SiteId, WantKeys], None] = lambda *_: None
        """Called when somebody asks which keys were used."""
        self._takings: dict[int, _Entry] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._stopped = False
        site.hear(STATE_INSTANCE, self._on_packet)

    def stop(self) -> None:
        """Give and take nothing any more."""
        self._stopped = True
        self._takings.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def progress(self) -> list[dict[str, Any]]:
        """What is given and taken now, and how far it is."""
        taken = [
            {
                "group": entry.group,
                "from": entry.taking.giver,
                "bytes": len(entry.taking.content),
                "of": None if entry.taking.offer is None else entry.taking.offer.size,
            }
            for entry in self._takings.values()
        ]
        begun = {entry.group for entry in self._takings.values()}
        asked = [{"group": group, "from": None, "bytes": 0, "of": None} for group in sorted(self.sought - begun)]
        return asked + taken + self._givings.progress()

    # ------------------------------------------------------------------ giving
    def give(
        self,
        taker: SiteId,
        transfer: int,
        since: int,
        head: Head,
        take: Callable[[Callable[[Sequence[bytes] | None], None]], None],
    ) -> None:
        """Let somebody take the state of a group as it is now; `take` makes chunks of it, and gives them to a function
        when that is done, or None when it cannot be. The taker has all deliveries from `since` on itself, so that an
        older state which somebody else takes may do."""
        if self._givings.knows(taker, transfer):
            return  # the question was sent twice
        now = self._loop.time()
        given = self._givings.find(head.group, since)
        if given is not None:
            self._say_soon(taker, self._givings.give(taker, transfer, given, now))
        elif self._givings.is_full:
            self.refuse(taker, transfer, "it gives states to others")
        else:
            self._givings.prepare(taker, transfer, now)
            take(partial(self._give_taken, taker, transfer, head))
        self._set_timer()

    def _give_taken(self, taker: SiteId, transfer: int, head: Head, chunks: Sequence[bytes] | None) -> None:
        if chunks is not None:
            self._give_packed([taker], transfer, head, chunks)
        else:
            self._givings.forget(taker, transfer)
            self.refuse(taker, transfer, "its state changes too fast")

    def give_packed(self, takers: Sequence[SiteId], transfer: int, head: Head, content: bytes) -> None:
        """Let others take a state that is bytes already."""
        if self._givings.is_full:
            for taker in takers:
                self.refuse(taker, transfer, "it gives states to others")
        else:
            self._give_packed(takers, transfer, head, tuple(recut([content])))
        self._set_timer()

    def _give_packed(self, takers: Sequence[SiteId], transfer: int, head: Head, chunks: Sequence[bytes]) -> None:
        now = self._loop.time()
        for taker in takers:
            self._givings.prepare(taker, transfer, now)
        logger.info(
            "process %s gives the state of group %s, %.1f MB, to %s",
            self._process,
            head.group,
            sum(map(len, chunks)) / MEGABYTE,
            ", ".join(takers),
        )

        def digested(future: asyncio.Future[bytes]) -> None:
            if not self._stopped and not future.cancelled():
                given = GivenState(head, chunks, future.result())
                self._site.step(lambda now: self._offer(takers, transfer, given, now))

        # In a thread: it takes a second for each gigabyte.
        self._loop.run_in_executor(None, _digest, chunks).add_done_callback(digested)

    def _offer(self, takers: Sequence[SiteId], transfer: int, given: GivenState, now: float) -> None:
        for taker in takers:
            self._say(taker, self._givings.give(taker, transfer, given, now))

    def refuse(self, taker: SiteId, transfer: int, reason: str, yours: bool = False) -> None:
        """Let somebody know that there is no state to take here; or that the others take its own."""
        refusal = NoState(transfer, reason, yours)
        self._givings.refuse(taker, refusal)
        self._say_soon(taker, refusal)

    # ------------------------------------------------------------------ taking
    def draw_number(self) -> int:
        """For a new transfer."""
        return int.from_bytes(os.urandom(8)) >> 1

    def take(self, transfer: int, group: GroupId, giver: SiteId, taker: Taker) -> None:
        """Take the state of a group from somebody who was asked for it."""
        now = self._loop.time()
        taking = Taking(giver, transfer, Window(self._window_max), self._counters, now)
        self._takings[transfer] = _Entry(group, taking, taker, now, now)
        self._set_timer()

    def ask_for_keys(self, giver: SiteId, transfer: int, group: GroupId, since: int) -> None:
        """Ask somebody which keys were used in a group before an offset; then take what comes of it."""
        self._say_soon(giver, WantKeys(transfer, group, since))

    def give_up(self, transfer: int) -> None:
        """Take no more of it."""
        entry = self._takings.pop(transfer, None)
        if entry is not None:
            self._say(entry.taking.giver, Taken(transfer))

    def _ask(self, entry: _Entry, now: float) -> None:
        for question in entry.taking.questions(now):
            self._say(entry.taking.giver, question)

    def _on_offer(self, entry: _Entry, offer: Offer, now: float) -> None:
        taking = entry.taking
        if taking.offer is None:
            if not entry.taker.accepts(offer):
                self._fail(entry, "its state is too old")
                return
            logger.info(
                "process %s takes the state of group %s, %.1f MB, from %s",
                self._process,
                entry.group,
                offer.size / MEGABYTE,
                taking.giver,
            )
        taking.on_offer(offer, now)
        self._go_on(entry, now)

    def _on_chunk(self, entry: _Entry, chunk: Chunk, now: float) -> None:
        taking = entry.taking
        problem = taking.on_chunk(chunk, now)
        if problem is not None and not entry.has_complained:
            entry.has_complained = True
            logger.warning(
                "dropped from %s, which gives the state of group %s: %s (more of it is counted, and not logged)",
                taking.giver,
                entry.group,
                problem,
            )
        if now - entry.told >= PROGRESS_SECONDS and taking.offer is not None:
            entry.told = now
            logger.info(
                "process %s has %.0f of %.0f MB of the state of group %s",
                self._process,
                len(taking.content) / MEGABYTE,
                taking.offer.size / MEGABYTE,
                entry.group,
            )
        self._go_on(entry, now)

    def _go_on(self, entry: _Entry, now: float) -> None:
        taking = entry.taking
        if not taking.is_complete:
            self._ask(entry, now)
        elif taking.offer is not None and taking.is_sound:
            self.give_up(taking.transfer)
            logger.info(
                "process %s has the state of group %s, %.1f MB in %.1f s, from %s",
                self._process,
                entry.group,
                taking.offer.size / MEGABYTE,
                now - entry.began,
                taking.giver,
            )
            entry.taker.on_state(taking.giver, taking.offer, taking.content)
        else:
            self._counters["state-bad-digests"] += 1
            self._fail(entry, "its bytes are not those that it offered")

    def _fail(self, entry: _Entry, reason: str) -> None:
        self.give_up(entry.taking.transfer)
        logger.warning(
            "process %s does not get the state of group %s from %s: %s; it asks another one",
            self._process,
            entry.group,
            entry.taking.giver,
            reason,
        )
        entry.taker.on_no_state(entry.taking.giver, reason)

    # ------------------------------------------------------------------ packets and time
    def _on_packet(self, sender: SiteId, packet: Packet) -> None:
        now = self._loop.time()
        if isinstance(packet, Fetch):
            for answer in self._givings.on_fetch(sender, packet, now):
                self._say(sender, answer)
        elif isinstance(packet, WantKeys):
            self.on_keys_wanted(sender, packet)
        elif isinstance(packet, Taken):
            self._givings.forget(sender, packet.transfer)
        elif isinstance(packet, Offer | Soon | NoState | Chunk):
            entry = self._takings.get(packet.transfer)
            if entry is None or entry.taking.giver != sender:
                # As a rule of a transfer that has just ended.
                self._counters["state-unasked-packets"] += 1
            elif isinstance(packet, Chunk):
                self._on_chunk(entry, packet, now)
            elif isinstance(packet, Offer):
                self._on_offer(entry, packet, now)
            elif isinstance(packet, Soon):
                entry.taking.on_soon(now)
            elif packet.yours:
                self.give_up(packet.transfer)
                entry.taker.on_followed(sender)
            else:
                self._fail(entry, packet.reason)
        self._set_timer()

    def _say(self, to: SiteId, packet: Packet) -> None:
        self._site.say(to, STATE_INSTANCE, packet)

    def _say_soon(self, to: SiteId, packet: Packet) -> None:
        """In a turn of its own: whoever takes deliveries is called when everything has left."""
        self._loop.call_soon(self._site.step, lambda _now: self._say(to, packet))

    def _set_timer(self) -> None:
        due = min((self._givings.deadline, *(entry.taking.deadline for entry in self._takings.values())))
        if self._stopped or (self._timer is not None and self._timer_at <= due):
            return  # it looks again when it is due
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due < float("inf"):
            self._timer_at = due
            self._timer = self._loop.call_at(due, self._site.step, self._on_timer)

    def _on_timer(self, now: float) -> None:
        self._timer = None
        for taker in self._givings.forget_idle(now):
            logger.warning("process %s keeps no state for %s any more, which has fetched nothing", self._process, taker)
        for entry in tuple(self._takings.values()):
            if entry.taking.is_given_up(now):
                self._fail(entry, "it is silent")
            elif not entry.taker.waits_for(entry.taking.giver):
                self._fail(entry, "it has left")
            else:
                self._ask(entry, now)
        self._set_timer()


def _digest(chunks: Sequence[bytes]) -> bytes:
    digest = blake2b(digest_size=DIGEST_BYTES)
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()
