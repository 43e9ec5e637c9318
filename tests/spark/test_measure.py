"""Measures of traces written by hand, against values computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.errors import UsageError
from ordercast.measure import Grouping, Measured, measure_here
from ordercast.spark.measure.folder import measure_folder
from ordercast.trace import write_trace
from tests.check.build import describe, events

# Name of the run -> its groups and its rows.
RUNS: dict[str, tuple[str, str]] = {
    "plain": (
        "g:a,b",
        """
        @0.0 a multicast m1 g
        @0.1 a send p1 peer=b messages=m1 packet=Data size=100
        @0.2 a deliver m1
        @0.3 b receive p1 peer=a messages=m1 packet=Data size=100
        @0.5 b deliver m1
        @1.0 b multicast m2 g
        @1.0 b deliver m2
        @2.0 a deliver m2
        """,
    ),
    "crash": (
        "g:a,b",
        """
        @0.0 a multicast m1 g
        @0.1 a deliver m1
        @0.2 b deliver m1
        @0.5 b fail
        @1.0 a multicast m2 g
        @1.1 a deliver m2
        @8.0 b awake
        @8.0 b replay m1
        @8.5 b recover
        @9.0 b deliver m2
        """,
    ),
    "gone": (
        "g:a,b,c",
        """
        @0.0 a multicast m1 g
        @1.0 a deliver m1
        @2.0 b deliver m1
        @3.0 c deliver m1
        @3.5 c fail
        @4.0 a multicast m2 g
        @5.0 a deliver m2
        @6.0 b deliver m2
        @7.0 a multicast m3 g
        @8.0 a deliver m3
        """,
    ),
    "again": (
        "g:a",
        """
        @0.0 a multicast m1 g
        @1.0 a deliver m1
        @2.0 a rollback m1
        @5.0 a deliver m1
        """,
    ),
    "subset": (
        "g:a,b,c",
        """
        @0.0 a multicast m1 destinations=b,c
        @1.0 b deliver m1
        @2.0 c deliver m1
        @3.0 a multicast m2 destinations=b,c groups=g
        @4.0 b deliver m2
        """,
    ),
    "bundles": (
        "g:a,b",
        """
        @0.0 a multicast m1 g count=10
        @1.0 a deliver m1 count=10
        @2.0 b deliver m1
        @4.0 a multicast m2 g
        @4.0 a deliver m2
        @4.0 b deliver m2
        """,
    ),
    "unknown": (
        "g:a",
        """
        @0.0 a multicast m1 g
        @1.0 a deliver m1
        @2.0 a deliver ghost
        """,
    ),
    "moves": (
        "g:a,b h:a",
        """
        @0.0 c join g
        @1.0 a multicast m1 g
        @2.0 a deliver m1
        @3.0 c deliver m1
        @4.0 b leave g             # and so m1 is not owed to it
        @5.0 a multicast m2 g,h
        @6.0 a deliver m2
        @7.0 c deliver m2
        @8.0 d join g              # too late for m2
        """,
    ),
    "repairs": (
        "g:a,b,c",
        """
        @0.0 a multicast m1 g
        @0.1 a multicast m2 g
        @1.0 a send p1 peer=b messages=m1 packet=Data size=10
        @2.0 a send p2 peer=c messages=m1 packet=Data size=10
        @3.0 a send p3 peer=b messages=m1,m2 packet=Data size=20     # m1 to b again
        @4.0 a send p4 peer=b messages=m1,m2 packet=Data size=20     # both again
        @5.0 b send p5 peer=a messages=m1 packet=Data size=10        # another sender
        @6.0 a send p6 peer=b messages=m1 packet=Order size=10       # another type
        @7.0 a send p7 peer=b packet=Alive size=1
        @8.0 a send p8 peer=b packet=Alive size=1
        @9.0 b receive p1 peer=a
        @9.1 c drop p2 reason=loss
        @9.2 b drop p7 reason=loss
        @9.3 b drop p3 reason=overrun
        """,
    ),
    "ethernet": (
        "g:a,b,c",
        """
        @0.0 a multicast m1 g
        @1.0 a send p1 messages=m1 packet=Data
        @1.1 b receive p1
        @1.1 b receive p1
        @1.1 c drop p1 reason=loss
        @2.0 a send p2 peer=c messages=m1 packet=Data    # after p1, which c should have heard
        @3.0 a send p3 peer=d messages=m1 packet=Data    # which never had a chance to
        @4.0 a send p4 messages=m1 packet=Data           # to everyone, again
        """,
    ),
    "views": (
        "g:a,b",
        """
        @0.0 a view v1 members=a,b
        @1.0 b view v1 members=a,b
        @5.0 a view v2 members=a
        """,
    ),
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measure") / "trace"
    traced = []
    for name, (groups, text) in RUNS.items():
        run = describe(groups, protocol="token" if name == "views" else "fan-1")
        run.run = name
        traced.append((run, events(text, name)))
    write_trace(folder, traced)
    return folder


Measure = Callable[[Path, Grouping], Measured]


@pytest.fixture(scope="module", params=["here", "spark"])
def measure(request: pytest.FixtureRequest) -> Measure:
    """The same tables, in this process and on Spark."""
    return measure_here if request.param == "here" else partial(measure_folder, request.getfixturevalue("spark"))


@pytest.fixture(scope="module")
def measured(measure: Measure, trace: Path) -> Measured:
    return measure(trace, Grouping("run"))


def lines(measured: Measured, measure: str, run: str, **more: Any) -> list[dict[str, Any]]:
    wanted = {"run": run, **more}
    return [row for row in measured.rows[measure] if wanted.items() <= row.items()]


def line(measured: Measured, measure: str, run: str, **more: Any) -> dict[str, Any]:
    (found,) = lines(measured, measure, run, **more)
    return found


def test_latency_is_from_multicast_to_each_first_delivery_and_to_the_last(measured: Measured) -> None:
    each = line(measured, "latency", "plain", at="each")
    assert each["count"] == 4
    assert each["min"] == 0.0
    assert each["max"] == 1.0
    assert each["mean"] == pytest.approx((0.2 + 0.5 + 0.0 + 1.0) / 4)
    assert each["p50"] == pytest.approx(0.35)
    assert each["p90"] == pytest.approx(0.5 + 0.7 * 0.5)
    every = line(measured, "latency", "plain", at="all")
    assert (every["count"], every["min"], every["max"]) == (2, 0.5, 1.0)
    assert every["mean"] == pytest.approx(0.75)


def test_a_delivery_after_a_recovery_has_its_real_latency_and_a_replay_none(measured: Measured) -> None:
    each = line(measured, "latency", "crash", at="each")
    assert each["count"] == 4
    assert each["max"] == 8.0
    assert each["mean"] == pytest.approx((0.1 + 0.2 + 0.1 + 8.0) / 4)
    assert line(measured, "latency", "crash", at="all")["max"] == 8.0
    assert line(measured, "throughput", "crash")["deliveries"] == 4


def test_a_site_that_stays_down_is_not_waited_for_and_one_that_is_up_is(measured: Measured) -> None:
    every = line(measured, "latency", "gone", at="all")
    # m1 with the delivery of the site that crashed later, m2 without it; m3 is owed to b, which is up.
    assert (every["count"], every["min"], every["max"]) == (2, 2.0, 3.0)
    assert line(measured, "throughput", "gone")["completed"] == 2


def test_of_several_deliveries_the_first_counts(measured: Measured) -> None:
    assert line(measured, "latency", "again", at="each")["max"] == 1.0
    throughput = line(measured, "throughput", "again")
    assert (throughput["deliveries"], throughput["seconds"]) == (1, 1.0)


def test_explicit_destinations_are_the_address(measured: Measured) -> None:
    every = line(measured, "latency", "subset", at="all")
    assert (every["count"], every["max"]) == (1, 2.0)


def test_bundles_count_by_what_is_in_them_and_take_their_time_once(measured: Measured) -> None:
    throughput = line(measured, "throughput", "bundles")
    assert (throughput["multicasts"], throughput["messages"], throughput["completed"]) == (2, 11, 11)
    # The delivery at b does not say how many there are; the multicast does.
    assert throughput["deliveries"] == 22
    assert throughput["seconds"] == 4.0
    assert throughput["messages_per_second"] == pytest.approx(11 / 4)
    assert throughput["deliveries_per_second"] == pytest.approx(22 / 4)
    assert line(measured, "latency", "bundles", at="each")["count"] == 4


def test_a_delivery_without_a_multicast_has_no_latency(measured: Measured) -> None:
    assert line(measured, "latency", "unknown", at="each")["count"] == 1
    assert line(measured, "throughput", "unknown")["deliveries"] == 2


def test_who_joins_in_time_is_waited_for_and_who_leaves_is_not(measured: Measured) -> None:
    every = line(measured, "latency", "moves", at="all")
    assert (every["count"], every["min"], every["max"]) == (2, 2.0, 2.0)


def test_packets_and_bytes_are_by_type_and_per_multicast_with_background_apart(measured: Measured) -> None:
    data = line(measured, "packets", "repairs", packet="Data")
    assert (data["background"], data["packets"], data["bytes"], data["multicasts"]) == (False, 5, 70, 2)
    assert (data["packets_per_multicast"], data["bytes_per_multicast"]) == (2.5, 35.0)
    alive = line(measured, "packets", "repairs", packet="Alive")
    assert (alive["background"], alive["packets"], alive["bytes"]) == (True, 2, 2)
    assert [row["packet"] for row in lines(measured, "packets", "repairs")] == ["Data", "Order", "Alive"]


def test_load_is_what_a_site_sends_and_receives(measured: Measured) -> None:
    load = {row["site"]: (row["sends"], row["receives"], row["load"]) for row in lines(measured, "load", "repairs")}
    assert load == {"a": (7, 0, 7), "b": (1, 1, 2)}
    assert line(measured, "load", "repairs", site="a")["load_per_multicast"] == 3.5


def test_a_retransmission_is_the_same_message_between_the_same_sites_by_the_same_type(measured: Measured) -> None:
    data = line(measured, "retransmissions", "repairs", packet="Data")
    assert (data["packets"], data["repeated_messages"], data["share"]) == (2, 3, pytest.approx(2 / 5))
    assert line(measured, "retransmissions", "repairs", packet="Order")["packets"] == 0
    assert lines(measured, "retransmissions", "repairs", packet="Alive") == []


def test_a_repair_after_a_network_multicast_is_a_retransmission_to_whoever_should_have_heard_it(
    measured: Measured,
) -> None:
    data = line(measured, "retransmissions", "ethernet", packet="Data")
    assert (data["packets"], data["repeated_messages"]) == (2, 2)
    # One multicast on the network is one packet.
    assert line(measured, "packets", "ethernet", packet="Data")["packets"] == 4


def test_drops_are_by_reason(measured: Measured) -> None:
    drops = {row["reason"]: (row["packets"], row["share"]) for row in lines(measured, "drops", "repairs")}
    assert drops == {"loss": (2, pytest.approx(0.5)), "overrun": (1, pytest.approx(0.25))}


def test_views_are_counted_once_and_their_changes_at_each_site(measured: Measured) -> None:
    views = line(measured, "views", "views")
    assert (views["views"], views["installations"], views["changes"]) == (2, 3, 1)
    assert (views["spread_mean"], views["spread_max"]) == (0.5, 1.0)


def test_a_run_without_messages_has_no_latency_and_no_rate(measured: Measured) -> None:
    assert lines(measured, "latency", "views") == []
    assert lines(measured, "throughput", "views") == []


def test_windows_partition_the_run_and_show_where_nothing_happened(measure: Measure, trace: Path) -> None:
    measured = measure(trace, Grouping("run", 2.0))
    crash = lines(measured, "throughput", "crash")
    assert [(row["from"], row["to"]) for row in crash] == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    assert [row["deliveries"] for row in crash] == [3, 0, 0, 0, 1]
    assert [row["seconds"] for row in crash] == [2.0, 2.0, 2.0, 2.0, 1.0]
    assert crash[1]["deliveries_per_second"] == 0.0
    # A latency belongs to the window of its multicast.
    latency = lines(measured, "latency", "crash", at="each")
    assert [(row["from"], row["count"], row["max"]) for row in latency] == [(0, 4, 8.0)]
    for run in RUNS:
        for table, name in (("packets", "packets"), ("load", "load"), ("drops", "packets")):
            whole = sum(row[name] for row in lines(measured, table, run))
            assert whole == {
                ("repairs", "packets"): 8,
                ("ethernet", "packets"): 4,
                ("plain", "packets"): 1,
                ("repairs", "load"): 9,
                ("ethernet", "load"): 6,
                ("plain", "load"): 2,
                ("repairs", "drops"): 3,
                ("ethernet", "drops"): 1,
            }.get((run, table), 0)
    # The repetition of what was first sent in an earlier window.
    repeated = lines(measured, "retransmissions", "repairs", packet="Data")
    assert {row["from"]: row["packets"] for row in repeated} == {0: 0, 2: 1, 4: 1}


def test_windows_that_are_far_too_short_are_refused(measure: Measure, trace: Path) -> None:
    with pytest.raises(UsageError, match="choose longer ones"):
        measure(trace, Grouping("run", 1e-6))
