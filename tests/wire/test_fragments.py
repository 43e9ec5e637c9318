"""Frames that are larger than a datagram arrive whole, once, over networks that lose, double and reorder."""

import struct
from collections import Counter
from random import Random
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import MAIN_INSTANCE
from ordercast.wire.datagram import FRAGMENT, FRAGMENT_FIELDS, HEADER, REPAIR, Dropped
from ordercast.wire.kept_frames import BYTES_MAX as KEPT_BYTES_MAX
from ordercast.wire.kept_frames import KEEP_SECONDS, REPAIRS_PER_FRAGMENT, KeptFrame, KeptFrames
from ordercast.wire.reassembly import ASKS_MAX, BYTES_MAX, FRAMES_MAX, PATIENCE_SECONDS, RECENT, Reassembly
from ordercast.wire.session import BootKeys, OwnSession
from tests.wire.cluster import DESTINATION_BYTES, KEY, Cluster, Note, Sent, known_cluster, never

PAIR = ("a", "b")

INDEX_AT = HEADER.size + DESTINATION_BYTES + FRAGMENT_FIELDS.size - 3
"""The lower byte of a fragment's index."""


def send(cluster: Cluster, number: int, size: int = 10_000, to: tuple[str, ...] = ("b",)) -> list[Sent]:
    """The datagrams of one frame, not yet on their way."""
    payload = Random(number).randbytes(size)
    cluster.endpoints["a"].send(to, MAIN_INSTANCE, Note(number, payload))
    return cluster.leave()


def numbers_by_receiver(cluster: Cluster) -> list[tuple[str, int]]:
    """Who took what; and that it is what was sent."""
    taken = []
    for receiver, _, _, message in cluster.taken:
        assert isinstance(message, Note)
        assert message.payload == Random(message.number).randbytes(len(message.payload))
        taken.append((receiver, message.number))
    return taken


def numbers(cluster: Cluster) -> list[int]:
    return [number for _, number in numbers_by_receiver(cluster)]


def lose_a_third(sent: Sent) -> bool:
    return crc32(sent[2]) % 3 == 0


def kinds(sent: list[Sent]) -> list[int]:
    return [datagram[1] & 0x7F for _, _, datagram in sent]


# ---------------------------------------------------------------------- bad networks
@given(st.data())
def test_a_frame_of_which_something_arrives_is_taken_once_and_whole(data: st.DataObject) -> None:
    cluster = known_cluster(insecure=data.draw(st.booleans()))
    arriving: list[Sent] = []
    arrived: set[tuple[str, int]] = set()
    sizes = data.draw(st.lists(st.integers(1400, 20_000), min_size=1, max_size=4))
    for number, size in enumerate(sizes):
        for sent in send(cluster, number, size, ("b", "c")):
            copies = data.draw(st.sampled_from([0, 1, 1, 2]))
            arriving += [sent] * copies
            if copies:
                arrived.add((sent[1], number))
    for sent in data.draw(st.permutations(arriving)):
        cluster.arrive(sent)
    taken = numbers_by_receiver(cluster)
    # Some of the questions and answers are lost as well; then the network is fine.
    bad_turns = data.draw(st.integers(0, 3))
    for turn in range(20):
        cluster.now += PATIENCE_SECONDS
        cluster.tick()
        cluster.exchange(lost=lose_a_third if turn < bad_turns else never)
        taken += numbers_by_receiver(cluster)
    assert len(taken) == len(set(taken))
    assert set(taken) == arrived
    assert all("frame-lost" not in endpoint.counters for endpoint in cluster.endpoints.values())


