"""The simulated disk loses exactly what a disk can lose."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import Record, encode, random_stream
from ordercast.storage import MemoryLog
from ordercast.storage.framing import RECORD_BYTES_MAX, frame, scan


class Note(Record, frozen=True):
    number: int
    text: str = ""


def read(log: MemoryLog) -> list[int]:
    decoder = msgspec.msgpack.Decoder(Note)
    return [decoder.decode(record).number for record in log.recover().records]


def test_a_crash_loses_what_was_not_synced_and_nothing_else() -> None:
    log = MemoryLog(instant=False)
    for number in range(5):
        log.append(Note(number))
    log.sync(3)
    log.crash()
    assert read(log) == [0, 1, 2]
    assert log.position == log.synced == 3


def test_an_instant_log_loses_nothing() -> None:
    log = MemoryLog()
    for number in range(5):
        log.append(Note(number))
    log.crash()
    assert read(log) == [0, 1, 2, 3, 4]


@given(st.integers(min_value=0, max_value=8), st.integers(min_value=0, max_value=8), st.integers())
def test_a_torn_crash_keeps_all_that_was_synced_and_a_prefix_of_the_rest(synced: int, rest: int, seed: int) -> None:
    log = MemoryLog(instant=False)
    for number in range(synced + rest):
        log.append(Note(number, "x" * number))
    log.sync(synced)
    log.crash_torn(random_stream(seed))
    kept = read(log)
    assert kept == list(range(len(kept)))
    assert synced <= len(kept) <= synced + rest
    log.append(Note(len(kept)))
    log.sync(log.position)
    log.crash()
    assert read(log) == list(range(len(kept) + 1)), "a torn tail does not hide what is written after it"


def test_some_torn_crash_leaves_half_a_record_and_says_how_much_was_cut_off() -> None:
    dropped = set()
    for seed in range(50):
        log = MemoryLog(instant=False)
        log.append(Note(1, "a long text that can be torn in the middle"))
        log.crash_torn(random_stream(seed))
        dropped.add(log.recover().dropped_bytes > 0)
    assert dropped == {True, False}


def test_a_checkpoint_stands_for_the_records_before_its_position_and_survives_with_those_after_it() -> None:
    log = MemoryLog()
    for number in range(4):
        log.append(Note(number))
    log.checkpoint(Note(100), position=3)
    log.crash()
    recovery = log.recover()
    assert recovery.checkpoint == encode(Note(100))
    assert [msgspec.msgpack.decode(record, type=Note).number for record in recovery.records] == [3]
    assert log.position == 4


def test_a_checkpoint_at_an_earlier_position_brings_no_record_back() -> None:
    log = MemoryLog()
    for number in range(4):
        log.append(Note(number))
    log.checkpoint(Note(100), position=2)
    log.checkpoint(Note(101), position=1)
    assert read(log) == [2, 3]


@given(st.lists(st.binary(max_size=30), max_size=6), st.data())
def test_whatever_a_byte_is_changed_to_recovery_stops_before_the_damaged_record(
    records: list[bytes], data: st.DataObject
) -> None:
    log = b"".join(frame(record) for record in records)
    if not log:
        return
    at = data.draw(st.integers(min_value=0, max_value=len(log) - 1))
    damaged = bytearray(log)
    damaged[at] ^= data.draw(st.integers(min_value=1, max_value=255))
    found, valid = scan(bytes(damaged))
    assert valid <= len(log)
    starts = [0]
    for record in records:
        starts.append(starts[-1] + len(frame(record)))
    damaged_record = max(index for index, start in enumerate(starts[:-1]) if start <= at)
    assert found == records[:damaged_record]


def test_a_length_that_no_record_has_is_garbage_and_allocates_nothing() -> None:
    assert scan((RECORD_BYTES_MAX + 1).to_bytes(4, "little") + bytes(20)) == ([], 0)
