"""A process that comes back with less history than others have heard of ends before it does anything; one that has lost
nothing is welcome."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.node.node import Node
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.runtime import Instance
from ordercast.trace.read import read_events
from tests.node.cluster import make_configuration, open_nodes, payloads, run, take

WITH_A_LOG = tuple(
    name
    for name in PROTOCOL_NAMES
    if find_protocol(name).records
    and not find_protocol(name).contract.single_source
    and not find_protocol(name).contract.successive_deaths  # nobody comes back
)
TOTAL_ORDER = ("sequencer", "two-phase", "token", "propagation-graph", "scalatom")


class Folders:
    """The folders of one process in a log directory."""

    def __init__(self, log_directory: Path, process: str) -> None:
        self._kept = log_directory.with_name(f"copy of {process}")
        # The end first: what is noted there is in the log.
        self._folders = [log_directory / f"_end.{process}", log_directory / process]

    def copy(self) -> None:
        """Keep what is there now, as a backup or a snapshot of the disk does."""
        for folder in self._folders:
            shutil.copytree(folder, self._kept / folder.name)

    def remove(self) -> None:
        for folder in self._folders:
            shutil.rmtree(folder)

    def restore(self) -> None:
        self.remove()
        for folder in self._folders:
            shutil.copytree(self._kept / folder.name, folder)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Which incarnations of which processes have let their protocol begin."""
    starts: list[tuple[str, int]] = []
    start = Instance.start

    def noted(instance: Instance, now: float, lost: bool = False) -> None:
        starts.append((instance.context.site, instance.context.incarnation))
        start(instance, now, lost)

    monkeypatch.setattr(Instance, "start", noted)
    return starts


async def exchange(groups: list[ordercast.Group], count: int) -> None:
    """Everyone multicasts so many messages, and takes those of all."""
    for group in groups:
        await group.multicast_many([b"%d" % number for number in range(count)])
    for group in groups:
        await take(group, count * len(groups))


async def join_all(*nodes: Node) -> list[ordercast.Group]:
    return [await node.join("g") for node in nodes]


async def expect_refusal(configuration: dict[str, Any], process: str, *peers: Node) -> str:
    """Start a process that has lost something: the line with which it ends."""
    async with ordercast.open(configuration, process) as node:
        with pytest.raises(ordercast.NodeFailed) as failure:
            await node.wait_failed()
        with pytest.raises(ordercast.NodeFailed):
            await node.multicast(b"too late", ["g"])
        assert not any(node.status()["offsets"].values())
    line = str(failure.value)
    # Its answer to whoever refused it first was sent before it ended, and is on its way.
    while not any(f"refuses {process}: " in peer.status()["refused"].get(process, "") for peer in peers):
        await asyncio.sleep(0)
    return line


@pytest.mark.parametrize("process", ["a", "b"])
@pytest.mark.parametrize("protocol", TOTAL_ORDER)
def test_a_process_with_an_old_copy_of_its_log_ends_before_its_protocol_begins(
    protocol: str, process: str, tmp_path: Path, started: list[tuple[str, int]]
) -> None:
    async def main() -> None:
        configuration = make_configuration(protocol=protocol, log_directory=str(tmp_path / "log"))
        folders = Folders(tmp_path / "log", process)
        async with open_nodes(configuration, "abc".replace(process, "")) as others:
            async with open_nodes(configuration, process) as (node,):
                groups = await join_all(node, *others)
                await exchange(groups, 5)
                folders.copy()
                await exchange(groups, 5)
                node.kill()
            folders.restore()
            line = await expect_refusal(configuration, process, *others)
            before, since = (int(number) for number in re.findall(r"(\d+) (?:records? )?when it", line))
            assert 0 < before < since
            assert "acknowledged since is lost (a backup was restored" in line
            assert "give it the log that it had, or stop" in line
            assert (process, 1) not in started
            for other in others:
                other.kill()

    run(main())


@pytest.mark.parametrize("protocol", TOTAL_ORDER)
def test_a_process_whose_folder_was_emptied_is_no_new_one(
    protocol: str, tmp_path: Path, started: list[tuple[str, int]]
) -> None:
    async def main() -> None:
        configuration = make_configuration(
            protocol=protocol, log_directory=str(tmp_path / "log"), trace_directory=str(tmp_path / "trace")
        )
        async with open_nodes(configuration, "bc") as others:
            async with open_nodes(configuration, "a") as (a,):
                await exchange(await join_all(a, *others), 5)
                a.kill()
            Folders(tmp_path / "log", "a").remove()
            assert "its log had 0 records when it started" in await expect_refusal(configuration, "a", *others)
            assert started.count(("a", 0)) == 1
            last = read_events(tmp_path / "trace" / "a").to_pylist()[-1]
            assert (last["kind"], last["reason"]) == ("fail", "refused")
            for other in others:
                other.kill()

    run(main())