@pytest.mark.parametrize("insecure", [False, True])
def test_frames_survive_a_network_that_loses_a_tenth(insecure: bool) -> None:
    cluster = known_cluster(insecure=insecure)
    random = Random(1)
    for number in range(200):
        arriving = send(cluster, number, 60_000, ("b", "c"))
        for sent in arriving:
            if random.random() >= 0.1:
                cluster.arrive(sent)
        cluster.pass_time(PATIENCE_SECONDS / 2, lost=lambda sent: random.random() < 0.1)
    cluster.taken = []
    cluster.pass_time(1.0, lost=lambda sent: random.random() < 0.1)
    for name in ("b", "c"):
        assert cluster.endpoints[name].counters["frame-lost"] == 0
    repaired = cluster.endpoints["a"].counters["fragments-repaired"]
    # A tenth of 200 frames, 43 fragments, 2 receivers; and some of the repairs again.
    assert 1720 <= repaired <= 2600


# ---------------------------------------------------------------------- asking
def test_missing_fragments_are_asked_for_after_a_short_silence() -> None:
    cluster = known_cluster(PAIR)
    first, *rest = send(cluster, 1)
    for sent in rest:
        cluster.arrive(sent)
    b = cluster.endpoints["b"]
    assert b.deadline == pytest.approx(cluster.now + PATIENCE_SECONDS)
    b.tick(cluster.now + PATIENCE_SECONDS / 2)
    assert cluster.leave() == []
    cluster.now += PATIENCE_SECONDS
    b.tick(cluster.now)
    (question,) = cluster.leave()
    assert kinds([question]) == [REPAIR]
    cluster.arrive(question)
    (answer,) = cluster.leave()
    assert kinds([answer]) == [FRAGMENT]
    # Sealed anew: the same bytes would be a replay of the lost datagram, whose counter may be too old by now.
    assert answer[2] != first[2]
    cluster.arrive(answer)
    assert numbers(cluster) == [1]
    assert cluster.endpoints["a"].counters == {"fragments-repaired": 1}
    assert b.counters == {"repair-asked": 1}


def test_missing_fragments_are_asked_for_at_once_when_a_later_frame_is_complete() -> None:
    cluster = known_cluster(PAIR)
    for sent in send(cluster, 1)[:-2]:
        cluster.arrive(sent)
    for sent in send(cluster, 2):
        cluster.arrive(sent)
    (question,) = cluster.leave()
    cluster.arrive(question)
    for sent in cluster.leave():
        cluster.arrive(sent)
    assert numbers(cluster) == [2, 1]
    # Once: a third frame does not make it ask again for what is on its way.
    for sent in send(cluster, 3)[1:]:
        cluster.arrive(sent)
    for sent in send(cluster, 4) + send(cluster, 5):
        cluster.arrive(sent)
    assert len(cluster.leave()) == 1


def test_only_the_one_who_asks_gets_what_is_missing() -> None:
    cluster = known_cluster()
    for sent in send(cluster, 1, 60_000, ("b", "c")):
        if sent[1] == "c" or sent[2][INDEX_AT] % 2:
            cluster.arrive(sent)
    cluster.now += PATIENCE_SECONDS
    cluster.tick()
    for sent in cluster.leave():
        cluster.arrive(sent)
    answers = cluster.leave()
    assert {receiver for _, receiver, _ in answers} == {"b"}
    assert len(answers) < 43


def test_a_receiver_asks_some_times_and_then_forgets() -> None:
    cluster = known_cluster(PAIR)
    cluster.arrive(send(cluster, 1)[0])
    b = cluster.endpoints["b"]
    times = []
    while b.deadline < cluster.now + 1.0:
        cluster.now = b.deadline
        b.tick(cluster.now)
        if b.flush():
            times.append(cluster.now)
    assert len(times) == ASKS_MAX
    assert times[-1] - times[0] < 0.1
    assert b.counters == {"repair-asked": ASKS_MAX, "frame-lost": 1}
    # A fragment that comes now does not begin it anew.
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(2))
    late = [sent for sent in cluster.sent if kinds([sent]) == [FRAGMENT]][1]
    cluster.arrive(late)
    assert b.counters["fragment-late"] == 1
    b.tick(cluster.now)
    assert b.deadline > cluster.now + 1.0, "when it looks who is there"


