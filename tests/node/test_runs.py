"""Runs of clients: each number once, in every member's order alike."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import MessageId, WireError
from ordercast.node.bundles import decode_bundle, encode_bundle
from ordercast.node.keys import CLIENTS, CLIENTS_MAX, EARLY, KEYS_OF_OWNER_MAX, PLACES_OF_CLIENT_MAX, Keys, Place
from ordercast.node.runs import Run, check_count, decode_marked, decode_runs, encode_marked


def place(offset: int) -> Place:
    return Place(offset, MessageId("a", 0, offset), 0)


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 20)), max_size=60), st.integers(0, 60))
def test_a_number_counts_if_it_is_higher_than_all_before_and_a_checkpoint_remembers(
    runs: list[tuple[str, int]], cut: int
) -> None:
    keys = Keys()
    last: dict[str, int] = {}
    for offset, (client, number) in enumerate(runs):
        if offset == cut:
            keys = Keys.restore(keys.at(offset))
        own = place(offset)
        first = keys.use_number(client, number, own)
        assert (first is own) == (number > last.get(client, 0))
        last[client] = max(number, last.get(client, 0))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30, unique=True).map(sorted), st.data())
def test_what_is_taken_back_was_never_used(numbers: list[int], data: st.DataObject) -> None:
    keys = Keys()
    for offset, number in enumerate(numbers):
        keys.use_number("x", number, place(offset))
    back = data.draw(st.integers(0, len(numbers) - 1))
    keys.take_back(back)
    for offset, number in enumerate(numbers):
        assert (keys.find_number("x", number) is not None) == (offset < back)


@given(st.permutations(range(1, 9)), st.integers(0, 8))
def test_a_run_that_overtakes_the_one_that_it_has_to_follow_does_not_count_until_it_is_sent_again(
    numbers: list[int], cut: int
) -> None:
    keys, waiting, offset = Keys(), list(numbers), 0
    delivered: list[int] = []
    while waiting:
        early: list[int] = []
        for number in waiting:
            own = place(offset)
            first = keys.use_number("x", number, own, after=number - 1)
            assert first in (own, EARLY)
            (delivered if first is own else early).append(number)
            offset += 1
            if offset == cut:
                keys = Keys.restore(keys.at(offset))
        assert len(keys.at(offset).repeated) == offset - len(delivered)
        waiting = early
    assert delivered == sorted(numbers)


def test_who_cannot_know_what_a_client_has_sent_before_takes_what_comes() -> None:
    keys = Keys()
    keys.is_partial = True
    own = place(0)
    assert keys.use_number("x", 8, own, after=7) is own
    assert keys.use_number("x", 10, place(1), after=9) is EARLY


def test_what_is_taken_back_of_numbers_with_gaps_leaves_the_last_one_that_was_used() -> None:
    keys = Keys()
    for offset, number in enumerate((10, 25, 40)):
        keys.use_number("x", number, place(offset))
    keys.take_back(1)
    assert keys.last_number("x") == 10
    assert keys.last_number("y") == 0


def test_the_places_of_old_runs_are_forgotten_and_their_numbers_are_not() -> None:
    keys = Keys()
    for number in range(1, 1_000):
        keys.use_number("x", number, place(number))
    remembered = keys.find_number("x", 1_000 - PLACES_OF_CLIENT_MAX)
    forgotten = keys.find_number("x", 999 - PLACES_OF_CLIENT_MAX)
    assert remembered is not None
    assert remembered.offset == 1_000 - PLACES_OF_CLIENT_MAX
    assert forgotten is not None
    assert forgotten.offset == -1


def test_of_too_many_clients_who_was_silent_for_the_longest_time_is_forgotten() -> None:
    keys = Keys()
    for client in range(CLIENTS_MAX):
        keys.use_number(str(client), 1, place(client))
    keys.use_number("0", 2, place(CLIENTS_MAX))
    keys.use_number("one more", 1, place(CLIENTS_MAX + 1))
    assert keys.find_number("0", 2) is not None
    assert keys.find_number("1", 1) is None
    assert len(keys.at(0).numbers) == CLIENTS_MAX


def test_keys_of_all_clients_together_have_the_bound_of_the_group_alone() -> None:
    keys = Keys()
    for offset in range(2 * KEYS_OF_OWNER_MAX):
        keys.use(CLIENTS, str(offset), place(offset))
        keys.use("process", str(offset), place(offset))
    assert keys.find(CLIENTS, "0") is not None
    assert keys.find("process", "0") is None


def test_a_bundle_of_runs_says_how_much_it_holds() -> None:
    runs = [
        Run("x", 1, 2, memoryview(encode_bundle([b"1", b"2"]))),
        Run("y", 7, 1, memoryview(encode_bundle([b"3"])), ticket=5),
    ]
    packed = encode_marked(runs)
    assert decode_marked(packed, 3) == runs
    with pytest.raises(WireError, match="holds 3 messages and says that it holds 2"):
        decode_runs(packed, 2)
    with pytest.raises(WireError, match="not a bundle of runs"):
        decode_runs(packed[:-1], 3)


def test_a_run_that_does_not_hold_what_it_says_is_found() -> None:
    packed = memoryview(encode_bundle([b"1", b"2"]))
    assert Run("x", 1, 2, packed).payloads == [b"1", b"2"]
    for run in (Run("x", 1, 3, packed), Run("x", 1, 2, memoryview(b"junk"))):
        with pytest.raises(WireError):
            assert run.payloads


@pytest.mark.parametrize("count", [0, 1, 15, 16, 70_000])
def test_a_run_holds_as_many_messages_as_it_says(count: int) -> None:
    packed = encode_bundle([b"x"] * count)
    check_count(packed, count)
    with pytest.raises(WireError, match="does not hold"):
        check_count(packed, count + 1)


@pytest.mark.parametrize("packed", [b"", b"\x91", b"\x91\xc4\x01x\x00", b"\x05", b"\x81\x01\x02", b"\x91" * 100_000])
def test_what_is_no_list_of_one_value_is_no_run(packed: bytes) -> None:
    with pytest.raises(WireError):
        check_count(packed, 1)


def test_a_value_that_is_no_message_takes_its_place_and_nobody_elses() -> None:
    """(Else: 1. a client sends a number for a message. 2. Its run is ordered in one bundle with runs of others.
    3. Every member sets the bundle aside, and others' messages with it.)"""
    odd = memoryview(msgspec.msgpack.encode([b"a", 5, {"x": [1]}]))
    check_count(odd, 3)
    runs = [Run("c", 1, 3, odd), Run("d", 1, 1, memoryview(encode_bundle([b"q"])))]
    assert decode_bundle(encode_marked(runs), 4) == [b"a", b"", b"", b"q"]
