"""Datagrams of a session: forged, changed, replayed and redirected ones are counted and dropped, and nothing else."""

from collections import Counter
from random import Random

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import MAIN_INSTANCE, Packet
from ordercast.wire import Codec
from ordercast.wire.datagram import DATA, EPOCH_BITS, EPOCH_MAX, HEADER, KIND_MAX, Dropped
from ordercast.wire.session import WINDOW, BootKeys, OwnSession, PeerSession
from tests.wire.cluster import (
    CODEC,
    DESTINATION_BYTES,
    KEY,
    Cluster,
    Note,
    datagrams_of,
    flushed,
    known_cluster,
    make_cluster,
    make_endpoint,
)

TO_ME = b"\x02"
SALT = bytes(16)


def send(cluster: Cluster, number: int, sender: str = "a", to: tuple[str, ...] = ("b",), size: int = 20) -> bytes:
    """One sealed datagram that has not arrived yet."""
    cluster.endpoints[sender].send(to, MAIN_INSTANCE, Note(number, bytes(size)))
    (datagram,) = flushed(cluster.endpoints[sender])
    return datagram


def numbers(cluster: Cluster, datagram: bytes, receiver: str = "b") -> list[int]:
    taken = cluster.endpoints[receiver].receive(datagram, cluster.now)
    return [message.number for _, _, message in taken if isinstance(message, Note)]


# ---------------------------------------------------------------------- attacks
@pytest.mark.parametrize("insecure", [False, True])
def test_a_replayed_datagram_is_taken_once(insecure: bool) -> None:
    cluster = known_cluster(insecure=insecure)
    datagram = send(cluster, 1)
    assert numbers(cluster, datagram) == [1]
    for _ in range(3):
        assert numbers(cluster, datagram) == []
    assert cluster.endpoints["b"].counters == {"replayed": 3}


