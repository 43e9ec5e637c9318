"""Sessions: a process seals everything that it says between a start and the next with keys that only that boot has.

There is one counter for all destinations, for a datagram is sealed once and goes to several. So a receiver sees gaps.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag

from ordercast.core import SiteId
from ordercast.core.forks import disown_in_forks
from ordercast.wire.datagram import (
    CHANNEL,
    EPOCH_BITS,
    EPOCH_MAX,
    FRAGMENT,
    FRAGMENT_FIELDS,
    HEADER,
    NONCE,
    PLAINTEXT,
    TAG_BYTES,
    VERSION,
    Dropped,
)
from ordercast.wire.reassembly import Fragment, Reassembly
from ordercast.wire.sealing import Cipher, Disowned, make_cipher, session_name

WINDOW = 4096
"""Counters that may still come after a higher one: 80 frames of 50 fragments, in whatever order. A power of two."""

_SLOT = WINDOW - 1

_pack_header = HEADER.pack
_pack_nonce = NONCE.pack


def _fragment_header(label_bytes: int) -> struct.Struct:
    """All that stands before the contents of a fragment; its label is its destinations or its channel."""
    return struct.Struct(f"{HEADER.format}{label_bytes}s{FRAGMENT_FIELDS.format[1:]}")


class BootKeys:
    """From what all keys of one boot of one sender are derived."""

    __slots__ = ("_cluster", "_cluster_key", "_sender", "name", "salt", "tag_bytes")

    def __init__(self, cluster_key: bytes | None, cluster: str, sender: SiteId, salt: bytes) -> None:
        self._cluster_key = cluster_key
        self.tag_bytes = 0 if cluster_key is None else TAG_BYTES
        self._cluster = cluster.encode()
        self._sender = sender.encode()
        self.salt = salt
        self.name = session_name(salt, self._cluster, self._sender)

    def under(self, cluster_key: bytes) -> BootKeys:
        """The same boot's, under another cluster key."""
        return BootKeys(cluster_key, self._cluster.decode(), self._sender.decode(), self.salt)

    def is_under(self, cluster_keys: tuple[bytes | None, ...]) -> bool:
        """Whether they are derived from one of these."""
        return self._cluster_key in cluster_keys

    def shares_key(self, other: BootKeys) -> bool:
        """Whether both are derived from the same cluster key."""
        return self._cluster_key == other._cluster_key

    def cipher(self, epoch: int) -> Cipher:
        """The cipher of an epoch."""
        return make_cipher(self._cluster_key, self.salt, self._cluster, self._sender, epoch)


