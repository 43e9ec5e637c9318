"""Large messages are cut into pieces and put together again, whatever comes between the pieces."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest

import msgspec
import pytest

from ordercast.core import MessageId, Multicast, WireError
from ordercast.core.effects import Deliver
from ordercast.node.bundles import BUNDLE_BYTES_MAX, MAKING_MAX, PIECE_MARK, Assembly, encode_bundle, encode_pieces
from ordercast.node.deliveries import Batch, View
from ordercast.node.journal import Attachment
from ordercast.node.receiver import Receiver

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


# ------------------------------------------------------------------ the pieces that are missing, and offsets
def receiver(attachment: Attachment | None = None, in_source_order: bool = True) -> Receiver:
    return Receiver(
        [View("1", "g", ("a",))],
        1 << 20,
        attachment or Attachment(),
        history_bytes=0,
        on_taken=lambda: None,
        in_source_order=in_source_order,
    )


def deliver(to: Receiver, number: int, payload: bytes, count: int) -> None:
    to.deliver("main", Deliver(Multicast(MessageId("a", 0, number), GROUPS, payload, count=count)))


def offsets_and_gaps(of_receiver: Receiver) -> list[object]:
    """What an application sees of the group: offsets and payloads, and where the offsets go on behind gaps."""
    inbox = of_receiver.claim(GROUPS, {})
    seen: list[object] = []
    inbox.on_gap = seen.append

    def take(batch: Batch) -> None:
        seen.extend((delivery.offset, delivery.payload) for delivery in batch.deliveries())

    inbox.call(take)
    return seen


def test_a_large_message_of_which_the_beginning_is_in_a_gap_has_its_offset_all_the_same() -> None:
    """It was taken for a message in the making, and all later offsets were one lower than those of the others."""
    to = receiver()
    *_, last = encode_pieces(1, large(1))
    to.enter("g", 5)
    deliver(to, 3, last, 1)
    deliver(to, 4, encode_bundle([b"next"]), 1)
    assert offsets_and_gaps(to) == [5, 6, (6, b"next")]
    assert to.counters == {"skipped-messages": 6, "large-incomplete": 1}


def test_a_gap_that_holds_nothing_but_pieces_counts_with_the_last_one() -> None:
    to = receiver()
    first, _, last = encode_pieces(1, large(1))
    deliver(to, 1, first, 0)
    to.enter("g", 0)
    deliver(to, 3, last, 1)
    deliver(to, 4, encode_bundle([b"next"]), 1)
    assert offsets_and_gaps(to) == [1, (1, b"next")]


def test_a_last_piece_that_is_malformed_has_its_offset_all_the_same() -> None:
    to = receiver()
    deliver(to, 1, PIECE_MARK, 1)
    deliver(to, 2, encode_bundle([b"next"]), 1)
    assert offsets_and_gaps(to) == [(1, b"next")], "and everybody finds that: it is no gap"


def test_where_nobody_keeps_the_order_a_large_message_counts_when_it_is_whole() -> None:
    to = receiver(in_source_order=False)
    first, second, last = encode_pieces(1, large(1))
    for piece in (first, last, second):
        deliver(to, 1, piece, int(piece is last))
    deliver(to, 4, encode_bundle([b"next"]), 1)
    assert offsets_and_gaps(to) == [(0, large(1)), (1, b"next")]


def test_a_large_message_that_is_in_the_making_when_the_log_is_cut_is_not_lost() -> None:
    """The log knows no more of the pieces that were delivered before."""
    to = receiver()
    *pieces, last = encode_pieces(1, large(1))
    for piece in pieces:
        deliver(to, 1, piece, 0)
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(to.attachment({})), type=Attachment)
    again = receiver(kept)
    deliver(again, 1, last, 1)
    assert offsets_and_gaps(again) == [(0, large(1))]


def test_an_attachment_of_an_earlier_version_has_no_pieces() -> None:
    before = msgspec.msgpack.encode({"offsets": {"g": 3}, "untaken": [], "snapshot": None, "named": {}})
    assert msgspec.msgpack.decode(before, type=Attachment).pieces == []


def test_a_last_piece_without_the_others_is_set_aside_by_whoever_has_heard_its_source_before() -> None:
    """Everybody saw a gap at once, and no replica had a state any more."""
    first, *_, last = encode_pieces(1, large(1))
    always, newcomer = receiver(), receiver()
    newcomer.enter("g", 0)
    for to in (always, newcomer):
        deliver(to, 1, last, 1)
        deliver(to, 2, encode_bundle([b"next"]), 1)
        deliver(to, 3, last, 1)
        deliver(to, 4, PIECE_MARK + b"no head", 1)
        deliver(to, 5, encode_bundle([b"end"]), 1)
    assert offsets_and_gaps(always) == [(1, b"next"), (4, b"end")]
    assert offsets_and_gaps(newcomer) == [1, (1, b"next"), (4, b"end")], "it may have missed how that began"
    assert always.counters["bad-bundles"] == 3
    assert newcomer.counters["bad-bundles"] == 2
    newcomer.enter("g", 5)
    deliver(newcomer, 6, first, 0)
    deliver(newcomer, 7, last, 1)
    assert newcomer.counters["bad-bundles"] == 3, "it has seen how this one began"
