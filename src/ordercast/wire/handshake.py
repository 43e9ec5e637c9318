"""Who is accepted: a process says hello, is challenged, and answers. docs/wire.md draws it.

A session is accepted only on the echo of a fresh nonce of one's own, or else an old incarnation's handshake could be
replayed to a newcomer. Nonces are not stored: they are a keyed hash of what they are for and of the time, so nobody can
fill a table of open challenges, or drive the genuine one out of it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Annotated, Any

import msgspec
from cryptography.exceptions import InvalidTag

from ordercast.core import SiteId
from ordercast.core.agreement import DIGESTS_BYTES, Agreement
from ordercast.core.memory import Memory, describe_loss
from ordercast.wire.datagram import (
    CHALLENGE,
    EPOCH_BITS,
    EPOCH_MAX,
    HANDSHAKE_BYTES,
    HEADER,
    HELLO,
    NONCE,
    REFUSAL,
    RESPONSE,
    Dropped,
)
from ordercast.wire.door import LENGTH_BYTES, Door, pad, unpad
from ordercast.wire.keys import ClusterKeys
from ordercast.wire.presence import Presence
from ordercast.wire.refusals import Refusals
from ordercast.wire.sealing import SALT_BYTES
from ordercast.wire.session import BootKeys, OwnSession, PeerSession

NONCE_BYTES = 16

NONCE_SECONDS = 5.0
"""A nonce is taken for as long as this, and at most twice as long: longer than any round trip."""

HELLO_SECONDS_MIN = 0.05
HELLO_SECONDS_MAX = 1.0
"""Between two hellos to a process that does not answer; doubled from the first to the second."""

PROVOKED_SECONDS = 0.2
"""Somebody whom we do not know sends something: whoever has not answered yet is asked again, at most so often."""

INCARNATION_MAX = 1 << 32
"""Nobody starts a process so often."""

POSITION_MAX = (1 << 63) - 1
"""Nobody logs so many records."""

NEWCOMER_SECONDS = 2.0
"""A process that differs from another ends when nobody has accepted it for so long: two of the longest waits between
hellos, so that those who agree and are there have met. (All start at once; the first that b hears is the one that
differs from all the others.)"""

ADDRESS_BYTES_MAX = 64
"""An IP address, its scope and a port."""

_NOTHING = bytes(NONCE_BYTES)

_TOLD_BYTES = 4
"""What MessagePack takes to count the entries that are told, beyond the byte of an empty map."""

Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class Greeting(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The sealed part of all four datagrams of the handshake."""

    addressee: SiteId
    cluster: str
    """Known to the key as well; told for clusters without one."""
    incarnation: Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]
    stable: bool
    """Whether the sender has a log."""
    place: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] | None
    """The addressee's bit in the sender's sets of destinations; None in a refusal, when it has none."""
    places: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]
    nonce: Nonce
    """To be echoed."""
    echo: Nonce
    """The nonce that this answers."""
    agreed: Annotated[bytes, msgspec.Meta(min_length=DIGESTS_BYTES, max_length=DIGESTS_BYTES)]
    """Digests of what all processes must agree on."""
    told: dict[str, str]
    """In a refusal for other digests: the sender's values, as many as fit."""
    position: Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)]
    """Where the sender's log ended when it started."""
    began: Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]
    """The incarnation with which that log began."""
    heard: Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)]
    """Up to where the sender has heard the addressee's log to be stable."""
    address: Annotated[str, msgspec.Meta(max_length=ADDRESS_BYTES_MAX)]
    """Where the sender listens, for those who do not know it; empty when it does not know that itself."""


class History(msgspec.Struct, frozen=True):
    """What a process tells of its log when it greets."""

    position: int = 0
    """Where it ended when the process started."""
    began: int = 0
    """The incarnation with which it began (see `Memory.judge`)."""
    repairs: bool = False
    """Whether the protocol could give a process back what it has lost."""

    def remedy(self, process: SiteId) -> str:
        """What to do about a process that has lost some of its log."""
        if self.repairs:
            return f"give it the log that it had, or stop it and run `ordercast repair CONFIG --process {process}`"
        return "give it the log that it had, or stop all processes and begin anew: see docs/log.md"


