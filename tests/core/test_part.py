"""Parts: what a role or a shared piece handles is found by name, and handed to it."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.core import Contract, InvariantViolation, Packet, Part, Protocol, Record, WireError
from ordercast.core.effects import Blocked, DeclareRecovered
from ordercast.core.events import Arrival, Received, Recovered, TimerFired
from tests.core.test_protocol import make_context


class Question(Packet, frozen=True):
    number: int


class Taken(Record, frozen=True):
    number: int


class Role(Part):
    packets = (Question,)
    timers = ("look", "report")
    records = (Taken,)

    def __init__(self, host: Protocol) -> None:
        self.host = host
        self.seen: list[Any] = []

    def on_question(self, sender: str, packet: Question, arrival: Arrival) -> None:
        self.seen.append((sender, packet.number))

    def on_look_timeout(self) -> None:
        self.seen.append("look")

    def on_report_timeout(self, site: str, number: int) -> None:
        self.seen.append((site, number))

    def recall_taken(self, record: Taken) -> None:
        self.seen.append(record)

    def on_heard(self, sender: str, packet: Packet) -> bool:
        if sender == "stranger":
            raise WireError("a stranger")
        self.seen.append(f"heard {sender}")
        return sender == "neighbour"

    def finish_step(self) -> None:
        self.seen.append("finished")

    def check_invariants(self) -> None:
        if len(self.seen) > 100:
            raise InvariantViolation("too much")


class Host(Protocol):
    contract = Contract("host", "", "", (), (), "", ())
    parts = (Role,)

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.role = self.attach(Role(self))


def test_packets_and_records_of_parts_become_the_protocols() -> None:
    assert (Host.packets, Host.records) == ((Question,), (Taken,))


def test_a_part_gets_its_packets_after_it_was_told_who_is_heard_and_finishes_each_step() -> None:
    host = Host(make_context())
    host.step(0.0, Received("b", Question(7)))
    assert host.role.seen == ["heard b", ("b", 7), "finished"]


def test_what_hears_everything_can_refuse_it_before_it_is_handled() -> None:
    host = Host(make_context())
    with pytest.raises(WireError, match="stranger"):
        host.step(0.0, Received("stranger", Question(7)))
    assert host.role.seen == []


def test_what_hears_everything_can_keep_a_packet_from_its_handler_and_the_step_goes_on() -> None:
    host = Host(make_context())
    host.step(0.0, Received("neighbour", Question(7)))
    assert host.role.seen == ["heard neighbour", "finished"]


def test_a_timer_is_handled_by_its_name_and_gets_what_follows_on_it() -> None:
    host = Host(make_context())
    host.step(0.0, TimerFired("look"))
    host.step(0.0, TimerFired(("report", "b", 3)))
    assert host.role.seen == ["look", "finished", ("b", 3), "finished"]


def test_after_a_crash_every_record_goes_to_its_part_in_the_order_of_the_log() -> None:
    host = Host(make_context(incarnation=1))
    host.step(0.0, Recovered((Taken(2), Taken(1))))
    assert host.role.seen == [Taken(2), Taken(1), "finished"]
    assert host.outbox == [DeclareRecovered()]


def test_a_checkpoint_of_a_protocol_that_has_none_stops_it() -> None:
    with pytest.raises(InvariantViolation, match="no checkpoints"):
        Host(make_context(incarnation=1)).step(0.0, Recovered((), Taken(1)))


def test_invariants_of_parts_are_the_protocols() -> None:
    host = Host(make_context())
    host.check_invariants()
    host.role.seen = [0] * 101
    with pytest.raises(InvariantViolation, match="too much"):
        host.check_invariants()


def test_what_the_core_handles_itself_its_parts_do_not() -> None:
    class Jealous(Host):
        def on_question(self, sender: str, packet: Question, arrival: Arrival) -> None:
            self.branch("own")

    host = Jealous(make_context())
    host.step(0.0, Received("b", Question(7)))
    assert host.branches["own"] == 1
    assert ("b", 7) not in host.role.seen


@pytest.mark.parametrize(
    ("lists", "missing"),
    [
        ({"packets": (Question,)}, "on_question"),
        ({"timers": ("look",)}, "on_look_timeout"),
        ({"records": (Taken,)}, "recall_taken"),
    ],
)
def test_a_part_without_a_handler_is_an_error_when_the_protocol_is_made(lists: dict[str, Any], missing: str) -> None:
    deaf = type("Deaf", (Part,), lists)
    with pytest.raises(TypeError, match=missing):
        type("Made", (Protocol,), {"contract": Host.contract, "parts": (deaf,)})


def test_a_reason_to_wait_stands_until_whoever_gave_it_takes_it_back() -> None:
    core = Host(make_context())
    core.block("source", "nothing is accepted")
    core.block("center", "waiting for b")
    core.block("center", "waiting for b")
    core.block("source", "")
    core.block("source", "")
    assert core.outbox == [
        Blocked("source", "nothing is accepted"),
        Blocked("center", "waiting for b"),
        Blocked("source", ""),
    ]
    assert (core.obstacle("source"), core.obstacle("center")) == ("", "waiting for b")
