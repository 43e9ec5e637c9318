"""A site that comes back by rollback fetches what it missed while the others go on."""

from __future__ import annotations

from random import Random
from typing import Any

from ordercast.core import Context, MessageId, Multicast, Packet, SiteId
from ordercast.core.effects import Send
from ordercast.core.events import Received, Started, TimerFired
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph, Listed
from ordercast.protocols.propagation_graph.relaxed.packets import Back, Begin, Fetch, Fetched, Kept, Missed
from ordercast.protocols.propagation_graph.relaxed.preparing import VAIN_MAX
from ordercast.protocols.propagation_graph.relaxed.records import Placed

GROUPS = {"alpha": ("a", "b", "c"), "beta": ("a", "b")}
WITHOUT_C = Graph(1, "a", ("a", "b"), ("c",), tuple(sorted(GROUPS.items())), awaited=("c",))


def _site(name: str, **options: Any) -> RelaxedGraph:
    chosen = PropagationGraphOptions(delivery="non-atomic", rejoin="rollback", **options)
    core = PropagationGraph(Context(name, GROUPS, tuple("abc"), chosen, Random(0)))
    assert isinstance(core, RelaxedGraph)
    core.step(0.0, Started())
    core.outbox.clear()
    return core


def _message(number: int, group: str = "alpha") -> Multicast:
    return Multicast(MessageId("b", 0, number), (group,), b"payload")


def _sent(core: RelaxedGraph, kind: type[Packet]) -> list[Any]:
    """What was sent of this kind since the last look."""
    sent = [each.packet for each in core.outbox if isinstance(each, Send) and isinstance(each.packet, kind)]
    core.outbox.clear()
    return sent


def _giver(messages: int) -> RelaxedGraph:
    """One that has gone on without c, and keeps these for it; every second one is none of its groups."""
    core = _site("a")
    core.step(0.1, Received("b", Begin(WITHOUT_C)))
    for number in range(1, messages + 1):
        core.hold(Placed(_message(number, "beta" if number % 2 == 0 else "alpha"), "a", number))
        core.history.note_everywhere(_message(number).id)
    core.outbox.clear()
    return core


def _failed(now: float = 5.0) -> RelaxedGraph:
    """c, whose share has ended long ago."""
    core = _site("c")
    core.step(now, TimerFired("share-end"))
    core.outbox.clear()
    return core


def _hear(core: RelaxedGraph, sender: SiteId, packet: Packet, now: float = 5.1) -> None:
    core.step(now, Received(sender, packet))


def test_who_comes_back_is_told_to_fetch_first_and_nobody_stops() -> None:
    giver = _giver(20)
    _hear(giver, "c", Back(0, True), 0.2)
    assert _sent(giver, Kept) == [Kept(1, 0, 20)]
    assert not giver.is_closed
    assert not giver.watching.back
    _hear(giver, "c", Back(0, True, ready=True), 0.3)
    assert giver.is_closed


def test_a_few_messages_are_no_reason_to_wait() -> None:
    giver = _giver(3)
    _hear(giver, "c", Back(0, True), 0.2)
    assert not _sent(giver, Kept)
    assert giver.is_closed


def test_messages_for_the_site_are_given_in_parts_and_others_are_not() -> None:
    giver = _giver(300)
    _hear(giver, "c", Missed(1, 0), 0.2)
    given = [packet.multicast.id.number for packet in _sent(giver, Fetched)]
    assert given == list(range(1, 129, 2))
    _hear(giver, "c", Missed(1, 0), 0.2)
    assert _sent(giver, Kept) == [Kept(1, 127, 173)]


def test_nothing_is_given_to_strangers_of_other_graphs_or_from_negative_places() -> None:
    giver = _giver(20)
    for sender, packet in (("b", Missed(1, 0)), ("c", Missed(2, 0)), ("c", Missed(1, -4))):
        _hear(giver, sender, packet, 0.2)
        assert not _sent(giver, Packet)


def test_one_giver_is_asked_until_little_is_left_and_then_the_site_is_ready() -> None:
    core = _failed()
    _hear(core, "a", Kept(1, 0, 100))
    assert _sent(core, Missed) == [Missed(1, 0)]
    _hear(core, "b", Kept(1, 0, 100))
    assert not _sent(core, Missed)
    _hear(core, "a", Kept(1, 64, 36))
    assert _sent(core, Missed) == [Missed(1, 64)]
    _hear(core, "a", Kept(1, 97, 3))
    core.step(5.3, TimerFired("watch"))
    assert [packet.ready for packet in _sent(core, Back)] == [True]


def test_a_giver_that_does_not_answer_is_asked_again_and_then_given_up() -> None:
    core = _failed()
    _hear(core, "a", Kept(1, 0, 100))
    core.outbox.clear()
    asked, now = 0, 5.2
    while not core.preparing.is_ready:
        core.step(now, TimerFired("watch"))
        asked += len(_sent(core, Missed))
        now += 0.1
    assert asked == VAIN_MAX - 1
    core.step(now, TimerFired("watch"))
    assert [packet.ready for packet in _sent(core, Back)] == [True]


def test_what_was_fetched_before_is_not_fetched_again() -> None:
    core = _failed()
    _hear(core, "a", Kept(1, 0, 100))
    for number in (1, 2):
        _hear(core, "a", Fetched(1, _message(number)))
    _hear(core, "b", Fetched(1, _message(3)))
    _hear(core, "a", Kept(1, 100, 0))
    order = tuple(Listed(_message(n).id, ("alpha",), 1, "", n, ("a",)) for n in (1, 2, 3))
    groups = tuple(sorted(GROUPS.items()))
    core.outbox.clear()
    _hear(core, "a", Begin(Graph(2, "a", ("a", "b", "c"), (), groups, ("c",), order=order, undoing=("c",))))
    assert [packet.messages for packet in _sent(core, Fetch)] == [(_message(3).id,)]
