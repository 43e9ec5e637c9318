"""Large messages are cut into pieces and put together again, whatever comes between the pieces."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest

import pytest

from ordercast.core import MessageId, WireError
from ordercast.node.bundles import BUNDLE_BYTES_MAX, MAKING_MAX, PIECE_MARK, Assembly, encode_pieces

GROUPS = ("g",)


def large(number: int, pieces: int = 3) -> bytes:
    return bytes([number]) * ((pieces - 1) * BUNDLE_BYTES_MAX)


def of(source: str, incarnation: int = 0) -> MessageId:
    return MessageId(source, incarnation, 1)


def assembly() -> Assembly:
    return Assembly(1 << 20, Counter())


def test_messages_whose_pieces_come_mixed_are_all_put_together() -> None:
    making, taken = assembly(), []
    pieces = [encode_pieces(number, large(number)) for number in range(5)]
    for round_ in zip_longest(*pieces):
        for piece in reversed(round_):
            whole = making.add(of("a"), GROUPS, piece)
            taken += [] if whole is None else [whole]
    assert taken == [large(number) for number in reversed(range(5))]


def test_sources_and_groups_have_messages_of_their_own() -> None:
    making = assembly()
    first, second, third = encode_pieces(1, large(1))
    assert making.add(of("a"), GROUPS, first) is None
    assert making.add(of("b"), GROUPS, second) is None
    assert making.add(of("a"), ("h",), third) is None
    assert making.add(of("a"), GROUPS, third) is None
    assert making.add(of("a"), GROUPS, second) == large(1)


def test_what_a_crashed_source_had_begun_is_not_mixed_with_what_it_sends_afterwards() -> None:
    making = assembly()
    old, new = encode_pieces(1, large(1)), encode_pieces(1, large(2))
    assert [making.add(of("a"), GROUPS, piece) for piece in old[:2]] == [None, None]
    assert [making.add(of("a", 1), GROUPS, piece) for piece in new] == [None, None, large(2)]


def test_what_stays_incomplete_is_bounded_and_counted() -> None:
    counters: Counter[str] = Counter()
    making = Assembly(1 << 20, counters)
    for number in range(MAKING_MAX + 3):
        making.add(of("a"), GROUPS, encode_pieces(number, large(number % 256))[0])
    assert counters == {"large-incomplete": 3}


def test_what_stays_incomplete_is_bounded_in_bytes_too() -> None:
    counters: Counter[str] = Counter()
    making = Assembly(len(large(0)), counters)
    first, *others = [encode_pieces(number, large(number)) for number in range(4)]
    for pieces in (first, *others):
        for piece in pieces[:-1]:
            assert making.add(of("a"), GROUPS, piece) is None
    assert counters == {"large-incomplete": 2}, "two of the largest fit"
    assert making.add(of("a"), GROUPS, others[-1][-1]) == large(3)
    assert making.add(of("a"), GROUPS, first[-1]) is None


@pytest.mark.parametrize(
    "payload", [PIECE_MARK, PIECE_MARK + bytes(12), encode_pieces(1, large(1, 40))[0]], ids=["short", "none", "huge"]
)
def test_what_is_no_piece_is_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        assembly().add(of("a"), GROUPS, payload)


def test_pieces_that_disagree_about_their_number_are_refused() -> None:
    making = assembly()
    making.add(of("a"), GROUPS, encode_pieces(1, large(1, 3))[0])
    with pytest.raises(WireError):
        making.add(of("a"), GROUPS, encode_pieces(1, large(1, 4))[1])
