"""Frames for the same processes share a datagram, in order."""

import tracemalloc

import pytest

from ordercast.core import MAIN_INSTANCE, Packet, UsageError
from tests.wire.cluster import Note, Other, datagrams_of, flushed, known_cluster

BOTH = ("b", "c")


def test_frames_for_the_same_processes_share_a_datagram_in_order() -> None:
    cluster = known_cluster()
    a = cluster.endpoints["a"]
    for number in range(5):
        a.send(BOTH, MAIN_INSTANCE, Note(number))
        a.send(("b",), "side", Note(10 + number))
    first, second = a.flush()
    assert (first.to, first.segment, second.to, second.segment) == (BOTH, None, ("b",), None)
    taken = cluster.endpoints["b"].receive(first.buffer, cluster.now)
    assert taken == [("a", MAIN_INSTANCE, Note(number)) for number in range(5)]
    taken = cluster.endpoints["b"].receive(second.buffer, cluster.now)
    assert taken == [("a", "side", Note(10 + number)) for number in range(5)]


def test_nothing_leaves_twice() -> None:
    cluster = known_cluster()
    a = cluster.endpoints["a"]
    a.send(BOTH, MAIN_INSTANCE, Note(1))
    assert len(a.flush()) == 1
    assert a.flush() == []


@pytest.mark.parametrize("max_datagram", [1200, 1450, 65000])
@pytest.mark.parametrize("insecure", [False, True])
def test_no_datagram_is_longer_than_allowed_and_order_is_kept(max_datagram: int, insecure: bool) -> None:
    cluster = known_cluster(("a", "b"), max_datagram=max_datagram, insecure=insecure)
    a = cluster.endpoints["a"]
    sizes = [0, 1, 600, 600, 600, 1300, 1150, 5, 1400, 9000, 3, 3, 64_900, 70_000, 64_950, 1, 200_000, 2]
    messages = [Note(number, bytes([number]) * size) for number, size in enumerate(sizes)]
    for message in messages:
        a.send(("b",), MAIN_INSTANCE, message)
    datagrams = flushed(a)
    assert max(map(len, datagrams)) <= max_datagram
    taken = [each for datagram in datagrams for each in cluster.endpoints["b"].receive(datagram, cluster.now)]
    assert taken == [("a", MAIN_INSTANCE, message) for message in messages]


@pytest.mark.parametrize("insecure", [False, True])
def test_a_frame_that_just_fits_is_not_cut(insecure: bool) -> None:
    cluster = known_cluster(("a", "b"), max_datagram=1450, insecure=insecure)
    a = cluster.endpoints["a"]
    lengths = []
    for size in range(1350, 1430):
        a.send(("b",), MAIN_INSTANCE, Note(1, bytes(size)))
        (outgoing,) = a.flush()
        lengths.append(len(outgoing.buffer) if outgoing.segment is None else None)
    assert 1450 in lengths
    assert None in lengths
    assert lengths.index(None) == lengths.index(1450) + 1


@pytest.mark.parametrize("max_datagram", [1200, 1450, 9000])
def test_datagrams_of_one_frame_have_one_size_but_the_last(max_datagram: int) -> None:
    cluster = known_cluster(max_datagram=max_datagram)
    a = cluster.endpoints["a"]
    for size in (max_datagram, 2 * max_datagram, 60_000, 60_001, 1_000_000):
        a.send(BOTH, MAIN_INSTANCE, Note(1, bytes(size)))
        (outgoing,) = a.flush()
        assert outgoing.segment is not None
        *rest, last = datagrams_of(outgoing)
        assert {len(datagram) for datagram in rest} == {outgoing.segment}
        assert 0 < len(last) <= outgoing.segment <= max_datagram


def test_a_message_that_cannot_be_encoded_leaves_nothing_behind() -> None:
    cluster = known_cluster()
    a = cluster.endpoints["a"]
    a.send(BOTH, MAIN_INSTANCE, Note(1))
    for bad in (Note(1 << 65), Other(texts=("x" * 5000, object()))):  # type: ignore[arg-type]
        with pytest.raises((OverflowError, TypeError)):
            a.send(BOTH, MAIN_INSTANCE, bad)
        with pytest.raises((OverflowError, TypeError)):
            a.send(("b",), MAIN_INSTANCE, bad)
    a.send(BOTH, MAIN_INSTANCE, Note(2))
    assert [message for *_, message in cluster.exchange()] == [Note(1), Note(2)] * 2
    with pytest.raises((OverflowError, TypeError)):
        a.send(BOTH, MAIN_INSTANCE, Note(1 << 65))
    assert a.flush() == []
    a.send(("b",), MAIN_INSTANCE, Note(3))
    with pytest.raises((OverflowError, TypeError)):
        a.send(("b",), MAIN_INSTANCE, Other(texts=("x" * 5000, object())))  # type: ignore[arg-type]
    assert [message for *_, message in cluster.exchange()] == [Note(3)]


def test_what_cannot_be_sent_is_said() -> None:
    a = known_cluster().endpoints["a"]
    for to in (("a",), ("a", "b"), ("stranger",)):
        with pytest.raises(UsageError, match="cannot send to"):
            a.send(to, MAIN_INSTANCE, Note(1))
    with pytest.raises(UsageError, match="cannot be sent"):
        a.send(BOTH, MAIN_INSTANCE, Note(1, bytes(5 << 20)))
    a.send((), MAIN_INSTANCE, Note(1))
    assert a.flush() == []


def test_buffers_for_many_sets_of_destinations_do_not_pile_up() -> None:
    names = tuple(f"p{number:02}" for number in range(13))
    sender = known_cluster(names, processes=names, max_datagram=65000).endpoints["p00"]
    tracemalloc.start(1)
    try:
        for number in range(1, 2000):
            to = tuple(name for bit, name in enumerate(names[1:]) if number >> bit & 1)
            sender.send(to, MAIN_INSTANCE, Note(number, bytes(20_000)))
            sender.flush()
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_any_number_of_sets_of_destinations_can_be_sent_to() -> None:
    names = tuple(f"p{number:02}" for number in range(20))
    cluster = known_cluster(names, processes=names)
    sender, *others = names
    expected: list[tuple[str, Packet]] = []
    for number in range(200):
        to = tuple(name for bit, name in enumerate(others) if (number * 2654435761) >> bit & 1)
        cluster.endpoints[sender].send(to, MAIN_INSTANCE, Note(number))
        expected += [(name, Note(number)) for name in to]
    taken = [(receiver, message) for receiver, _, _, message in cluster.exchange()]
    assert sorted(taken, key=repr) == sorted(expected, key=repr)
    assert not any(endpoint.counters for endpoint in cluster.endpoints.values())