def test_every_bit_of_a_datagram_is_protected() -> None:
    cluster = known_cluster()
    datagram = send(cluster, 1)
    for bit in range(8 * len(datagram)):
        changed = bytearray(datagram)
        changed[bit // 8] ^= 1 << bit % 8
        assert numbers(cluster, bytes(changed)) == []
    counters = cluster.endpoints["b"].counters
    assert sum(counters.values()) == 8 * len(datagram)
    # The genuine one is not the worse for it.
    assert numbers(cluster, datagram) == [1]


@pytest.mark.parametrize("insecure", [False, True])
def test_a_truncated_datagram_is_dropped_at_every_length(insecure: bool) -> None:
    cluster = known_cluster(insecure=insecure)
    for length in range(len(send(cluster, 0))):
        datagram = send(cluster, 1)
        assert numbers(cluster, datagram[:length]) == []
    assert cluster.endpoints["b"].counters["short"] >= HEADER.size


def test_a_longer_datagram_is_dropped() -> None:
    cluster = known_cluster()
    datagram = send(cluster, 1)
    assert numbers(cluster, datagram + b"\x00") == []
    assert cluster.endpoints["b"].counters == {"forged": 1}
    assert numbers(cluster, datagram) == [1]


def test_a_datagram_sealed_for_one_is_not_taken_by_another() -> None:
    cluster = known_cluster()
    datagram = send(cluster, 1, to=("b",))
    assert numbers(cluster, datagram, "c") == []
    assert cluster.endpoints["c"].counters == {"misaddressed": 1}
    # Nor can the destinations be changed.
    place = HEADER.size
    for bits in range(256):
        assert numbers(cluster, datagram[:place] + bytes((bits,)) + datagram[place + 1 :], "c") == []
    assert numbers(cluster, datagram) == [1]


def test_a_datagram_cannot_be_given_to_another_sender() -> None:
    cluster = known_cluster()
    from_a, from_c = send(cluster, 1, "a"), send(cluster, 2, "c")
    session = slice(2, 10)
    changed = from_a[:2] + from_c[session] + from_a[10:]
    assert numbers(cluster, changed) == []
    assert cluster.endpoints["b"].counters == {"forged": 1}


def test_nobody_without_the_key_can_make_a_datagram() -> None:
    cluster = known_cluster()
    genuine = send(cluster, 1)
    other = AESGCM(bytes(32))
    header = genuine[: HEADER.size + 1]
    buffer = bytearray()
    CODEC.encode_into(MAIN_INSTANCE, Note(666), buffer, 0)
    for nonce in (bytes(12), bytes(4) + genuine[10:18]):
        assert numbers(cluster, header + other.encrypt(nonce, buffer, header)) == []
        assert numbers(cluster, header + bytes(buffer)) == []
    assert cluster.endpoints["b"].counters == {"forged": 4}


def test_nobody_without_the_key_can_read_a_datagram() -> None:
    cluster = known_cluster()
    secret = b"deposit 42 100, says the branch"
    cluster.endpoints["a"].send(("b", "c"), MAIN_INSTANCE, Note(1, secret))
    cluster.endpoints["a"].send(("b", "c"), MAIN_INSTANCE, Note(1, secret * 1000))
    assert not any(secret[:8] in datagram for datagram in flushed(cluster.endpoints["a"]))


def test_a_forged_datagram_does_not_move_the_window() -> None:
    cluster = known_cluster()
    genuine = [send(cluster, number) for number in range(10)]
    high = (HEADER.unpack_from(genuine[0])[2] + 100 * WINDOW).to_bytes(8, "big")
    for datagram in genuine:
        assert numbers(cluster, datagram[:10] + high + datagram[18:]) == []
        # The same counter, not genuine: the genuine one must still be taken afterwards.
        assert numbers(cluster, datagram[:-1] + bytes((datagram[-1] ^ 1,))) == []
    assert cluster.endpoints["b"].counters == {"forged": 20}
    assert [numbers(cluster, datagram) for datagram in genuine] == [[number] for number in range(10)]


def test_every_counter_that_a_forger_can_write_is_only_dropped() -> None:
    cluster = known_cluster()
    datagram = send(cluster, 1)
    for counter in (0, 1 << 24, 1 << 32, 1 << 56, (1 << 56) - 1, (1 << 64) - 1, EPOCH_MAX << EPOCH_BITS):
        assert numbers(cluster, datagram[:10] + counter.to_bytes(8, "big") + datagram[18:]) == []
    assert numbers(cluster, datagram) == [1]


def test_other_versions_and_kinds_are_counted() -> None:
    cluster = known_cluster()
    datagram = send(cluster, 1)
    for version in (0, 1, 3, 255):
        numbers(cluster, bytes((version,)) + datagram[1:])
    for kind in (0, KIND_MAX + 1, 127):
        numbers(cluster, datagram[:1] + bytes((kind,)) + datagram[2:])
    numbers(cluster, datagram[:1] + bytes((datagram[1] | 0x80,)) + datagram[2:])
    assert cluster.endpoints["b"].counters == {"version": 4, "kind": 3, "plaintext": 1}


def test_a_member_that_talks_nonsense_is_counted() -> None:
    class Nonsense(Packet, frozen=True):
        pass

    cluster = make_cluster(("a", "b"))
    cluster.endpoints["a"] = make_endpoint("a", codec=Codec({MAIN_INSTANCE: (Nonsense,)}), processes=("a", "b"))
    cluster.introduce()
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Nonsense())
    assert cluster.exchange() == []
    assert cluster.endpoints["b"].counters == {"garbage": 1}


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=200), st.integers(0, 2**32))
def test_the_window_takes_each_counter_once_and_none_that_is_too_old(counters: list[int], seed: int) -> None:
    own, peer = make_sessions()
    random = Random(seed)
    sealed = {}
    for number in sorted(set(counters)):
        own.counter = number + 1
        sealed[number] = own.seal(own.what(DATA), TO_ME, b"x%d" % number)
    taken: set[int] = set()
    highest = 0
    for number in random.sample(counters, len(counters)):
        datagram = sealed[number]
        counter = number + 1
        if counter in taken or counter <= highest - WINDOW:
            with pytest.raises(Dropped):
                peer.open(memoryview(datagram), counter, peer.header_bytes)
        else:
            assert peer.open(memoryview(datagram), counter, peer.header_bytes) == b"x%d" % number
            taken.add(counter)
            highest = max(highest, counter)


# ---------------------------------------------------------------------- keys of sessions
def make_sessions(counter: int = 0) -> tuple[OwnSession, PeerSession]:
    """What a seals and b opens; the handshake had this counter."""
    own = OwnSession(BootKeys(KEY, "bank", "a", SALT), 1)
    return own, PeerSession(BootKeys(KEY, "bank", "a", SALT), "a", 0, True, 1, 3, counter, Counter())


def test_a_key_is_derived_as_the_document_says() -> None:
    info = b"\x04\x04bank\x01a" + (0).to_bytes(4, "big")
    cipher = AESGCM(HKDF(SHA256(), 32, SALT, info).derive(KEY))
    own, _ = make_sessions()
    datagram = own.seal(own.what(DATA), TO_ME, b"plain")
    assert cipher.decrypt(bytes(4) + datagram[10:18], datagram[19:], datagram[:19]) == b"plain"


@pytest.mark.parametrize("other", [("shop", "a"), ("ban", "ka"), ("bank", "b"), ("banka", "")])
def test_cluster_and_sender_are_part_of_the_key(other: tuple[str, str]) -> None:
    nonce, plain = bytes(12), b"plain"
    sealed = BootKeys(KEY, "bank", "a", SALT).cipher(0).encrypt(nonce, plain, b"")
    assert BootKeys(KEY, *other, SALT).cipher(0).encrypt(nonce, plain, b"") != sealed
    assert BootKeys(KEY, *other, SALT).name != BootKeys(KEY, "bank", "a", SALT).name


