"""Handshakes that somebody without the key sends: what they make a process do, and what they do not keep it from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Any

import pytest

from ordercast.core import MAIN_INSTANCE, SiteId
from ordercast.wire import ClusterKeys, Endpoint
from ordercast.wire.datagram import DATA, HANDSHAKE_BYTES, HEADER, HELLO, REFUSAL, VERSION
from ordercast.wire.door import HANDSHAKES_MAX, PROCESSES_MIN, STARTS_MAX, Door
from ordercast.wire.refusals import Refusals
from ordercast.wire.salutes import PROVOKED_SECONDS
from ordercast.wire.session import BootKeys
from tests.wire.cluster import (
    KEY,
    NAMES,
    OTHER_KEY,
    START,
    Cluster,
    Note,
    known_cluster,
    make_cluster,
    make_endpoint,
)

PAIR = ("a", "b")
IN_ALL = 10 * PROCESSES_MIN


class Work:
    """Counts what a handshake costs: keys and ciphers that were derived. Nothing is opened or sealed without one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.derived = 0
        make_keys, make_cipher = BootKeys.__init__, BootKeys.cipher

        def counted_keys(keys: BootKeys, *arguments: Any) -> None:
            self.derived += 1
            make_keys(keys, *arguments)

        def counted_cipher(keys: BootKeys, epoch: int) -> object:
            self.derived += 1
            return make_cipher(keys, epoch)

        monkeypatch.setattr(BootKeys, "__init__", counted_keys)
        monkeypatch.setattr(BootKeys, "cipher", counted_cipher)

    def take(self) -> int:
        """Since the last time."""
        derived, self.derived = self.derived, 0
        return derived


def hello_of(endpoint: Endpoint, to: SiteId = "b", now: float = START) -> bytes:
    endpoint.tick(now)
    return next(bytes(outgoing.buffer) for outgoing in endpoint.flush() if outgoing.to == (to,))


def recorded_hellos(starts: int, each: int, name: SiteId = "a") -> list[bytes]:
    """Of earlier starts of a process, while nobody answered; as they were sent."""
    recorded = []
    for number in range(starts):
        endpoint = make_endpoint(name, seed=f"recorded {number}", processes=PAIR, incarnation=number)
        recorded += [hello_of(endpoint, now=START + second) for second in range(each)]
    return recorded


def forge(genuine: bytes, count: int) -> Iterator[bytes]:
    """Handshakes with the same sender, salt and session, later counters, and whatever an attacker makes up."""
    random = Random(0)
    readable = HEADER.size + 16 + 1 + genuine[HEADER.size + 16]
    for number in range(count):
        kind = random.randint(HELLO, REFUSAL)
        header = genuine[:1] + bytes((kind,)) + genuine[2:10] + (1000 + number).to_bytes(8)
        yield header + genuine[HEADER.size : readable] + random.randbytes(HANDSHAKE_BYTES - readable)


# ---------------------------------------------------------------------- forged
def test_a_thousand_forged_handshakes_derive_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = known_cluster()
    genuine = next(datagram for sender, receiver, datagram in cluster.sent if (sender, receiver) == ("a", "b"))
    work, b = Work(monkeypatch), cluster.endpoints["b"]
    for datagram in forge(genuine, 1000):
        b.receive(datagram, cluster.now)
    assert work.take() == 0
    assert b.counters == {"forged": 1000}
    assert not b.flush()


