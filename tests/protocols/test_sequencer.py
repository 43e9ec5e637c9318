"""The sequencer: what its sites write to their logs, and the steps that large messages go through."""

from __future__ import annotations

import pytest

from ordercast.core import MessageId, Multicast, Packet, WireError
from ordercast.core.effects import Blocked, Credit, Effect, Replay, SetTimer
from ordercast.core.events import Consumed, MulticastRequested, Recovered, TimerFired
from ordercast.protocols.classic.sequencer import Sequencer, SequencerOptions
from ordercast.protocols.classic.sequencer.packets import (
    Accepted,
    Acknowledge,
    Announce,
    Delivered,
    DeliveredOwn,
    Held,
    Ordered,
    Placed,
    Request,
    Sequenced,
    Submit,
    Submitted,
)
from tests.protocols.classic_runs import Hand, delivered, sent

GROUPS = {"g": ("a", "b", "c")}
SITES = ("a", "b", "c")
LARGE = SequencerOptions(window_messages=2, direct_bytes=1)
"""Everything goes straight from its source, and the sequencer sends places."""


def hand(site: str, options: SequencerOptions | None = None, incarnation: int = 0) -> Hand:
    return Hand(Sequencer, site, GROUPS, SITES, options, incarnation)


def multicast(source: str, number: int) -> Multicast:
    return Multicast(MessageId(source, 0, number), ("g",), b"payload")


def submit(source: str, number: int) -> Submit:
    previous = MessageId(source, 0, number - 1) if number > 1 else None
    return Submit(multicast(source, number), previous)


def ordered(source: str, number: int, place: int) -> Ordered:
    return Ordered(place, (place, place, place), multicast(source, number))


def placed(source: str, number: int, place: int) -> Placed:
    return Placed(place, (place, place, place), MessageId(source, 0, number), ("g",), None)


def records(site: Hand) -> list[type]:
    return [type(append.record) for append in site.log]


# ---------------------------------------------------------------------- the log
def test_the_sequencer_logs_a_message_once_though_it_orders_and_delivers_it() -> None:
    site = hand("a")
    assert delivered(site.receive("b", submit("b", 1))) == [MessageId("b", 0, 1)]
    assert records(site) == [Sequenced]


def test_a_source_logs_its_message_once_though_it_submits_and_delivers_it() -> None:
    site = hand("b")
    site.step(MulticastRequested(multicast("b", 1)))
    assert delivered(site.receive("a", ordered("b", 1, 1))) == [MessageId("b", 0, 1)]
    assert records(site) == [Submitted, DeliveredOwn]


def test_a_destination_logs_the_whole_message() -> None:
    site = hand("c")
    site.receive("a", ordered("b", 1, 1))
    assert records(site) == [Delivered]


def test_a_source_that_heard_of_its_message_early_logs_it_whole() -> None:
    """Told that it is accepted, a source forgets it; a checkpoint now would not have it."""
    site = hand("b")
    site.step(MulticastRequested(multicast("b", 1)))
    site.receive("a", Accepted(MessageId("b", 0, 1)))
    site.receive("a", ordered("b", 1, 1))
    assert records(site) == [Submitted, Delivered]


def replayed(site: Hand, before: Hand) -> list[Multicast]:
    effects = site.step(Recovered(tuple(append.record for append in before.log)))
    return [effect.multicast for effect in effects if isinstance(effect, Replay)]


def test_after_a_crash_the_sequencer_replays_what_it_had_ordered_and_orders_behind_it() -> None:
    before = hand("a")
    before.receive("b", submit("b", 1))
    site = hand("a", incarnation=1)
    assert replayed(site, before) == [multicast("b", 1)]
    effects = site.receive("b", submit("b", 2))
    assert delivered(effects) == [MessageId("b", 0, 2)]
    assert (("b", "c"), ordered("b", 2, 2)) in sent(effects)


def test_after_a_crash_a_source_replays_its_own_message_from_its_submission() -> None:
    before = hand("b")
    before.step(MulticastRequested(multicast("b", 1)))
    before.receive("a", ordered("b", 1, 1))
    site = hand("b", incarnation=1)
    assert replayed(site, before) == [multicast("b", 1)]
    assert delivered(site.receive("a", ordered("b", 1, 1))) == [], "it knows that this is old"


