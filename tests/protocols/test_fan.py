"""The fan: steps of single cores that no run of a campaign shows."""

from __future__ import annotations

import pytest

from ordercast.campaign import read_draw, run_draw
from ordercast.core import MessageId, Multicast
from ordercast.core.effects import Credit, Effect, SetTimer
from ordercast.core.events import MulticastRequested, Recovered, Started, TimerFired
from ordercast.protocols.fan import Fan1, Fan2, Fan3, FanOptions
from ordercast.protocols.fan.packets import Acknowledge, Data, Null, Request, Skip
from tests.protocols.classic_runs import Hand, delivered, sent

GROUPS = {"g": ("a", "b", "c")}
SITES = ("a", "b", "c")


def multicast(number: int) -> Multicast:
    return Multicast(MessageId("a", 0, number), ("g",), b"payload")


def hand(protocol: type[Fan1], site: str, options: FanOptions | None = None) -> Hand:
    hand = Hand(protocol, site, GROUPS, SITES, options)
    hand.step(Started())
    return hand


def test_a_source_forgets_the_oldest_when_its_log_has_too_many_bytes() -> None:
    source = hand(Fan2, "a", FanOptions(log_bytes_max=2 * len(b"payload")))
    for number in (1, 2, 3):
        source.step(MulticastRequested(multicast(number)))
    again = [packet for _, packet in sent(source.receive("b", Request("g", ((1, 3),))))]
    assert again == [Skip("g", 1), Data("g", 2, multicast(2)), Data("g", 3, multicast(3))]


def test_what_comes_before_its_turn_is_dropped_when_it_has_too_many_bytes_and_is_kept_again_when_there_is_room() -> (
    None
):
    site = hand(Fan2, "b", FanOptions(log_bytes_max=2 * len(b"payload")))
    for number in (2, 2, 3, 4):
        assert delivered(site.receive("a", Data("g", number, multicast(number)))) == []
    assert delivered(site.receive("a", Data("g", 1, multicast(1)))) == [multicast(number).id for number in (1, 2, 3)]
    for number in (6, 7):
        site.receive("a", Data("g", number, multicast(number)))
    site.receive("a", Data("g", 4, multicast(4)))
    came = delivered(site.receive("a", Data("g", 5, multicast(5))))
    assert came == [multicast(number).id for number in (5, 6, 7)]
    site.receive("a", Data("g", 9, multicast(9)))
    site.receive("a", Skip("g", 9))
    assert delivered(site.receive("a", Data("g", 10, multicast(10)))) == [multicast(10).id]


def test_what_comes_early_has_room_although_another_source_that_has_stopped_left_a_gap() -> None:
    """The gap of b is never filled, for b says nothing more; the message of a is asked for with what it lacks."""
    size = len(b"payload")
    site = hand(Fan2, "c", FanOptions(log_bytes_max=2 * size))
    for number in (2, 3):
        site.receive("b", Data("g", number, Multicast(MessageId("b", 0, number), ("g",), b"payload")))
    assert sent(site.receive("a", Data("g", 2, multicast(2)))) == [(("a",), Request("g", ((1, 1),)))]
    assert delivered(site.receive("a", Data("g", 1, multicast(1)))) == [multicast(1).id, multicast(2).id]
    tiny = hand(Fan2, "c", FanOptions(log_bytes_max=size - 1))
    assert sent(tiny.receive("a", Data("g", 2, multicast(2)))) == [(("a",), Request("g", ((1, 2),)))]


def test_a_source_that_is_named_says_from_the_start_that_it_has_said_nothing() -> None:
    """A site that comes back waits for every source; one whose first message is late, or never comes, would keep it
    waiting."""
    source = Hand(Fan3, "a", GROUPS, SITES, FanOptions(sources=("a",)))
    assert SetTimer(("null", "g"), 0.1) in source.step(Started())
    assert sent(source.step(TimerFired(("null", "g")))) == [(("a", "b", "c"), Null("g", 0))]
    other = Hand(Fan3, "b", GROUPS, SITES, FanOptions(sources=("a",)))
    assert not [effect for effect in other.step(Started()) if isinstance(effect, SetTimer)]


@pytest.mark.parametrize(
    "run",
    [
        "fan-2:109436",  # a source that had stopped filled the room for what comes early
        "fan-2:109535",  # more came early than a source keeps
        "fan-3:102095",  # the medium brought a site its own packets late
        "fan-3:101909",  # a source that never multicast to one of the groups
        "fan-3:900008:old-packets",  # the same
    ],
)
def test_runs_that_were_once_violated_hold_what_is_claimed(run: str) -> None:
    assert run_draw(read_draw(run)).outcome.violations == ()


def test_credit_is_for_as_many_bytes_as_the_log_takes() -> None:
    source = hand(Fan3, "a", FanOptions(log_bytes_max=4 * len(b"payload")))
    steps = [source.step(MulticastRequested(multicast(number))) for number in (1, 2, 3, 4)]
    assert _credit(steps[-1]) == 0
    after = [source.receive(member, Acknowledge("g", 4)) for member in SITES]
    assert _credit(after[-1]) == 4, "not as many as log_messages_max allows"


def _credit(effects: list[Effect]) -> int:
    return [effect.available for effect in effects if isinstance(effect, Credit)][-1]


def test_the_member_that_is_waited_for_is_named_whichever_group_finds_the_log_full_and_after_a_crash_too() -> None:
    groups = {"g": ("a", "b", "c"), "h": ("a", "b")}
    source = Hand(Fan3, "a", groups, SITES, FanOptions(log_messages_max=3))
    source.step(Started())
    for number, group in ((1, "g"), (2, "g"), (3, "h")):
        source.step(MulticastRequested(Multicast(MessageId("a", 0, number), (group,), b"payload")))
        if group == "g":
            for member in ("a", "b"):
                source.receive(member, Acknowledge("g", number))
    assert source.core.obstacle("log") == "the log of a is full: waiting for c"
    records = tuple(append.record for append in source.log)
    again = Hand(Fan3, "a", groups, SITES, FanOptions(log_messages_max=3), incarnation=1)
    again.step(Recovered(records))
    for group, number in (("g", 2), ("h", 1)):
        for member in ("a", "b"):
            again.receive(member, Acknowledge(group, number))
        again.step(TimerFired(("null", group)))
    assert again.core.obstacle("log") == ""
    again.step(MulticastRequested(Multicast(MessageId("a", 1, 1), ("h",), b"payload")))
    assert again.core.obstacle("log") == "the log of a is full: waiting for c"
    again.receive("c", Acknowledge("g", 2))
    assert again.core.obstacle("log") == ""


def test_a_request_that_was_overtaken_by_its_own_acknowledgement_needs_no_answer() -> None:
    source = hand(Fan3, "a")
    for number in (1, 2, 3):
        source.step(MulticastRequested(multicast(number)))
    for member in SITES:
        source.receive(member, Acknowledge("g", 2))
    assert sent(source.receive("b", Request("g", ((1, 3),)))) == [(("b",), Data("g", 3, multicast(3)))]
