"""Datagrams that the kernel hands over in one piece are taken exactly as if they had come one by one."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import MAIN_INSTANCE
from ordercast.wire.datagram import EPOCH_BITS
from tests.wire.cluster import Cluster, Note, known_cluster

FAULTS = ("none", "none", "none", "changed", "twice", "of another", "garbage", "dropped")


def fragments(cluster: Cluster, sender: str, number: int, size: int) -> list[bytes]:
    cluster.endpoints[sender].send(("b",), MAIN_INSTANCE, Note(number, Random(number).randbytes(size)))
    return [datagram for _, _, datagram in cluster.leave()]


def spoil(train: list[bytes], others: list[bytes], faults: list[str], random: Random) -> list[bytes]:
    """What may happen to some datagrams of a train on their way; all but the last keep their length."""
    size = len(train[0])
    spoiled: list[bytes] = []
    for datagram, fault in zip(train, faults, strict=False):
        if fault == "changed":
            at = random.randrange(len(datagram))
            datagram = datagram[:at] + bytes((datagram[at] ^ 1 << random.randrange(8),)) + datagram[at + 1 :]
        elif fault == "twice":
            spoiled.append(datagram)
        elif fault == "of another":
            datagram = others.pop()
        elif fault == "garbage":
            datagram = random.randbytes(size)
        elif fault == "dropped":
            continue
        spoiled.append(datagram)
    return [datagram.ljust(size, b"\0")[:size] for datagram in spoiled[:-1]] + [each[:size] for each in spoiled[-1:]]


@given(st.lists(st.sampled_from(FAULTS), min_size=40, max_size=40), st.integers(0, 1000), st.booleans())
def test_a_train_is_taken_as_its_datagrams_would_be(faults: list[str], seed: int, insecure: bool) -> None:
    together, apart = known_cluster(insecure=insecure), known_cluster(insecure=insecure)
    trains = []
    for cluster in (together, apart):
        others = fragments(cluster, "c", 900, 60_000)
        train = fragments(cluster, "a", 1, 20_000) + fragments(cluster, "a", 2, 20_000)
        trains.append(spoil(train, others, faults, Random(seed)))
    assert trains[0] == trains[1]
    train = trains[0]
    if not train:
        return
    one, other = together.endpoints["b"], apart.endpoints["b"]
    taken = list(one.receive_train(memoryview(b"".join(train)), len(train[0]), together.now))
    expected = [message for datagram in train for message in other.receive(datagram, apart.now)]
    assert taken == expected
    assert one.counters == other.counters
    # And what is missing is asked for in the same way.
    assert one.tick(together.now + 1) == other.tick(apart.now + 1)
    assert [bytes(each.buffer) for each in one.flush()] == [bytes(each.buffer) for each in other.flush()]


def test_a_train_in_which_the_key_changes_is_taken_whole() -> None:
    cluster = known_cluster()
    cluster.endpoints["a"]._own._enter_epoch(1)
    cluster.endpoints["a"]._own.counter = (2 << EPOCH_BITS) - 5
    train = fragments(cluster, "a", 1, 20_000)
    (taken,) = cluster.endpoints["b"].receive_train(memoryview(b"".join(train)), len(train[0]), cluster.now)
    assert taken == ("a", MAIN_INSTANCE, Note(1, Random(1).randbytes(20_000)))


def test_a_train_that_ends_in_the_middle_of_a_header_loses_only_that() -> None:
    cluster = known_cluster()
    train = fragments(cluster, "a", 1, 20_000)
    cut_short = memoryview(b"".join(train[:-1]) + train[-1][:7])
    assert not cluster.endpoints["b"].receive_train(cut_short, len(train[0]), cluster.now)
    assert cluster.endpoints["b"].counters == {"short": 1}
    assert list(cluster.endpoints["b"].receive(train[-1], cluster.now)) == [
        ("a", MAIN_INSTANCE, Note(1, Random(1).randbytes(20_000)))
    ]