# ---------------------------------------------------------------------- what a site may not say is ignored
@pytest.mark.parametrize(
    ("site", "sender", "packet"),
    [
        ("a", "c", submit("b", 1)),
        ("c", "a", submit("b", 1)),
        ("c", "b", ordered("b", 1, 1)),
        ("c", "b", placed("b", 1, 1)),
        ("c", "b", Announce(1)),
        ("b", "c", Accepted(MessageId("b", 0, 1))),
        ("b", "c", Request(((1, 1),))),
        ("b", "c", Acknowledge(1)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Packet) else value,
)
def test_what_only_another_site_may_say_leads_to_nothing(site: str, sender: str, packet: Packet) -> None:
    receiver = hand(site)
    if site == "b":
        receiver.step(MulticastRequested(multicast("b", 1)))
    assert receiver.receive(sender, packet) == []


def test_a_message_for_others_is_not_delivered_although_it_comes() -> None:
    elsewhere = Multicast(MessageId("b", 0, 1), (), b"payload", ("a", "b"))
    assert hand("c").receive("a", Ordered(1, (1, 1), elsewhere)) == []


def test_a_large_message_reaches_the_sequencer_to_be_ordered_and_a_destination_to_wait_for_its_place() -> None:
    assert delivered(hand("a", LARGE).receive("b", submit("b", 1))) == [MessageId("b", 0, 1)]
    destination = hand("c", LARGE)
    assert destination.receive("b", submit("b", 1)) == []
    assert delivered(destination.receive("a", placed("b", 1, 1))) == [MessageId("b", 0, 1)]


# ---------------------------------------------------------------------- large messages
def test_a_destination_keeps_two_windows_of_every_source_that_come_before_their_places() -> None:
    site = hand("c", LARGE)
    bodies = [(source, number) for number in range(1, 2 * LARGE.window_messages + 1) for source in ("a", "b")]
    for source, number in bodies:
        site.receive(source, submit(source, number))
    came = [
        delivered(site.receive("a", placed(source, number, place))) for place, (source, number) in enumerate(bodies, 1)
    ]
    assert came == [[MessageId(source, 0, number)] for source, number in bodies]


# ---------------------------------------------------------------------- one timer
def test_a_source_sets_its_timer_once_for_many_messages_and_lets_it_run_out() -> None:
    site = hand("b")
    effects = site.step(MulticastRequested(multicast("b", 1)))
    assert [effect.timer for effect in effects if isinstance(effect, SetTimer)] == ["submit"]
    site.receive("a", ordered("b", 1, 1))
    effects = site.step(MulticastRequested(multicast("b", 2)))
    assert not [effect for effect in effects if isinstance(effect, SetTimer)]
    site.receive("a", ordered("b", 2, 2))
    assert site.step(TimerFired("submit")) == []
    effects = site.step(MulticastRequested(multicast("b", 3)))
    assert [effect.timer for effect in effects if isinstance(effect, SetTimer)] == ["submit"]


def test_a_source_repeats_what_nobody_accepts_after_two_time_outs_at_most() -> None:
    site = hand("b")
    site.step(MulticastRequested(multicast("b", 1)))
    site.receive("a", ordered("b", 1, 1))
    site.step(MulticastRequested(multicast("b", 2)))
    assert sent(site.step(TimerFired("submit"))) == [], "something was accepted since: perhaps it is only young"
    assert sent(site.step(TimerFired("submit"))) == [(("a",), submit("b", 2))]


# ---------------------------------------------------------------------- the history
def ordered_by(effects: list[Effect]) -> list[Ordered]:
    return [message for _, message in sent(effects) if isinstance(message, Ordered)]


def take(site: Hand, count: int, *others: str) -> list[Effect]:
    """The application here has taken so many, and so have others, who say it."""
    effects = site.step(Consumed(count))
    for other in others:
        effects += site.receive(other, Acknowledge(count))
    return effects


def test_a_full_history_holds_the_next_message_until_every_destination_has_taken_one() -> None:
    site = hand("a", SequencerOptions(history_messages_max=2, acknowledge_every=1))
    for number in (1, 2):
        assert ordered_by(site.receive("b", submit("b", number)))
    effects = site.receive("b", submit("b", 3))
    assert not ordered_by(effects)
    for member in SITES:
        assert Blocked(f"history of {member}", f"the history is full: waiting for {member}") in effects
    assert not ordered_by(take(site, 1, "b"))
    effects = site.receive("c", Acknowledge(1))
    assert [message.multicast.id.number for message in ordered_by(effects)] == [3]
    assert Blocked("history of c", "") in effects
    assert not ordered_by(site.receive("b", submit("b", 4)))


def test_a_history_is_bounded_by_its_bytes_too() -> None:
    site = hand("a", SequencerOptions(history_bytes_max=2 * len(b"payload"), acknowledge_every=1))
    ordered_numbers = [
        message.multicast.id.number
        for number in (1, 2, 3)
        for message in ordered_by(site.receive("b", submit("b", number)))
    ]
    assert ordered_numbers == [1, 2]
    assert ordered_by(take(site, 1, "b", "c"))


def test_a_message_that_finds_room_elsewhere_does_not_take_back_the_name_of_the_member_that_is_waited_for() -> None:
    options = SequencerOptions(sequencer="b", history_messages_max=1, acknowledge_every=1)
    site = Hand(Sequencer, "b", {"g": ("a", "c"), "h": ("a",)}, SITES, options)
    site.receive("a", submit("a", 1))
    site.receive("a", Acknowledge(1))
    site.receive("a", submit("a", 2))
    assert site.core.obstacle("history of c") == "the history is full: waiting for c"
    to_h = Multicast(MessageId("c", 0, 1), ("h",), b"payload")
    assert ordered_by(site.receive("c", Submit(to_h, None)))
    assert site.core.obstacle("history of c") == "the history is full: waiting for c"
    assert Blocked("history of c", "") in site.receive("c", Acknowledge(1))


# ---------------------------------------------------------------------- who is waited for
def held(effects: list[Effect]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(to, packet.by) for to, packet in sent(effects) if isinstance(packet, Held)]


def test_the_sequencer_tells_a_source_that_finds_no_room_whom_it_waits_for_once_in_each_announcement() -> None:
    site = hand("a", SequencerOptions(history_messages_max=1, acknowledge_every=1))
    site.receive("b", submit("b", 1))
    take(site, 1, "b")
    assert held(site.step(TimerFired("announce"))) == [], "nobody finds no room yet"
    for number in (2, 3, 2, 3):
        assert held(site.receive("b", submit("b", number))) == []
    assert held(site.step(TimerFired("announce"))) == [(("b",), ("c",))]
    site.receive("c", Acknowledge(1))
    take(site, 1)
    assert held(site.step(TimerFired("announce"))) == [(("b",), ("b", "c"))], "the next one fills it again"


def test_a_source_names_the_member_for_which_the_sequencer_waits_and_the_sequencer_when_that_is_silent() -> None:
    site = hand("b", SequencerOptions(retransmit_seconds=0.1, announce_seconds=0.1, blocked_seconds=0.2))
    site.step(MulticastRequested(multicast("b", 1)))
    site.receive("c", Held(("a",)))
    for _ in range(2):
        site.step(TimerFired("submit"))
    assert site.core.obstacle("source") == "the sequencer a accepts nothing: it is down, or cut off"
    site.receive("a", Held(("c",)))
    assert site.core.obstacle("source") == "the sequencer a waits for c"
    for _ in range(3):
        site.step(TimerFired("submit"))
    assert site.core.obstacle("source") == "the sequencer a waits for c"
    site.step(TimerFired("submit"))
    assert site.core.obstacle("source") == "the sequencer a accepts nothing: it is down, or cut off"
    site.receive("a", ordered("b", 1, 1))
    assert site.core.obstacle("source") == ""


def test_a_source_gets_no_credit_while_it_keeps_as_many_bytes_as_a_history_may_have() -> None:
    site = hand("b", SequencerOptions(history_bytes_max=2 * len(b"payload")))
    assert not [effect for effect in site.step(MulticastRequested(multicast("b", 1))) if isinstance(effect, Credit)]
    assert Credit(0) in site.step(MulticastRequested(multicast("b", 2)))
    assert Credit(255) in site.receive("a", ordered("b", 1, 1))


# ---------------------------------------------------------------------- what nobody can mean
def test_addresses_that_nobody_knows_and_places_without_numbers_are_the_networks_errors() -> None:
    to_nobody = Multicast(MessageId("b", 0, 1), ("nobody",), b"payload")
    to_stranger = Multicast(MessageId("b", 0, 1), (), b"payload", ("x",))
    for site, sender, packet in (
        ("a", "b", Submit(to_nobody, None)),
        ("a", "b", Submit(to_stranger, None)),
        ("c", "b", Submit(to_nobody, None)),
        ("c", "a", Ordered(1, (1, 1, 1), to_nobody)),
        ("c", "a", Ordered(1, (1,), multicast("b", 1))),
        ("c", "a", Placed(1, (1, 1, 1), MessageId("b", 0, 1), ("nobody",), None)),
        ("c", "a", Placed(1, (1,), MessageId("b", 0, 1), ("g",), None)),
    ):
        with pytest.raises(WireError):
            hand(site).receive(sender, packet)


def test_a_destination_gets_again_what_it_has_not_acknowledged_and_nothing_else() -> None:
    site = hand("a")
    for number in (1, 2, 3):
        site.receive("b", submit("b", number))
    site.receive("c", Acknowledge(1))
    again = ordered_by(site.receive("c", Request(((1, 2), (3, 9)))))
    assert [message.links[2] for message in again] == [2, 3]


def test_after_a_crash_a_destination_gets_what_the_checkpoint_and_the_log_hold_of_its_history() -> None:
    before = hand("a")
    for number in (1, 2):
        before.receive("b", submit("b", number))
    before.receive("c", Acknowledge(1))
    state = before.core.checkpoint_state()
    later = Ordered(3, (3, 3, 3), multicast("b", 3))
    site = hand("a", incarnation=1)
    site.step(Recovered((Sequenced(later),), state))
    assert [message.links for message in ordered_by(site.receive("c", Request(((1, 9),))))] == [(2, 2, 2), (3, 3, 3)]
    assert [message.links for message in ordered_by(site.receive("b", submit("b", 4)))] == [(4, 4, 4)]
    site.core.check_invariants()