def test_every_bit_of_a_handshake_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = make_endpoint("a", processes=PAIR), make_endpoint("b", processes=PAIR)
    hello = hello_of(a)
    work = Work(monkeypatch)
    for bit in range(8 * len(hello)):
        changed = bytearray(hello)
        changed[bit // 8] ^= 1 << bit % 8
        b.receive(bytes(changed), START)
    assert work.take() == 0
    assert sum(b.counters.values()) == 8 * len(hello)
    # The genuine one is not the worse for it.
    b.receive(hello, START)
    assert len(b.flush()) == 1


def test_a_handshake_of_another_size_is_dropped_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = make_endpoint("a", processes=PAIR), make_endpoint("b", processes=PAIR)
    hello = hello_of(a)
    work = Work(monkeypatch)
    for size in (*range(HANDSHAKE_BYTES), HANDSHAKE_BYTES + 1, 65_000):
        b.receive(hello[:size].ljust(min(size, 1300), b"\0") if size > len(hello) else hello[:size], START)
    assert work.take() == 0
    assert b.counters == {"short": HANDSHAKE_BYTES, "forged": 2}


def test_a_mark_is_made_as_the_document_says() -> None:
    hello = hello_of(make_endpoint("a"))
    names = b"\x04bank\x01b"
    key = hashlib.blake2b(names, key=KEY, digest_size=32, person=b"ordercast mark").digest()
    assert hello[-16:] == hashlib.blake2b(hello[:-16], key=key, digest_size=16).digest()


def test_marks_of_both_keys_are_taken_while_a_key_is_rotated() -> None:
    for used in (KEY, OTHER_KEY):
        b = make_endpoint("b", ClusterKeys(KEY, OTHER_KEY), processes=PAIR)
        b.receive(hello_of(make_endpoint("a", ClusterKeys(used), processes=PAIR)), START)
        assert not b.counters
        assert len(b.flush()) == 1


# ---------------------------------------------------------------------- replayed
@pytest.mark.parametrize("known", [False, True])
def test_a_replayed_handshake_is_opened_once(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not its sender has a session."""
    cluster = make_cluster(PAIR)
    cluster.tick()
    cluster.exchange(rounds=8 if known else 1)
    recorded = [datagram for _, receiver, datagram in cluster.sent if receiver == "b"]
    work, b = Work(monkeypatch), cluster.endpoints["b"]
    b.flush()
    for datagram in recorded * 1000:
        b.receive(datagram, cluster.now)
    assert work.take() == 0
    assert not b.flush()
    assert b.counters == {"replayed": 1000 * len(recorded)}


def test_recordings_of_one_start_are_opened_at_the_rate_of_a_genuine_process() -> None:
    recorded = recorded_hellos(starts=1, each=1000)
    b = make_endpoint("b", processes=PAIR)
    for number, datagram in enumerate(recorded):
        b.receive(datagram, START + number / 1000)
    assert len(b.flush()) <= HANDSHAKES_MAX + 10
    assert b.counters["flooded"] >= 1000 - HANDSHAKES_MAX - 10


def test_recordings_of_many_starts_are_opened_at_a_bounded_rate_and_once_each() -> None:
    recorded = recorded_hellos(starts=2 * IN_ALL, each=1)
    b = make_endpoint("b", processes=PAIR)
    for datagram in recorded:
        b.receive(datagram, START)
    assert len(b.flush()) == IN_ALL
    assert b.counters == {"flooded": IN_ALL}
    for second in range(5):
        for datagram in recorded:
            b.receive(datagram, START + second)
    assert not b.flush()
    assert b.counters["replayed"] == 5 * len(recorded)


def test_what_is_remembered_of_starts_is_bounded() -> None:
    names = [f"{number:04}" for number in range(2 * STARTS_MAX)]
    a = Door("bank", "a", (), ClusterKeys(KEY), Refusals("a", frozenset()))
    b = Door("bank", "b", ("a",), ClusterKeys(KEY), Refusals("b", frozenset(PAIR)))
    sizes = []
    for name in names:
        datagram = HEADER.pack(VERSION << 8 | HELLO, name.encode() * 2, 0) + bytes(16) + b"\x01a"
        b.judge(name.encode() * 2, 0, memoryview(a.mark("b", datagram.ljust(HANDSHAKE_BYTES - 16))), START)
        sizes.append(len(b._starts))
    assert max(sizes) == STARTS_MAX
    assert sizes[-1] == STARTS_MAX


def test_what_a_process_says_to_others_does_not_push_aside_what_it_says_to_us() -> None:
    """Somebody shows b what a says to c, which has a higher counter, before b hears a."""
    a, b = make_endpoint("a"), make_endpoint("b")
    a.tick(START)
    hellos = {outgoing.to: bytes(outgoing.buffer) for outgoing in a.flush()}
    assert hellos["c",][10:18] > hellos["b",][10:18]
    b.receive(hellos["c",], START)
    assert not b.flush()
    b.receive(hellos["b",], START)
    assert len(b.flush()) == 1


# ---------------------------------------------------------------------- who gets in all the same
@pytest.mark.parametrize("incarnation", [0, 10_000])
def test_a_newcomer_gets_in_while_recordings_of_its_earlier_starts_use_the_allowance_up(incarnation: int) -> None:
    """50,000 a second from the moment at which it starts, with and without a log. The first hello may find the
    allowance used up by recordings that the receiver sees for the first time; from then on these cost nothing."""
    recorded = recorded_hellos(starts=600, each=3)
    cluster = Cluster((name, make_endpoint(name, processes=PAIR)) for name in "b")
    b = cluster.endpoints["b"]
    flood = cycle(recorded)
    for datagram in islice(flood, 2 * IN_ALL):
        b.receive(datagram, cluster.now)
    b.flush()
    assert b.counters["flooded"], "the allowance is used up"
    begin = cluster.now
    cluster.endpoints["a"] = make_endpoint("a", seed="genuine", processes=PAIR, incarnation=incarnation)
    while "a" not in b.established:
        cluster.now += 0.001
        for datagram in islice(flood, 50):
            b.receive(datagram, cluster.now)
        cluster.tick()
        cluster.exchange()
        assert cluster.now < begin + 0.1
    assert list(cluster.endpoints["a"].established) == ["b"]


def test_a_newcomer_that_is_flooded_itself_gets_to_know_the_others() -> None:
    cluster = known_cluster(PAIR)
    recorded = [datagram for _, receiver, datagram in cluster.sent if receiver == "b"] + recorded_hellos(600, 3)
    flood = cycle(recorded)
    b = cluster.endpoints["b"] = make_endpoint("b", seed="again", processes=PAIR, incarnation=1)
    begin = cluster.now
    while "a" not in b.established:
        for datagram in islice(flood, 50):
            b.receive(datagram, cluster.now)
        cluster.tick()
        cluster.exchange()
        cluster.now += 0.001
        assert cluster.now < begin + 0.4
    assert cluster.endpoints["a"].incarnation_of("b") == 1


def test_established_processes_go_on_under_a_flood_of_handshakes() -> None:
    cluster = known_cluster(PAIR)
    a, b = cluster.endpoints.values()
    genuine = cluster.sent[0][2]
    flood = cycle([*recorded_hellos(100, 3), *forge(genuine, 100)])
    for number in range(100):
        for datagram in islice(flood, 50):
            b.receive(datagram, cluster.now)
        a.send(("b",), MAIN_INSTANCE, Note(number))
        assert [message for *_, message in cluster.exchange()] == [Note(number)]


# ---------------------------------------------------------------------- nobody else is flooded with the answers
def test_no_answer_is_larger_than_what_provoked_it() -> None:
    one, other = ({"protocol": name * 500, "[options] many": list(range(500))} for name in "ab")
    differing = Cluster(
        (name, make_endpoint(name, processes=PAIR, agreed=one if name == "a" else other)) for name in PAIR
    )
    lost = known_cluster(PAIR)
    lost.endpoints["a"] = make_endpoint("a", seed="again", processes=PAIR)
    for cluster in (differing, lost, known_cluster(insecure=True)):
        cluster.pass_time(1.0)
        assert {len(datagram) for _, _, datagram in cluster.sent} == {HANDSHAKE_BYTES}


@pytest.mark.parametrize("known", [False, True])
def test_datagrams_of_unknown_sessions_provoke_a_few_hellos_whatever_their_rate(known: bool) -> None:
    cluster = known_cluster() if known else make_cluster()
    b = cluster.endpoints["b"]
    random = Random(0)
    hellos: list[SiteId] = []
    seconds = 2
    for number in range(seconds * 10_000):
        now = cluster.now + number / 10_000
        b.receive(HEADER.pack(VERSION << 8 | DATA, random.randbytes(8), number) + bytes(100), now)
        if now >= b.deadline:
            b.tick(now)
            hellos += [site for outgoing in b.flush() for site in outgoing.to]
    for site in ("a", "c"):
        # The first three to somebody who has not answered come sooner of themselves.
        assert 1 <= hellos.count(site) <= seconds / PROVOKED_SECONDS + 3
    assert set(hellos) == set(NAMES) - {"b"}


def test_each_process_is_asked_again_at_the_next_provocation_after_it_was_asked() -> None:
    """One provocation stands for all that come until everybody was asked, and no longer."""
    cluster = known_cluster()
    b = cluster.endpoints["b"]
    for number in range(5):
        stranger = HEADER.pack(VERSION << 8 | DATA, bytes(8), number) + bytes(100)
        for _ in range(3):
            b.receive(stranger, cluster.now)
        hellos: list[tuple[SiteId, ...]] = []
        while not hellos:
            cluster.now = b.deadline
            b.tick(cluster.now)
            hellos = sorted(outgoing.to for outgoing in b.flush())
        assert hellos == [("a",), ("c",)]
