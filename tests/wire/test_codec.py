"""Frames: bytes <-> messages."""

import struct
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import MAIN_INSTANCE, InstanceId, Packet, UsageError, WireError
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.wire import Codec
from tests.wire.cluster import CODEC, Note, Other

messages = st.one_of(
    st.builds(Note, st.integers(-(2**63), 2**64 - 1), st.binary(max_size=300)),
    st.builds(
        Other, st.lists(st.text()).map(tuple), st.dictionaries(st.text(), st.integers(-(2**63), 2**63), max_size=5)
    ),
)


def packed(*frames: tuple[InstanceId, Packet]) -> bytes:
    buffer, end = bytearray(), 0
    for instance, message in frames:
        end = CODEC.encode_into(instance, message, buffer, end)
    assert end == len(buffer)
    return bytes(buffer)


@given(st.lists(st.tuples(st.just(MAIN_INSTANCE), messages), min_size=1))
def test_what_is_packed_comes_out_in_order(frames: list[tuple[InstanceId, Packet]]) -> None:
    assert CODEC.decode(packed(*frames)) == frames
    assert CODEC.decode(memoryview(packed(*frames))) == frames


def test_a_frame_is_its_length_the_name_of_its_instance_and_the_message() -> None:
    note = msgspec.msgpack.encode(Note(7))
    assert packed((MAIN_INSTANCE, Note(7))) == struct.pack(">IB", 1 + len(note), 0) + note
    assert packed(("side", Note(7))) == struct.pack(">IB", 5 + len(note), 4) + b"side" + note


def test_a_frame_overwrites_what_stands_behind_its_place() -> None:
    buffer = bytearray(packed((MAIN_INSTANCE, Note(1, bytes(1000)))))
    end = CODEC.encode_into(MAIN_INSTANCE, Note(2), buffer, 0)
    assert CODEC.decode(memoryview(buffer)[:end]) == [(MAIN_INSTANCE, Note(2))]
    assert len(buffer) == end


def test_every_protocol_can_be_spoken() -> None:
    for name in PROTOCOL_NAMES:
        assert Codec({MAIN_INSTANCE: find_protocol(name).packets})


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\x00",
        b"\x00\x00\x00\x00\x00",  # a length that has no room for the name's
        packed((MAIN_INSTANCE, Note(1)))[:-1],
        packed((MAIN_INSTANCE, Note(1))) + b"\x00",
        struct.pack(">IB", 6, 4) + b"nameX",  # an instance that is not here
        struct.pack(">IB", 2, 200) + b"x",  # a name that is longer than its frame
        struct.pack(">IB", 0xFFFFFFFF, 0) + b"x",
        struct.pack(">IB", 1, 0),  # no message
        struct.pack(">IB", 2, 0) + b"\xc1",  # no msgpack
        struct.pack(">IB", 10, 0) + msgspec.msgpack.encode(["Stranger"]),
        struct.pack(">IB", 10, 0) + b"\x93\xa5Other\x91\xa1\xff",  # no UTF-8
        struct.pack(">IB", 12, 0) + b"\x92\xa5Other\xdd\xff\xff\xff\xff",  # four billion texts, it says
        struct.pack(">IB", 1 + 9, 4) + b"side" + msgspec.msgpack.encode(Other()),  # a type of another instance
    ],
)
def test_anything_else_is_a_wire_error(garbage: bytes) -> None:
    with pytest.raises(WireError):
        CODEC.decode(garbage)


@given(st.binary(max_size=200))
def test_random_bytes_are_messages_or_wire_errors(garbage: bytes) -> None:
    with suppress(WireError):
        assert CODEC.decode(garbage)


def test_a_message_that_nests_too_deep_is_a_wire_error() -> None:
    class Anything(Packet, frozen=True):
        value: object

    codec = Codec({MAIN_INSTANCE: (Anything,)})
    deep = b"\x92\xa8Anything" + b"\x91" * 100_000 + b"\xc0"
    with pytest.raises(WireError):
        codec.decode(struct.pack(">IB", 1 + len(deep), 0) + deep)


def test_a_message_that_refuses_its_fields_is_a_wire_error() -> None:
    class Picky(Packet, frozen=True):
        def __post_init__(self) -> None:
            raise UsageError("never")

    picky = msgspec.msgpack.encode(["Picky"])
    with pytest.raises(WireError):
        Codec({MAIN_INSTANCE: (Picky,)}).decode(struct.pack(">IB", 1 + len(picky), 0) + picky)


@pytest.mark.parametrize("instances", [{"": (Note,)}, {"x" * 256: (Note,)}, {MAIN_INSTANCE: ()}])
def test_instances_that_cannot_be_named_are_refused(instances: dict[InstanceId, tuple[type[Packet], ...]]) -> None:
    with pytest.raises(UsageError):
        Codec(instances)