def test_a_boot_uses_no_counter_twice_and_no_key_for_more_than_an_epoch() -> None:
    own, peer = make_sessions()
    end = 1 << EPOCH_BITS
    own.counter = end - 3
    datagrams = [own.seal(own.what(DATA), TO_ME, b"%d" % number) for number in range(6)]
    buffer, size = own.seal_fragments(TO_ME, 0, bytes(100), 10, range(10))
    assert own.counter == end + 13
    opened = [
        peer.open(memoryview(datagram), HEADER.unpack_from(datagram)[2], peer.header_bytes) for datagram in datagrams
    ]
    assert opened == [b"%d" % number for number in range(6)]
    keys = BootKeys(KEY, "bank", "a", SALT)
    for number, datagram in enumerate(datagrams):
        epoch, counter = divmod(end - 3 + number, end)[0], end - 3 + number
        nonce = epoch.to_bytes(4, "big") + counter.to_bytes(8, "big")
        header = peer.header_bytes
        view = memoryview(datagram)
        assert keys.cipher(epoch).decrypt(nonce, view[header:], view[:header]) == b"%d" % number
    assert len(buffer) == 10 * size


def test_fragments_may_stand_across_two_epochs() -> None:
    own, peer = make_sessions()
    own.counter = (1 << EPOCH_BITS) - 5
    buffer, size = own.seal_fragments(TO_ME, 0, bytes(range(100)), 10, range(10))
    content = b"".join(
        peer.open(memoryview(buffer)[at : at + size], HEADER.unpack_from(buffer, at)[2], peer.header_bytes + 12)
        for at in range(0, len(buffer), size)
    )
    assert content == bytes(range(100))


def test_late_datagrams_of_the_last_epoch_are_still_taken() -> None:
    own, peer = make_sessions()
    own.counter = (1 << EPOCH_BITS) - 2
    datagrams = [own.seal(own.what(DATA), TO_ME, b"%d" % number) for number in range(4)]
    for number in (3, 0, 2, 1):
        datagram = memoryview(datagrams[number])
        assert peer.open(datagram, HEADER.unpack_from(datagram)[2], peer.header_bytes) == b"%d" % number


def test_a_peer_that_was_away_for_several_epochs_is_understood_again() -> None:
    """No key is derived for a datagram that only says that it is of a far epoch; the handshake proves it."""
    cluster = known_cluster()
    a, b = cluster.endpoints["a"], cluster.endpoints["b"]
    first = send(cluster, 1)
    for epoch in range(1, 8):
        a._own.counter = (epoch << EPOCH_BITS) - 1
        send(cluster, 2)
        send(cluster, 2)
    assert numbers(cluster, send(cluster, 3)) == []
    assert b.counters == {"ahead": 1}
    cluster.pass_time(0.5)
    assert numbers(cluster, send(cluster, 4)) == [4]
    assert numbers(cluster, first) == []
    assert b.counters == {"ahead": 1, "old": 1}


def test_forged_datagrams_of_later_epochs_derive_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = known_cluster()
    genuine = send(cluster, 1)
    derived: list[int] = []
    derive = BootKeys.cipher

    def counted(self: BootKeys, epoch: int) -> object:
        derived.append(epoch)
        return derive(self, epoch)

    monkeypatch.setattr(BootKeys, "cipher", counted)
    for number in range(1000):
        counter = (1 + number % 7 << EPOCH_BITS) + number
        assert numbers(cluster, genuine[:10] + counter.to_bytes(8, "big") + genuine[18:]) == []
    assert derived == [1]
    assert numbers(cluster, genuine) == [1]
    assert set(cluster.endpoints["b"].counters) == {"forged", "ahead"}


def test_an_insecure_datagram_is_the_same_without_a_tag() -> None:
    cluster = known_cluster(insecure=True)
    buffer = bytearray(8)  # how far the log is stable: there is none
    CODEC.encode_into(MAIN_INSTANCE, Note(1, bytes(20)), buffer, len(buffer))
    datagram = send(cluster, 1)
    assert datagram[:2] == b"\x04\x85"
    assert datagram[HEADER.size + DESTINATION_BYTES :] == buffer
    assert numbers(cluster, datagram) == [1]


def test_a_broadcast_is_sealed_once() -> None:
    cluster = known_cluster()
    cluster.endpoints["a"].send(("b", "c"), MAIN_INSTANCE, Note(1))
    (outgoing,) = cluster.endpoints["a"].flush()
    assert outgoing.to == ("b", "c")
    (datagram,) = datagrams_of(outgoing)
    assert (numbers(cluster, datagram, "b"), numbers(cluster, datagram, "c")) == ([1], [1])