def test_a_receiver_far_away_learns_to_wait_for_an_answer() -> None:
    cluster = known_cluster(PAIR)
    a, b = cluster.endpoints["a"], cluster.endpoints["b"]
    round_trip = 0.03
    asked = []
    for number in range(20):
        for sent in send(cluster, number)[1:]:
            cluster.arrive(sent)
        # Questions and answers take their time.
        before = b.counters["repair-asked"]
        way: list[tuple[float, Sent]] = []
        cluster.taken = []
        while not cluster.taken:
            a.tick(cluster.now)
            b.tick(cluster.now)
            way += [(cluster.now + round_trip / 2, sent) for sent in cluster.leave()]
            for due, sent in tuple(way):
                if due <= cluster.now:
                    way.remove((due, sent))
                    cluster.arrive(sent)
            cluster.now += 0.001
        asked.append(b.counters["repair-asked"] - before)
        for _, sent in way:
            cluster.arrive(sent)
        cluster.exchange()
        cluster.now += 1.0
    assert asked[0] > 2
    assert asked[-5:] == [1] * 5


# ---------------------------------------------------------------------- attacks
def test_garbage_does_not_spoil_a_frame() -> None:
    cluster = known_cluster(PAIR)
    random = Random(1)
    for sent in send(cluster, 1):
        for _ in range(20):
            changed = bytearray(sent[2])
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
            cluster.arrive((sent[0], sent[1], bytes(changed)))
        cluster.arrive(sent)
    assert numbers(cluster) == [1]


def test_a_fragment_for_one_is_not_taken_by_another() -> None:
    cluster = known_cluster()
    for _, _, datagram in send(cluster, 1, to=("b",)):
        cluster.endpoints["c"].receive(datagram, cluster.now)
    assert set(cluster.endpoints["c"].counters) == {"misaddressed"}
    cluster.endpoints["c"].tick(cluster.now + 1.0)
    assert not cluster.endpoints["c"].flush()


def test_a_frame_is_repaired_only_for_its_receivers_and_only_when_the_question_makes_sense() -> None:
    cluster = known_cluster()
    send(cluster, 1, to=("b",))
    a = cluster.endpoints["a"]
    # A member with a mind of its own: it speaks with the keys of c's boot.
    salt = Random("c 0").randbytes(16)
    own = OwnSession(BootKeys(KEY, "bank", "c", salt), DESTINATION_BYTES)
    own.counter = 1000
    for question in (struct.pack(">QH", 0, 0), struct.pack(">QH", 77, 0), b"", bytes(8), bytes(9), bytes(11)):
        a.receive(own.seal(own.what(REPAIR), b"\x01".ljust(DESTINATION_BYTES, b"\0"), question), cluster.now)
    assert a.counters == {"repair-too-late": 2, "garbage": 4}
    assert not a.flush()


# ---------------------------------------------------------------------- bounds
def test_incomplete_frames_are_bounded_in_number() -> None:
    cluster = known_cluster(PAIR)
    frames = [send(cluster, number) for number in range(FRAMES_MAX + 10)]
    for frame in frames:
        cluster.arrive(frame[0])
    b = cluster.endpoints["b"]
    assert b.counters == {"reassembly-overflow": 10}
    # The oldest had to go.
    for frame in frames:
        for sent in frame[1:]:
            cluster.arrive(sent)
    assert numbers(cluster) == list(range(10, FRAMES_MAX + 10))


def test_incomplete_frames_are_bounded_in_bytes() -> None:
    cluster = known_cluster(PAIR, max_datagram=65000)
    for number in range(4):
        for sent in send(cluster, number, 3_500_000)[1:]:
            cluster.arrive(sent)
    assert cluster.endpoints["b"].counters["reassembly-overflow"] == 2
    assert BYTES_MAX < 4 * 3_500_000


