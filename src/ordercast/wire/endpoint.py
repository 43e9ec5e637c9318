"""One process' end of the network: packets in, datagrams out; datagrams in, packets out. Without sockets and clocks.

Whoever drives it sends what `flush` gives after every turn of its own, hands over what it receives, and calls `tick`
when `deadline` is due.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Callable, KeysView, Mapping, Sequence
from math import inf
from typing import Any

from cryptography.exceptions import InvalidTag

from ordercast.core import ChannelId, InstanceId, Packet, SiteId, UsageError, WireError
from ordercast.core.memory import Memory
from ordercast.wire.casts import TTL_MAX, Cast, Channels
from ordercast.wire.checks import PROCESSES_MAX, check, check_names, check_strangers
from ordercast.wire.codec import Codec
from ordercast.wire.datagram import (
    ANNOUNCEMENT,
    CAST,
    CAST_FRAGMENT,
    CHANNEL,
    DATA,
    FRAGMENT,
    FRAGMENT_FIELDS,
    HEADER,
    HELLO,
    KIND_MAX,
    PLAINTEXT,
    POSITION,
    REFUSAL,
    REPAIR,
    VERSION,
    Dropped,
)
from ordercast.wire.greeting import POSITION_MAX, History, Sighting
from ordercast.wire.handshake import Answer, Handshake
from ordercast.wire.kept_frames import KeptFrame, KeptFrames
from ordercast.wire.keys import ClusterKeys
from ordercast.wire.numbers import SPARE, Numbers, check_room
from ordercast.wire.outbox import Outbox, Outgoing
from ordercast.wire.sealing import SALT_BYTES
from ordercast.wire.session import BootKeys, OwnSession, PeerSession
from ordercast.wire.whereabouts import Address

STRANGERS_MAX = 256
"""Processes of a cluster in which none is configured, unless somebody says otherwise."""

SIGHTINGS_MAX = 256
"""Of strangers who were heard of since they were last asked for."""

SECRET_BYTES = 32

_REPAIR_FRAME = struct.Struct(">Q")

_NOTHING_AGREED: Mapping[str, Any] = {}
_NO_HISTORY = History()

_unpack_header = HEADER.unpack_from
_unpack_fragment = FRAGMENT_FIELDS.unpack_from
_unpack_position, _POSITION_BYTES = POSITION.unpack_from, POSITION.size

Received = Sequence[tuple[SiteId, InstanceId, Packet]]


class Endpoint:
    """Sends to and hears from the other processes of a cluster."""

    def __init__(
        self,
        cluster: str,
        process: SiteId,
        processes: Sequence[SiteId],
        keys: ClusterKeys | None,
        codec: Codec,
        incarnation: int,
        stable: bool,
        max_datagram: int,
        random_bytes: Callable[[int], bytes] = os.urandom,
        hears_itself: bool = False,
        agreed: Mapping[str, Any] = _NOTHING_AGREED,
        history: History = _NO_HISTORY,
        memory: Memory | None = None,
        listens: Address | None = None,
        opens: bool = False,
        changes: bool = False,
        processes_max: int = STRANGERS_MAX,
    ) -> None:
        """Without `keys`, nothing is sealed, and nothing sealed is taken. `incarnation` is larger at each start of a
        process with a log; `stable` says whether it has one. On a channel that brings everybody everything, a process
        `hears_itself`: its own datagrams are taken like the others', where they stand among them. Processes that have
        not `agreed` on the same are refused (see `ordercast.core.agreement`), and so are those that have lost some of
        the history that is in the `memory`; `history` is what this one tells of its own. `listens` is where those find
        it who do not know it. Where it `opens`, whoever holds the key may come, until there are `processes_max` with
        this one; else only the `processes`. Where that list `changes`, what is for somebody else gets lost."""
        places = sorted({process, *processes})
        check(cluster, places, incarnation, max_datagram)
        if opens:
            check_strangers(processes_max)
        self.counters: Counter[str] = Counter()
        """Why datagrams were dropped, and how often frames were repaired or lost."""
        self.casts: list[Cast] = []
        """What came on channels and was not taken yet."""
        self.sightings: list[Sighting] = []
        """Strangers who were heard of and not asked for yet."""
        self._memory = Memory() if memory is None else memory
        self._codec = codec
        self.process = process
        """The name of this process."""
        self._opens = opens
        room = processes_max if opens else len(places)
        self._numbers = Numbers(places, min(room + SPARE, PROCESSES_MAX))
        boot = BootKeys(None if keys is None else keys.used, cluster, process, random_bytes(SALT_BYTES))
        self._own = own = OwnSession(boot, self._numbers.destination_bytes)
        self._data, self._fragment, self._repair = own.what(DATA), own.what(FRAGMENT), own.what(REPAIR)
        self._cast, self._cast_fragment = own.what(CAST), own.what(CAST_FRAGMENT)
        self._handshake = Handshake(
            cluster,
            process,
            places,
            self._numbers,
            keys,
            own,
            incarnation,
            stable,
            random_bytes(SECRET_BYTES),
            self.counters,
            agreed,
            history,
            self._memory,
            listens,
            opens,
            processes_max,
        )
        self._sessions = self._handshake.sessions
        self.established: KeysView[SiteId] = self._handshake.peers.keys()
        """The processes from which packets are taken."""
        if hears_itself:
            # A session counts the datagram that proved it as taken: here it is one that was never sent.
            self._sessions[own.keys.name] = session = PeerSession(
                own.keys,
                process,
                incarnation,
                stable,
                self._numbers.get(process),
                self._numbers.room,
                own.counter,
                self.counters,
            )
            session.heard = POSITION_MAX
            own.counter += 1
        self._outbox = outbox = Outbox(
            process, codec, own, self._numbers, max_datagram, hears_itself, opens or changes, self.counters, self._keep
        )
        outbox.position = history.position
        self._kept = KeptFrames()
        # Called without a function of this class in between: everything that is sent goes this way.
        self.send = outbox.send
        self.flush = outbox.flush
        self._handshake.on_peer = self._on_peer
        self.on_peer: Callable[[SiteId], None] = lambda _site: None
        """Told who has come by itself or is forgotten, and whose address has changed (see `address_of`)."""
        self._channels = Channels(cluster)
        self._now = 0.0
        self.deadline = 0.0
        """When `tick` has something to do, at the earliest; infinite when never."""

    @property
    def position(self) -> int:
        """Up to where this process' log is stable; the others hear it."""
        return self._outbox.position

    @position.setter
    def position(self, position: int) -> None:
        self._outbox.position = position

    # ------------------------------------------------------------------ what is known of the others
    @property
    def present(self) -> list[SiteId]:
        """Those who have a session and are there: they say something now and then, or answer when they are greeted."""
        return self._handshake.presence.there(self._now)

    @property
    def silences(self) -> dict[SiteId, float]:
        """Who has or had a session -> for how many seconds nothing came from it."""
        return self._handshake.presence.silences(self._now)

    @property
    def up_seconds(self) -> dict[SiteId, float]:
        """Who has a session and is not suspected -> for how many seconds."""
        return self._handshake.presence.up_seconds(self._now)

    def incarnation_of(self, peer: SiteId) -> int | None:
        """The peer's incarnation; None while it has no session."""
        session = self._handshake.peers.get(peer)
        return None if session is None else session.incarnation

    def is_stable(self, peer: SiteId) -> bool | None:
        """Whether the peer has a log; None while it has no session."""
        session = self._handshake.peers.get(peer)
        return None if session is None else session.stable

    @property
    def refused(self) -> str | None:
        """Why this process cannot take part, and what to do: one line. None while nobody has refused it."""
        return self._handshake.refused

    @property
    def refusals(self) -> Mapping[SiteId, str]:
        """With whom this process does not talk, and why: one line for each."""
        return self._handshake.refusals.lines

    def listen(self, listens: Address) -> None:
        """Where those find this process who do not know it, when it did not know that itself yet."""
        self._handshake.listens = listens

    def address_of(self, peer: SiteId) -> Address | None:
        """Where a peer is that came by itself."""
        return self._handshake.addresses.get(peer)

    def add_site(self, site: SiteId) -> None:
        """Take another process as if it had been configured; `UsageError` when there is no room for it."""
        check_names(site)
        if site == self.process or site in self._numbers:
            raise UsageError(f"{site} is among the processes already")
        check_room(self._numbers, site, self._now)
        self._handshake.add(site)
        self._outbox.renumber()
        self.deadline = 0.0

    def remove_site(self, site: SiteId) -> None:
        """Talk no more with a process, and take nothing of it; `UsageError` when nobody knows it."""
        if site == self.process or site not in self._numbers:
            raise UsageError(f"{site} is not among the other processes")
        self._handshake.forget(site, self._now)

    def agree(self, agreed: Mapping[str, Any]) -> None:
        """What all must agree on has changed, because a process was added or removed."""
        self._handshake.agree(agreed)

    def greet(self, site: SiteId, where: Address, now: float) -> None:
        """Say hello, once, to a process that may be at an address: if it is there and holds the key, it is a peer."""
        self._outbox.add(_outgoing(self._handshake.greet(site, where, now)))

    def announce(self) -> bytes:
        """A datagram for whoever may hear it: it tells those who hold the key where this process is."""
        return self._handshake.announce()

    def _on_peer(self, site: SiteId) -> None:
        self._outbox.renumber()
        self.on_peer(site)

    # ------------------------------------------------------------------ keys
    def rotate(self, keys: ClusterKeys) -> None:
        """Take these keys instead of the ones there were, and seal with the one that is used. `UsageError`, and nothing
        has changed, while something is sealed with a key that is not among them."""
        if not self._own.tag_bytes:
            raise UsageError("nothing is sealed here: set key_file instead of insecure, and restart all processes")
        if not self._own.keys.is_under(keys.accepted):
            raise UsageError(
                "the key in use is not in the key file: keep it as the second line until all use the new one"
            )
        behind = sorted(site for site, peer in self._handshake.peers.items() if not peer.keys.is_under(keys.accepted))
        if behind:
            raise UsageError(
                f"{', '.join(behind)} still uses a key that is not in the file: keep it as the second line until then"
            )
        self._handshake.rotate(keys)
        self._own.rotate(keys.used)
        # Whoever hears nothing else of this process must hear that it has gone over.
        self._provoke(self._now)

    # ------------------------------------------------------------------ channels
    def join(self, channel: ChannelId) -> None:
        """Take what comes on a channel: it is put to the `casts`."""
        self._channels.join(channel)

    def leave(self, channel: ChannelId) -> None:
        """Take it no more."""
        self._channels.leave(channel)

    def channel_tag(self, channel: ChannelId) -> bytes:
        """What a channel is called on the network."""
        return self._channels.tag(channel)

    def broadcast(self, channel: ChannelId, instance: InstanceId, packet: Packet, ttl: int = TTL_MAX) -> None:
        """Put a packet into the datagram for whoever listens to a channel, at most `ttl` hops away."""
        if not 1 <= ttl <= TTL_MAX:
            raise UsageError(f"a TTL is 1 to {TTL_MAX}, not {ttl}")
        self._outbox.broadcast(channel, self._channels.tag(channel), ttl, instance, packet)

    # ------------------------------------------------------------------ in
    def receive(self, datagram: memoryview | bytes, now: float, source: Address | None = None) -> Received:
        """The packets of a datagram, which came from an address where that is known. What the network brings never
        raises: it is dropped, and `counters` says why."""
        self._now = now
        view = datagram if type(datagram) is memoryview else memoryview(datagram)
        session = None
        try:
            what, name, counter = _unpack_header(view)
            session = self._sessions.get(name)
            if session is None:
                self._receive_from_unknown(what, name, counter, view, now, source)
            elif what == self._data:
                plaintext = session.open(view, counter, session.header_bytes)
                (position,) = _unpack_position(plaintext)
                if position > session.heard:
                    session.heard = position
                    self._memory.note(session.sender, position)
                return self._codec.decode_from(session.sender, plaintext, _POSITION_BYTES)
            elif what == self._fragment:
                return self._receive_fragment(session, counter, view, now)
            elif what == self._repair:
                self._receive_repair(session, session.open(view, counter, session.header_bytes))
            elif what in (self._cast, self._cast_fragment):
                self._receive_cast(session, what, counter, view, now)
            else:
                self._receive_from_unknown(what, name, counter, view, now, source)
        except Dropped as dropped:
            self.counters[dropped.reason] += 1
            if dropped.reason == "ahead" or (session is not None and not session.has_number):
                self._provoke(now)
        except InvalidTag:
            self.counters["forged"] += 1
        except WireError:
            self.counters["garbage"] += 1
        except struct.error:
            self.counters["short"] += 1
        return ()

    def receive_train(self, train: memoryview, size: int, now: float, source: Address | None = None) -> Received:
        """The packets of several datagrams that the kernel hands over in one piece, one every `size` bytes: as a rule
        fragments of one frame, which cost half as much when they are opened in one go."""
        self._now = now
        received: list[tuple[SiteId, InstanceId, Packet]] = []
        start, end = 0, len(train)
        while start < end:
            if end - start >= HEADER.size:
                what, name, _ = _unpack_header(train, start)
                session = self._sessions.get(name)
                if session is not None and what == self._fragment:
                    fragments, forged, start = session.open_fragments(what, train, size, start)
                    if forged:
                        self.counters["forged"] += forged
                    received += self._receive_frames(session, session.reassembly.add_many(fragments, now))
                    if start == end:
                        break
            received += self.receive(train[start : start + size], now, source)
            start += size
        return received

    def _receive_fragment(self, session: PeerSession, counter: int, view: memoryview, now: float) -> Received:
        header_bytes = session.header_bytes
        frame, index, count = _unpack_fragment(view, header_bytes)
        fragment = session.open(view, counter, header_bytes + FRAGMENT_FIELDS.size)
        return self._receive_frames(session, session.reassembly.add_many([(frame, index, count, fragment)], now))

    def _receive_frames(self, session: PeerSession, frames: list[bytes]) -> Received:
        """What the frames hold that are complete now."""
        reassembly = session.reassembly
        if reassembly.deadline < self.deadline:
            self.deadline = reassembly.deadline
        if reassembly.wanted:
            self._ask(session)
        received: list[tuple[SiteId, InstanceId, Packet]] = []
        for frame in frames:
            try:
                received += self._decode(session, frame)
            except (WireError, struct.error):
                self.counters["garbage"] += 1
        return received

    def _decode(self, session: PeerSession, plaintext: bytes) -> Received:
        (position,) = _unpack_position(plaintext)
        if position > session.heard:
            session.heard = position
            self._memory.note(session.sender, position)
        return self._codec.decode_from(session.sender, plaintext, _POSITION_BYTES)

    def _receive_cast(self, session: PeerSession, what: int, counter: int, view: memoryview, now: float) -> None:
        tag, ttl = CHANNEL.unpack_from(view, HEADER.size)
        channel = self._channels.joined.get(tag)
        if channel is None:
            self.counters["not-joined"] += 1
            return
        header_bytes = HEADER.size + CHANNEL.size
        if what == self._cast:
            received = self._decode(session, session.open(view, counter, header_bytes, for_all=True))
        else:
            fields = _unpack_fragment(view, header_bytes)
            fragment = session.open(view, counter, header_bytes + FRAGMENT_FIELDS.size, for_all=True)
            received = self._receive_frames(session, session.reassembly.add_many([(*fields, fragment)], now))
        for sender, instance, packet in received:
            self.casts.append(Cast(channel, ttl, sender, instance, packet))

    def _receive_from_unknown(
        self, what: int, name: bytes, counter: int, view: memoryview, now: float, source: Address | None
    ) -> None:
        """Not a datagram of an accepted session: a handshake, or something to drop. That is counted without raising:
        anybody can send such datagrams as often as he likes."""
        kind = what & ~PLAINTEXT & 0xFF
        if what >> 8 != VERSION:
            self._suspect(kind, view, "version")
        elif not HELLO <= kind <= KIND_MAX:
            self.counters["kind"] += 1
        elif what != self._own.what(kind):
            self._suspect(kind, view, "plaintext" if what & PLAINTEXT else "sealed")
        elif name == self._own.keys.name:
            self.counters["own"] += 1
        elif kind == ANNOUNCEMENT:
            sighting = self._handshake.receive_announcement(name, counter, view, now, source)
            if sighting is not None:
                self._see(sighting)
        elif kind > REFUSAL:
            self.counters["unknown-session"] += 1
            if source is not None and kind in (CAST, CAST_FRAGMENT):
                self._see(Sighting(None, source))
            self._provoke(now)
        else:
            answer = self._handshake.receive(kind, name, counter, view, now, source)
            self.deadline = min(self.deadline, self._handshake.deadline)
            if answer is not None:
                self._outbox.answer(_outgoing(answer))

    def _see(self, sighting: Sighting) -> None:
        if self._opens and len(self.sightings) < SIGHTINGS_MAX:
            self.sightings.append(sighting)

    def _provoke(self, now: float) -> None:
        self._handshake.provoke(now)
        self.deadline = min(self.deadline, self._handshake.deadline)

    def _suspect(self, kind: int, view: memoryview, cause: str) -> None:
        self.counters[cause] += 1
        if HELLO <= kind <= REFUSAL and len(view) > HEADER.size + SALT_BYTES:
            self._handshake.suspect(view, cause)

    # ------------------------------------------------------------------ repairs
    def _keep(self, number: int, frame: KeptFrame) -> None:
        self._kept.keep(number, frame, self._now)
        self.deadline = min(self.deadline, self._kept.deadline)

    def _ask(self, session: PeerSession) -> None:
        """Send what the reassembly of a session asks for."""
        for frame, indexes in session.reassembly.wanted:
            content = _REPAIR_FRAME.pack(frame) + struct.pack(f">{len(indexes)}H", *indexes)
            self._outbox.say(session.sender, self._repair, content)
        session.reassembly.wanted.clear()

    def _receive_repair(self, session: PeerSession, content: bytes) -> None:
        """A peer lacks some fragments: it alone gets them again, sealed anew."""
        count, odd = divmod(len(content) - _REPAIR_FRAME.size, 2)
        if count < 1 or odd:
            raise Dropped("garbage")
        number, *indexes = struct.unpack(f">Q{count}H", content)
        kept = self._kept.get(number)
        if kept is None or not kept.is_for(session.sender):
            raise Dropped("repair-too-late")
        self._outbox.repair(session.sender, number, kept, indexes)

    # ------------------------------------------------------------------ time
    def tick(self, now: float) -> float | None:
        """Say hello, ask for fragments, forget old frames, whatever is due; when to call again."""
        self._now = now
        if now >= self.deadline:
            self._kept.turn(now)
            if now >= self._handshake.deadline:
                for hello in self._handshake.hellos(now):
                    self._outbox.add(_outgoing(hello))
            deadline = min(self._kept.deadline, self._handshake.deadline)
            for session in self._sessions.values():
                reassembly = session.reassembly
                if now >= reassembly.deadline:
                    reassembly.ask(now)
                    self._ask(session)
                deadline = min(deadline, reassembly.deadline)
            self.deadline = deadline
        return None if self.deadline == inf else self.deadline


def _outgoing(answer: Answer) -> Outgoing:
    to, datagram, where = answer
    return Outgoing((to,), datagram, where=where)
