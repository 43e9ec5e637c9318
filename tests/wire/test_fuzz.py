"""Random and mutated datagrams lead to messages or to counted drops, never to an exception, and memory stays bounded.

`ORDERCAST_FUZZ_DATAGRAMS=1000000 pytest tests/wire/test_fuzz.py` throws as many as that in each test.
"""

import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from ordercast.core import MAIN_INSTANCE, InstanceId, Packet, WireError
from ordercast.wire import Codec, Endpoint
from ordercast.wire.datagram import HEADER, HELLO, KIND_MAX, PLAINTEXT, VERSION
from ordercast.wire.endpoint import SIGHTINGS_MAX
from ordercast.wire.whereabouts import Address
from tests.wire.cluster import CODEC, Cluster, Note, Other, flushed, known_cluster, make_cluster, make_endpoint
from tests.wire.strangers import Network, address_of, network_of, open_endpoint

DATAGRAMS = int(os.environ.get("ORDERCAST_FUZZ_DATAGRAMS", "20000"))

MEMORY_BYTES_MAX = 48 << 20
"""Incomplete frames of two peers (8 MB each), frames kept for repair (8 MB), answers that wait, the test's own."""

FLUSH_EVERY = 64
"""Datagrams that a node takes from its socket before it sends."""
TRAIN_EVERY = 7
"""Some come in one piece with two others, as a kernel hands them over."""


@contextmanager
def bounded_memory() -> Iterator[None]:
    tracemalloc.start(1)
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------------- mutations
def flip_bit(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def set_bytes(data: bytearray, random: Random) -> None:
    if data:
        at = random.randrange(len(data))
        run = random.choice((1, 1, 2, 4, 8))
        data[at : at + run] = bytes((random.choice((0, 1, 0x7F, 0x80, 0xC1, 0xDD, 0xFF)),)) * min(run, len(data) - at)


def cut(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data) + 1) :]


def remove(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data) + 1)
    del data[at : at + random.randrange(20)]


def insert(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data) + 1)
    data[at:at] = random.randbytes(random.randrange(20))


def repeat(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data) + 1)
    data += data[at:]


def change_kind(data: bytearray, random: Random) -> None:
    if len(data) > 1:
        data[1] = random.choice((0, PLAINTEXT)) | random.randrange(HELLO, KIND_MAX + 1)


def change_counter(data: bytearray, random: Random) -> None:
    if len(data) >= HEADER.size:
        counter = int.from_bytes(data[10:18], "big") + random.choice(
            (1, 2, 100, 5000, 1 << 24, 1 << 40, 1 << 56, 1 << 63)
        )
        data[10:18] = (counter % (1 << 64)).to_bytes(8, "big")


MUTATIONS = (flip_bit, flip_bit, set_bytes, set_bytes, cut, remove, insert, repeat, change_kind, change_counter)


def mutate(original: bytes, random: Random) -> bytes:
    data = bytearray(original)
    for _ in range(random.choice((1, 1, 2, 4))):
        random.choice(MUTATIONS)(data, random)
    return bytes(data[:65_507])


def random_datagram(random: Random) -> bytes:
    """Nothing but noise, now and then behind a sound beginning."""
    noise = random.randbytes(random.choice((0, 1, 17, 18, 19, 40, 100, 1450)))
    return (
        bytes((VERSION, random.randrange(HELLO, KIND_MAX + 2) | random.choice((0, PLAINTEXT)))) + noise
        if random.random() < 0.5
        else noise
    )


