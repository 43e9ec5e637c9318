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

import msgspec
from cryptography.exceptions import InvalidTag

from ordercast.core import InstanceId, Packet, SiteId, UsageError, WireError
from ordercast.core.memory import Memory
from ordercast.wire.codec import NAME_BYTES_MAX, Codec
from ordercast.wire.datagram import (
    DATA,
    DATAGRAM_BYTES_MAX,
    DATAGRAM_BYTES_MIN,
    FRAGMENT,
    FRAGMENT_FIELDS,
    HEADER,
    HELLO,
    PLAINTEXT,
    POSITION,
    REFUSAL,
    REPAIR,
    VERSION,
    Dropped,
)
from ordercast.wire.handshake import INCARNATION_MAX, POSITION_MAX, Handshake, History
from ordercast.wire.kept_frames import KeptFrame, KeptFrames
from ordercast.wire.keys import ClusterKeys
from ordercast.wire.reassembly import FRAME_BYTES_MAX
from ordercast.wire.sealing import SALT_BYTES
from ordercast.wire.session import BootKeys, OwnSession, PeerSession

PROCESSES_MAX = 1024
"""Every datagram has a bit for each: 128 bytes of the 1,200 that the smallest holds."""

SETS_MAX = 64
"""Sets of destinations whose buffers are kept for the next turn: some megabytes. Beyond that they are made anew."""

ANSWERS_MAX = 4096
"""Datagrams that wait for the next `flush` and were provoked from outside. Whoever floods us gets no more."""

SECRET_BYTES = 32

ROOM_FROM_BYTES = 4096
"""Datagrams from this size on are sealed into buffers that stay: new memory would cost more than what happens to it."""

_REPAIR_FRAME = struct.Struct(">Q")

_NOTHING_AGREED: Mapping[str, Any] = {}
_NO_HISTORY = History()

_unpack_header = HEADER.unpack_from
_unpack_fragment = FRAGMENT_FIELDS.unpack_from
_pack_position, _unpack_position, _POSITION_BYTES = POSITION.pack_into, POSITION.unpack_from, POSITION.size

Received = Sequence[tuple[SiteId, InstanceId, Packet]]


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """Bytes to send, to one process or the same to several."""

    to: tuple[SiteId, ...]
    buffer: bytes | memoryview
    """Valid until something is sent again."""
    segment: int | None = None
    """The buffer is several datagrams of this size, the last one perhaps shorter; None for a single one."""


