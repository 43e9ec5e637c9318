"""Who is accepted: a process says hello, is challenged, and answers. docs/wire.md draws it.

A session is accepted only on the echo of a fresh nonce of one's own, or else an old incarnation's handshake could be
replayed to a newcomer. Nonces are not stored: they are a keyed hash of what they are for and of the time, so nobody can
fill a table of open challenges, or drive the genuine one out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import msgspec

from ordercast.core import SiteId
from ordercast.core.agreement import Agreement
from ordercast.core.memory import Memory, describe_loss
from ordercast.wire.datagram import ANNOUNCEMENT, CHALLENGE, HELLO, REFUSAL, RESPONSE, Dropped
from ordercast.wire.door import ANYONE, Door
from ordercast.wire.greeting import (
    NO_NONCE,
    NOWHERE,
    POSITION_MAX,
    Announcement,
    Greeting,
    History,
    Nonces,
    Sighting,
    sender_of,
)
from ordercast.wire.keys import ClusterKeys
from ordercast.wire.marked import Marked
from ordercast.wire.numbers import Numbers
from ordercast.wire.presence import Presence
from ordercast.wire.refusals import Refusals
from ordercast.wire.salutes import Salutes
from ordercast.wire.session import BootKeys, OwnSession, PeerSession
from ordercast.wire.whereabouts import Address, candidates, choose_address, is_usable

NEWCOMER_SECONDS = 2.0
"""A process that differs from another ends when nobody has accepted it for so long: two of the longest waits between
hellos, so that those who agree and are there have met. (All start at once; the first that b hears is the one that
differs from all the others.)"""

REMEMBERED_MAX = 4096
"""Processes whose logs are remembered where anybody may come: whoever comes later is not missed when it loses some."""

_TOLD_BYTES = 4
"""What MessagePack takes to count the entries that are told, beyond the byte of an empty map."""

Answer = tuple[SiteId, bytes, Address | None]
"""To whom, what, and where that one is, when no configuration says so."""


class Handshake:
    """Makes and takes the four datagrams, and holds the sessions that were accepted."""

    def __init__(
        self,
        cluster: str,
        process: SiteId,
        places: Sequence[SiteId],
        numbers: Numbers,
        keys: ClusterKeys | None,
        own: OwnSession,
        incarnation: int,
        stable: bool,
        secret: bytes,
        counters: Counter[str],
        agreed: Mapping[str, Any],
        history: History,
        memory: Memory,
        listens: Address | None,
        opens: bool,
        processes_max: int,
    ) -> None:
        """`places` are all processes that are configured; `secret` makes the nonces; `agreed` is what all must agree on
        (see `Agreement`); `listens` is where those find this process who do not know it. Where it `opens`, all who hold
        the key may come, as long as they are no more than `processes_max` with this one."""
        self.sessions: dict[bytes, PeerSession] = {}
        """By the name that datagrams bear."""
        self.peers: dict[SiteId, PeerSession] = {}
        self.addresses: dict[SiteId, Address] = {}
        """Where the peers are that came by themselves."""
        self.on_peer: Callable[[SiteId], None] = lambda _site: None
        """Told who has come or is forgotten, and whose address has changed."""
        self.listens = listens or NOWHERE
        self.refused: str | None = None
        self.refusals = Refusals(process, places)
        self.deadline = 0.0
        """When `hellos` has something to do, at the earliest."""
        self._cluster = cluster
        self._process = process
        self._numbers = numbers
        self._own = own
        self._keys = keys
        self._incarnation = incarnation
        self._stable = stable
        self._nonces = Nonces(secret)
        self._counters = counters
        self._agreement = Agreement(agreed)
        self._history = history
        self._memory = memory
        self._opens = opens
        self._processes_max = processes_max
        self._differs: tuple[float, str] | None = None
        """When the first process was met that differs, and the line about it."""
        others = [site for site in places if site != process]
        self._salutes = Salutes(others, self.peers)
        self.presence = Presence(self.peers)
        self._door = Door(cluster, process, others, keys, self.refusals, opens)
        self._marked = Marked(cluster, process, keys, own, self._door)
        self._encode = msgspec.msgpack.Encoder().encode
        self._greetings = msgspec.msgpack.Decoder(Greeting)
        self._announcements = msgspec.msgpack.Decoder(Announcement)

    def rotate(self, keys: ClusterKeys) -> None:
        """Take these keys, in new sessions and in those that there are."""
        self._keys = keys
        self._salutes.settle()
        self._door.use(keys)
        self._marked.use(keys)
        for session in self.sessions.values():
            session.accept(keys.accepted)

    def agree(self, agreed: Mapping[str, Any]) -> None:
        """What all must agree on has changed."""
        self._agreement = Agreement(agreed)

    # ------------------------------------------------------------------ who is known
    def add(self, site: SiteId) -> None:
        """Greet this one and let it in; it has a number."""
        self._door.add(site)
        self.refusals.forget(site)
        self.refusals.known.add(site)
        self._salutes.add(site)
        self.deadline = 0.0

    def forget(self, site: SiteId, now: float) -> None:
        """This one is no peer any more. What the memory has of it stays: a process must not come back with less."""
        session = self.peers.pop(site, None)
        if session is not None:
            del self.sessions[session.keys.name]
        self._numbers.take_back(site, now)
        self._salutes.remove(site)
        self.presence.forget(site)
        self._door.remove(site)
        self.addresses.pop(site, None)
        self.refusals.forget(site)
        self.refusals.known.discard(site)
        self.on_peer(site)

    # ------------------------------------------------------------------ saying hello
    def hellos(self, now: float) -> list[Answer]:
        """Hellos that are due, to those who have no session, or perhaps another; with longer and longer waits."""
        if self._differs is not None and not self.peers and now >= self._differs[0] + NEWCOMER_SECONDS:
            self.refused = self._differs[1]
        if now >= self.presence.deadline or self.presence.deadline == inf:
            for silent in self.presence.look(now):
                self._salutes.doubt(silent, now)
            if self._opens:
                for site in self.presence.long_gone(now):
                    self.forget(site, now)
        due = [self.greet(site, self.addresses.get(site), now) for site in self._salutes.due(now)]
        self.deadline = min(self.presence.deadline, self._salutes.deadline)
        return due

    def greet(self, site: SiteId, where: Address | None, now: float) -> Answer:
        """One hello, to somebody who may be there."""
        return site, self._make(HELLO, site, self._nonces.make(now, b"hello", site, where)), where

    def provoke(self, now: float) -> None:
        """Somebody unknown has sent something: hurry up with those from whom it may be (see `Salutes.provoke`)."""
        self._salutes.provoke(now)
        self.deadline = min(self.deadline, self._salutes.deadline)

    def announce(self) -> bytes:
        """What to say to whoever may hear it."""
        content = Announcement(self._cluster, self._incarnation, self.listens)
        return self._marked.make(ANNOUNCEMENT, ANYONE, self._encode(content))

    # ------------------------------------------------------------------ datagrams
    def _make(
        self,
        kind: int,
        to: SiteId,
        nonce: bytes = NO_NONCE,
        echo: bytes = NO_NONCE,
        differs_from: bytes | None = None,
    ) -> bytes:
        greeting = Greeting(
            to,
            self._cluster,
            self._incarnation,
            self._stable,
            self._numbers.get(to),
            self._numbers.room,
            nonce,
            echo,
            self._agreement.digests,
            {},
            self._history.position,
            self._history.began,
            self._memory.heard.get(to, 0),
            self.listens,
        )
        content = self._encode(greeting)
        if differs_from is not None:
            told = self._agreement.tell(differs_from, self._marked.room - len(content) - _TOLD_BYTES)
            content = self._encode(msgspec.structs.replace(greeting, told=told))
        return self._marked.make(kind, to, content)

    def receive(
        self, kind: int, name: bytes, counter: int, datagram: memoryview, now: float, source: Address | None
    ) -> Answer | None:
        """Take one that came from an address, where that is known; the answer to it, and to whom. `Dropped` when it is
        not genuine, not fresh or not for us."""
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
        if sender not in self._salutes and not (self._opens and sender != self._process):
            return self._refuse_stranger(kind, sender, greeting, now)
        if greeting.place >= greeting.places:
            raise Dropped("garbage")
        if greeting.place < 0 and not self._opens:
            if kind == REFUSAL and self._nonces.is_fresh(greeting.echo, now, b"hello", sender, None):
                self._on_difference(sender, greeting, now)
                return None
            raise Dropped("stale" if kind == REFUSAL else "garbage")
        if kind == HELLO:
            where = choose_address(greeting.listens, source) if self._opens else None
            if where is not None and not is_usable(where):
                raise Dropped("garbage")
            if not self._is_welcome(sender, keys, greeting):
                return self._refuse(sender, keys, greeting, now, where)
            nonce = self._nonces.make(now, b"challenge", sender, where, keys.salt)
            return sender, self._make(CHALLENGE, sender, nonce, greeting.nonce), where
        purpose, where = self._find_purpose(sender, keys, greeting, now, source)
        if kind == REFUSAL:
            if purpose == b"refusal":
                self._on_second_refusal(sender, keys, greeting, now)
                return None
            return sender, self._on_refusal(sender, greeting, now), where
        if purpose != (b"hello" if kind == CHALLENGE else b"challenge"):
            raise Dropped("stale")
        if not self._is_welcome(sender, keys, greeting):
            return self._refuse(sender, keys, greeting, now, where)
        has_number = sender in self._numbers
        self._accept(sender, keys, greeting, counter, where, now)
        if kind == CHALLENGE and greeting.nonce != NO_NONCE:
            nonce = self._nonces.make(now, b"hello", sender, where)
            return sender, self._make(RESPONSE, sender, nonce, greeting.nonce), where
        if kind == RESPONSE and not has_number:
            # It was challenged when it had none yet, because nothing is kept of those who only say hello. This one asks
            # for no answer.
            return sender, self._make(CHALLENGE, sender, NO_NONCE, greeting.nonce), where
        return None

    def receive_announcement(
        self, name: bytes, counter: int, datagram: memoryview, now: float, source: Address | None
    ) -> Sighting | None:
        """Somebody says where it is; None when that is not worth hearing."""
        if not self._opens:
            raise Dropped("unknown-process")
        if name in self.sessions:
            return None  # anybody could have sent it, and nothing comes of it
        why_not = self._door.judge_announcement(name, counter, datagram, now)
        if why_not is not None:
            self._counters[why_not] += 1
            return None
        sender, _, announcement = self._marked.open(name, counter, datagram, self._announcements)
        if announcement.cluster != self._cluster:
            raise Dropped("foreign")
        if sender == self._process:
            self.refusals.suspect(sender, "same-name")
            raise Dropped("same-name")
        where = choose_address(announcement.listens, source)
        if not is_usable(where):
            raise Dropped("garbage")
        return Sighting(sender, where)

    def _find_purpose(
        self, sender: SiteId, keys: BootKeys, greeting: Greeting, now: float, source: Address | None
    ) -> tuple[bytes, Address | None]:
        """For what the nonce was made that is echoed, and where it was sent to; `Dropped` when it is not ours."""
        is_fresh = self._nonces.is_fresh
        ways: Sequence[Address | None] = candidates(greeting.listens, source) if self._opens else (None,)
        for where in ways:
            if is_fresh(greeting.echo, now, b"hello", sender, where):
                return b"hello", where
            if is_fresh(greeting.echo, now, b"challenge", sender, where, keys.salt):
                return b"challenge", where
            if is_fresh(greeting.echo, now, b"refusal", sender, where):
                return b"refusal", where
        raise Dropped("stale")

    def suspect(self, datagram: memoryview, cause: str) -> None:
        """A handshake, by its kind, is dropped for this cause: remember it for the process from which it says it is."""
        sender, _ = sender_of(datagram)
        if sender in self._salutes:
            self.refusals.suspect(sender, cause)

    def _open(self, name: bytes, counter: int, datagram: memoryview) -> tuple[SiteId, BootKeys, Greeting]:
        try:
            return self._marked.open(name, counter, datagram, self._greetings)
        except Dropped as dropped:
            if dropped.reason == "forged":
                self.suspect(datagram, "forged")
            raise

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

    def _accept(
        self, sender: SiteId, keys: BootKeys, greeting: Greeting, counter: int, where: Address | None, now: float
    ) -> None:
        """Accept a session, or know it already; `Dropped` when there are too many."""
        self._make_room(sender, now)
        known = self.peers.get(sender)
        if known is None or known.keys.salt != keys.salt:
            if known is not None:
                del self.sessions[known.keys.name]
            session = PeerSession(
                keys,
                sender,
                greeting.incarnation,
                greeting.stable,
                greeting.place,
                greeting.places,
                counter,
                self._counters,
            )
            if self._keys is not None:
                session.accept(self._keys.accepted)
            session.heard = self._remember(sender, keys, greeting)
            self.peers[sender] = self.sessions[keys.name] = session
            self._salutes.settle()
            self.refusals.forget(sender)
        else:
            known.renew(keys, counter)
            known.take_number(greeting.place)
        if where is not None and self.addresses.get(sender) != where:
            self.addresses[sender] = where
            self.on_peer(sender)

    def _make_room(self, sender: SiteId, now: float) -> None:
        """Give somebody a number who has proved to be there."""
        if sender in self._numbers:
            return
        if len(self.peers) + 1 >= self._processes_max or not self._numbers.give(sender, now):
            self.refusals.suspect(sender, "full")
            raise Dropped("full")
        self.add(sender)

    def _remember(self, sender: SiteId, keys: BootKeys, greeting: Greeting) -> int:
        """The sender is accepted; what is heard of its log from now on is news only beyond this position, and the
        first datagram is news in any case."""
        known = self._memory.heard
        if not greeting.stable or (self._opens and len(known) >= REMEMBERED_MAX and sender not in known):
            return POSITION_MAX
        self._memory.meet(sender, greeting.position, greeting.incarnation, greeting.began, keys.name)
        return -1

    def _refuse(self, sender: SiteId, keys: BootKeys, greeting: Greeting, now: float, where: Address | None) -> Answer:
        self._counters["peer-refused"] += 1
        # A hello may be a recording from before the configuration was changed, or from an earlier start: nothing is
        # said about it here until the sender has answered this.
        nonce = self._nonces.make(now, b"refusal", sender, where)
        if greeting.agreed != self._agreement.digests:
            return sender, self._make(REFUSAL, sender, nonce, greeting.nonce, greeting.agreed), where
        if self._judge(sender, keys, greeting) is None:
            self.refusals.suspect(sender, "was-here")
        return sender, self._make(REFUSAL, sender, nonce, greeting.nonce), where

    def _refuse_stranger(self, kind: int, sender: SiteId, greeting: Greeting, now: float) -> Answer | None:
        """The sender has the key and is not configured here: its name is worth a line, and so is the answer."""
        self._counters["unknown-process"] += 1
        if sender == self._process:
            return None
        self.refusals.suspect(sender, "unknown-process")
        if (
            kind == HELLO
            and sender in self.refusals.lines
            and is_usable(greeting.listens)
            and self._door.answers_strangers(now)
        ):
            return sender, self._make(REFUSAL, sender, echo=greeting.nonce), greeting.listens
        return None

    def _on_refusal(self, sender: SiteId, greeting: Greeting, now: float) -> bytes:
        if greeting.agreed == self._agreement.digests:
            self._on_surpassed(sender, greeting)
            # Else the other one could not know whether it has refused a recording.
            return self._make(REFUSAL, sender, echo=greeting.nonce)
        self._on_difference(sender, greeting, now)
        return self._make(REFUSAL, sender, echo=greeting.nonce, differs_from=greeting.agreed)

    def _on_second_refusal(self, sender: SiteId, keys: BootKeys, greeting: Greeting, now: float) -> None:
        """The sender knows that it was refused here, and proves that it was."""
        if greeting.agreed != self._agreement.digests:
            self._on_difference(sender, greeting, now)
        else:
            self._on_loss(sender, keys, greeting)

    def _on_difference(self, sender: SiteId, greeting: Greeting, now: float) -> None:
        """The sender is there now, and has told in what it differs. Whoever has met others goes on without it."""
        if greeting.place < 0 and not self._opens:
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
        elif self._opens:
            self.refused = (
                f"another process was started under the name {self._process} later than this one, says {sender}: "
                f"choose another name"
            )
        else:
            self.refused = (
                f"{self._process} was here before and has no log, so {sender} cannot take it back: restart all "
                f"processes, and set log_directory so that it can come back next time"
            )
