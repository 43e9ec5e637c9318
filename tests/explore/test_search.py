"""Small worlds: searched whole where they are small enough, and nothing is wrong in them."""

from __future__ import annotations

import msgspec
import pytest

from ordercast.core import UsageError
from ordercast.explore.quorums import check_quorums
from ordercast.explore.search import Found, Search
from ordercast.explore.worlds import PARTS, find_world
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.protocols.parts.quorum import Quorum


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


@pytest.mark.parametrize("name", [name for name in PROTOCOL_NAMES if not find_protocol(name).contract.one_channel])
def test_every_protocol_can_be_searched_and_nothing_is_wrong_as_far_as_that_comes(name: str) -> None:
    found = search(name, 3, 2, states=2000)
    assert found.problem is None
    assert found.whole or found.states >= 2000
    assert found.settled > 0


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
