"""SCALATOM under the node: open senders, and what an operator hears at the start."""

from __future__ import annotations

import asyncio

import pytest

import ordercast
from ordercast.node.advice import find_warnings
from ordercast.node.configuration import read_configuration
from tests.node.cluster import make_configuration, open_nodes, payloads, run

GROUPS = {"g": ["a", "b", "c"], "h": ["c", "d", "e"]}


def test_senders_that_have_joined_nothing_are_ordered_across_groups() -> None:
    async def main() -> None:
        configuration = make_configuration("abcdexy", protocol="scalatom", groups=GROUPS)
        async with open_nodes(configuration) as nodes:
            members = {
                node.process: await node.join(*(name for name in GROUPS if node.process in GROUPS[name]))
                for node in nodes[:5]
            }
            for number in range(20):
                for node, name in ((nodes[5], b"x"), (nodes[6], b"y")):
                    await node.multicast(name + bytes([number]), ["g", "h"] if number % 2 else ["g"])
            taken = await asyncio.gather(*(payloads(members[name], 20 if name in "de" else 40) for name in "abcde"))
        to_both = [payload for payload in taken[0] if payload[1] % 2]
        assert taken[0] == taken[1] == taken[2]
        assert taken[3] == taken[4] == to_both
        assert len(set(taken[0])) == 40

    run(main())


def test_cells_that_tolerate_no_failure_are_named_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    configuration = make_configuration("abcde", protocol="scalatom", groups=GROUPS)

    async def main() -> None:
        async with ordercast.open(configuration, "a"):
            pass

    run(main())
    named = [text for text in caplog.messages if "tolerates no failure" in text]
    assert [text.partition(" a cell ")[0] for text in named] == [
        "the processes a, b are",
        "the process c is",
        "the processes d, e are",
    ]
    validated = find_warnings(read_configuration(configuration, {}, {}))
    assert [warning for warning in validated if "tolerates no failure" in warning] == named
    fine = make_configuration("abc", protocol="scalatom")
    assert not [warning for warning in find_warnings(read_configuration(fine, {}, {})) if "failure" in warning]
