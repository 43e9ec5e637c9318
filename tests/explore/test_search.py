"""Small worlds: searched whole where they are small enough, and nothing is wrong in them."""

from __future__ import annotations

import msgspec
import pytest

from ordercast.core import UsageError
from ordercast.explore.counterexample import explain
from ordercast.explore.quorums import check_quorums
from ordercast.explore.replay import Replay
from ordercast.explore.search import Found, Search
from ordercast.explore.site import Sites
from ordercast.explore.worlds import PARTS, find_world
from ordercast.protocols import PROTOCOL_NAMES
from ordercast.protocols.parts.quorum import Quorum
from ordercast.protocols.selective_total import SelectiveTotal
from ordercast.protocols.selective_total.source_order import SourceOrder
from ordercast.protocols.selective_total.total_order import TotalOrder


def search(name: str, sites: int, messages: int, **limits: float) -> Found:
    world = find_world(name, sites, messages)
    return Search(world, msgspec.structs.replace(world.limits, **limits)).run()


@pytest.mark.parametrize(
    ("name", "sites", "messages", "limits"),
    [
        ("consensus", 2, 1, {"crashes": 1, "timers": 1}),
        ("primary", 2, 1, {"crashes": 0, "timers": 1}),
        ("multicast", 2, 2, {"crashes": 1}),
        ("multicast-eager", 3, 1, {"crashes": 1}),
        ("link", 2, 1, {"crashes": 1, "timers": 2, "duplicates": 1}),
        ("link-full", 2, 2, {"crashes": 0, "timers": 2, "duplicates": 0}),
        ("lease", 2, 1, {"crashes": 1, "timers": 3}),
        ("detector", 2, 1, {"crashes": 1, "timers": 4}),
    ],
)
def test_the_smallest_world_of_each_part_is_searched_whole_and_nothing_is_wrong(
    name: str, sites: int, messages: int, limits: dict[str, float]
) -> None:
    found = search(name, sites, messages, **limits)
    assert found.problem is None
    assert found.whole
    assert found.states > 20
    assert found.settled > 0


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_protocol_can_be_searched_and_nothing_is_wrong_as_far_as_that_comes(name: str) -> None:
    found = search(name, 3, 2, states=2000)
    assert found.problem is None
    assert found.whole or found.states >= 2000
    assert found.settled > 0


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_two_sites_with_twice_as_many_crashes_and_short_logs_come_deeper_and_nothing_is_wrong(name: str) -> None:
    world = find_world(name, 2, 2, checkpoint=1)
    twice = {"crashes": 2 * world.limits.crashes, "timers": 2 * world.limits.timers}
    found = Search(world, msgspec.structs.replace(world.limits, states=2000, **twice)).run()
    assert found.problem is None


def test_logs_are_summed_up_where_that_is_asked_for() -> None:
    world = find_world("sequencer", 2, 1, checkpoint=1)
    looking = Search(world, msgspec.structs.replace(world.limits, states=2000))
    looking.run()
    assert any(local.checkpoint is not None for local in looking.sites.locals)
    usual = Search(find_world("sequencer", 2, 1), msgspec.structs.replace(world.limits, states=2000))
    usual.run()
    assert all(local.checkpoint is None for local in usual.sites.locals)


def test_on_one_channel_everyone_hears_frames_in_one_order_and_what_was_skipped_is_lost() -> None:
    world = find_world("selective-total", 2, 1)
    sites = Search(world).sites
    frames = [packet for _ in range(2) for site in range(2) for packet in _frames_of(sites, site)]
    assert [sites.packets[packet].receiver for packet in sites.queued(frames)] == [0, 0, 0, 0, 1, 1, 1, 1]
    heard = [[packet for packet in frames if sites.packets[packet].receiver == site] for site in range(2)]
    assert sites.queued(frames) == heard[0] + heard[1]
    assert search("selective-total", 2, 1, seconds=120, timers=2).whole


def _frames_of(sites: Sites, site: int) -> tuple[int, ...]:
    """What a site says when its first period is over."""
    return sites.fire(sites.start(site).after, "tick", 0.0).sends


def test_a_broken_rule_of_a_protocol_on_one_channel_is_found_with_the_run_before_the_search() -> None:
    class DeliversWhatItAccepts(SelectiveTotal):
        def make_order(self) -> TotalOrder | SourceOrder:
            return SourceOrder(self)

    world = msgspec.structs.replace(find_world("selective-total", 3, 2), protocol=DeliversWhatItAccepts)
    looking = Search(world)
    found = looking.run()
    assert found.problem is not None
    assert "total order" in found.problem
    example = explain(world, looking.sites, found, 2)
    assert Replay(world, example).run() is not None


def test_who_promises_no_end_is_not_expected_to_come_to_one() -> None:
    assert find_world("fan-1", 2, 1).done((), 0.0, frozenset()) is None
    assert find_world("sequencer", 2, 1).done is find_world("consensus", 2, 1).done


def test_every_part_has_its_smallest_world() -> None:
    assert {"consensus", "link", "lease", "detector", "primary", "multicast"} <= set(PARTS)


def test_states_that_differ_in_the_names_of_sites_only_are_one() -> None:
    world = find_world("multicast-eager", 3, 1)
    without = msgspec.structs.replace(world, symmetries=())
    merged, all_of_them = Search(world).run(), Search(without).run()
    assert merged.whole
    assert all_of_them.whole
    assert merged.states < 0.7 * all_of_them.states


def test_any_two_quorums_share_a_site_in_each_group() -> None:
    pairs, problem = check_quorums(5)
    assert problem is None
    # One group of five: 16 quorums. Of four and one: 5, five times. Of three and two, and of three, one and one: 4, ten
    # times each. In the 26 other divisions everyone is needed.
    assert pairs == 16**2 + 5 * 5**2 + 20 * 4**2 + 26


def test_a_quorum_of_half_is_found() -> None:
    class Half(Quorum):
        def __init__(self, groups: list[tuple[str, ...]]) -> None:
            super().__init__(groups)
            self.groups = tuple((group, (len(group) + 1) // 2) for group, _ in self.groups)

    _, problem = check_quorums(4, Half)
    assert problem is not None
    assert "share too little" in problem


def test_what_there_is_not_is_said_in_one_line() -> None:
    with pytest.raises(UsageError, match="nothing is called 'konsensus'"):
        find_world("konsensus", 3, 2)
    with pytest.raises(UsageError, match="2 to 4 sites"):
        find_world("consensus", 7, 2)