class _Filling:
    """The datagram that is being filled for one set of destinations."""

    __slots__ = ("buffer", "destinations", "end", "sealed", "to")

    def __init__(self, to: tuple[SiteId, ...], destinations: bytes) -> None:
        self.to = to
        self.destinations = destinations
        self.buffer = bytearray(_POSITION_BYTES)
        self.end = 0
        """Frames fill the buffer up to here; it is not cut when they have left, so that it need not grow again."""
        self.sealed: memoryview | None = None
        """Room for the datagram when it is sealed, once there was a large one."""


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
        address: str = "",
    ) -> None:
        """Without `keys`, nothing is sealed, and nothing sealed is taken. `incarnation` is larger at each start of a
        process with a log; `stable` says whether it has one. On a channel that brings everybody everything, a process
        `hears_itself`: its own datagrams are taken like the others', where they stand among them.
        Processes that have not `agreed` on the same are refused (see `ordercast.core.agreement`), and so are those
        that have lost some of the history that is in the `memory`; `history` is what this one tells of its own.
        `address` is where it listens, for those who do not know it."""
        places = sorted({process, *processes})
        _check(cluster, places, incarnation, max_datagram)
        self.counters: Counter[str] = Counter()
        """Why datagrams were dropped, and how often frames were repaired or lost."""
        self.position = history.position
        """Up to where this process' log is stable; the others hear it."""
        self._memory = Memory() if memory is None else memory
        self._codec = codec
        self._process = process
        self._places = {site: place for place, site in enumerate(places)}
        self._destination_bytes = -(-len(places) // 8)
        boot = BootKeys(None if keys is None else keys.used, cluster, process, random_bytes(SALT_BYTES))
        self._own = own = OwnSession(boot, self._destination_bytes)
        self._data, self._fragment, self._repair = own.what(DATA), own.what(FRAGMENT), own.what(REPAIR)
        self._payload_max = max_datagram - own.header_bytes - own.tag_bytes
        self._fragment_max = self._payload_max - FRAGMENT_FIELDS.size
        self._handshake = Handshake(
            cluster,
            process,
            places,
            keys,
            own,
            incarnation,
            stable,
            random_bytes(SECRET_BYTES),
            self.counters,
            agreed,
            history,
            self._memory,
            address,
        )
        self._sessions = self._handshake.sessions
        self.established: KeysView[SiteId] = self._handshake.peers.keys()
        """The processes from which packets are taken."""
        self._hears_itself = hears_itself
        if hears_itself:
            # A session counts the datagram that proved it as taken: here it is one that was never sent.
            self._sessions[own.keys.name] = session = PeerSession(
                own.keys,
                process,
                incarnation,
                stable,
                self._places[process],
                len(places),
                own.counter,
                self.counters,
            )
            session.heard = POSITION_MAX
            own.counter += 1
        self._fillings: dict[tuple[SiteId, ...], _Filling] = {}
        self._begun: list[_Filling] = []
        self._ready: list[Outgoing] = []
        self._kept = KeptFrames()
        self._frame_number = 0
        self._max_datagram = max_datagram
        self._now = 0.0
        self.deadline = 0.0
        """When `tick` has something to do, at the earliest; infinite when never."""

    # ------------------------------------------------------------------ what is known of the others
    @property
    def present(self) -> list[SiteId]:
        """Those who have a session and are there: they say something now and then, or answer when they are greeted."""
        return self._handshake.presence.there(self._now)

    def locate_by(self, locate: Callable[[SiteId, str], bool]) -> None:
        """Call this with a process that is not configured and where it listens: it says whether the answer, which is
        among what leaves next, can be sent there."""
        self._handshake.locate = locate

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

    # ------------------------------------------------------------------ out
    def send(self, to: tuple[SiteId, ...], instance: InstanceId, packet: Packet) -> None:
        """Put a packet into the datagram for these processes, with others; it leaves with the next `flush`."""
        filling = self._fillings.get(to)
        if filling is None:
            if not to:
                return
            filling = self._new_filling(to)
        start = filling.end
        if not start:
            self._begun.append(filling)
            start = _POSITION_BYTES
        try:
            filling.end = end = self._codec.encode_into(instance, packet, filling.buffer, start)
        except BaseException:
            del filling.buffer[start:]  # a packet that cannot be encoded leaves its beginning there
            raise
        if end > self._payload_max:
            self._on_full(filling, start)

    def _new_filling(self, to: tuple[SiteId, ...]) -> _Filling:
        if len(self._fillings) >= SETS_MAX:
            self._fillings.clear()
        filling = self._fillings[to] = _Filling(to, self._destinations(to))
        return filling

    def flush(self) -> list[Outgoing]:
        """Everything that waits to leave, in order."""
        ready, begun = self._ready, self._begun
        if begun:
            for filling in begun:
                # Twice in the list, when a long frame emptied it and another frame came: sealed the first time.
                if filling.end:
                    room = None if filling.end < ROOM_FROM_BYTES else self._room(filling)
                    filling.end = 0
                    _pack_position(filling.buffer, 0, self.position)
                    ready.append(
                        Outgoing(filling.to, self._own.seal(self._data, filling.destinations, filling.buffer, room))
                    )
            begun.clear()
        self._ready = []
        return ready

    def _destinations(self, to: tuple[SiteId, ...]) -> bytes:
        bits = 0
        for site in to:
            if site not in self._places or (site == self._process and not self._hears_itself):
                raise UsageError(f"{self._process} cannot send to {site!r}: it is not among the other processes")
            bits |= 1 << self._places[site]
        return bits.to_bytes(self._destination_bytes, "little")

    def _room(self, filling: _Filling) -> memoryview:
        if filling.sealed is None:
            filling.sealed = memoryview(bytearray(self._max_datagram))
        return filling.sealed

    def _on_full(self, filling: _Filling, start: int) -> None:
        """The frame that begins at `start` does not fit any more: what stands before it leaves."""
        frame = filling.buffer
        if start > _POSITION_BYTES:
            frame = frame[start - _POSITION_BYTES :]
            del filling.buffer[start:]
            _pack_position(filling.buffer, 0, self.position)
            self._ready.append(Outgoing(filling.to, self._own.seal(self._data, filling.destinations, filling.buffer)))
            filling.end = len(frame)
            filling.buffer = frame
        if len(frame) > self._payload_max:
            # The old one is kept for repairs. The next frame is probably as long, and growing is copying.
            filling.buffer = bytearray(len(frame))
            filling.end = 0
            _pack_position(frame, 0, self.position)
            self._send_fragments(filling, frame)

    def _send_fragments(self, filling: _Filling, frame: bytearray) -> None:
        if len(frame) > FRAME_BYTES_MAX:
            raise UsageError(f"a packet of {len(frame)} bytes cannot be sent: the longest has {FRAME_BYTES_MAX}")
        count = -(-len(frame) // self._fragment_max)
        size = -(-len(frame) // count)
        number = self._frame_number
        self._frame_number += 1
        buffer, segment = self._own.seal_fragments(filling.destinations, number, frame, size, range(count))
        self._ready.append(Outgoing(filling.to, buffer, segment))
        self._kept.keep(number, KeptFrame(filling.to, frame, size), self._now)
        self.deadline = min(self.deadline, self._kept.deadline)

    # ------------------------------------------------------------------ in
    def receive(self, datagram: memoryview | bytes, now: float) -> Received:
        """The packets of a datagram. What the network brings never raises: it is dropped, and `counters` says why."""
        self._now = now
        view = datagram if type(datagram) is memoryview else memoryview(datagram)
        try:
            what, name, counter = _unpack_header(view)
            session = self._sessions.get(name)
            if session is None:
                self._receive_from_unknown(what, name, counter, view, now)
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
            else:
                self._receive_from_unknown(what, name, counter, view, now)
        except Dropped as dropped:
            self.counters[dropped.reason] += 1
            if dropped.reason == "ahead":
                self._provoke(now)
        except InvalidTag:
            self.counters["forged"] += 1
        except WireError:
            self.counters["garbage"] += 1
        except struct.error:
            self.counters["short"] += 1
        return ()

    def receive_train(self, train: memoryview, size: int, now: float) -> Received:
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
            received += self.receive(train[start : start + size], now)
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
                (position,) = _unpack_position(frame)
                if position > session.heard:
                    session.heard = position
                    self._memory.note(session.sender, position)
                received += self._codec.decode_from(session.sender, frame, _POSITION_BYTES)
            except (WireError, struct.error):
                self.counters["garbage"] += 1
        return received

    def _receive_from_unknown(self, what: int, name: bytes, counter: int, view: memoryview, now: float) -> None:
        """Not a datagram of an accepted session: a handshake, or something to drop. That is counted without raising:
        anybody can send such datagrams as often as he likes."""
        kind = what & ~PLAINTEXT & 0xFF
        if what >> 8 != VERSION:
            self._suspect(kind, view, "version")
        elif not HELLO <= kind <= REPAIR:
            self.counters["kind"] += 1
        elif what != self._own.what(kind):
            self._suspect(kind, view, "plaintext" if what & PLAINTEXT else "sealed")
        elif name == self._own.keys.name:
            self.counters["own"] += 1
        elif kind > REFUSAL:
            self.counters["unknown-session"] += 1
            self._provoke(now)
        else:
            answer = self._handshake.receive(kind, name, counter, view, now)
            self.deadline = min(self.deadline, self._handshake.deadline)
            if answer is not None:
                self._answer(answer[0], answer[1])

    def _provoke(self, now: float) -> None:
        self._handshake.provoke(now)
        self.deadline = min(self.deadline, self._handshake.deadline)

    def _suspect(self, kind: int, view: memoryview, cause: str) -> None:
        self.counters[cause] += 1
        if HELLO <= kind <= REFUSAL and len(view) > HEADER.size + SALT_BYTES:
            self._handshake.suspect(view, cause)

    def _answer(self, to: SiteId, buffer: bytes, segment: int | None = None) -> None:
        if len(self._ready) >= ANSWERS_MAX:
            raise Dropped("flooded")
        self._ready.append(Outgoing((to,), buffer, segment))

    # ------------------------------------------------------------------ repairs
    def _ask(self, session: PeerSession) -> None:
        """Send what the reassembly of a session asks for."""
        destinations = self._destinations((session.sender,))
        for frame, indexes in session.reassembly.wanted:
            content = _REPAIR_FRAME.pack(frame) + struct.pack(f">{len(indexes)}H", *indexes)
            self._ready.append(Outgoing((session.sender,), self._own.seal(self._repair, destinations, content)))
        session.reassembly.wanted.clear()

    def _receive_repair(self, session: PeerSession, content: bytes) -> None:
        """A peer lacks some fragments: it alone gets them again, sealed anew."""
        count, odd = divmod(len(content) - _REPAIR_FRAME.size, 2)
        if count < 1 or odd:
            raise Dropped("garbage")
        number, *indexes = struct.unpack(f">Q{count}H", content)
        kept = self._kept.get(number)
        if kept is None or session.sender not in kept.to:
            raise Dropped("repair-too-late")
        chosen = kept.take_repairs(indexes)
        if chosen:
            destinations = self._destinations((session.sender,))
            buffer, segment = self._own.seal_fragments(destinations, number, kept.content, kept.fragment_bytes, chosen)
            self._answer(session.sender, buffer, segment)
            self.counters["fragments-repaired"] += len(chosen)

    # ------------------------------------------------------------------ time
    def tick(self, now: float) -> float | None:
        """Say hello, ask for fragments, forget old frames, whatever is due; when to call again."""
        self._now = now
        if now >= self.deadline:
            self._kept.turn(now)
            if now >= self._handshake.deadline:
                self._ready.extend(Outgoing((site,), hello) for site, hello in self._handshake.hellos(now))
            deadline = min(self._kept.deadline, self._handshake.deadline)
            for session in self._sessions.values():
                reassembly = session.reassembly
                if now >= reassembly.deadline:
                    reassembly.ask(now)
                    self._ask(session)
                deadline = min(deadline, reassembly.deadline)
            self.deadline = deadline
        return None if self.deadline == inf else self.deadline


def _check(cluster: str, places: Sequence[SiteId], incarnation: int, max_datagram: int) -> None:
    for name in (cluster, *places):
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise UsageError(f"names of clusters and processes have 1 to {NAME_BYTES_MAX} bytes, not like {name!r}")
    if len(places) > PROCESSES_MAX:
        raise UsageError(f"a cluster has at most {PROCESSES_MAX} processes, not {len(places)}")
    if not 0 <= incarnation <= INCARNATION_MAX:
        raise UsageError(f"an incarnation is a number from 0 to {INCARNATION_MAX}, not {incarnation}")
    if not DATAGRAM_BYTES_MIN <= max_datagram <= DATAGRAM_BYTES_MAX:
        raise UsageError(
            f"max_datagram is {DATAGRAM_BYTES_MIN} to {DATAGRAM_BYTES_MAX} bytes, not {max_datagram}; "
            f"1450 fits everywhere"
        )
