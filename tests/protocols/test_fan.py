"""The fan: steps of single cores that no run of a campaign shows."""

from __future__ import annotations

from ordercast.core import MessageId, Multicast
from ordercast.core.events import MulticastRequested, Started
from ordercast.protocols.fan import Fan3
from ordercast.protocols.fan.packets import Acknowledge, Data, Request
from tests.protocols.classic_runs import Hand, sent

GROUPS = {"g": ("a", "b", "c")}
SITES = ("a", "b", "c")


def multicast(number: int) -> Multicast:
    return Multicast(MessageId("a", 0, number), ("g",), b"payload")


def test_a_request_that_was_overtaken_by_its_own_acknowledgement_needs_no_answer() -> None:
    source = Hand(Fan3, "a", GROUPS, SITES)
    source.step(Started())
    for number in (1, 2, 3):
        source.step(MulticastRequested(multicast(number)))
    for member in SITES:
        source.receive(member, Acknowledge("g", 2))
    assert sent(source.receive("b", Request("g", ((1, 3),)))) == [(("b",), Data("g", 3, multicast(3)))]
