"""Tachikawa and Takizawa: the figures and examples, step by step.

The paper's E_1, E_2, E_3 are processes 1, 2, 3. All messages of Figure 3 are on the channel before anyone hears one, so
that nothing is acknowledged yet when losses are found.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ordercast.core import MessageId, Multicast, Packet
from ordercast.core.events import Received
from ordercast.protocols.selective_total import SelectiveTotalOptions
from ordercast.protocols.selective_total.packets import (
    Data,
    ReceiveReady,
    Reset,
    ResetAck,
    ResetPreAck,
    Retransmission,
)
from ordercast.protocols.selective_total.receipt_log import Entry, closed, inserted, sort_point, sorted_log
from tests.protocols.one_channel import OneChannel

FIGURE_3 = "a1:23 x3:123 b1:2 c1:13 p2:1 y3:2 z3:13 q2:23"
"""Name, source and destinations, in an order of the channel that gives Figure 3(b)."""
FIGURE_3B = {"1": "x c p z", "2": "a x b y q", "3": "a x c z q"}


def figure_3(losses: Mapping[str, str], options: SelectiveTotalOptions | None = None) -> OneChannel:
    """The messages of Figure 3 are sent; each process loses some the first time. Losses are not found yet."""
    channel = OneChannel(options=options)
    channel.establish()
    for word in FIGURE_3.split():
        head, destinations = word.split(":")
        channel.multicast(head[1], head[0], destinations)

    def loses(site: str, packet: Packet) -> bool:
        return isinstance(packet, Data) and channel.names[packet.multicast.id] in losses.get(site, "")

    channel.run(loses)
    return channel


def next_receive_ready(channel: OneChannel, site: str) -> None:
    """A period passes in which the process has sent nothing."""
    channel.fire(site, "tick")
    channel.fire(site, "tick")


def said(channel: OneChannel, kind: type[Packet], site: str) -> Packet:
    return next(message for sender, message in channel.heard if isinstance(message, kind) and sender == site)


def entry(source: int, tseq: int) -> Entry:
    multicast = Multicast(MessageId(str(source + 1), 0, tseq), ())
    return Entry(source, Data((1, "1", 0), tseq, (1, 1, 1), (1, 1, 1), (1, 1, 1), 0, multicast))


A, B, C = entry(0, 1), entry(0, 2), entry(0, 3)
P, Q = entry(1, 1), entry(1, 2)
X, Y, Z = entry(2, 1), entry(2, 2), entry(2, 3)
RECEIPT_LOGS = ([X, C, P, Z], [A, X, B, Y, Q], [A, X, Z, Q])
"""Figure 6: E_3 has lost c."""


# ---------------------------------------------------------------------- 2.2 and 3.2
def test_figure_3b_common_destinations_receive_in_the_same_order() -> None:
    channel = figure_3({})
    channel.tick(3)
    assert {site: " ".join(names) for site, names in channel.delivered.items()} == FIGURE_3B


def test_figure_3a_the_sp_service_keeps_the_order_of_each_source() -> None:
    channel = figure_3({"1": "x", "2": "a", "3": "cz"}, SelectiveTotalOptions(service="source"))
    channel.tick(3)
    assert not any(isinstance(message, Reset) and message.agreement[2] for _, message in channel.heard)
    for site, expected in FIGURE_3B.items():
        assert sorted(channel.delivered[site]) == sorted(expected.split())
        for source in ("abc", "pq", "xyz"):
            of_source = [name for name in channel.delivered[site] if name in source]
            assert of_source == sorted(of_source)
    # What was lost came later than in Figure 3(b), and nobody waited for it.
    assert channel.delivered["3"] != FIGURE_3B["3"].split()


def accepting(channel: OneChannel, tseq: int, number: int, destinations: str) -> tuple[int, int]:
    """E_i = 1 hears a message of E_j = 2; TREQ_j and PREQ_j afterwards."""
    core = channel.cores["1"]
    assert core.cluster is not None
    core.cluster.treq[1], core.cluster.preq[1] = 4, 3
    core.cluster.delivered[1] = 4
    multicast = Multicast(MessageId("2", 0, tseq), (), b"", tuple(destinations))
    channel.step("1", Received("2", Data(core.epoch, tseq, (number, 1, 1), (1, 1, 1), (1, 1, 1), 64, multicast)))
    return core.cluster.treq[1], core.cluster.preq[1]


def test_figure_4a_a_lost_message_for_others_is_none_to_wait_for() -> None:
    channel = OneChannel()
    channel.establish()
    assert accepting(channel, tseq=5, number=3, destinations="1") == (6, 4)
    assert channel.cores["1"].recovery.agreement is None


def test_figure_4b_a_message_for_others_reveals_that_one_was_lost() -> None:
    channel = OneChannel()
    channel.establish()
    assert accepting(channel, tseq=5, number=4, destinations="3") == (4, 3)
    assert channel.cores["1"].recovery.agreement is not None


def test_a_lost_message_for_others_does_not_stall_who_hears_only_messages_for_others() -> None:
    """As printed, condition (2) asks for a message for E_i itself, and TREQ_j stays behind."""
    channel = OneChannel()
    channel.establish()
    assert accepting(channel, tseq=5, number=3, destinations="3") == (6, 3)


# ---------------------------------------------------------------------- 4.2 and 4.3
def test_figure_5_the_lost_message_goes_into_its_failure_section() -> None:
    line = (3, 1, 3)
    assert inserted(RECEIPT_LOGS[2], line, [C]) == [A, X, C, Z, Q]


def test_figure_6_the_sort_points() -> None:
    line = (3, 1, 3)
    points = [log[sort_point(log, line) or 0] for log in RECEIPT_LOGS]
    assert points == [C, Q, Z]
    assert all(closed(log, line) == line for log in RECEIPT_LOGS)


def test_the_line_is_closed_when_no_log_lowers_it() -> None:
    assert closed(RECEIPT_LOGS[0], (3, 3, 4)) == (3, 1, 3)
    assert closed(RECEIPT_LOGS[1], (3, 3, 4)) == (3, 3, 4)


@pytest.mark.parametrize("sources", ["111", "123"], ids=["one source", "three sources"])
def test_example_1_each_of_three_processes_loses_another_of_three_messages(sources: str) -> None:
    channel = OneChannel()
    channel.establish()
    for source, name, destinations in zip(sources, "abc", ("12", "23", "13"), strict=True):
        channel.multicast(source, name, destinations)
    lost = {"1": "a", "2": "b", "3": "c"}
    channel.run(lambda site, m: isinstance(m, Data) and channel.names[m.multicast.id] == lost[site])
    channel.tick(3)
    # By name of source and number, which is one order for all: a cycle c, a, b, c is impossible.
    assert channel.delivered == {"1": ["a", "c"], "2": ["a", "b"], "3": ["b", "c"]}


def test_example_1_2_what_others_know_decides_where_a_message_lost_by_one_goes() -> None:
    """a, b and c of different processes; only E_3 loses c. That b comes before c it learns from the line of E_2's log
    and E_1's: it could not decide that alone."""
    channel = OneChannel()
    channel.establish()
    for source, name, destinations in (("1", "a", "12"), ("2", "b", "23"), ("3", "c", "13")):
        channel.multicast(source, name, destinations)
    channel.run(lambda site, m: isinstance(m, Data) and site == "3" and channel.names[m.multicast.id] == "c")
    channel.tick(3)
    assert channel.delivered == {"1": ["a", "c"], "2": ["a", "b"], "3": ["b", "c"]}
    assert all(core.branches["insertion"] == 1 for core in channel.cores.values())