# ---------------------------------------------------------------------- what really went over the network
def talk(cluster: Cluster) -> list[bytes]:
    """Everything that b is sent in a handshake and a conversation with losses, all of it delivered but the lost."""
    random = Random(1)
    a, b = cluster.endpoints["a"], cluster.endpoints["b"]
    lost = []

    def lose_some(sent: tuple[str, str, bytes]) -> bool:
        if sent[2][1] & 0x7F == 6 and random.random() < 0.2:
            lost.append(sent)
            return True
        return False

    for number in range(10):
        a.send(("b",), MAIN_INSTANCE, Note(number, random.randbytes(30)))
        a.send(("b", "c"), MAIN_INSTANCE, Other(("x", "ü"), {"y": number}))
        a.send(("b", "c"), "side", Note(number, random.randbytes(4000)))
        b.send(("a", "c"), MAIN_INSTANCE, Note(number, random.randbytes(4000)))
        cluster.pass_time(0.05, lose_some)
    cluster.pass_time(2.0)
    return [
        datagram for _, receiver, datagram in cluster.sent if receiver == "b" and (_, receiver, datagram) not in lost
    ]


def hammer(
    endpoint: Endpoint,
    make: Callable[[], bytes],
    count: int,
    now: float,
    in_trains: bool = True,
    source: Address | None = None,
) -> list[Packet]:
    """Throw datagrams at an endpoint; the messages that it takes for genuine."""
    taken = []
    for number in range(count):
        datagram = make()
        if in_trains and number % TRAIN_EVERY == 0 and datagram:
            train = memoryview(b"".join((datagram, make(), make())))
            received = endpoint.receive_train(train, len(datagram), now, source)
        else:
            received = endpoint.receive(datagram, now, source)
        for message in [message for _, _, message in received] + [cast.packet for cast in endpoint.casts]:
            taken.append(message)
            assert isinstance(message, Packet)
        endpoint.casts.clear()
        if number % FLUSH_EVERY == 0:
            now += 0.001
            endpoint.tick(now)
            endpoint.flush()
            del taken[:-100]
    return taken


# ---------------------------------------------------------------------- campaigns
def test_nobody_without_the_key_gets_a_message_in_or_disturbs() -> None:
    cluster = known_cluster()
    corpus = talk(cluster)
    b = cluster.endpoints["b"]
    b.counters.clear()
    random = Random(2)
    with bounded_memory():

        def make() -> bytes:
            choice = random.random()
            if choice < 0.1:
                return random_datagram(random)
            if choice < 0.2:
                return random.choice(corpus)  # a replay
            return mutate(random.choice(corpus), random)

        assert hammer(b, make, DATAGRAMS, cluster.now) == []
    # Every one was dropped and counted, but handshake datagrams that are what they always were.
    assert sum(b.counters.values()) >= 0.9 * DATAGRAMS
    assert {"short", "version", "kind", "plaintext", "replayed", "forged", "misaddressed", "unknown-session"} <= set(
        b.counters
    )
    assert "garbage" not in b.counters
    for number, payload in ((1, b"small"), (2, bytes(50_000))):
        cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(number, payload))
        assert [message for *_, message in cluster.exchange()] == [Note(number, payload)]
    assert b.refused is None
    assert set(b.established) == {"a", "c"}


