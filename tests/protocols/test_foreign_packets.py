"""Whatever a packet says that a member, or somebody who was one, sends: unknown sites, unknown groups, numbers that
nobody gave. It is taken, ignored or refused with `WireError`, which the network counts; anything else would end the
process."""

from __future__ import annotations

import types
import typing
from random import Random
from typing import Any

import msgspec
import pytest

from ordercast.core import Context, Multicast, Packet, WireError
from ordercast.core.effects import Broadcast, Send, SetTimer
from ordercast.core.events import MulticastRequested, Received, Started, TimerFired
from ordercast.core.identifiers import MessageId
from ordercast.protocols import find_protocol
from ordercast.protocols.selective_total import SelectiveTotal
from ordercast.protocols.selective_total.packets import NO_EPOCH, Abort, Epoch

GROUPS = {"g": ("a", "b", "c"), "h": ("a", "b")}
SITES = ("a", "b", "c", "d")
NAMES = ("a", "b", "c", "d", "g", "h", "nobody")
NUMBERS = (-1, 0, 1, 1, 1, 2, 3, 40, 5000)
EPOCHS = ((1, "a", 0), (1, "a", 0), (1, "a", 1), (2, "b", 0), NO_EPOCH)
PACKETS = 600


def invent(random: Random, kind: Any) -> Any:
    """Any value of a type, of few kinds: so that names and numbers meet those that exist."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind == Epoch:
        return random.choice(EPOCHS)
    if kind is str:
        return random.choice(NAMES)
    if kind is int:
        return random.choice(NUMBERS)
    if kind is float:
        return random.choice((0.0, 1.5))
    if kind is bool:
        return random.random() < 0.5
    if kind in (bytes, memoryview):
        return bytes(random.choice((0, 1, 9000)))
    if kind is type(None):
        return None
    if origin in (typing.Union, types.UnionType):
        return invent(random, random.choice(arguments))
    if origin is typing.Literal:
        return random.choice(arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return tuple(invent(random, arguments[0]) for _ in range(random.choice((0, 2, 3, 3, 3, 3, 3, 4))))
    if origin is tuple:
        return tuple(invent(random, argument) for argument in arguments)
    if origin in (list, frozenset, set):
        return origin(invent(random, arguments[0]) for _ in range(random.randint(0, 4)))
    if origin is dict:
        return {invent(random, arguments[0]): invent(random, arguments[1]) for _ in range(random.randint(0, 3))}
    if origin is typing.Annotated:
        return invent(random, arguments[0])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return kind(*(invent(random, hints[field]) for field in kind.__struct_fields__))
    raise TypeError(f"nothing is known of {kind}")


def near(random: Random, packet: Packet, sender: str) -> Packet:
    """In half of the cases the message inside is the sender's own, to groups that exist: that gets further."""
    multicast = getattr(packet, "multicast", None)
    if not isinstance(multicast, Multicast) or random.random() < 0.5:
        return packet
    own = Multicast(MessageId(sender, 0, random.randint(1, 3)), random.choice((("g",), ("h",))), multicast.payload)
    return msgspec.structs.replace(packet, multicast=own)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "name",
    [
        "fan-0",
        "fan-1",
        "fan-2",
        "fan-3",
        "sequencer",
        "two-phase",
        "lamport",
        "propagation-graph",
        "broadcast-tree",
        "selective-total",
        "three-step",
    ],
)
def test_a_packet_of_invented_names_and_numbers_is_taken_ignored_or_refused(name: str, seed: int) -> None:
    protocol, random = find_protocol(name), Random(f"{name} {seed}")
    core = protocol(Context("a", GROUPS, SITES, protocol.contract.options(), random))
    core.step(0.0, Started())
    # An abort is the end, and meant to be.
    spoken = [packet for packet in protocol.packets if packet is not Abort]
    refused = 0
    for number in range(1, PACKETS + 1):
        sender = random.choice(("b", "c", "d"))
        if isinstance(core, SelectiveTotal) and core.cluster is None and core.recovery.agreement is None:
            core.begin_cluster(EPOCHS[0], ("a", "b", "c"))
        packet = near(random, invent(random, random.choice(spoken)), sender)
        try:
            core.step(number / 100, Received(sender, packet))
        except WireError:
            refused += 1
        if number % 40 == 0:
            core.step(number / 100, MulticastRequested(Multicast(MessageId("a", 0, number), ("g",), b"payload")))
        for effect in core.outbox:
            if isinstance(effect, Send | Broadcast):
                assert type(effect.packet) in protocol.packets, "what it says, nobody understands"
        timers = {effect.timer for effect in core.outbox if isinstance(effect, SetTimer)}
        core.outbox.clear()
        if number % 10 == 0:
            for timer in sorted(timers, key=repr):
                core.step(number / 100, TimerFired(timer))
    assert name == "fan-0" or refused
