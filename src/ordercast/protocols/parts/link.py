"""The eventually reliable link (Rodrigues, Guerraoui, Schiper 1998, 3.1): what is posted to a site that stays up is
received there, at least once, in any order.

A letter is kept for each addressee until its receipt comes, and repeated meanwhile. One letter goes to many sites with
one `Send`, so that it is encoded once. What is kept is bounded: a site that has left too many letters unanswered is
*estranged*, its letters are dropped, and it is told nothing but `Behind`, until it comes and catches up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol as Shape

import msgspec

from ordercast.core import InvariantViolation, Packet, Part, Protocol, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.back_off import BackOff, ticks_in

REPEATED_MAX = 64
"""Letters repeated to one site at a time; a sixteenth of what is kept by default, so that a site that comes back is
not drowned."""
RECEIPTS_MAX = 64
"""Receipts that are due to one site at the most before they are sent at once: well below any bound on letters."""


class Letter(Packet, frozen=True):
    """Base of everything that is posted."""

    number: int
    """The sender's; no two letters of a site have the same, whatever it crashes."""


class Posting(Shape):
    """What carries letters: a link, or one that posts once."""

    @property
    def next(self) -> int: ...
    def post(self, to: Iterable[SiteId], letter: Letter, vital: bool = False) -> None: ...
    def acknowledge(self, sender: SiteId, letter: Letter) -> None: ...
    def estrange(self, site: SiteId) -> None: ...


class Receipt(Packet, frozen=True):
    """Receiver -> sender: what these letters asked for is done, and survives a crash."""

    background = True
    numbers: tuple[tuple[int, int], ...]
    """First and last of each run."""


class Behind(Letter, frozen=True):
    """Sender -> estranged site: you have missed letters of mine; ask me for what you need to know."""

    background = True


class Kept(msgspec.Struct, gc=False):
    """A letter without a receipt."""

    letter: Letter
    sent_tick: int
    vital: bool = False


class Peer:
    """What the link knows of one site."""

    __slots__ = ("back_off", "estranged", "kept")

    def __init__(self, wait_ticks_max: int) -> None:
        self.kept: dict[int, Kept] = {}
        self.estranged = False
        self.back_off = BackOff(wait_ticks_max, REPEATED_MAX)


