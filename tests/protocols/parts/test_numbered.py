"""The numbered stream: its two ends alone, and together over a network that loses, repeats and reorders."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import InvariantViolation, MessageId, Multicast, Packet
from ordercast.protocols.parts.numbered import EARLY_MAX, Incoming, MeasuredOutgoing, Outgoing


class Carrier(Packet, frozen=True):
    multicast: Multicast


def sender(count: int) -> Outgoing[str]:
    """A sender's end that has sent so many, each named after its number."""
    stream: Outgoing[str] = Outgoing()
    for _ in range(count):
        stream.kept.append(str(next(stream.numbers)))
    return stream


def receiver(released: int, *early: int) -> Incoming[str]:
    """A receiver's end up to a number, with some that came early."""
    stream: Incoming[str] = Incoming()
    stream.restore(released)
    for number in early:
        stream.keep(number, str(number))
    return stream


# ---------------------------------------------------------------------- the sender's end
def test_what_is_acknowledged_is_forgotten_in_order_and_told() -> None:
    stream = sender(5)
    assert stream.acknowledge(2) == ["1", "2"]
    assert (stream.acknowledged, stream.highest, list(stream.kept)) == (2, 5, ["3", "4", "5"])
    stream.check_invariants()


@pytest.mark.parametrize("through", [-1, 0, 2, 6])
def test_an_acknowledgement_that_is_old_or_of_numbers_never_given_changes_nothing(through: int) -> None:
    stream = sender(5)
    stream.acknowledge(2)
    assert stream.acknowledge(through) == []
    assert (stream.acknowledged, stream.highest) == (2, 5)


@given(st.integers(0, 12), st.integers(0, 12), st.lists(st.tuples(st.integers(-3, 15), st.integers(-3, 15))))
def test_of_what_is_asked_for_comes_what_is_kept_each_with_its_number(
    sent: int, acknowledged: int, missing: list[tuple[int, int]]
) -> None:
    stream = sender(sent)
    stream.acknowledge(min(sent, acknowledged))
    kept = range(min(sent, acknowledged) + 1, sent + 1)
    expected = [(n, str(n)) for first, last in missing for n in range(first, last + 1) if n in kept]
    assert list(stream.asked_for(tuple(missing))) == expected


def test_after_a_crash_the_numbers_go_on() -> None:
    stream: Outgoing[str] = Outgoing()
    stream.restore(highest=4, acknowledged=2)
    stream.kept.extend("34")
    stream.check_invariants()
    assert next(stream.numbers) == 5
    assert list(stream.asked_for(((1, 9),))) == [(3, "3"), (4, "4")]


def test_a_number_that_is_given_and_not_kept_is_a_violation() -> None:
    stream = sender(2)
    next(stream.numbers)
    with pytest.raises(InvariantViolation, match="the next number is 4"):
        stream.check_invariants()


def test_looking_at_the_invariants_uses_no_number_up() -> None:
    stream = sender(2)
    stream.check_invariants()
    assert next(stream.numbers) == 3


def test_bytes_are_those_of_the_payloads_that_are_kept() -> None:
    stream: MeasuredOutgoing[Carrier] = MeasuredOutgoing("b")
    for size in (3, 5, 7):
        number = next(stream.numbers)
        stream.keep(Carrier(Multicast(MessageId("a", 0, number), ("g",), b"x" * size)))
    assert stream.kept_bytes == 15
    assert [len(packet.multicast.payload) for packet in stream.acknowledge(2)] == [3, 5]
    assert stream.kept_bytes == 7
    stream.check_invariants()
    stream.kept_bytes = 8
    with pytest.raises(InvariantViolation, match="7 bytes are kept for b, not 8"):
        stream.check_invariants()


# ---------------------------------------------------------------------- the receiver's end
def test_what_came_early_is_released_in_order_as_far_as_there_is_no_gap() -> None:
    stream = receiver(3, 6, 4, 5, 8)
    assert list(stream.release()) == ["4", "5", "6"]
    assert (stream.released, list(stream.early)) == (6, [8])
    assert list(stream.release()) == []


def test_what_is_released_counts_from_the_moment_at_which_it_is_handed_out() -> None:
    stream = receiver(0, 1, 2)
    assert [(stream.released, item) for item in stream.release()] == [(1, "1"), (2, "2")]


def test_what_is_missing_are_the_numbers_between_that_have_not_come() -> None:
    stream = receiver(3, 6, 7, 9)
    assert stream.missing(1, 12) == ((4, 5), (8, 8), (10, 12))
    assert stream.missing(5, 8) == ((5, 5), (8, 8))


def test_there_is_a_gap_when_something_exists_that_has_not_come() -> None:
    assert not receiver(3).has_gap
    assert receiver(3, 5).has_gap
    assert not receiver(3, 4, 5).has_gap, "what waits for room need not be asked for"
    stream = receiver(3, 4)
    stream.announce(5)
    assert stream.has_gap


def test_an_early_one_announces_itself_and_an_old_announcement_changes_nothing() -> None:
    stream = receiver(3, 6)
    stream.announce(5)
    assert stream.announced == 6


def test_what_overflows_is_dropped_and_still_missing() -> None:
    stream = receiver(0, *range(2, EARLY_MAX + 4))
    assert len(stream.early) == EARLY_MAX
    assert stream.missing(1, stream.announced) == ((1, 1), (EARLY_MAX + 2, EARLY_MAX + 3))


def test_what_has_its_turn_may_not_wait() -> None:
    stream = receiver(3, 5)
    stream.check_invariants()
    stream.keep(4, "4")
    with pytest.raises(InvariantViolation, match="4 waits although 3 is released"):
        stream.check_invariants()


# ---------------------------------------------------------------------- both
@given(st.integers(1, 25), st.integers(0, 10_000))
def test_everything_is_released_once_and_in_order_whatever_the_network_does(count: int, seed: int) -> None:
    """Loss, duplication and disorder, until the receiver, which is told what there is, has asked often enough."""
    random = Random(seed)
    outgoing, incoming = sender(count), Incoming[str](early_max=4)
    released: list[str] = []

    def receive(number: int, item: str) -> None:
        if number == incoming.released + 1:
            incoming.released = number
            released.append(item)
            released.extend(incoming.release())
        elif number > incoming.released:
            incoming.keep(number, item)
        incoming.check_invariants()

    on_the_way = list(enumerate(outgoing.kept, 1))
    while outgoing.kept:
        on_the_way = [packet for packet in on_the_way for _ in range(random.choice((0, 1, 1, 2)))]
        random.shuffle(on_the_way)
        for number, item in on_the_way:
            receive(number, item)
        if random.random() < 0.7:
            outgoing.acknowledge(incoming.released)
        outgoing.check_invariants()
        incoming.announce(outgoing.highest)
        on_the_way = list(outgoing.asked_for(incoming.missing(1, incoming.announced)))
    assert released == [str(number) for number in range(1, count + 1)]
