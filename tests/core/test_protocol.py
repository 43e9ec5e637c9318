"""The contract between a core and its driver: handlers by name, randomness by seed, sizes by encoding."""

from __future__ import annotations

import functools
import operator

import msgspec
import pytest

from ordercast.core import (
    Context,
    Contract,
    MessageId,
    Multicast,
    Options,
    Packet,
    Protocol,
    UsageError,
    WireError,
    encode,
    encoded_size,
    random_stream,
)
from ordercast.core.events import Arrival, MulticastRequested, Received
from ordercast.protocols import PROTOCOL_NAMES, find_protocol


class Ping(Packet, frozen=True):
    text: str


class Unheard(Packet, frozen=True):
    pass


class Echo(Protocol):
    contract = Contract("echo", "", "", (), (), "", ())
    packets = (Ping,)

    def on_ping(self, sender: str, packet: Ping, arrival: Arrival) -> None:
        self.send((sender,), packet)


def make_context(**changes: object) -> Context:
    given = {
        "site": "a",
        "groups": {"g": ("a", "b"), "h": ("b", "c")},
        "sites": ("a", "b", "c"),
        "options": Options(),
        "random": random_stream(1, "a"),
    }
    return Context(**(given | changes))  # type: ignore[arg-type]


def test_a_message_without_a_handler_is_an_error_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="on_ping"):

        class Deaf(Protocol):
            packets = (Ping,)


def test_a_message_goes_to_the_handler_of_its_type() -> None:
    core = Echo(make_context())
    core.step(1.0, Received("b", Ping("hello")))
    (effect,) = core.outbox
    assert effect.to == ("b",)  # type: ignore[attr-defined]
    assert core.now == 1.0


def test_a_message_that_the_protocol_does_not_speak_is_garbage_from_the_network() -> None:
    with pytest.raises(WireError, match="Unheard"):
        Echo(make_context()).step(0.0, Received("b", Unheard()))


def test_what_a_protocol_cannot_do_is_refused_to_the_caller() -> None:
    with pytest.raises(UsageError, match="cannot multicast"):
        Echo(make_context()).step(0.0, MulticastRequested(Multicast(MessageId("a", 0, 1), ("g",))))


def test_the_destinations_of_several_groups_are_named_once_and_in_order() -> None:
    context = make_context()
    message = MessageId("a", 0, 1)
    assert context.destinations(Multicast(message, ("g", "h"))) == ("a", "b", "c")
    assert context.destinations(Multicast(message, ("g",))) == ("a", "b")
    assert context.destinations(Multicast(message, (), b"", ("c",))) == ("c",)


def test_the_encoded_size_is_the_length_of_the_encoding() -> None:
    for text in ("", "x", "x" * 100_000):
        assert encoded_size(Ping(text)) == len(encode(Ping(text)))


def test_random_streams_are_the_same_for_the_same_names_and_differ_otherwise() -> None:
    first = [random_stream(7, "site", "a").random() for _ in range(2)]
    assert first[0] == first[1]
    assert random_stream(7, "site", "b").random() != first[0]
    assert random_stream(8, "site", "a").random() != first[0]
    assert random_stream(7, "sitea").random() != first[0]


def test_source_seq_grows_across_incarnations() -> None:
    assert MessageId("a", 0, 10**6).source_seq < MessageId("a", 1, 1).source_seq


def test_source_seq_of_an_incarnation_that_counts_the_time_fits_a_trace() -> None:
    assert MessageId("a", 2**31 - 1, 2**32 - 1).source_seq < 2**63


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_message_and_record_of_every_protocol_can_be_decoded_from_its_union(name: str) -> None:
    protocol = find_protocol(name)
    for types in (protocol.packets, protocol.records):
        if types:
            msgspec.msgpack.Decoder(type=functools.reduce(operator.or_, types))
    assert len({message.__name__ for message in protocol.packets}) == len(protocol.packets)


def test_an_unknown_protocol_names_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'sequencer'"):
        find_protocol("sequencr")