class Link(Part):
    """A core's letters to all other sites."""

    packets = (Receipt, Behind)
    timers = ("link-resend", "link-receipt")
    branches = ("repeated", "estranged", "restored")

    def __init__(
        self,
        host: Protocol,
        *,
        retransmit_seconds: float,
        retransmit_seconds_max: float,
        receipt_seconds: float,
        letters_max: int,
        on_behind: Callable[[SiteId], None],
    ) -> None:
        self._host = host
        self._retransmit_seconds = retransmit_seconds
        self._receipt_seconds = receipt_seconds
        self._letters_max = letters_max
        self._on_behind = on_behind
        """We have missed letters of that site: its user asks it for what it needs to know."""
        self._wait_ticks_max = ticks_in(retransmit_seconds_max, retransmit_seconds)
        # The receipt of a letter that an earlier incarnation has sent must not be taken for that of a new one.
        self._number = host.context.incarnation << 32
        self._tick = 0
        self._ticking = False
        self.peers: dict[SiteId, Peer] = {}
        self._due: dict[SiteId, list[int]] = {}

    # ------------------------------------------------------------------ sending
    @property
    def next(self) -> int:
        """The number of the next letter."""
        return self._number + 1

    def is_of_this_incarnation(self, number: int) -> bool:
        """Whether a letter of ours with that number was sent since the last crash."""
        return number >> 32 == self._host.context.incarnation

    def post(self, to: Iterable[SiteId], letter: Letter, vital: bool = False) -> None:
        """Send a letter until each of these sites has confirmed it; estranged sites get only what is vital.

        Vital is what ends an estrangement. (Else: two sites have estranged each other, and neither can ask.)
        """
        if letter.number != self._number + 1:
            raise InvariantViolation(f"a letter has the number {letter.number}, not {self._number + 1}")
        self._number = letter.number
        reached: list[SiteId] = []
        overflowing: list[SiteId] = []
        for site in to:
            peer = self._peer(site)
            if not vital:
                if peer.estranged:
                    continue
                if len(peer.kept) >= self._letters_max:
                    overflowing.append(site)
                    continue
            peer.kept[letter.number] = Kept(letter, self._tick, vital)
            reached.append(site)
        if reached:
            self._host.send(tuple(reached), letter)
            self._keep_ticking()
        for site in overflowing:
            self.estrange(site)

    def _peer(self, site: SiteId) -> Peer:
        peer = self.peers.get(site)
        if peer is None:
            peer = self.peers[site] = Peer(self._wait_ticks_max)
        return peer

    def estrange(self, site: SiteId) -> None:
        """Drop what the site has left unanswered. (Kept for ever, the letters to a dead site would fill the memory.)"""
        peer = self._peer(site)
        if peer.estranged:
            return
        self._host.branch("estranged")
        peer.kept = {number: kept for number, kept in peer.kept.items() if kept.vital}
        peer.estranged = True
        self.post((site,), Behind(self.next), vital=True)

    def restore(self, site: SiteId) -> None:
        """A site has come to catch up: what is kept for it is told again in another way, and can go; if it was
        estranged, letters are kept for it again.

        Not already when it confirms `Behind`. (Else: it confirms; we post a letter to it before its question comes,
        and drop that with the others; or its question never comes, and it believes that it knows everything.)
        """
        peer = self.peers.get(site)
        if peer is not None:
            if peer.estranged:
                self._host.branch("restored")
                peer.estranged = False
            peer.kept = {n: kept for n, kept in peer.kept.items() if kept.vital and not isinstance(kept.letter, Behind)}
            peer.back_off.begin_anew()

    def is_estranged(self, site: SiteId) -> bool:
        """Whether letters to a site were dropped, and it has not come to catch up."""
        peer = self.peers.get(site)
        return peer is not None and peer.estranged

    def unconfirmed(self, site: SiteId) -> Iterator[Letter]:
        """The letters to a site for which there is no receipt."""
        peer = self.peers.get(site)
        return iter(()) if peer is None else (kept.letter for kept in peer.kept.values())

    def withdraw(self, site: SiteId, numbers: Iterable[int]) -> None:
        """These letters are not repeated any more: a later one says the same, or nobody needs to know."""
        kept = self._peer(site).kept
        for number in numbers:
            kept.pop(number, None)

    def on_receipt(self, sender: SiteId, receipt: Receipt, arrival: Arrival) -> None:
        """Letters have arrived."""
        peer = self.peers.get(sender)
        if peer is None:
            return
        kept = peer.kept
        before = len(kept)
        for first, last in receipt.numbers:
            if last < first:
                raise WireError(f"a receipt of {sender} for the letters {first} to {last}")
            # The network may say anything: never count through a run that is longer than what is kept.
            run = range(first, last + 1) if last - first < len(kept) else [n for n in kept if first <= n <= last]
            for number in run:
                # An estranged site must go on hearing that it is behind until it asks.
                if number in kept and not isinstance(kept[number].letter, Behind):
                    del kept[number]
        if len(kept) < before:
            peer.back_off.begin_anew()

    # ------------------------------------------------------------------ receiving
    def on_behind(self, sender: SiteId, behind: Behind, arrival: Arrival) -> None:
        """We have missed letters of the sender."""
        self._on_behind(sender)
        self.acknowledge(sender, behind)

    def acknowledge(self, sender: SiteId, letter: Letter) -> None:
        """What the letter asked for is in the log, or can be asked for again after a crash: confirm it soon."""
        due = self._due.get(sender)
        if due is None:
            if not self._due:
                self._host.set_timer("link-receipt", self._receipt_seconds)
            due = self._due[sender] = []
        due.append(letter.number)
        if len(due) >= RECEIPTS_MAX:
            self._send_receipt(sender, self._due.pop(sender))

    def on_link_receipt_timeout(self) -> None:
        """Confirm everything that is due."""
        due, self._due = self._due, {}
        for site in sorted(due):
            self._send_receipt(site, due[site])

    def _send_receipt(self, site: SiteId, numbers: list[int]) -> None:
        self._host.send((site,), Receipt(tuple(_runs(sorted(set(numbers))))))

    # ------------------------------------------------------------------ repeating
    def _keep_ticking(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._host.set_timer("link-resend", self._retransmit_seconds)

    def on_link_resend_timeout(self) -> None:
        """Repeat what was not confirmed for a while, in one packet to all who have not."""
        self._tick += 1
        self._ticking = False
        repeated: dict[int, tuple[Letter, list[SiteId]]] = {}
        for site, peer in self.peers.items():
            if peer.kept:
                self._keep_ticking()
                if self._tick >= peer.back_off.next_tick:
                    self._repeat(site, peer, repeated)
        for letter, sites in repeated.values():
            self._host.branch("repeated")
            self._host.send(tuple(sites), letter)

    def _repeat(self, site: SiteId, peer: Peer, repeated: dict[int, tuple[Letter, list[SiteId]]]) -> None:
        # Sent in the last interval: it has not waited for a whole one.
        overdue = [kept for kept in peer.kept.values() if self._tick - kept.sent_tick >= 2]
        # The longest ago first. (The lowest number first: a letter that is not confirmed before something else has come
        # is the only one that is ever repeated, and that something else never comes.)
        overdue.sort(key=lambda kept: kept.sent_tick)
        for kept in overdue[: peer.back_off.burst]:
            kept.sent_tick = self._tick
            repeated.setdefault(kept.letter.number, (kept.letter, []))[1].append(site)
        if overdue:
            peer.back_off.note_attempt(self._tick)

    def check_invariants(self) -> None:
        """What is kept is bounded."""
        for site, peer in self.peers.items():
            if sum(not kept.vital for kept in peer.kept.values()) > (0 if peer.estranged else self._letters_max):
                raise InvariantViolation(f"{len(peer.kept)} letters are kept for {site}")


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