def test_without_a_key_garbage_is_at_worst_a_message() -> None:
    corpus = talk(known_cluster(insecure=True))
    random = Random(3)
    with bounded_memory():
        for _ in range(10):
            # Sessions do not survive this for long: each round begins with sound ones.
            cluster = known_cluster(insecure=True)
            highest = 1000

            def make() -> bytes:
                nonlocal highest
                if random.random() < 0.05:
                    return random_datagram(random)
                data = bytearray(mutate(random.choice(corpus), random))
                if len(data) >= HEADER.size and random.random() < 0.5:
                    highest += 1
                    data[10:18] = highest.to_bytes(8, "big")
                return bytes(data)

            b = cluster.endpoints["b"]
            hammer(b, make, DATAGRAMS // 10, cluster.now)
            assert b.counters["garbage"] > 0


def open_talk() -> tuple[Network, list[bytes]]:
    """What b hears in a cluster that strangers may join, all of it taken."""
    network = network_of("a", "b", "c")
    a, b = network.endpoints["a"], network.endpoints["b"]
    b.join("x")
    for one, other in (("a", "b"), ("c", "b"), ("a", "c")):
        network.meet(one, other)
    heard = [datagram for _, where, datagram in network.sent if where == address_of("b")]
    heard += [stranger.announce() for stranger in (a, open_endpoint("d"), open_endpoint("e"))]
    for number in range(20):
        a.broadcast("x", MAIN_INSTANCE, Note(number, bytes(30)), 1 + number)
        a.broadcast("x", MAIN_INSTANCE, Note(number, bytes(4000)), 1 + number)
        heard += flushed(a)
    for datagram in heard:
        b.receive(datagram, network.now, address_of("a"))
    assert len(b.casts) == 40
    b.casts.clear()
    b.sightings.clear()
    b.counters.clear()
    return network, heard


def test_in_an_open_cluster_nobody_without_the_key_gets_in_or_is_heard_on_a_channel() -> None:
    network, corpus = open_talk()
    b = network.endpoints["b"]
    random = Random(5)
    with bounded_memory():

        def make() -> bytes:
            choice = random.random()
            if choice < 0.1:
                return random_datagram(random)
            return random.choice(corpus) if choice < 0.2 else mutate(random.choice(corpus), random)

        assert hammer(b, make, DATAGRAMS, network.now, source=("10.9.9.9", 9)) == []
    assert {"foreign", "forged", "replayed", "unknown-session", "not-joined"} <= set(b.counters)
    assert "garbage" not in b.counters
    assert set(b.established) == {"a", "c"}
    assert b.address_of("a") == address_of("a")
    assert all(sighting.name is None for sighting in b.sightings), "no announcement was believed"
    assert len(b.sightings) <= SIGHTINGS_MAX


class NonsenseCodec(Codec):
    """Sends the payload of a note as if that were frames."""

    def encode_into(self, instance: InstanceId, packet: Packet, buffer: bytearray, offset: int) -> int:
        assert isinstance(packet, Note)
        buffer[offset:] = packet.payload
        return len(buffer)


def frames(random: Random) -> list[bytes]:
    """Sound ones, to be mutated."""
    sound = []
    for _ in range(50):
        buffer, end = bytearray(), 0
        for _ in range(random.randrange(1, 4)):
            message = random.choice(
                (
                    Note(random.getrandbits(60), random.randbytes(random.choice((0, 5, 300, 3000)))),
                    Other(tuple("abc"[: random.randrange(4)]), {"k": random.getrandbits(40)}),
                )
            )
            instance = random.choice((MAIN_INSTANCE, "side")) if isinstance(message, Note) else MAIN_INSTANCE
            end = CODEC.encode_into(instance, message, buffer, end)
        sound.append(bytes(buffer))
    return sound


def test_a_member_that_sends_garbage_is_counted_and_goes_on_being_heard() -> None:
    cluster = make_cluster()
    random = Random(4)
    cluster.endpoints["a"] = a = make_endpoint("a", codec=NonsenseCodec({MAIN_INSTANCE: (Note,)}))
    cluster.introduce()
    b = cluster.endpoints["b"]
    sound = frames(random)
    with bounded_memory():
        waiting: list[bytes] = []

        def make() -> bytes:
            while not waiting:
                a.send(("b",), MAIN_INSTANCE, Note(0, mutate(random.choice(sound), random) or b"x"))
                waiting.extend(flushed(a))
            return waiting.pop(0)

        hammer(b, make, DATAGRAMS, cluster.now, in_trains=False)
    assert b.counters["garbage"] > DATAGRAMS / 10
    a.send(("b",), MAIN_INSTANCE, Note(0, sound[0]))
    assert len(cluster.exchange()) == len(CODEC.decode(sound[0]))


@pytest.mark.parametrize("seed", range(2))
def test_frames_are_messages_or_wire_errors(seed: int) -> None:
    random = Random(seed)
    sound = frames(random)
    errors = 0
    with bounded_memory():
        for _ in range(DATAGRAMS // 2):
            try:
                for _, message in CODEC.decode(mutate(random.choice(sound), random)):
                    assert isinstance(message, Note | Other)
            except WireError:
                errors += 1
    assert DATAGRAMS / 10 < errors < DATAGRAMS / 2
