"""The rules of chapter 2 that need no network: Figures 2.2 and 2.3, Tables 2.2 to 2.4, reports, options."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from ordercast.core import UsageError, WireError, encoded_size
from ordercast.protocols.intergroup.control import ControlOptions, GroupReport
from ordercast.protocols.intergroup.control.appropriateness import (
    Appropriateness,
    child_continues,
    coordinator_continues,
    draw,
    of_child,
    of_coordinator,
    timer_interval,
)
from ordercast.protocols.intergroup.control.pacing import Pace
from ordercast.protocols.intergroup.control.packets import CCon, GCon, LCon, TimestampPair, approximate_size
from ordercast.protocols.intergroup.control.report import ControlData, merge

LOW, HIGH, TARGET = 4, 12, 10
OPTIONS = ControlOptions(
    coordinators_low=LOW,
    coordinators_high=HIGH,
    local_target_size=TARGET,
    state_change_low_seconds=2.0,
    state_change_high_seconds=5.0,
)
NO_CHANGE, APPROPRIATE = Appropriateness.NO_CHANGE, Appropriateness.APPROPRIATE
NEUTRAL, INAPPROPRIATE = Appropriateness.NEUTRAL, Appropriateness.INAPPROPRIATE


# ---------------------------------------------------------------------- Figure 2.2
def test_the_first_wait_is_around_half_the_minimum_figure_2_2() -> None:
    waits = [Pace(ControlOptions(), Random(seed)).begin() for seed in range(200)]
    assert 0.25 <= min(waits) < 0.3
    assert 0.7 < max(waits) <= 0.75


def test_a_small_group_waits_around_the_minimum_figure_2_2() -> None:
    pace = Pace(ControlOptions(target_bandwidth=10_000.0), Random(0))
    pace.members = 3
    waits = [pace.sent(300) for _ in range(500)]
    assert 0.5 <= min(waits) < 0.55
    assert 1.45 < max(waits) <= 1.5


def test_a_large_group_keeps_to_the_bandwidth_figure_2_2() -> None:
    pace = Pace(ControlOptions(target_bandwidth=10_000.0), Random(0))
    pace.members = 100
    waits = [pace.sent(1000) for _ in range(500)]
    settled = waits[100:]
    assert sum(settled) / len(settled) == pytest.approx(100 * 1000 / 10_000, rel=0.05)
    assert pace.average_seconds == pytest.approx(10.0, rel=0.25)


def test_the_average_size_follows_what_is_heard_by_a_sixteenth_figure_2_3() -> None:
    pace = Pace(ControlOptions(), Random(0))
    assert pace.average_size == 128
    pace.heard(288)
    assert pace.average_size == 128 + 160 / 16
    pace.sent(138)
    assert pace.average_size == 138


# ---------------------------------------------------------------------- Table 2.2
@pytest.mark.parametrize(
    ("num_coords", "num_locals", "close", "expected"),
    [
        (LOW - 1, 0, True, NO_CHANGE),
        (LOW, 0, True, NO_CHANGE),
        (LOW + 1, 0, True, APPROPRIATE),
        (LOW + 1, 1, True, NEUTRAL),
        (LOW + 1, TARGET - 1, True, NEUTRAL),
        (LOW + 1, TARGET, True, INAPPROPRIATE),
        (LOW + 1, 0, False, INAPPROPRIATE),
        (HIGH + 1, 1, False, INAPPROPRIATE),
    ],
)
def test_how_appropriate_it_is_that_a_coordinator_leaves_table_2_2(
    num_coords: int, num_locals: int, close: bool, expected: Appropriateness
) -> None:
    assert of_coordinator(OPTIONS, num_coords, num_locals, close) is expected


@pytest.mark.parametrize(
    ("num_locals", "far", "expected"),
    [
        (TARGET + 1, True, APPROPRIATE),
        (TARGET, True, NEUTRAL),
        (0, True, NEUTRAL),
        (TARGET + 1, False, INAPPROPRIATE),
        (0, False, INAPPROPRIATE),
    ],
)
def test_how_appropriate_it_is_that_a_child_becomes_a_coordinator_table_2_2(
    num_locals: int, far: bool, expected: Appropriateness
) -> None:
    assert of_child(OPTIONS, num_locals, far) is expected


# ---------------------------------------------------------------------- Table 2.3
@pytest.mark.parametrize(
    ("appropriateness", "num_coords", "expected"),
    [
        (APPROPRIATE, LOW + 1, True),
        (NEUTRAL, (LOW + 3 * HIGH) // 4, False),
        (NEUTRAL, (LOW + 3 * HIGH) // 4 + 1, True),
        (INAPPROPRIATE, HIGH, False),
        (INAPPROPRIATE, HIGH + 1, True),
        (NO_CHANGE, HIGH + 1, False),
    ],
)
def test_when_a_coordinator_goes_on_with_it_table_2_3(
    appropriateness: Appropriateness, num_coords: int, expected: bool
) -> None:
    assert coordinator_continues(OPTIONS, appropriateness, num_coords) is expected


@pytest.mark.parametrize(
    ("appropriateness", "num_coords", "expected"),
    [
        (APPROPRIATE, HIGH - 1, True),
        (APPROPRIATE, HIGH, False),
        (NEUTRAL, (3 * LOW + HIGH) // 4, False),
        (NEUTRAL, (3 * LOW + HIGH) // 4 - 1, True),
        (INAPPROPRIATE, LOW, False),
        (INAPPROPRIATE, LOW - 1, True),
        (NO_CHANGE, LOW - 1, False),
    ],
)
def test_when_a_child_goes_on_with_it_table_2_3(
    appropriateness: Appropriateness, num_coords: int, expected: bool
) -> None:
    assert child_continues(OPTIONS, appropriateness, num_coords) is expected


# ---------------------------------------------------------------------- Table 2.4
@pytest.mark.parametrize(
    ("appropriateness", "interval"), [(APPROPRIATE, (2, 5)), (NEUTRAL, (7, 12)), (INAPPROPRIATE, (12, 17))]
)
def test_the_less_appropriate_a_change_the_later_it_comes_table_2_4(
    appropriateness: Appropriateness, interval: tuple[float, float]
) -> None:
    assert timer_interval(OPTIONS, appropriateness) == interval


def test_however_many_draw_a_timer_few_are_early() -> None:
    random = Random(0)
    for count in (10, 100, 1000, 10_000):
        drawn = sorted(draw(random, 2.0, 10.0) for _ in range(count))
        assert drawn[0] >= 2.0
        assert drawn[-1] <= 10.0
        within_half_a_second_of_the_first = sum(time < drawn[0] + 0.5 for time in drawn)
        assert within_half_a_second_of_the_first <= 5


# ---------------------------------------------------------------------- reports
def test_reports_merge_to_the_least_timestamp_its_holder_and_the_sum_of_receivers_3_5() -> None:
    one = ControlData({"g": GroupReport(7, "b", 2), "h": GroupReport(3, "b", 1)})
    other = ControlData({"g": GroupReport(5, "c", 4)})
    both = {"g": GroupReport(5, "c", 6), "h": GroupReport(3, "b", 1)}
    assert merge((one, other)).reports == merge((other, one)).reports == both


def test_of_two_holders_at_the_same_timestamp_everyone_names_the_same() -> None:
    reports = GroupReport(5, "c", 1), GroupReport(5, "b", 1)
    assert reports[0].merge(reports[1]).holder == reports[1].merge(reports[0]).holder == "b"


def test_a_report_from_elsewhere_holds_back_and_counts_nobody() -> None:
    assert ControlData({"g": GroupReport(5, "c", 4)}).elsewhere().reports == {"g": GroupReport(5, "c", 0)}


@pytest.mark.parametrize(
    "report", [GroupReport(1, "a", -1), GroupReport(1 << 63, "a", 1), GroupReport(1, "a", 1 << 40)]
)
def test_an_impossible_report_is_refused(report: GroupReport) -> None:
    with pytest.raises(WireError):
        ControlData({"g": report}).check(10)


# ---------------------------------------------------------------------- packets
@pytest.mark.parametrize("count", [0, 3, 40, 400])
def test_the_approximate_size_is_near_the_real_one(count: int) -> None:
    sites = [f"s{number:04}" for number in range(count)]
    pairs = {site: TimestampPair(1234.5678, 1234.6789) for site in sites}
    distances = dict.fromkeys(sites, 0.0123)
    data = ControlData({"group": GroupReport(1_234_567_890, "s0001", 40)})
    for packet in (
        LCon(16, 1234.5, "s0001", count, pairs, data),
        CCon(16, 1234.5, 0.1, count, count, pairs, distances, distances, data, 1.0),
        GCon(1234.5, count, count, pairs, data),
    ):
        assert approximate_size(packet, 5) == pytest.approx(encoded_size(packet), rel=0.1, abs=30)


# ---------------------------------------------------------------------- options
@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"coordinators_low": 9, "coordinators_high": 8}, "coordinators_low = 9 is above coordinators_high = 8"),
        ({"control_seconds_min": 0.0}, "control_seconds_min is positive, not 0.0"),
        ({"target_bandwidth": -1.0}, "target_bandwidth is positive, not -1.0"),
        ({"local_target_size": 0}, "local_target_size is at least 1, not 0"),
        ({"boundary_ttl": 99}, "system_ttl is from boundary_ttl = 99 to 255, not 64"),
        ({"system_ttl": 256}, "system_ttl is from boundary_ttl = 16 to 255, not 256"),
        ({"state_change_low_seconds": 9.0}, "state_change_low_seconds is not above state_change_high_seconds"),
        ({"search_seconds": 0.1}, "search_seconds is not below ring_seconds"),
        ({"stale_seconds": 8.0}, "stale_seconds = 8.0 is below silence_seconds + search_seconds"),
        ({"distance_seconds_min": 31.0}, "distance_seconds_min is not above distance_seconds_max"),
        ({"processes_max": 0}, "processes_max is at least 1, not 0"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(changed: dict[str, float], complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        msgspec.structs.replace(ControlOptions(), **changed)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