class OwnSession:
    """What this process says: seals, and never uses a counter twice."""

    def __init__(self, keys: BootKeys, destination_bytes: int) -> None:
        self.keys = keys
        self.tag_bytes = keys.tag_bytes
        self._name = keys.name
        self._kind_flag = VERSION << 8 | (0 if keys.tag_bytes else PLAINTEXT)
        self._pack_fragment = _fragment_header(destination_bytes).pack
        self._pack_cast_fragment = _fragment_header(CHANNEL.size).pack
        self.header_bytes = HEADER.size + destination_bytes
        """Of a datagram with frames."""
        self._enter_epoch(0)
        disown_in_forks(self)

    def _enter_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        self.counter = epoch << EPOCH_BITS
        self._epoch_end = (epoch + 1) << EPOCH_BITS
        self._cipher = self.keys.cipher(epoch)

    def disown(self) -> None:
        """Never seal again: this is a fork of the process, and the counters are that one's."""
        self._cipher = Disowned()
        # No counter is ever there: else, after so many attempts, the next epoch would bring a cipher that seals.
        self._epoch_end = -1

    def rotate(self, cluster_key: bytes) -> None:
        """From now on seal under another cluster key: a new epoch begins, by which the others notice it."""
        # (In a fork: the new epoch would bring a cipher that seals, with counters that the parent uses too.)
        if not self.keys.is_under((cluster_key,)) and not isinstance(self._cipher, Disowned):
            self.keys = self.keys.under(cluster_key)
            self._enter_epoch(self._epoch + 1)

    def what(self, kind: int) -> int:
        """The first two bytes of a datagram of a kind, as a number."""
        return self._kind_flag | kind

    def seal(
        self, what: int, after_header: bytes, plaintext: bytes | bytearray, room: memoryview | None = None
    ) -> bytes | memoryview:
        """One datagram; `after_header` can be read by everyone and changed by nobody. Where there is `room`, it is
        written there: 64 kB in a buffer that was used a moment ago cost a third less than in new memory."""
        counter = self.counter
        if counter == self._epoch_end:
            self._enter_epoch(self._epoch + 1)
        self.counter = counter + 1
        header = _pack_header(what, self._name, counter) + after_header
        nonce = _pack_nonce(self._epoch, counter)
        if room is None:
            return header + self._cipher.encrypt(nonce, plaintext, header)
        start = len(header)
        end = start + len(plaintext) + self.tag_bytes
        room[:start] = header
        self._cipher.encrypt_into(nonce, plaintext, header, room[start:end])
        return room[:end]

    def seal_fragments(
        self,
        label: bytes,
        frame: int,
        content: bytes | bytearray,
        size: int,
        indexes: Iterable[int],
        kind: int = FRAGMENT,
    ) -> tuple[bytes, int]:
        """These fragments of a frame, cut every `size` bytes, one datagram after the other; the size of a datagram."""
        what, name = self.what(kind), self._name
        pack = self._pack_fragment if kind == FRAGMENT else self._pack_cast_fragment
        count = -(-len(content) // size)
        view = memoryview(content)
        encrypt, epoch, epoch_end, counter = self._cipher.encrypt, self._epoch, self._epoch_end, self.counter
        pieces: list[bytes] = []
        for index in indexes:
            if counter == epoch_end:
                self._enter_epoch(epoch + 1)
                encrypt, epoch, epoch_end = self._cipher.encrypt, self._epoch, self._epoch_end
            header = pack(what, name, counter, label, frame, index, count)
            start = index * size
            pieces += (header, encrypt(_pack_nonce(epoch, counter), view[start : start + size], header))
            counter += 1
        # Not stored before: whatever interrupts the loop, these datagrams have not left.
        self.counter = counter
        return b"".join(pieces), HEADER.size + len(label) + FRAGMENT_FIELDS.size + size + self.tag_bytes


class PeerSession:
    """What one boot of another process says: opens, and takes each counter once."""

    __slots__ = (
        "_cipher",
        "_destinations_at",
        "_destinations_mask",
        "_epoch",
        "_fragment",
        "_highest",
        "_next",
        "_next_keys",
        "_previous",
        "_renewals",
        "_seen",
        "header_bytes",
        "heard",
        "incarnation",
        "keys",
        "reassembly",
        "sender",
        "stable",
    )

    def __init__(
        self,
        keys: BootKeys,
        sender: SiteId,
        incarnation: int,
        stable: bool,
        place: int,
        places: int,
        counter: int,
        counters: Counter[str],
    ) -> None:
        """`place` is this process' number among the `places` for which the sender has room, -1 while it has none;
        `counter` is that of the datagram which proved that the sender is there now."""
        self.keys = keys
        self.sender = sender
        self.incarnation = incarnation
        self.stable = stable
        self.heard = 0
        """The position up to which the sender's log was stable, as far as it was heard; -1 before anything was."""
        self._renewals = 0
        self.reassembly = Reassembly(counters)
        self.header_bytes = HEADER.size + -(-places // 8)
        self._fragment = _fragment_header(-(-places // 8))
        self.take_number(place)
        self._epoch = counter >> EPOCH_BITS
        self._cipher = keys.cipher(self._epoch)
        self._previous: Cipher | None = None
        self._next: dict[BootKeys, Cipher] = {}
        """Ciphers of the next epoch, under the key in use and the one that may follow it."""
        self._next_keys: BootKeys | None = None
        # What was sent before the handshake counts as seen. Else: we crash and come back; the peer did not; somebody
        # sends us what the peer said to our last incarnation, and we have forgotten that we know it.
        self._highest = counter
        self._seen = [0] * WINDOW
        for earlier in range(counter - WINDOW + 1, counter + 1):
            self._seen[earlier & _SLOT] = earlier

    def take_number(self, place: int) -> None:
        """From now on the sender means this process by that bit; nothing of it is for us while that is -1."""
        self._destinations_at = HEADER.size + max(place, 0) // 8
        self._destinations_mask = 1 << place % 8 if place >= 0 else 0

    @property
    def has_number(self) -> bool:
        """Whether the sender has told this process by which bit it means it."""
        return self._destinations_mask != 0

    def accept(self, cluster_keys: tuple[bytes, ...]) -> None:
        """The sender may go over to another of these keys when it begins an epoch."""
        others = [key for key in cluster_keys if not self.keys.is_under((key,))]
        self._next_keys = self.keys.under(others[0]) if others else None
        self._next.clear()

    def open(self, datagram: memoryview, counter: int, header_bytes: int, for_all: bool = False) -> bytes:
        """The plaintext; `Dropped` when it is not for us or not new, `InvalidTag` when it is not genuine. What is `for
        all` has no destinations."""
        if len(datagram) <= header_bytes:
            raise Dropped("short")
        # Sealed for others, and sent to us by somebody who wants to confuse us.
        if not (for_all or datagram[self._destinations_at] & self._destinations_mask):
            raise Dropped("misaddressed")
        highest, epoch = self._highest, counter >> EPOCH_BITS
        if counter <= highest:
            if counter <= highest - WINDOW:
                raise Dropped("old")
            # A slot holds the last counter that came there, and those that share it are a window apart.
            if self._seen[counter & _SLOT] == counter:
                raise Dropped("replayed")
        cipher = self._cipher if epoch == self._epoch else self._cipher_of(epoch, self.keys)
        nonce, sealed, header = _pack_nonce(epoch, counter), datagram[header_bytes:], datagram[:header_bytes]
        try:
            plaintext = cipher.decrypt(nonce, sealed, header)
        except InvalidTag:
            if epoch <= self._epoch or self._next_keys is None:
                raise
            plaintext = self._go_over(self._next_keys, epoch, nonce, sealed, header)
            cipher = self._cipher
        # Only now: a forged datagram with a high counter must not push the window over genuine ones.
        self._seen[counter & _SLOT] = counter
        if counter > highest:
            self._highest = counter
            if epoch != self._epoch:
                # Late ones of the last epoch are still to come.
                self._previous = self._cipher
                self._cipher, self._epoch = cipher, epoch
                self._next.clear()
        return plaintext

    def open_fragments(self, what: int, train: memoryview, size: int, start: int) -> tuple[list[Fragment], int, int]:
        """Fragments that came together, every `size` bytes from `start` on, with their fields; how many of them were
        not genuine; and where the first one stands that is not simply one more of them, for `open` to judge."""
        fragments: list[Fragment] = []
        forged = 0
        unpack, header_bytes, name, end = self._fragment.unpack_from, self._fragment.size, self.keys.name, len(train)
        decrypt, epoch, seen, highest = self._cipher.decrypt, self._epoch, self._seen, self._highest
        at, mask, epoch_end = self._destinations_at - HEADER.size, self._destinations_mask, (epoch + 1) << EPOCH_BITS
        while start + header_bytes < end:
            kind, session, counter, destinations, frame, index, count = unpack(train, start)
            if kind != what or session != name or not destinations[at] & mask:
                break
            if counter > highest:
                if counter >= epoch_end:
                    break
            elif counter >> EPOCH_BITS != epoch or counter <= highest - WINDOW or seen[counter & _SLOT] == counter:
                break
            body, stop = start + header_bytes, start + size
            try:
                # The last one may be shorter: a slice ends where the train ends.
                fragment = decrypt(_pack_nonce(epoch, counter), train[body:stop], train[start:body])
            except InvalidTag:
                forged += 1
                start = stop
                continue
            seen[counter & _SLOT] = counter
            if counter > highest:
                highest = counter
            fragments.append((frame, index, count, fragment))
            start = stop
        self._highest = highest
        return fragments, forged, min(start, end)

    def _go_over(self, keys: BootKeys, epoch: int, nonce: bytes, sealed: memoryview, header: memoryview) -> bytes:
        """The plaintext of the first datagram under another cluster key; from then on there is no other."""
        cipher = self._cipher_of(epoch, keys)
        plaintext = cipher.decrypt(nonce, sealed, header)
        self._use(keys, cipher, epoch)
        return plaintext

    @property
    def signs(self) -> int:
        """Another number whenever something genuine has come."""
        return self._highest + self._renewals

    def renew(self, keys: BootKeys, counter: int) -> None:
        """The sender has proved again that it is there, perhaps under another cluster key, or many epochs later."""
        self._renewals += 1
        epoch = counter >> EPOCH_BITS
        same_key = keys.shares_key(self.keys)
        if epoch > self._epoch + same_key:
            self._use(self.keys if same_key else keys, keys.cipher(epoch), epoch)
            self._highest = self._seen[counter & _SLOT] = counter

    def _use(self, keys: BootKeys, cipher: Cipher, epoch: int) -> None:
        # Late datagrams of the last epoch are given up: whoever stole the last key could make some.
        if keys is not self.keys:
            self.keys, self._next_keys = keys, None
        self._cipher, self._epoch, self._previous = cipher, epoch, None
        self._next.clear()

    def _cipher_of(self, epoch: int, keys: BootKeys) -> Cipher:
        if epoch == self._epoch - 1 and self._previous is not None:
            return self._previous
        if epoch < self._epoch:
            raise Dropped("old")
        # To derive a key costs more than to send a datagram that asks for it, so one is derived ahead, once. A sender
        # whose network was split for several epochs tells its epoch in a handshake (see `renew`).
        if epoch != self._epoch + 1 or epoch > EPOCH_MAX:
            raise Dropped("ahead")
        if keys not in self._next:
            self._next[keys] = keys.cipher(epoch)
        return self._next[keys]
