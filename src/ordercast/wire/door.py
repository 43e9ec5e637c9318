"""The outside of a handshake: what a process looks at before it derives a key, opens anything or answers.

Anybody can send handshakes, and to open one and to answer it costs ten times what it costs to send it. So each carries
a mark that only a holder of the cluster key can make, for one addressee; one look at it tells a forged one. Whoever
records genuine ones can send them again: of each start of a process only handshakes with higher counters than those
before are let in, and only as many a second as a genuine one sends. A process that has just started shares that
allowance with nobody, so that no recording of earlier starts keeps it out. All handshakes have one size, so that no
answer is larger than what provoked it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence

from ordercast.core import SiteId
from ordercast.wire.datagram import HANDSHAKE_BYTES, HEADER
from ordercast.wire.keys import ClusterKeys
from ordercast.wire.refusals import Refusals
from ordercast.wire.sealing import SALT_BYTES, pack_names

MARK_BYTES = 16

STARTS_MAX = 4096
"""Starts of other processes that are remembered: a megabyte. The oldest goes first."""

HANDSHAKES_A_SECOND = 10.0
"""Of one start: five hellos (see `PROVOKED_SECONDS`), and five answers to ours."""

HANDSHAKES_MAX = 20.0
"""Of one start at once: what comes in two seconds, to a process that did not get the processor for so long."""

PROCESSES_MIN = 100
"""In all, as many handshakes as so many other processes send, or those that there are if they are more: they take
25 ms of a second."""

ANYONE: SiteId = ""
"""To whom announcements are addressed; no process is called so."""

LENGTH_BYTES = 2
"""Of a greeting, before it."""

_NAME_LENGTH_AT = HEADER.size + SALT_BYTES


class _Allowance:
    """How many handshakes may still be opened."""

    __slots__ = ("_a_second", "_left", "_max", "_now")

    def __init__(self, a_second: float, at_once: float) -> None:
        self._a_second = a_second
        self._max = self._left = at_once
        self._now = 0.0

    def take(self, now: float) -> bool:
        """Whether there is one left, which is gone then."""
        self._left = min(self._max, self._left + (now - self._now) * self._a_second)
        self._now = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class _Start(_Allowance):
    """One start of another process."""

    __slots__ = ("counter",)

    def __init__(self) -> None:
        super().__init__(HANDSHAKES_A_SECOND, HANDSHAKES_MAX)
        self.counter = -1
        """The highest of a handshake with a genuine mark."""


class Door:
    """Lets handshakes in that may be genuine and new."""

    def __init__(
        self,
        cluster: str,
        process: SiteId,
        others: Iterable[SiteId],
        keys: ClusterKeys | None,
        refusals: Refusals,
        opens: bool = False,
    ) -> None:
        """Where the door `opens`, everybody who holds the key may come in, and announcements are listened to."""
        self.mark_bytes = 0 if keys is None else MARK_BYTES
        self._cluster = cluster.encode()
        self._process = process
        self._refusals = refusals
        self._opens = opens
        self._senders = {site.encode(): site for site in others}
        in_all = HANDSHAKES_A_SECOND * max(len(self._senders), PROCESSES_MIN)
        self._in_all = _Allowance(in_all, in_all)
        self._strangers = _Allowance(HANDSHAKES_A_SECOND, HANDSHAKES_MAX)
        self._starts: dict[bytes, _Start] = {}
        """By the name of their session."""
        self.use(keys)

    def use(self, keys: ClusterKeys | None) -> None:
        """Mark and take marks with these keys."""
        self._key = None if keys is None else keys.used
        accepted = () if keys is None else keys.accepted
        # Copied for each datagram: to begin with the key costs as much as a short one.
        self._marks = [self._begin_mark(key, self._process) for key in accepted]
        self._marks_for_anyone = [self._begin_mark(key, ANYONE) for key in accepted] if self._opens else []

    def add(self, site: SiteId) -> None:
        """This one is known."""
        self._senders[site.encode()] = site

    def remove(self, site: SiteId) -> None:
        """This one is not, any more."""
        self._senders.pop(site.encode(), None)

    def _begin_mark(self, cluster_key: bytes, addressee: SiteId) -> hashlib.blake2b:
        # The addressee is part of the key: what was said to others is not let in here. (Else: somebody shows b what a
        # says to c before b hears what a says to it, which then has a lower counter.)
        names = pack_names(self._cluster, addressee.encode())
        key = hashlib.blake2b(names, key=cluster_key, digest_size=32, person=b"ordercast mark").digest()
        return hashlib.blake2b(key=key, digest_size=MARK_BYTES)

    # ------------------------------------------------------------------ out
    def mark(self, to: SiteId, datagram: bytes) -> bytes:
        """The whole datagram."""
        if self._key is None:
            return datagram
        mark = self._begin_mark(self._key, to)
        mark.update(datagram)
        return datagram + mark.digest()

    # ------------------------------------------------------------------ in
    def judge(self, session: bytes, counter: int, datagram: memoryview, now: float) -> str | None:
        """Why a handshake is not let in; None when it is."""
        start = self._starts.get(session)
        if start is not None and counter <= start.counter:
            return "replayed"
        if len(datagram) != HANDSHAKE_BYTES:
            return "short" if len(datagram) < HANDSHAKE_BYTES else "forged"
        if not self._marks:
            return None  # nothing is sealed here, so that everybody can say anything
        name_at = _NAME_LENGTH_AT + 1
        name = bytes(datagram[name_at : name_at + datagram[_NAME_LENGTH_AT]])
        sender = self._senders.get(name)
        if not _has_mark(datagram, self._marks):
            if sender is not None:
                self._refusals.suspect(sender, "forged")
            return "forged"
        return self._allow(start, session, counter, now)

    def judge_announcement(self, session: bytes, counter: int, datagram: memoryview, now: float) -> str | None:
        """Why somebody's words to everybody are not listened to; None when they are."""
        start = self._starts.get(session)
        if start is not None and counter <= start.counter:
            return "replayed"
        if len(datagram) != HANDSHAKE_BYTES:
            return "short" if len(datagram) < HANDSHAKE_BYTES else "foreign"
        if self.mark_bytes and not _has_mark(datagram, self._marks_for_anyone):
            return "foreign"
        return self._allow(start, session, counter, now)

    def _allow(self, start: _Start | None, session: bytes, counter: int, now: float) -> str | None:
        if start is None:
            if len(self._starts) >= STARTS_MAX:
                del self._starts[next(iter(self._starts))]
            start = self._starts[session] = _Start()
        # Also when it is not opened now. (Else: who has a recording uses the allowance up with it for ever. So each
        # datagram is good for that once.)
        start.counter = counter
        return None if start.take(now) and self._in_all.take(now) else "flooded"

    def answers_strangers(self, now: float) -> bool:
        """Whether one more refusal may leave for a place that only the sender of a handshake has named: all of them get
        as many as one process would, since without a key anybody can name any place."""
        return self._strangers.take(now)


def _has_mark(datagram: memoryview, marks: Sequence[hashlib.blake2b]) -> bool:
    for begun in marks:
        mark = begun.copy()
        mark.update(datagram[:-MARK_BYTES])
        if hmac.compare_digest(mark.digest(), datagram[-MARK_BYTES:]):
            return True
    return False


def pad(greeting: bytes, room: int) -> bytes:
    """What is sealed, so that the datagram has the size that all have."""
    return (len(greeting).to_bytes(LENGTH_BYTES) + greeting).ljust(room, b"\0")


def unpad(padded: bytes) -> bytes:
    """The greeting in what was sealed."""
    return padded[LENGTH_BYTES : LENGTH_BYTES + int.from_bytes(padded[:LENGTH_BYTES])]