class _Salute:
    """When to say hello to a peer."""

    __slots__ = ("doubted", "due", "last", "wait_seconds")

    def __init__(self) -> None:
        self.doubted = False
        """The peer has a session, and perhaps a newer one that we have not heard of."""
        self.due = 0.0
        self.last = -inf
        self.wait_seconds = HELLO_SECONDS_MIN


class Handshake:
    """Makes and takes the four datagrams, and holds the sessions that were accepted."""

    def __init__(
        self,
        cluster: str,
        process: SiteId,
        places: Sequence[SiteId],
        keys: ClusterKeys | None,
        own: OwnSession,
        incarnation: int,
        stable: bool,
        secret: bytes,
        counters: Counter[str],
        agreed: Mapping[str, Any],
        history: History,
        memory: Memory,
        address: str,
    ) -> None:
        """`places` are all processes, in the order of their bits; `secret` makes the nonces; `agreed` is what all must
        agree on (see `Agreement`); `address` is where this process listens."""
        self.sessions: dict[bytes, PeerSession] = {}
        """By the name that datagrams bear."""
        self.peers: dict[SiteId, PeerSession] = {}
        self.refused: str | None = None
        self.refusals = Refusals(process, frozenset(places))
        self.locate: Callable[[SiteId, str], bool] = lambda _stranger, _address: False
        """Called with a process that is not configured and where it listens; whether it can be answered there."""
        self.deadline = 0.0
        """When `hellos` has something to do, at the earliest."""
        self._cluster = cluster
        self._process = process
        self._name = process.encode()
        self._places = {site: place for place, site in enumerate(places)}
        self._keys = keys
        self._own = own
        self._incarnation = incarnation
        self._stable = stable
        self._secret = secret
        self._counters = counters
        self._agreement = Agreement(agreed)
        self._history = history
        self._memory = memory
        self._address = address
        self._differs: tuple[float, str] | None = None
        """When the first process was met that differs, and the line about it."""
        self._salutes = {site: _Salute() for site in places if site != process}
        self.presence = Presence(self.peers)
        self._provoked = False
        """Everybody is being asked already."""
        self._door = Door(cluster, process, self._salutes, keys, self.refusals)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(Greeting)

    def rotate(self, keys: ClusterKeys) -> None:
        """Take these keys, in new sessions and in those that there are."""
        self._keys = keys
        self._provoked = False
        self._door.use(keys)
        for session in self.sessions.values():
            session.accept(keys.accepted)

    # ------------------------------------------------------------------ saying hello
    def hellos(self, now: float) -> list[tuple[SiteId, bytes]]:
        """Hellos that are due, to those who have no session, or perhaps another; with longer and longer waits."""
        if self._differs is not None and not self.peers and now >= self._differs[0] + NEWCOMER_SECONDS:
            self.refused = self._differs[1]
        due = []
        self._provoked = False
        if now >= self.presence.deadline or self.presence.deadline == inf:
            for silent in self.presence.look(now):
                self._salutes[silent].doubted = True
                self._salutes[silent].due = min(self._salutes[silent].due, now)
        self.deadline = self.presence.deadline
        for site, salute in self._salutes.items():
            if site in self.peers and not salute.doubted:
                continue
            if salute.due <= now:
                salute.doubted = False
                due.append((site, self._make(HELLO, site, self._nonce(now, b"hello", site))))
                salute.last = now
                salute.due = now + salute.wait_seconds
                salute.wait_seconds = min(2 * salute.wait_seconds, HELLO_SECONDS_MAX)
            if site not in self.peers or salute.doubted:
                self.deadline = min(self.deadline, salute.due)
        return due

    def provoke(self, now: float) -> None:
        """Somebody unknown has sent something: hurry up with those from whom it may be.

        That is everybody: (1) a restarts and greets b; (2) b challenges a; (3) a accepts b, and its response is lost.
        Now a has a session of b and says no more, and b still has the one of a's last life.
        """
        if self._provoked:
            return
        self._provoked = True
        for site, salute in self._salutes.items():
            soon = max(now, salute.last + PROVOKED_SECONDS)
            if site in self.peers:
                if not salute.doubted:
                    salute.doubted = True
                    salute.due = soon
            else:
                salute.due = min(salute.due, soon)
            self.deadline = min(self.deadline, salute.due)

    # ------------------------------------------------------------------ nonces
    def _nonce(self, now: float, purpose: bytes, site: SiteId, salt: bytes = b"", slots_ago: int = 0) -> bytes:
        slot = int(now // NONCE_SECONDS) - slots_ago
        what = b"%d %s %s " % (slot, purpose, salt.hex().encode()) + site.encode()
        return hashlib.blake2b(what, key=self._secret, digest_size=NONCE_BYTES).digest()

    def _is_fresh(self, echo: bytes, now: float, purpose: bytes, site: SiteId, salt: bytes = b"") -> bool:
        return any(hmac.compare_digest(echo, self._nonce(now, purpose, site, salt, ago)) for ago in (0, 1))

    # ------------------------------------------------------------------ datagrams
    def _make(
        self, kind: int, to: SiteId, nonce: bytes = _NOTHING, echo: bytes = _NOTHING, differs_from: bytes | None = None
    ) -> bytes:
        own = self._own
        greeting = Greeting(
            to,
            self._cluster,
            self._incarnation,
            self._stable,
            self._places.get(to),
            len(self._places),
            nonce,
            echo,
            self._agreement.digests,
            {},
            self._history.position,
            self._history.began,
            self._memory.heard.get(to, 0),
            self._address,
        )
        in_the_clear = own.keys.salt + bytes((len(self._name),)) + self._name
        content = self._encode(greeting)
        room = HANDSHAKE_BYTES - HEADER.size - len(in_the_clear) - own.tag_bytes - self._door.mark_bytes
        if differs_from is not None:
            told = self._agreement.tell(differs_from, room - LENGTH_BYTES - len(content) - _TOLD_BYTES)
            content = self._encode(msgspec.structs.replace(greeting, told=told))
        return self._door.mark(to, bytes(own.seal(own.what(kind), in_the_clear, pad(content, room))))

    def receive(
        self, kind: int, name: bytes, counter: int, datagram: memoryview, now: float
    ) -> tuple[SiteId, bytes] | None:
        """Take one; the answer to it, and to whom. `Dropped` when it is not genuine, not fresh or not for us."""
        why_not = self._door.judge(name, counter, datagram, now)
        if why_not is not None:
            # Not `Dropped`: what everybody can send as often as he likes must cost as little as possible.
            self._counters[why_not] += 1
            return None
        sender, keys, greeting = self._open(name, counter, datagram)
        if greeting.addressee != self._process:
            raise Dropped("misaddressed")
        if greeting.cluster != self._cluster:
            raise Dropped("another-cluster")
        if sender not in self._salutes:
            return self._refuse_stranger(kind, sender, greeting, now)
        if greeting.place is None:
            if kind == REFUSAL and self._is_fresh(greeting.echo, now, b"hello", sender):
                self._on_difference(sender, greeting, now)
                return None
            raise Dropped("stale" if kind == REFUSAL else "garbage")
        if greeting.place >= greeting.places:
            raise Dropped("garbage")
        if kind == HELLO:
            if not self._is_welcome(sender, keys, greeting):
                return self._refuse(sender, keys, greeting, now)
            return sender, self._make(
                CHALLENGE, sender, self._nonce(now, b"challenge", sender, keys.salt), greeting.nonce
            )
        answers_hello = self._is_fresh(greeting.echo, now, b"hello", sender)
        answers_challenge = self._is_fresh(greeting.echo, now, b"challenge", sender, keys.salt)
        if kind == CHALLENGE and answers_hello:
            if not self._accept(sender, keys, greeting, greeting.place, counter):
                return self._refuse(sender, keys, greeting, now)
            return sender, self._make(RESPONSE, sender, self._nonce(now, b"hello", sender), greeting.nonce)
        if kind == RESPONSE and answers_challenge:
            if not self._accept(sender, keys, greeting, greeting.place, counter):
                return self._refuse(sender, keys, greeting, now)
            return None
        if kind == REFUSAL and (answers_hello or answers_challenge):
            return self._on_refusal(sender, greeting, now)
        if kind == REFUSAL and self._is_fresh(greeting.echo, now, b"refusal", sender):
            if greeting.agreed != self._agreement.digests:
                self._on_difference(sender, greeting, now)
            else:
                self._on_loss(sender, keys, greeting)
            return None
        raise Dropped("stale")

    def suspect(self, datagram: memoryview, cause: str) -> None:
        """A handshake, by its kind, is dropped for this cause: remember it for the process from which it says it is."""
        sender, _ = _sender_of(datagram)
        if sender in self._salutes:
            self.refusals.suspect(sender, cause)

    def _open(self, name: bytes, counter: int, datagram: memoryview) -> tuple[SiteId, BootKeys, Greeting]:
        try:
            return self._decrypt(name, counter, datagram)
        except Dropped as dropped:
            if dropped.reason == "forged":
                self.suspect(datagram, "forged")
            raise

    def _decrypt(self, name: bytes, counter: int, datagram: memoryview) -> tuple[SiteId, BootKeys, Greeting]:
        sender, header_bytes = _sender_of(datagram)
        if datagram[header_bytes - len(sender.encode()) : header_bytes] != sender.encode():
            raise Dropped("unknown-process")  # a name that is no text
        salt = bytes(datagram[HEADER.size : HEADER.size + SALT_BYTES])
        sealed_until = len(datagram) - self._door.mark_bytes
        epoch = counter >> EPOCH_BITS
        accepted: tuple[bytes | None, ...] = (None,) if self._keys is None else self._keys.accepted
        for cluster_key in accepted:
            keys = BootKeys(cluster_key, self._cluster, sender, salt)
            if keys.name != name or epoch > EPOCH_MAX:
                raise Dropped("forged")
            try:
                plaintext = keys.cipher(epoch).decrypt(
                    NONCE.pack(epoch, counter), datagram[header_bytes:sealed_until], datagram[:header_bytes]
                )
                return sender, keys, self._decoder.decode(unpad(plaintext))
            except InvalidTag:
                continue
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise Dropped("garbage") from None
        raise Dropped("forged")

    # ------------------------------------------------------------------ sessions
    def _is_welcome(self, sender: SiteId, keys: BootKeys, greeting: Greeting) -> bool:
        """Whether the sender agrees with us and was not here before with a later history."""
        return (
            greeting.agreed == self._agreement.digests
            and not self._is_surpassed(sender, keys, greeting)
            and self._judge(sender, keys, greeting) is None
        )

    def _is_surpassed(self, sender: SiteId, keys: BootKeys, greeting: Greeting) -> bool:
        """Whether another boot with this incarnation, or a later one, was here and said something."""
        known = self.peers.get(sender)
        if known is not None and known.keys.salt != keys.salt and greeting.incarnation <= known.incarnation:
            return known.heard >= 0 or greeting.incarnation < known.incarnation
        return self._memory.has_met_later(sender, greeting.incarnation, keys.name)

    def _judge(self, sender: SiteId, keys: BootKeys, greeting: Greeting) -> str | None:
        """What the sender has lost that was heard here."""
        return self._memory.judge(sender, greeting.position, greeting.incarnation, greeting.began, keys.name)

    def _accept(self, sender: SiteId, keys: BootKeys, greeting: Greeting, place: int, counter: int) -> bool:
        """Accept a session, or know it already; not when the sender is not welcome."""
        if not self._is_welcome(sender, keys, greeting):
            return False
        known = self.peers.get(sender)
        if known is None or known.keys.salt != keys.salt:
            if known is not None:
                del self.sessions[known.keys.name]
            session = PeerSession(
                keys,
                sender,
                greeting.incarnation,
                greeting.stable,
                place,
                greeting.places,
                counter,
                self._counters,
            )
            if self._keys is not None:
                session.accept(self._keys.accepted)
            session.heard = self._remember(sender, keys, greeting)
            self.peers[sender] = self.sessions[keys.name] = session
            self._provoked = False
            self.refusals.forget(sender)
        else:
            known.renew(keys, counter)
        return True

    def _remember(self, sender: SiteId, keys: BootKeys, greeting: Greeting) -> int:
        """The sender is accepted; what is heard of its log from now on is news only beyond this position, and the
        first datagram is news in any case."""
        if not greeting.stable:
            return POSITION_MAX
        self._memory.meet(sender, greeting.position, greeting.incarnation, greeting.began, keys.name)
        return -1

    def _refuse(self, sender: SiteId, keys: BootKeys, greeting: Greeting, now: float) -> tuple[SiteId, bytes]:
        self._counters["peer-refused"] += 1
        # A hello may be a recording from before the configuration was changed, or from an earlier start: nothing is
        # said about it here until the sender has answered this.
        nonce = self._nonce(now, b"refusal", sender)
        if greeting.agreed != self._agreement.digests:
            return sender, self._make(REFUSAL, sender, nonce, greeting.nonce, greeting.agreed)
        if self._judge(sender, keys, greeting) is None:
            self.refusals.suspect(sender, "was-here")
        return sender, self._make(REFUSAL, sender, nonce, greeting.nonce)

    def _refuse_stranger(
        self, kind: int, sender: SiteId, greeting: Greeting, now: float
    ) -> tuple[SiteId, bytes] | None:
        """The sender has the key and is not configured here: its name is worth a line, and so is the answer."""
        self._counters["unknown-process"] += 1
        if sender == self._process:
            return None
        self.refusals.suspect(sender, "unknown-process")
        if (
            kind == HELLO
            and sender in self.refusals.lines
            and self._door.answers_strangers(now)
            and self.locate(sender, greeting.address)
        ):
            return sender, self._make(REFUSAL, sender, echo=greeting.nonce)
        return None

    def _on_refusal(self, sender: SiteId, greeting: Greeting, now: float) -> tuple[SiteId, bytes] | None:
        if greeting.agreed == self._agreement.digests:
            self._on_surpassed(sender, greeting)
            # Else the other one could not know whether it has refused a recording.
            return sender, self._make(REFUSAL, sender, echo=greeting.nonce)
        self._on_difference(sender, greeting, now)
        return sender, self._make(REFUSAL, sender, echo=greeting.nonce, differs_from=greeting.agreed)

    def _on_difference(self, sender: SiteId, greeting: Greeting, now: float) -> None:
        """The sender is there now, and has told in what it differs. Whoever has met others goes on without it."""
        if greeting.place is None:
            reason = f"{sender} has no process {self._process} in [processes]: add it at all of them"
        else:
            difference = self._agreement.explain(greeting.agreed, greeting.told)
            reason = f"{difference}; use one configuration file for all processes"
        line = self.refusals.prove(sender, reason)
        if self._differs is None:
            self._differs = now, line

    def _on_loss(self, sender: SiteId, keys: BootKeys, greeting: Greeting) -> None:
        """The sender is there now, and was refused; it knows that, and ends."""
        loss = self._judge(sender, keys, greeting)
        if loss is not None:
            self.refusals.prove(sender, f"{loss}; {self._history.remedy(sender)}")

    def _on_surpassed(self, sender: SiteId, greeting: Greeting) -> None:
        self.deadline = 0.0  # so that whoever drives this learns of it at once
        if greeting.heard > self._history.position:
            loss = describe_loss(self._history.position, greeting.heard)
            self.refused = f"{sender} refuses {self._process}: {loss}; {self._history.remedy(self._process)}"
        elif self._stable:
            self.refused = (
                f"{self._process} was here before with a later log than this one, says {sender}: give it the log that "
                f"it had, or restart all processes; or a second process runs under its name"
            )
        else:
            self.refused = (
                f"{self._process} was here before and has no log, so {sender} cannot take it back: restart all "
                f"processes, and set log_directory so that it can come back next time"
            )


def _sender_of(datagram: memoryview) -> tuple[SiteId, int]:
    """From whom a handshake says it is, and where its sealed part begins. This much is the same in all versions."""
    name_at = HEADER.size + SALT_BYTES + 1
    if len(datagram) < name_at:
        raise Dropped("short")
    header_bytes = name_at + datagram[name_at - 1]
    # Not genuine yet, so it may be anything.
    return str(datagram[name_at:header_bytes], "utf-8", "replace"), header_bytes
