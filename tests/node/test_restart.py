"""A process that ends and starts again: with its history where it has a log, and not at all where it has none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import ordercast
from ordercast.storage import disk
from ordercast.storage.file import FileLog, Pending
from tests.node.cluster import flood, make_configuration, open_nodes, payloads, run, take

PROTOCOLS = ("sequencer", "token", "two-phase", "lamport")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_restarted_process_gets_its_history_and_goes_on_with_the_offsets(protocol: str, tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration(protocol=protocol, log_directory=str(tmp_path))
        async with open_nodes(configuration, "ab") as (a, b):
            async with ordercast.open(configuration, "c") as c:
                before = await c.join("g")
                await a.multicast_many([b"%d" % index for index in range(5)], ["g"])
                assert await payloads(before, 5) == [b"%d" % index for index in range(5)]
                c.kill()
            await b.multicast(b"while c is away", ["g"])
            async with ordercast.open(configuration, "c") as c:
                after = await take(await c.join("g"), 6)
                assert [delivery.offset for delivery in after] == list(range(6))
                assert after[5].payload == b"while c is away"
                assert c.status()["incarnation"] == 1
                await c.multicast(b"back", ["g"])
                assert (await payloads(await a.join("g"), 7))[6] == b"back"

    run(main())


def test_all_processes_of_a_cluster_can_be_killed_and_come_back_with_everything(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration(log_directory=str(tmp_path))
        async with open_nodes(configuration) as nodes:
            await nodes[1].multicast_many([b"%d" % index for index in range(100)], ["g"])
            for node in nodes:
                assert len(await payloads(await node.join("g"), 100)) == 100
            for node in nodes:
                node.kill()
        async with open_nodes(configuration) as nodes:
            await nodes[2].multicast(b"again", ["g"])
            first, *others = [await take(await node.join("g"), 101) for node in nodes]
            assert all(other == first for other in others)
            assert first[100].payload == b"again"

    run(main())


def test_a_log_that_is_cut_short_keeps_the_offsets_and_what_was_not_taken(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path), retain_bytes=1 << 20)
        async with open_nodes(configuration) as (a, b):
            group = await b.join("g")
            await (await a.join("g")).leave()
            for index in range(800):
                await a.multicast(index.to_bytes(4) + bytes(4000), ["g"])
                # A record of its own for each, so that the protocol asks for a checkpoint in time.
                await a.flush()
                if index % 10 == 9:
                    await take(group, 9)
            await a.flush()
            a.kill()
            b.kill()
        assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 40 << 20
        async with open_nodes(configuration) as (_, b):
            group = await b.join("g")
            (first,) = await take(group, 1)
            # Not from the beginning, but nothing is missing between what the application took last and now.
            assert 0 < first.offset <= 720
            assert int.from_bytes(first.payload[:4]) == first.offset
            rest = await take(group, 799 - first.offset)
            assert [int.from_bytes(delivery.payload[:4]) for delivery in rest] == [d.offset for d in rest]

    run(main())


def test_a_process_without_a_log_that_restarts_is_refused_and_told_why() -> None:
    async def main() -> None:
        configuration = make_configuration("ab")
        async with ordercast.open(configuration, "a") as a:
            async with ordercast.open(configuration, "b") as b:
                await b.wait_for_peers()
                await a.wait_for_peers()
                b.kill()
            async with ordercast.open(configuration, "b") as b:
                with pytest.raises(ordercast.NodeFailed, match="log"):
                    await b.wait_for_peers()
            a.kill()

    run(main())


def test_a_second_process_with_the_same_log_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path))
        other = make_configuration("ab", log_directory=str(tmp_path))
        async with ordercast.open(configuration, "a") as a:
            with pytest.raises(ordercast.UsageError, match="in use by another process"):
                async with ordercast.open(other, "a"):
                    pass
            a.kill()

    run(main())


def test_a_full_disk_stops_the_node_and_nothing_is_delivered_that_is_not_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = FileLog.commit
    commits = 0

    def full(log: FileLog, pending: Pending) -> None:
        nonlocal commits
        commits += 1
        if commits > 5:
            monkeypatch.setattr(disk, "write_all", _refuse)
        commit(log, pending)

    async def main() -> None:
        configuration = make_configuration("a", log_directory=str(tmp_path))
        async with ordercast.open(configuration, "a") as a:
            group = await a.join("g")
            monkeypatch.setattr(FileLog, "commit", full)
            with pytest.raises(ordercast.NodeFailed, match="No space left"):
                await asyncio.gather(flood(group, 1000), take(group, 10**9))
            monkeypatch.undo()

    run(main())


def _refuse(descriptor: int, data: object) -> None:
    raise OSError(28, "No space left on device")
