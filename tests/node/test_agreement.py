"""Processes whose configurations differ do not talk with each other, and say where they differ; logs do too."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.core import Options
from ordercast.node.configuration import read_configuration
from ordercast.protocols import find_protocol, find_protocols
from tests.node.cluster import make_configuration, open_nodes, payloads, run

ADVICE = "; use one configuration file for all processes"


def changed(configuration: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return configuration | keys


@pytest.mark.parametrize(
    ("keys", "at_b", "at_c"),
    [
        (
            {"options": {"sequencer": "b"}},
            '[options] sequencer differs: "" here, "b" there',
            '[options] sequencer differs: "b" here, "" there',
        ),
        (
            {"protocol": "token"},
            'protocol differs: "sequencer" here, "token" there',
            'protocol differs: "token" here, "sequencer" there',
        ),
        (
            {"groups": {"g": ["a", "b", "c"], "h": ["c"]}},
            '[groups] h differs: nothing here, ["c"] there',
            '[groups] h differs: ["c"] here, nothing there',
        ),
        (
            {"processes": {"aa": "127.0.0.1:9"}},
            '[processes] differs: ["a", "b", "c"] here, ["a", "aa", "b", "c"] there',
            '[processes] differs: ["a", "aa", "b", "c"] here, ["a", "b", "c"] there',
        ),
    ],
)
def test_a_newcomer_that_differs_ends_with_the_key_and_the_values_and_the_others_go_on(
    keys: dict[str, Any], at_b: str, at_c: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        configuration = make_configuration()
        other = changed(configuration, **keys)
        if "processes" in keys:
            other["processes"] = configuration["processes"] | keys["processes"]
        with caplog.at_level(logging.WARNING, "ordercast.wire"):
            async with open_nodes(configuration, "ab") as (a, b):
                async with ordercast.open(other, "c") as c:
                    with pytest.raises(ordercast.NodeFailed) as caught:
                        await c.wait_for_peers()
                    assert str(caught.value) in {f"process c refuses {who}: {at_c}{ADVICE}" for who in "ab"}
                    assert isinstance(caught.value.__cause__, ordercast.UsageError)
                for node in (a, b):
                    line = f"process {node.process} refuses c: {at_b}{ADVICE}"
                    assert node.status()["refused"] == {"c": line}
                    assert caplog.messages.count(line) == 1
                    assert node.status()["peers"] == ["b" if node is a else "a"]
                # The group is whole when the right one comes.
                async with ordercast.open(configuration, "c") as c:
                    await c.wait_for_peers()
                    await c.multicast(b"here", ["g"])
                    for node in (a, b, c):
                        assert await payloads(await node.join("g"), 1) == [b"here"]
                        assert node.status()["refused"] == {}

    run(main())


def test_what_a_rolling_restart_may_change_is_not_compared(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration(log_directory=str(tmp_path))
        async with open_nodes(configuration) as nodes:
            await nodes[0].multicast(b"before", ["g"])
            for node in nodes:
                assert await payloads(await node.join("g"), 1) == [b"before"]
                node.kill()
        tuned = changed(configuration, options={"window_messages": 3, "retransmit_seconds": 0.2}, busy_poll=0)
        async with open_nodes(tuned, "ab") as (a, _), ordercast.open(configuration, "c") as c:
            await a.multicast(b"after", ["g"])
            assert await payloads(await c.join("g"), 2) == [b"before", b"after"]

    run(main())


def test_a_process_that_the_others_do_not_know_stops_nobody_and_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    """It used to move the role of the sequencer to itself, for its name is the first, and the others ended."""

    async def main() -> None:
        configuration = make_configuration()
        port = make_configuration("z")["processes"]["z"]
        added = changed(configuration, processes=configuration["processes"] | {"0": port})
        added["groups"] = {"g": ["0", "a", "b", "c"]}
        async with open_nodes(configuration, "ab") as (a, b), ordercast.open(added, "0") as stranger:
            await stranger.multicast(b"from nowhere", ["g"])
            async with ordercast.open(added, "c") as c:
                # These two agree, so neither ends; they have a sequencer of their own, and an order of their own.
                await c.wait_for_peers("0")
                while "c" not in a.status()["refused"]:
                    await asyncio.sleep(0)
                assert set(c.status()["refused"]) == {"a", "b"}
                c.kill()
            await b.multicast(b"still here", ["g"])
            assert await payloads(await a.join("g"), 1) == [b"still here"]
            refused = a.status()["refused"]
            assert set(refused) == {"0", "c"}
            assert refused["0"] == f"process a refuses 0: it is not among the [processes] here: {ADVICE[2:]}"
            assert caplog.messages.count(refused["0"]) == 1
            stranger.kill()

    run(main())


def test_a_process_that_nobody_knows_ends_with_a_line_that_says_so() -> None:
    """It used to wait for ever: nobody could answer, since nobody knew where it is."""

    async def main() -> None:
        configuration = make_configuration()
        added = changed(configuration, processes=configuration["processes"] | make_configuration("d")["processes"])
        async with open_nodes(configuration, "ab"), ordercast.open(added, "d") as d:
            with pytest.raises(ordercast.NodeFailed) as caught:
                await d.wait_for_peers()
            assert str(caught.value) in {
                f"process d refuses {who}: {who} has no process d in [processes]: add it at all of them" for who in "ab"
            }

    run(main())


@pytest.mark.parametrize("which", ["a", "b"])
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"options": {"sequencer": "b"}}, '[options] sequencer differs: "" then, "b" now'),
        ({"protocol": "token"}, 'protocol differs: "sequencer" then, "token" now'),
        ({"groups": {"g": ["a"]}}, '[groups] g differs: ["a", "b"] then, ["a"] now'),
        ({"processes": {"c": "127.0.0.1:9"}}, '[processes] differs: ["a", "b"] then, ["a", "b", "c"] now'),
    ],
)
def test_a_log_of_another_configuration_is_refused_at_the_start(
    which: str, keys: dict[str, Any], words: str, tmp_path: Path
) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path))
        async with open_nodes(configuration) as (a, b):
            await b.multicast(b"logged", ["g"])
            assert await payloads(await a.join("g"), 1) == [b"logged"]
        other = changed(configuration, **keys)
        if "processes" in keys:
            other["processes"] = configuration["processes"] | keys["processes"]
        with pytest.raises(ordercast.UsageError) as caught:
            async with ordercast.open(other, which):
                pass
        assert str(caught.value) == (
            f"{tmp_path / which}: was written with another configuration: {words}; go back to what it was then, or "
            f"stop all processes and begin anew with another log_directory"
        )
        async with open_nodes(configuration) as (a, b):
            assert await payloads(await a.join("g"), 1) == [b"logged"]
            assert a.incarnation == 1, "a start that was refused does not count"

    run(main())


def test_a_log_that_does_not_say_with_what_it_was_written_is_taken_and_says_it_from_then_on(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration("a", log_directory=str(tmp_path))
        identity = tmp_path / "a" / "identity.json"
        async with ordercast.open(configuration, "a"):
            pass
        said = json.loads(identity.read_text())
        agreed = said.pop("agreed")
        assert agreed == {"protocol": "sequencer", "[processes]": ["a"], "[groups] g": ["a"], "[options] sequencer": ""}
        identity.write_text(json.dumps(said))
        async with ordercast.open(configuration, "a") as a:
            assert a.incarnation == 1
        assert json.loads(identity.read_text())["agreed"] == agreed

    run(main())


def test_processes_that_start_together_are_not_stopped_by_one_that_differs() -> None:
    async def main() -> None:
        configuration = make_configuration()
        other = changed(configuration, options={"sequencer": "c"})
        # a meets c, which is wrong, before b is there.
        async with ordercast.open(configuration, "a") as a, ordercast.open(other, "c") as c:
            while not a.status()["refused"]:
                await asyncio.sleep(0)
            async with ordercast.open(configuration, "b") as b:
                with pytest.raises(ordercast.NodeFailed, match="sequencer differs"):
                    await c.wait_failed()
                await b.multicast(b"together", ["g"])
                assert await payloads(await a.join("g"), 1) == [b"together"]

    run(main())


@pytest.mark.parametrize("name", sorted(find_protocols()[0]))
def test_shared_options_are_options_and_stand_in_the_agreement(name: str) -> None:
    kind: type[Options] = find_protocol(name).contract.options
    assert kind.shared <= set(kind.__struct_fields__)
    keys: dict[str, Any] = {"channel": "127.0.0.1:9"} if find_protocol(name).contract.one_channel else {}
    agreed = read_configuration(make_configuration(protocol=name, **keys), {}, {}).agreed()
    assert {key.removeprefix("[options] ") for key in agreed if key.startswith("[options]")} == kind.shared
    json.dumps(agreed)


def test_the_document_names_the_options_that_must_agree() -> None:
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    rows = text.split("| protocol | options that must agree |")[1].split("\n\n")[0].splitlines()[2:]
    documented: dict[str, frozenset[str]] = {}
    for row in rows:
        names, options = (frozenset(re.findall(r"`([\w-]+)`", cell)) for cell in row.split("|")[1:3])
        documented |= dict.fromkeys(names, options)
    assert documented == {name: kind.contract.options.shared for name, kind in find_protocols()[0].items()}