# ---------------------------------------------------------------------- 4.4
def test_example_2_the_agreement_on_the_sort_line() -> None:
    channel = figure_3({"3": "c"})
    treq = {site: core.cluster.treq for site, core in channel.cores.items() if core.cluster}
    assert treq == {"1": [4, 3, 4], "2": [4, 3, 4], "3": [3, 3, 4]}
    # E_1 has nothing more to send; its RR shows E_3 what it has lost.
    next_receive_ready(channel, "1")
    assert isinstance(channel.frames[0][1], ReceiveReady)
    channel.run()
    reset = said(channel, Reset, "3")
    assert isinstance(reset, Reset)
    assert reset.treq == (3, 3, 4)
    epoch = reset.agreement

    def line(kind: type[ResetPreAck] | type[ResetAck], site: str) -> tuple[int, ...]:
        found = [m for s, m in channel.heard if isinstance(m, kind) and s == site and m.agreement == epoch]
        return found[0].treq

    assert [line(ResetPreAck, site) for site in "123"] == [(3, 1, 3), (4, 3, 4), (3, 3, 4)]
    assert [line(ResetAck, site) for site in "123"] == [(3, 1, 3)] * 3
    acks = {s: m for s, m in channel.heard if isinstance(m, ResetAck) and m.agreement == epoch}
    points = {site: (ack.sort_point.source, ack.sort_point.tseq) for site, ack in acks.items() if ack.sort_point}
    assert points == {"1": (0, 3), "2": (1, 2), "3": (2, 3)}, "the sort line is (c, q, z)"
    assert {ack.round for ack in acks.values()} == {1}