@pytest.mark.parametrize("protocol", TOTAL_ORDER)
def test_it_is_refused_by_those_who_were_restarted_themselves_since(
    protocol: str, tmp_path: Path, started: list[tuple[str, int]]
) -> None:
    async def main() -> None:
        configuration = make_configuration(protocol=protocol, log_directory=str(tmp_path / "log"))
        folders = Folders(tmp_path / "log", "a")
        async with open_nodes(configuration) as nodes:
            groups = await join_all(*nodes)
            await exchange(groups, 5)
            folders.copy()
            await exchange(groups, 5)
            for node in nodes:
                node.kill()
        folders.restore()
        async with open_nodes(configuration, "bc") as others:
            await expect_refusal(configuration, "a", *others)
            assert ("a", 1) not in started
            for other in others:
                other.kill()

    run(main())


def test_one_that_started_while_nobody_was_there_ends_when_it_is_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path / "log"))
        folders = Folders(tmp_path / "log", "a")
        async with open_nodes(configuration) as nodes:
            groups = await join_all(*nodes)
            await exchange(groups, 5)
            folders.copy()
            await exchange(groups, 5)
            for node in nodes:
                node.kill()
        folders.restore()
        async with ordercast.open(configuration, "a") as a:
            await a.internals.wait_started()
            assert "process a starts without an answer from b" in caplog.text
            # As many new records as it had before: what counts is where it began.
            await a.multicast_many([b"new"] * 100, ["g"])
            async with ordercast.open(configuration, "b") as b:
                with pytest.raises(ordercast.NodeFailed, match="b refuses a: its log had"):
                    await a.wait_failed()
                b.kill()

    run(main())


def test_messages_wait_until_the_protocol_has_begun(tmp_path: Path, started: list[tuple[str, int]]) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path / "log"))
        async with ordercast.open(configuration, "b") as b:
            await b.multicast(b"early", ["g"])
            b.try_multicast(b"early too", ["g"])
            group = await b.join("g")
            assert started == []
            assert b.status()["branches"] == {}
            async with ordercast.open(configuration, "a") as a:
                assert await payloads(group, 2) == [b"early", b"early too"]
                assert sorted(started) == [("a", 0), ("b", 0)]
                a.kill()
            b.kill()

    run(main())


def test_processes_that_start_together_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordercast.net.site.ROLL_CALL_SECONDS", 1e6)

    async def main() -> None:
        configuration = make_configuration(log_directory=str(tmp_path / "log"))
        async with open_nodes(configuration) as nodes:
            await exchange(await join_all(*nodes), 1)
            for node in nodes:
                node.kill()

    run(main())


def test_a_process_without_a_log_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordercast.net.site.ROLL_CALL_SECONDS", 1e6)

    async def main() -> None:
        async with ordercast.open(make_configuration("ab"), "a") as a:
            await a.internals.wait_started()
            a.kill()

    run(main())


def test_a_process_that_no_longer_has_a_log_is_refused_by_those_who_know_that_it_had_one(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path / "log"))
        async with open_nodes(configuration) as nodes:
            await exchange(await join_all(*nodes), 5)
            for node in nodes:
                node.kill()
        async with ordercast.open(configuration, "b") as b:
            await expect_refusal(configuration | {"log_directory": None}, "a", b)
            b.kill()

    run(main())


@pytest.mark.parametrize("protocol", WITH_A_LOG)
def test_an_intact_log_is_welcome_after_a_crash(protocol: str, tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration(protocol=protocol, log_directory=str(tmp_path / "log"))
        async with open_nodes(configuration) as nodes:
            await exchange(await join_all(*nodes), 5)
            for node in nodes:
                node.kill()
        async with open_nodes(configuration, "ab") as others:
            groups = [await restored(other, 15) for other in others]
            for life in (1, 2, 3):
                async with open_nodes(configuration, "c") as (c,):
                    assert c.incarnation == life
                    await exchange([await restored(c, 15 * life), *groups], 5)
                    assert not any(node.status()["refused"] for node in (c, *others))
                    c.kill()
            for other in others:
                other.kill()

    run(main())


async def restored(node: Node, count: int) -> ordercast.Group:
    """The group of a restarted process, from where it was."""
    group = await node.join("g")
    assert len(await take(group, count)) == count
    return group
