"""Packets that no sound process sends are refused, and keep no memory."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ordercast.core import Packet, WireError
from ordercast.protocols.intergroup.control import GroupReport
from ordercast.protocols.intergroup.packets import (
    ActivationPoint,
    ActivationRequest,
    Gone,
    KeepAlive,
    Retransmission,
    RetransmissionRequest,
    ViewId,
)
from tests.protocols.intergroup.data_host import VIEW, Desk, data, keep_alive

OTHER = ViewId(7, "b", 1)
BAD: dict[str, tuple[str, Packet, str | None]] = {
    "of a stranger": ("x", data("x", 1, 10), "g"),
    "of somebody else": ("b", data("c", 1, 10), "g"),
    "for another group": ("b", data("b", 1, 10, group="h"), "g"),
    "on no channel": ("b", data("b", 1, 10), None),
    "of another view": ("b", replace(data("b", 1, 10), view=OTHER), "g"),
    "without a number": ("b", replace(data("b", 1, 10), seq=0), "g"),
    "from the far future": ("b", data("b", 1, 1 << 62), "g"),
    "from before time": ("b", data("b", 1, -5), "g"),
    "a Keep Alive of a stranger": ("x", keep_alive(0, 10), "g"),
    "a Keep Alive of another view": ("b", KeepAlive(OTHER, "b", 0, 10), "g"),
    "a Keep Alive of no time": ("b", keep_alive(0, 1 << 62), "g"),
    "a repair of a stranger's message": ("b", Retransmission(data("x", 1, 10)), "g"),
    "a request for a stranger's messages": ("b", RetransmissionRequest("b", "x", ((1, 1),)), "g"),
    "a request of a stranger": ("x", RetransmissionRequest("x", "b", ((1, 1),)), "g"),
    "a request for what was never sent": ("b", RetransmissionRequest("b", "a", ((1, 1),)), "g"),
    "a request for a million messages": ("b", RetransmissionRequest("b", "c", ((1, 1_000_000),)), "g"),
    "a million requests": ("b", RetransmissionRequest("b", "c", tuple((2 * i, 2 * i) for i in range(1, 1000))), "g"),
    "a request for nothing in order": ("b", RetransmissionRequest("b", "c", ((5, 6), (2, 3))), "g"),
    "a handshake in a group that is not here": ("b", ActivationRequest("h", 1, 10), None),
    "a handshake of a stranger": ("x", ActivationRequest("g", 1, 10), None),
    "an activation point of a stranger": ("x", ActivationPoint("g", 1, VIEW, 1, 10), None),
    "an activation point of another view": ("b", ActivationPoint("g", 1, OTHER, 1, 10), None),
    "a gap of a stranger": ("x", Gone("g", 1), None),
}


def memory(desk: Desk) -> tuple[Any, ...]:
    core = desk.core
    group = core.process_groups["g"]
    streams = [(len(stream.early), stream.high, stream.passed, stream.heard) for stream in group.others]
    return len(group.buffer), streams, len(core.repair._scheduled), core.repair.tickets, core.activation._handshakes


@pytest.mark.parametrize("what", BAD)
def test_what_no_sound_process_sends_is_refused_and_forgotten(what: str) -> None:
    desk = Desk()
    before = memory(desk)
    sender, packet, group = BAD[what]
    with pytest.raises(WireError):
        desk.receive(sender, packet, group)
    assert memory(desk) == before


def test_a_number_beyond_all_measure_makes_one_ticket() -> None:
    desk = Desk()
    desk.receive("b", keep_alive(10**15, 100))
    ((request,),) = [tickets.values() for tickets in desk.core.repair.tickets.values()]
    assert len(list(request.missing.intervals())) == 1


def test_what_is_stored_of_a_sender_that_never_fills_its_gap_is_bounded() -> None:
    desk = Desk(outstanding_messages_max=10, buffer_messages_max=15)
    for seq in range(2, 500):
        desk.receive("b", data("b", seq, seq))
    group = desk.core.process_groups["g"]
    assert len(group.streams["b"].early) <= 20
    assert len(group.buffer) <= 15


def test_an_acknowledgement_above_what_was_sent_clears_nothing() -> None:
    desk = Desk()
    desk.multicast()
    desk.core.stability.on_system_report("g", GroupReport(1 << 60, "b", 3))
    assert desk.core.branches["acknowledgement-ahead"] == 1
    assert len(desk.core.process_groups["g"].buffer.own) == 1


def test_an_acknowledgement_of_too_few_clears_nothing() -> None:
    desk = Desk()
    desk.multicast()
    report = GroupReport(desk.core.clock.time, "a", 2)
    desk.core.stability.on_system_report("g", report)
    assert desk.core.branches["too-few-counted"] == 1
    desk.multicast()
    desk.fire(("recount", "g"))
    desk.core.stability.on_system_report("g", GroupReport(desk.core.clock.time, "a", 2))
    assert len(desk.core.process_groups["g"].sending.outstanding) == 1  # type: ignore[union-attr]


def test_what_is_stable_is_kept_for_one_more_round() -> None:
    desk = Desk()
    desk.multicast()
    desk.multicast()
    group = desk.core.process_groups["g"]
    desk.core.stability.on_system_report("g", GroupReport(desk.core.clock.time, "a", 3))
    assert len(group.buffer.own) == 2
    desk.fire(("clear", "g"))
    assert len(group.buffer.own) == 1