def test_example_2_what_precedes_the_sort_points_is_settled_and_the_rest_is_left() -> None:
    """x, a x b y and a x can be acknowledged; RRL_1, RRL_2, RRL_3 are (c p z), (q), (z q) then."""
    channel = figure_3({"3": "c"})
    logs = {site: channel.log(site).split() for site in "123"}
    assert logs == {"1": ["x", "c", "p", "z"], "2": ["a", "x", "b", "y", "q"], "3": ["a", "x", "z", "q"]}
    line = (3, 1, 3)
    points = {site: sort_point(core.receipt.log, line) for site, core in channel.cores.items()}
    assert {site: logs[site][:at] for site, at in points.items()} == {
        "1": ["x"],
        "2": ["a", "x", "b", "y"],
        "3": ["a", "x"],
    }
    assert {site: logs[site][at:] for site, at in points.items()} == {"1": ["c", "p", "z"], "2": ["q"], "3": ["z", "q"]}


def test_example_3_1_a_single_loss_is_recovered_by_insertion() -> None:
    channel = figure_3({"3": "c"})
    next_receive_ready(channel, "1")
    channel.run()
    again = [m.data.multicast.id for _, m in channel.heard if isinstance(m, Retransmission)]
    assert [channel.names[message] for message in again] == ["c"]
    assert {site: " ".join(names) for site, names in channel.delivered.items()} == FIGURE_3B
    assert all(core.branches["insertion"] == 1 for core in channel.cores.values())


def test_example_3_2_the_sorting_of_figure_7() -> None:
    """With E_3 < E_1 < E_2, the order in which the paper's RST_PAK come."""
    cut, order = (3, 1, 2), (2, 0, 1)
    assert sorted_log([C, P, Z], cut, [], order) == [Z, C, P]
    assert sorted_log([Q], cut, [Y], order) == [Y, Q]
    assert sorted_log([Z, Q], cut, [C], order) == [Z, C, Q]


def test_example_3_2_several_losses_are_recovered_by_sorting() -> None:
    """Here the order of sources is that of their names, which no lost RST_PAK can change."""
    channel = figure_3({"2": "y", "3": "c"})
    channel.tick(2)
    assert {site: " ".join(names) for site, names in channel.delivered.items()} == {
        "1": "x c p z",
        "2": "a x b q y",
        "3": "a x c q z",
    }
    assert all(core.branches["sorting"] for core in channel.cores.values())


def test_a_lost_last_message_is_found_although_nothing_follows_it() -> None:
    """4.1: only the next RR of its source tells of it."""
    channel = OneChannel()
    channel.establish()
    channel.multicast("1", "a", "23")
    channel.run(lambda site, message: isinstance(message, Data) and site == "3")
    assert channel.delivered == {"1": [], "2": [], "3": []}
    channel.fire("1", "acknowledge")
    channel.run()
    assert channel.delivered == {"1": [], "2": ["a"], "3": ["a"]}
    assert channel.cores["3"].branches["loss-by-receive-ready"] == 1
