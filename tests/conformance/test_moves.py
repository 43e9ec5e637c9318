"""Every protocol whose groups come and go keeps its promises while they do: in the simulator, in a configured cluster,
and in one that no file describes; by the same script and the same judges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.trace.schema import Run
from tests.conformance.moves import (
    Script,
    Step,
    everything,
    move_by_seed,
    move_in_configured_cluster,
    move_in_simulator,
)
from tests.conformance.test_conformance import assert_claims_hold, claims_of

DYNAMIC = [name for name in PROTOCOL_NAMES if (contract := find_protocol(name).contract).dynamic and not contract.roles]
"""Whose views name everyone who is in. (InterGroup's name the senders; its tests are test_partition.py, and
node/test_open_intergroup.py.)"""

World = Callable[[str, Script, Path], tuple[Run, pa.Table]]

worlds = pytest.mark.parametrize(
    "play",
    [
        pytest.param(move_in_simulator, id="simulator"),
        pytest.param(move_in_configured_cluster, id="configured"),
        pytest.param(move_by_seed, id="seed"),
    ],
)


def sends(group: str, sources: str, name: str, each: int = 5) -> list[Step]:
    """Each source multicasts so many messages."""
    return [
        Step("send", source, group, f"{name}-{source}{index}".encode()) for index in range(each) for source in sources
    ]


def assert_went_as_written(script: Script, run: Run, events: pa.Table, protocol: str) -> None:
    """No claim is violated, everyone has delivered what it was there for, and a view follows every entry."""
    tried = claims_of(protocol) & {"multiple-source-order", "acyclic-order", "uniform-agreement", "termination"}
    assert_claims_hold(run, events, "integrity", *sorted(tried))
    rows = events.to_pylist()
    sent = sum(row["count"] for row in rows if row["kind"] == "multicast")
    assert sent == sum(step.what == "send" for step in script.steps)
    for site, parts in script.expected().items():
        delivered = sum(row["count"] for row in rows if row["kind"] == "deliver" and row["site"] == site)
        assert delivered == len(everything(parts)), site
    for site in script.sites:
        own = sorted((row for row in rows if row["site"] == site), key=lambda row: row["seq"])
        seen = [row for row in own if row["kind"] in ("join", "view", "deliver", "leave")]
        for place, row in enumerate(seen):
            if row["kind"] == "join":
                following = seen[place + 1]
                assert (following["kind"], following["groups"]) == ("view", row["groups"])
                assert site in following["members"]
    for site in script.sites:
        for group in {step.group for step in script.steps}:
            moves = [
                step.what for step in script.steps if (step.site, step.group) == (site, group) and not step.payload
            ]
            # Where no file says who is in it at the start, its first members have joined it, too.
            first = ["join"] if site in script.groups.get(group, ()) and not run.groups else []
            moved = [row for row in rows if row["kind"] in ("join", "leave") and row["site"] == site]
            assert [row["kind"] for row in moved if row["groups"] == [group]] == [*first, *moves]


@worlds
@pytest.mark.parametrize("protocol", DYNAMIC)
def test_whoever_joins_gets_what_comes_then_and_whoever_has_left_nothing_more(
    protocol: str, play: World, tmp_path: Path
) -> None:
    script = Script(
        {"g": ("a", "b")},
        [
            *sends("g", "ab", "first"),
            Step("join", "c", "g"),
            *sends("g", "abc", "with-c"),
            Step("join", "d", "g"),
            *sends("g", "abcd", "with-d"),
            Step("leave", "c", "g"),
            *sends("g", "abd", "without-c"),
            Step("join", "c", "g"),
            *sends("g", "abcd", "again"),
        ],
    )
    run, events = play(protocol, script, tmp_path)
    assert_went_as_written(script, run, events, protocol)


@worlds
@pytest.mark.parametrize("protocol", DYNAMIC)
def test_a_group_begins_with_its_first_member_and_ends_with_its_last(
    protocol: str, play: World, tmp_path: Path
) -> None:
    script = Script(
        {"g": ("a", "b")},
        [
            *sends("g", "ab", "old"),
            Step("join", "a", "new"),
            *sends("new", "a", "alone"),
            Step("join", "b", "new"),
            *sends("new", "ab", "both"),
            Step("leave", "a", "new"),
            Step("leave", "b", "new"),
            *sends("g", "ab", "still"),
        ],
    )
    run, events = play(protocol, script, tmp_path)
    assert_went_as_written(script, run, events, protocol)


@worlds
@pytest.mark.parametrize("protocol", DYNAMIC)
def test_losses_break_no_promise_while_sites_come_and_go(protocol: str, play: World, tmp_path: Path) -> None:
    script = Script(
        {"g": ("a", "b")},
        [
            *sends("g", "ab", "first"),
            Step("join", "c", "g"),
            *sends("g", "abc", "with-c"),
            Step("leave", "c", "g"),
            *sends("g", "ab", "without-c"),
        ],
        loss=0.15,
    )
    run, events = play(protocol, script, tmp_path)
    assert_went_as_written(script, run, events, protocol)
