"""The broadcast tree: propagation, gap filling, clusters, exchange, pruning, crashes (the same paper, 4.4 and 5)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ordercast.core import Context, MessageId, Packet, UsageError, WireError
from ordercast.core.effects import Blocked, Credit, Replay, SetTimer
from ordercast.core.events import Consumed, MulticastRequested, Received, Recovered, TimerFired
from ordercast.protocols.broadcast_tree import BroadcastTree, BroadcastTreeOptions
from ordercast.protocols.broadcast_tree.attachment import Attachment
from ordercast.protocols.broadcast_tree.exchange import HELLOS_MAX
from ordercast.protocols.broadcast_tree.packets import (
    Adopt,
    Control,
    Data,
    Declare,
    Detach,
    Hello,
    Info,
    Stored,
    StreamId,
)
from ordercast.protocols.broadcast_tree.propagation import Propagation
from ordercast.protocols.broadcast_tree.stream import Stream
from tests.mutants.broadcast_tree import accepts_from_anyone
from tests.protocols.broadcast_tree_host import GROUPS, SITES, STREAM, Host, info, messages, multicast, told
from tests.protocols.classic_runs import delivered, sent


# ---------------------------------------------------------------------- propagation
def test_what_comes_from_the_parent_is_logged_delivered_and_passed_on() -> None:
    b = Host().attached_to("s", (1, 3))
    b.hear("c", Declare(STREAM, ()))
    effects = b.get("s", 1)
    assert b.log[-1].record == Stored(STREAM, 1, multicast(1))
    assert delivered(effects) == [MessageId("s", 0, 1)]
    assert messages(effects) == [("c", 1)]


def test_what_is_new_is_refused_from_anyone_but_the_parent() -> None:
    b = Host().attached_to("s", (1, 3))
    effects = b.get("c", 1)
    assert delivered(effects) == []
    assert told(effects) == [("c", Detach(STREAM))]


def test_who_accepts_new_messages_from_anyone_builds_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """b is a child of c, and takes a message from its old parent that c does not have. c takes b for a better parent.

    The check of known pointers stands in the way of the last step; it is switched off here, for pointers may be late.
    """
    for accepts, checks in ((False, False), (True, True), (True, False)):
        with monkeypatch.context() as patch:
            if accepts:
                patch.setattr(Propagation, "may_accept", accepts_from_anyone)
                patch.setattr(Attachment, "check_invariants", lambda _self: None)
            if not checks:
                patch.setattr(Stream, "leads_to", lambda _self, _host, _ancestor: False)
            b, c = Host("b").attached_to("c", (1, 3), far=True), Host("c").attached_to("s", (1, 3), far=True)
            c.hear("b", Declare(STREAM, ()), far=True)
            for to, message in sent(b.get("d", 4, far=True)):
                if to == ("c",):
                    c._arrive("b", message, far=True)
            c.look()
            is_cycle = b.parent == "c" and c.parent == "b"
            assert is_cycle == (accepts and not checks)


def test_what_fills_a_gap_is_taken_from_anyone_and_given_to_the_parent_too() -> None:
    b = Host().attached_to("d", (3, 3))
    b.hear("c", Declare(STREAM, ()))
    b.get("d", 3)
    effects = b.get("a", 2)
    assert delivered(effects) == [MessageId("s", 0, 2)]
    assert messages(effects) == [("c", 2), ("d", 2)]


def test_a_copy_is_delivered_once() -> None:
    b = Host().attached_to("s", (1, 3))
    b.get("s", 1)
    assert delivered(b.get("s", 1)) == []


def test_in_the_order_of_the_source_a_message_waits_for_those_before_it() -> None:
    b = Host(options=BroadcastTreeOptions(order="source")).attached_to("s", (1, 3))
    assert delivered(b.get("s", 2)) == []
    assert delivered(b.get("s", 1)) == [MessageId("s", 0, 1), MessageId("s", 0, 2)]


# ---------------------------------------------------------------------- gap filling, 4.4
def test_a_message_is_not_sent_again_until_a_period_has_passed_and_an_info_set_lacks_it() -> None:
    b = Host().attached_to("s", (1, 3))
    b.hear("c", Declare(STREAM, ()))
    assert messages(b.get("s", 1)) == [("c", 1)]
    assert messages(b.hear("c", info(parent="b"))) == []
    assert messages(b.fire("gfc")) == []
    assert messages(b.hear("c", info(parent="b"))) == []
    assert messages(b.fire("gfc")) == []
    assert messages(b.hear("c", info(parent="b"))) == [("c", 1)]


def test_gaps_of_neighbours_elsewhere_are_filled_by_another_timer() -> None:
    b = Host().attached_to("s", (1, 3))
    for number in (1, 2, 3):
        b.get("s", number)
    b.tree.streams[STREAM].add_child("c")
    b.tree.streams[STREAM].learn("c", ((1, 2),))
    b.hear("c", Hello(), far=True)
    assert messages(b.fire("gfc")) == []
    assert messages(b.fire("gfn")) == [("c", 3)]


def test_no_more_than_a_share_of_the_window_is_sent_at_a_time() -> None:
    b = Host(options=BroadcastTreeOptions(gap_messages_max=2)).attached_to("s", (1, 3))
    for number in (1, 2, 3):
        b.get("s", number)
    assert messages(b.hear("c", Declare(STREAM, ()))) == [("c", 1), ("c", 2)]
    assert messages(b.fire("gfc")) == [("c", 3)]


def test_who_is_no_neighbour_is_helped_below_its_greatest_number_only() -> None:
    b = Host().attached_to("s", (1, 3))
    for number in (1, 2, 3):
        b.get("s", number)
    b.hear("c", info((2, 2), parent="d"))
    assert messages(b.hear("c", info((2, 2), parent="d"))) == []
    found = [message for _ in range(4) for message in messages(b.fire("gfo"))]
    assert found == [("c", 1)]


def test_those_who_have_a_message_take_turns() -> None:
    """Of three that have it, each sends it once in three periods, and never two in the same."""
    turns = []
    for name in ("a", "b", "d"):
        host = Host(name).attached_to("s", (1, 3))
        for number in (1, 2, 3):
            host.get("s", number)
        for other in {"a", "b", "d"} - {name}:
            host.hear(other, info((1, 3)))
        host.hear("s", info())
        host.tree.streams[STREAM].map["s"] = ()
        host.tree.streams[STREAM].set_parent(None)
        host.hear("c", info((2, 2)))
        turns.append([bool(messages(host.fire("gfo"))) for _ in range(3)])
    assert [sum(column) for column in zip(*turns, strict=True)] == [1, 1, 1]


# ---------------------------------------------------------------------- clusters
def test_the_cost_bit_says_who_is_in_the_cluster() -> None:
    b = Host()
    b.hear("c", Hello())
    assert "c" in b.tree.clusters
    b.hear("c", Hello(), far=True)
    assert "c" not in b.tree.clusters
    assert "b" in b.tree.clusters


def test_transit_times_say_who_is_in_the_cluster_whatever_the_clocks_say() -> None:
    b = Host(options=BroadcastTreeOptions(clusters="transit-time", transit_seconds=0.01))
    for sample in range(6):
        begin = 100.0 + sample
        for site, there, offset in (("c", 0.001, 5000.0), ("d", 0.05, -20.0)):
            # b sends at `begin`; the other holds it for a while by its own clock, and answers.
            b.core.step(begin + 2 * there + 0.3, Received(site, Control(sample + 1, (), begin + offset, begin, 0.3)))
    assert b.tree.clusters.members == {"b", "c"}
    assert b.tree.clusters.distance("d") == pytest.approx(0.05)


def test_a_way_that_has_become_longer_is_noticed_after_some_packets() -> None:
    b = Host(options=BroadcastTreeOptions(clusters="transit-time", transit_seconds=0.01))
    found = []
    for sample, there in enumerate((0.001, 0.05, 0.05, 0.05, 0.05)):
        b.core.step(sample + 2 * there, Received("c", Control(sample + 1, (), 1.0, float(sample or 1e-9), 0.0)))
        found.append("c" in b.tree.clusters)
    assert found == [True, True, True, True, False]


def test_clusters_can_be_static_or_unknown() -> None:
    static = BroadcastTreeOptions(clusters="static", static_clusters=(("a", "b"), ("c", "d")))
    for options, expected in ((static, {"a", "b"}), (BroadcastTreeOptions(clusters="none"), {"b"})):
        b = Host(options=options)
        b.hear("c", Hello())
        assert b.tree.clusters.members == expected


# ---------------------------------------------------------------------- exchange
def test_control_messages_that_leave_together_share_a_packet() -> None:
    b = Host().attached_to("s", (1, 3))
    b.hear("c", Hello())
    b.fire("eic")
    b.fire("epp")
    packets = sent(b.fire("piggyback"))
    assert [to for to, _ in packets] == [("c", "s")]
    assert [type(item) for _, message in packets if isinstance(message, Control) for item in message.items] == [Info]


def test_a_host_that_has_just_started_is_told_at_once_what_there_is() -> None:
    b = Host().attached_to("s", (1, 3))
    b.get("s", 1)
    assert told(b.hear("c", Hello())) == [("c", info((1, 1), parent="s"))]


def test_hello_is_said_again_to_those_who_were_not_heard_and_not_for_ever() -> None:
    """On sockets nobody understands the first one: processes have to make acquaintance first."""
    b = Host()
    b.hear("c", info((1, 1)))
    hellos, waits = [], []
    while timers := [effect.after_seconds for effect in b.fire("hello") if isinstance(effect, SetTimer)]:
        waits += timers
        hellos.append([host for host, item in told(b.fire("piggyback")) if item == Hello()])
    assert hellos == [["a", "d", "s"]] * (HELLOS_MAX - 1)
    assert [wait for wait in waits if wait > 0.01] == [0.5, 1.0, 2.0, 4.0, 8.0]


def test_hello_is_answered_by_those_who_have_nothing_to_tell() -> None:
    b = Host(options=BroadcastTreeOptions(clusters="transit-time"))
    b.core.step(7.0, Received("c", Control(1, (Hello(),), 3.0, 0.0, 0.0)))
    ((to, answer),) = sent(b.core.outbox)
    assert to == ("c",)
    assert isinstance(answer, Control)
    assert (answer.items, answer.echo_at, answer.held_seconds) == ((), 3.0, 0.0)


def test_only_as_many_holes_are_told_as_fit_into_a_packet() -> None:
    b = Host().attached_to("s", (1, 400))
    for number in range(1, 401, 2):
        b.get("s", number)
    ((_, told_info),) = told(b.hear("c", Hello()))
    assert isinstance(told_info, Info)
    assert len(told_info.numbers) == 64
    assert told_info.numbers[-1] == (399, 399)


# ---------------------------------------------------------------------- pruning, flow control
def test_what_every_host_has_taken_is_forgotten_and_the_others_hear_of_it() -> None:
    b = Host().attached_to("s", (1, 3))
    for number in (1, 2, 3):
        b.get("s", number)
    b.step(Consumed(3))
    for host, taken in (("a", 3), ("c", 2), ("d", 3)):
        b.hear(host, info((1, 3), taken=taken))
    b.fire("eic")
    assert sorted(b.tree.streams[STREAM].kept) == [1, 2, 3]
    b.hear("s", info((1, 3), taken=3))
    b.fire("eic")
    assert sorted(b.tree.streams[STREAM].kept) == [3]
    b.hear("s", info((1, 3), taken=3, floor=3))
    assert b.tree.streams[STREAM].kept == {}


def test_a_host_has_taken_a_message_when_its_application_has() -> None:
    b = Host().attached_to("s", (1, 3))
    b.get("s", 1)
    assert b.tree.streams[STREAM].taken_prefix == 0
    b.step(Consumed(1))
    assert b.tree.streams[STREAM].taken_prefix == 1


def test_a_source_stops_at_its_window_and_names_the_slowest() -> None:
    s = Host("s", BroadcastTreeOptions(kept_messages_max=2))
    s.multicast("g")
    effects = s.step(TimerFired("eic"))
    assert Credit(1) in effects
    s.multicast("g")
    for host in ("a", "c", "d"):
        s.hear(host, info((1, 2), taken=2))
    s.step(Consumed(2))
    effects = s.fire("eic")
    assert Credit(0) in effects
    assert Blocked("window", "the window is full: site b has taken least of g") in effects
    s.hear("b", info((1, 2), taken=2))
    effects = s.fire("eic")
    assert Credit(2) in effects
    assert Blocked("window", "") in effects


def test_what_left_a_breath_ago_is_not_in_the_way_of_the_next_message() -> None:
    """Who collects messages while others are under way would wait for the slowest host of all."""
    s = Host("s", BroadcastTreeOptions(burst_messages=4))
    given = [s.send(number)[-1] for number in range(1, 5)]
    assert given == [Credit(3), Credit(2), Credit(1), Credit(0)]
    assert s.fire("breath") == [Credit(3)]


def test_a_source_stops_when_what_is_kept_is_too_large() -> None:
    s = Host("s", BroadcastTreeOptions(kept_bytes_max=1000))
    s.send(1, bytes(400))
    assert Credit(62) in s.send(2, bytes(400))
    assert Credit(0) in s.send(3, bytes(400))
    for host in ("a", "b", "c", "d"):
        s.hear(host, info((1, 3), taken=3))
    s.step(Consumed(3))
    assert Credit(61) in s.fire("eic")
    assert s.tree.streams[STREAM].kept_bytes == 0


# ---------------------------------------------------------------------- crash and recovery
def test_a_host_that_recovers_has_its_messages_and_says_so() -> None:
    b = Host().attached_to("s", (1, 3))
    b.get("s", 1)
    b.get("s", 3)
    again = Host(incarnation=1)
    effects = again.step(Recovered(tuple(append.record for append in b.log)))
    assert [effect.multicast.id.number for effect in effects if isinstance(effect, Replay)] == [1, 3]
    assert ("a", Hello()) in told(effects)
    assert ("a", info((1, 1), (3, 3), taken=1)) in told(effects)


def test_a_source_that_recovers_goes_on_counting() -> None:
    s = Host("s")
    s.multicast("g")
    again = Host("s", incarnation=1)
    again.step(Recovered((s.log[0].record,)))
    again.multicast("g")
    record = again.log[-1].record
    assert isinstance(record, Stored)
    assert record.number == 2


def test_a_checkpoint_holds_what_is_kept_and_the_numbers_of_the_rest() -> None:
    b = Host(options=BroadcastTreeOptions(order="source")).attached_to("s", (1, 5))
    for number in (1, 2, 3, 5):
        b.get("s", number)
    b.hear("s", info((1, 5), floor=2))
    again = Host(options=BroadcastTreeOptions(order="source"), incarnation=1)
    effects = again.step(Recovered((), b.tree.checkpoint_state()))
    assert [effect for effect in effects if isinstance(effect, Replay)] == []
    stream = again.tree.streams[STREAM]
    assert (stream.numbers, stream.floor, sorted(stream.kept)) == (((1, 3), (5, 5)), 2, [3, 5])
    assert stream.taken_prefix == 3
    assert delivered(again.attached_to("s", (1, 5)).get("s", 4)) == [MessageId("s", 0, 4), MessageId("s", 0, 5)]


def test_what_a_host_knew_of_another_is_forgotten_when_that_one_restarts() -> None:
    b = Host().attached_to("s", (1, 3))
    b.get("s", 1)
    b.hear("c", Declare(STREAM, ((1, 1),)))
    assert messages(b.hear("c", Hello(), stamp=(1 << 40) + 1)) == []
    assert b.children == set()
    assert messages(b.hear("c", Declare(STREAM, ()), stamp=(1 << 40) + 2)) == [("c", 1)]
    b.hear("c", Detach(STREAM), stamp=99)
    assert b.children == {"c"}


def test_a_source_without_a_log_begins_a_new_epoch_and_two_are_remembered() -> None:
    context = Context("s", GROUPS, SITES, BroadcastTreeOptions(), Random(0), incarnation=3, stable=False)
    source = BroadcastTree(context)
    source.step(0.0, Recovered())
    source.step(0.0, MulticastRequested(multicast(1)))
    assert [stream.epoch for stream in source.streams] == [3]
    b = Host()
    for epoch in (1, 2, 3):
        b.hear("s", Info(StreamId("s", epoch, ("g",)), ((1, 1),), 0, 0, None))
    assert [stream.epoch for stream in b.tree.streams] == [2, 3]


def test_a_host_that_has_lost_its_log_does_without_what_nobody_keeps() -> None:
    b = Host(options=BroadcastTreeOptions(order="source")).attached_to("s", (1, 6))
    b.get("s", 6)
    assert delivered(b.hear("s", info((1, 6), floor=5))) == [MessageId("s", 0, 6)]


# ---------------------------------------------------------------------- garbage
@pytest.mark.parametrize(
    ("sender", "garbage"),
    [
        ("x", Data(0, 1, multicast(1))),
        ("c", Data(0, 1, multicast(1, source="x"))),
        ("c", Data(0, 1, multicast(1, group="nobody"))),
        ("c", Data(0, 0, multicast(1))),
        ("c", Data(-1, 1, multicast(1))),
        ("c", Data(0, 7, multicast(7, source="b"))),
        ("x", Control(1, (Hello(),))),
        ("c", Control(1, (Adopt(StreamId("x", 0, ("g",))),))),
        ("c", Control(1, (Adopt(StreamId("s", 0, ())),))),
        ("c", Control(1, (Adopt(StreamId("b", 1, ("g",))),))),
    ],
    ids=str,
)
def test_garbage_from_the_network_is_refused(sender: str, garbage: Packet) -> None:
    with pytest.raises(WireError):
        Host().receive(sender, garbage)


@pytest.mark.parametrize(
    "options",
    [
        {"np1_seconds": 0.0},
        {"piggyback_seconds": -1.0},
        {"burst_messages": 0},
        {"kept_bytes_max": 0},
        {"gap_messages_max": 0},
        {"clusters": "static"},
        {"static_clusters": (("a",),)},
        {"clusters": "static", "static_clusters": (("a",), ("a", "b"))},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="options of broadcast-tree"):
        BroadcastTreeOptions(**options)
