"""The roles of selective total order, each tried by itself in a cluster that was never agreed on."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from ordercast.core import Context, InvariantViolation, MessageId, Multicast, Packet
from ordercast.core.effects import Broadcast, Deliver, SetTimer
from ordercast.core.events import Arrival
from ordercast.protocols import selective_total
from ordercast.protocols.selective_total import SelectiveTotal, SelectiveTotalOptions
from ordercast.protocols.selective_total.packets import (
    Apply,
    Data,
    ReceiveReady,
    Request,
    Reset,
    ResetPreAck,
    Retransmission,
)
from ordercast.protocols.selective_total.presence import PRESENT_PERIODS, Presence
from ordercast.protocols.selective_total.receipt_log import Entry

SITES = ("1", "2", "3")
EPOCH = (1, "1", 0)
ONES = (1, 1, 1)
BROADCAST = Arrival("cluster")


def make_context(options: SelectiveTotalOptions) -> Context:
    return Context("1", {"all": SITES}, SITES, options, Random(0))


def make_presence(silence_seconds: float = 4.0) -> Presence:
    """Periods of 0.1 seconds."""
    options = SelectiveTotalOptions(silence_seconds=silence_seconds)
    return Presence(make_context(options), options)


def make_core(**options: object) -> SelectiveTotal:
    """Site 1 in a cluster of three."""
    core = SelectiveTotal(make_context(SelectiveTotalOptions(**options)))  # type: ignore[arg-type]
    core.begin_cluster(EPOCH, SITES)
    core.outbox.clear()
    return core


def multicast(number: int, source: str = "1") -> Multicast:
    return Multicast(MessageId(source, 0, number), (), b"", SITES)


def data(source: str, tseq: int) -> Data:
    """A message to everyone, as all of its source are."""
    return Data(EPOCH, tseq, (tseq,) * 3, ONES, ONES, 64, multicast(tseq, source))


def said(core: SelectiveTotal) -> list[Packet]:
    """What was broadcast since the last look."""
    packets = [effect.packet for effect in core.outbox if isinstance(effect, Broadcast)]
    core.outbox.clear()
    return packets


def delivered(core: SelectiveTotal) -> list[tuple[str, int]]:
    ids = [effect.multicast.id for effect in core.outbox if isinstance(effect, Deliver)]
    core.outbox.clear()
    return [(message.source, message.number) for message in ids]


def pass_periods(presence: Presence, count: int) -> None:
    for _ in range(count):
        presence.pass_period()


# ---------------------------------------------------------------------- presence
def test_a_member_that_says_nothing_is_missed_after_the_silence_and_not_before() -> None:
    presence = make_presence()
    for site in SITES:
        presence.on_heard(site, ReceiveReady(EPOCH, 1, ONES, ONES, ONES, 1))
    pass_periods(presence, 40)
    assert presence.find_change(SITES, set()) is None
    presence.on_heard("2", ReceiveReady(EPOCH, 1, ONES, ONES, ONES, 1))
    presence.pass_period()
    assert presence.find_change(SITES, set()) == ("1", "2")


def test_who_applies_is_new_in_a_cluster_whether_it_was_in_it_or_not() -> None:
    presence = make_presence()
    for site in SITES:
        presence.on_heard(site, Apply(0, 0))
    assert presence.find_change(("1", "2"), {"3"}) == SITES
    assert presence.find_change(SITES, {"3"}) == SITES


def test_who_says_anything_else_no_longer_applies() -> None:
    presence = make_presence()
    presence.on_apply("2", Apply(7, 0), BROADCAST)
    assert presence.applied == {"2": 0}
    assert presence.number == 7
    presence.on_heard("2", Apply(7, 0))
    assert presence.applied == {"2": 0}
    presence.on_heard("2", ReceiveReady(EPOCH, 1, ONES, ONES, ONES, 1))
    assert presence.applied == {}


def test_an_application_that_is_not_repeated_is_forgotten() -> None:
    presence = make_presence()
    presence.on_apply("2", Apply(0, 0), BROADCAST)
    pass_periods(presence, PRESENT_PERIODS)
    assert "2" in presence.applied
    presence.pass_period()
    assert presence.applied == {}


def test_a_cluster_is_founded_by_everyone_at_once_and_by_some_only_after_the_silence() -> None:
    presence = make_presence()
    presence.on_apply("2", Apply(0, 0), BROADCAST)
    assert presence.find_founders() is None
    presence.on_apply("3", Apply(0, 0), BROADCAST)
    assert presence.find_founders() == SITES
    pass_periods(presence, 41)
    presence.on_apply("2", Apply(0, 0), BROADCAST)
    assert presence.find_founders() == ("1", "2")


def test_who_came_back_is_known_by_its_incarnation() -> None:
    presence = make_presence()
    presence.note_incarnations(SITES, (0, 0, 2))
    presence.on_apply("2", Apply(0, 1), BROADCAST)
    assert presence.incarnations_of(SITES) == (0, 1, 2)
    assert presence.reborn(SITES, (0, 0, 2)) == {"2"}


def test_a_stranger_leaves_no_trace() -> None:
    presence = make_presence()
    presence.on_heard("x", Apply(0, 0))
    presence.on_apply("x", Apply(0, 0), BROADCAST)
    assert "x" not in (*presence.silent, *presence.applied, *presence.incarnations)


# ---------------------------------------------------------------------- transmission
def test_what_is_taken_back_goes_before_what_waits_and_in_its_order() -> None:
    core = make_core(window_messages=3)
    for number in range(1, 6):
        core.transmission.submit(multicast(number))
    assert [packet.tseq for packet in said(core) if isinstance(packet, Data)] == [1, 2, 3]
    core.transmission.take_back(2)
    assert [each.id.number for each in core.transmission.pending] == [2, 3, 4, 5]


def test_the_window_is_never_less_than_one_and_widens_only_after_a_window_without_a_loss() -> None:
    core = make_core(window_messages=4)
    transmission, cluster = core.transmission, core.cluster
    assert cluster is not None
    windows = []
    for _ in range(4):
        transmission.halve_window()
        windows.append(transmission.window)
    assert windows == [2, 1, 1, 1]
    windows.clear()
    for number in range(1, 8):
        transmission.submit(multicast(number))
        for place in range(3):
            cluster.note_progress(place, ReceiveReady(EPOCH, 1, ONES, (number + 1, 1, 1), ONES, 64))
        transmission.forget_accepted(cluster)
        windows.append(transmission.window)
    assert windows == [2, 2, 3, 3, 3, 4, 4]


def test_nothing_is_sent_in_a_cluster_that_is_aborted() -> None:
    core = make_core()
    core.establishment.aborted = "3 crashed"
    core.transmission.submit(multicast(1))
    assert said(core) == []


# ---------------------------------------------------------------------- acknowledgement
def test_one_timer_runs_however_much_there_is_to_acknowledge() -> None:
    core = make_core()
    for tseq in (1, 2, 3):
        core.receipt.on_data("2", data("2", tseq), BROADCAST)
    assert [effect.timer for effect in core.outbox if isinstance(effect, SetTimer)] == ["acknowledge"]
    core.outbox.clear()
    core.acknowledgement.on_acknowledge_timeout()
    (packet,) = said(core)
    assert isinstance(packet, ReceiveReady)
    assert packet.ack == (1, 4, 1)


def test_what_data_have_carried_is_not_said_again() -> None:
    core = make_core()
    core.receipt.on_data("2", data("2", 1), BROADCAST)
    core.transmission.submit(multicast(1))
    assert [type(packet) for packet in said(core)] == [Data]
    core.acknowledgement.on_acknowledge_timeout()
    assert said(core) == []


def test_in_a_period_it_speaks_unless_it_has_or_all_is_settled() -> None:
    core = make_core()
    cluster, acknowledgement = core.cluster, core.acknowledgement
    assert cluster is not None

    def speaks(idle: bool = False) -> bool:
        acknowledgement.repeat(cluster, idle=idle)
        return said(core) != []

    assert not speaks()
    assert speaks(idle=True)
    core.transmission.submit(multicast(1))
    core.outbox.clear()
    assert not speaks()
    acknowledgement.begin_period()
    assert speaks()


def test_many_buffers_that_become_free_are_told_of_soon() -> None:
    core = make_core(buffer_messages=8)
    cluster = core.cluster
    assert cluster is not None
    core.receipt.deliver_all(cluster, [Entry(1, data("2", tseq)) for tseq in range(1, 5)])
    core.acknowledgement.send_receive_ready(cluster)
    for taken, timers in ((1, []), (1, ["acknowledge"])):
        core.outbox.clear()
        core.receipt.note_consumed(taken)
        core.acknowledgement.note_consumed()
        assert [effect.timer for effect in core.outbox if isinstance(effect, SetTimer)] == timers


# ---------------------------------------------------------------------- receipt and the two services
def take(core: SelectiveTotal, packets: Iterable[tuple[str, Data]]) -> None:
    for sender, packet in packets:
        core.receipt.on_data(sender, packet, BROADCAST)


def logged(core: SelectiveTotal) -> list[tuple[int, int]]:
    return [(entry.source, entry.tseq) for entry in core.receipt.log]


def acknowledge(core: SelectiveTotal, acknowledged: tuple[int, int, int]) -> None:
    """Everyone says that it has accepted and pre-acknowledged that much."""
    for sender in SITES:
        cluster = core.cluster
        assert cluster is not None
        treq = tuple(cluster.treq)
        packet = ReceiveReady(EPOCH, treq[int(sender) - 1], treq, acknowledged, acknowledged, 64)
        core.receipt.on_receive_ready(sender, packet, BROADCAST)


def test_what_comes_late_goes_where_the_order_of_its_source_wants_it() -> None:
    core = make_core()
    for source, tseq in ((1, 1), (2, 1), (1, 3), (2, 2)):
        core.receipt.insert(Entry(source, data(SITES[source], tseq)))
    core.receipt.insert(Entry(1, data("2", 2)))
    assert logged(core) == [(1, 1), (2, 1), (1, 2), (1, 3), (2, 2)]


def test_nothing_is_delivered_after_a_later_message_of_its_source() -> None:
    core = make_core()
    assert core.cluster is not None
    with pytest.raises(InvariantViolation, match="after a later one"):
        core.receipt.deliver_all(core.cluster, [Entry(1, data("2", 2)), Entry(1, data("2", 1))])


@pytest.mark.parametrize(
    ("service", "expected"),
    [("total", []), ("source", [("3", 1)])],
)
def test_in_the_total_order_a_message_waits_for_what_is_before_it_and_in_source_order_for_its_source_only(
    service: str, expected: list[tuple[str, int]]
) -> None:
    core = make_core(service=service)
    take(core, [("2", data("2", 1)), ("3", data("3", 1))])
    acknowledge(core, (1, 1, 2))
    assert delivered(core) == expected
    acknowledge(core, (1, 2, 2))
    assert sorted([*expected, *delivered(core)]) == [("2", 1), ("3", 1)]


def test_a_loss_stops_everyone_in_the_total_order() -> None:
    core = make_core()
    take(core, [("2", data("2", 2))])
    assert [type(packet) for packet in said(core)] == [Reset, ResetPreAck]
    assert core.open_cluster is None
    assert logged(core) == [(1, 2)]


def test_in_source_order_a_loss_is_asked_for_once_in_a_period_and_fills_the_gap() -> None:
    core = make_core(service="source")
    cluster = core.cluster
    assert cluster is not None
    take(core, [("2", data("2", 3)), ("2", data("2", 4))])
    assert [packet.missing for packet in said(core) if isinstance(packet, Request)] == [(1, 2)]
    core.order.look_for_losses(cluster)
    assert said(core) == [Request(EPOCH, "2", (1, 2))]
    for tseq in (2, 1):
        again = Retransmission(EPOCH, 1, data("2", tseq))
        core.retransmission.on_retransmission("2", again, BROADCAST)
    assert logged(core) == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert (cluster.treq[1], cluster.preq[1], cluster.beyond[1]) == (5, 5, [])
    core.outbox.clear()
    core.order.look_for_losses(cluster)
    assert said(core) == []


def test_in_source_order_what_was_lost_in_an_earlier_epoch_is_not_asked_for() -> None:
    core = make_core(service="source")
    take(core, [("2", data("2", 2))])
    cluster = core.begin_cluster((1, "1", 1), SITES)
    core.outbox.clear()
    core.order.look_for_losses(cluster)
    assert said(core) == []


def test_in_the_total_order_nothing_comes_again_outside_of_an_agreement() -> None:
    core = make_core()
    core.retransmission.on_retransmission("2", Retransmission(EPOCH, 1, data("2", 1)), BROADCAST)
    assert logged(core) == []


# ---------------------------------------------------------------------- recovery, sorting, retransmission
def test_in_an_agreement_a_member_is_heard_until_it_has_joined_and_nobody_else_is() -> None:
    core = make_core()
    assert all(core.recovery.hears(site) for site in SITES)
    core.recovery.send_reset((2, "1", 0), ("1", "2"))
    assert [core.recovery.hears(site) for site in SITES] == [True, True, False]
    joined = ResetPreAck((2, "1", 0), ("1", "2"), (0, 0), EPOCH, (0, "", 0), (), ONES, ONES, ONES)
    core.recovery.on_reset_pre_ack("2", joined, BROADCAST)
    assert [core.recovery.hears(site) for site in SITES] == [True, False, False]


def test_the_line_of_a_log_begins_with_the_first_message_that_someone_has_lost() -> None:
    core = make_core()
    take(core, [("2", data("2", 1)), ("3", data("3", 1)), ("2", data("2", 2))])
    reset = Reset((1, "1", 1), SITES, (0, 0, 0), EPOCH, (1, 3, 1), (1, 3, 1))
    core.recovery.on_reset("3", reset, BROADCAST)
    agreement, cluster = core.recovery.agreement, core.cluster
    assert agreement is not None
    assert cluster is not None
    # Site 3 has lost its own message, before which this log has one of site 2 and after which another one.
    assert core.sorting.first_line(cluster, agreement) == (1, 2, 1)
    head = core.sorting.sort_point(cluster, (1, 2, 1))
    assert head is not None
    assert (head.source, head.tseq, head.destinations) == (2, 1, (0, 1, 2))
    assert core.sorting.sort_point(cluster, (1, 3, 2)) is None


def test_what_sources_that_are_gone_have_sent_is_told_of() -> None:
    core = make_core()
    take(core, [("2", data("2", 1)), ("3", data("3", 1)), ("3", data("3", 2))])
    assert core.cluster is not None
    assert core.sorting.orphans(core.cluster, ("1", "2")) == ((2, 1), (2, 2))


def test_a_message_is_sent_again_once_in_a_period_whoever_asks() -> None:
    core = make_core()
    core.transmission.submit(multicast(1))
    core.outbox.clear()
    for asks in ("2", "3"):
        core.retransmission.on_request(asks, Request(EPOCH, "1", (1,)), BROADCAST)
    assert [type(packet) for packet in said(core)] == [Retransmission]
    core.retransmission.forget()
    core.retransmission.on_request("3", Request(EPOCH, "1", (1,)), BROADCAST)
    assert [type(packet) for packet in said(core)] == [Retransmission]


@pytest.mark.parametrize("request_", [Request((9, "1", 0), "1", (1,)), Request(EPOCH, "3", (1,))], ids=str)
def test_a_request_of_another_epoch_or_to_another_site_is_none_of_ours(request_: Request) -> None:
    core = make_core()
    core.transmission.submit(multicast(1))
    core.outbox.clear()
    core.retransmission.on_request("2", request_, BROADCAST)
    assert said(core) == []


# ---------------------------------------------------------------------- the whole
def roles_in_the_readme() -> dict[str, set[str]]:
    """Role -> whom it calls, in the table of roles."""
    folder = Path(selective_total.__file__).parent
    table = (folder / "README.md").read_text(encoding="utf-8").split("## Roles")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", table, flags=re.MULTILINE)
    return {role: {name for name in calls.split(", ") if name != "–"} for role, calls in rows}


def test_the_readme_says_whom_each_role_calls() -> None:
    roles = {"presence", "establishment", "transmission", "acknowledgement", "receipt", "order", "recovery"}
    roles |= {"sorting", "retransmission"}
    called: dict[str, set[str]] = {}
    for role in SelectiveTotal.parts:
        source = ast.parse(Path(inspect.getfile(role)).read_text(encoding="utf-8"))
        names = (node for node in ast.walk(source) if isinstance(node, ast.Attribute) and node.attr in roles)
        called[role.__name__] = {node.attr for node in names if ast.unparse(node.value) in ("core", "self._core")}
    assert called == roles_in_the_readme()