def test_the_longest_frame_arrives_in_the_smallest_datagrams() -> None:
    cluster = known_cluster(PAIR, max_datagram=1200)
    for sent in send(cluster, 1, (4 << 20) - 100):
        cluster.arrive(sent)
    assert numbers(cluster) == [1]


def test_fragments_that_contradict_each_other_are_dropped() -> None:
    reassembly = Reassembly(Counter())
    reassembly.add(1, 0, 3, b"x", 0.0)
    for frame, index, count in ((1, 1, 4), (1, 3, 3), (1, 9, 2), (2, 0, 0), (2, 5, 5), (2, 0, 60_000)):
        with pytest.raises(Dropped, match="fragment-garbage"):
            reassembly.add(frame, index, count, b"x", 0.0)
    with pytest.raises(Dropped, match="fragment-twice"):
        reassembly.add(1, 0, 3, b"x", 0.0)
    assert reassembly.add(1, 1, 3, b"y", 0.0) is None
    assert reassembly.add(1, 2, 3, b"z", 0.0) == b"xyz"


def test_a_frame_long_past_is_not_begun_anew() -> None:
    reassembly = Reassembly(Counter())
    for frame in range(3000):
        assert reassembly.add(frame, 0, 1, b"x", 0.0) == b"x"
        for old in (frame, max(0, frame - 1), max(0, frame - 1023), max(0, frame - 1024), max(0, frame - 2000)):
            with pytest.raises(Dropped, match="fragment-late"):
                reassembly.add(old, 0, 1, b"x", 0.0)


def test_a_frame_that_is_completed_very_late_does_not_make_others_forgotten() -> None:
    reassembly = Reassembly(Counter())
    assert reassembly.add(0, 0, 2, b"x", 0.0) is None
    for frame in range(1, RECENT + 1):
        reassembly.add(frame, 0, 1, b"y", 0.0)
    assert reassembly.add(0, 1, 2, b"z", 0.0) == b"xz"
    for frame in (0, RECENT):
        with pytest.raises(Dropped, match="fragment-late"):
            reassembly.add(frame, 0, 1, b"y", 0.0)


def test_a_frame_that_lacks_almost_everything_is_asked_for_in_questions_that_fit() -> None:
    cluster = known_cluster(PAIR, max_datagram=1200)
    first, *_ = send(cluster, 1, 4_000_000)
    cluster.arrive(first)
    before = len(cluster.sent)
    cluster.taken = cluster.pass_time(0.5)
    assert numbers(cluster) == [1]
    later = cluster.sent[before:]
    assert REPAIR in kinds(later)
    assert max(len(datagram) for _, _, datagram in later) <= 1200


def test_sent_frames_are_kept_for_a_while() -> None:
    kept = KeptFrames()
    assert kept.deadline == float("inf")
    frame = KeptFrame(("b",), bytearray(1000), 100)
    kept.keep(0, frame, 10.0)
    assert kept.deadline == 10.0 + KEEP_SECONDS
    kept.turn(kept.deadline)
    assert kept.get(0) is frame
    kept.turn(kept.deadline)
    assert kept.get(0) is None
    assert kept.deadline == float("inf")


def test_sent_frames_are_bounded_in_bytes() -> None:
    kept = KeptFrames()
    size = KEPT_BYTES_MAX // 8
    for number in range(20):
        kept.keep(number, KeptFrame(("b",), bytearray(size), 1400), 0.0)
        if number == 10:
            kept.turn(5.0)
    assert [number for number in range(20) if kept.get(number)] == list(range(12, 20))


def test_repairs_of_a_frame_are_bounded() -> None:
    frame = KeptFrame(("b", "c"), bytearray(1000), 100)
    total = 0
    for _ in range(100):
        chosen = frame.take_repairs((9, 3, 3, 77, 0))
        assert chosen == sorted(set(chosen))
        assert set(chosen) <= {0, 3, 9}
        total += len(chosen)
    assert total == REPAIRS_PER_FRAGMENT * 2 * 10
