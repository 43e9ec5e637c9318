"""A configured cluster that grows and shrinks while it runs, under `token`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import ordercast
from ordercast.net.ports import free_ports
from tests.node.cluster import make_configuration, open_nodes, payloads, run


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


async def join_when_left(node: ordercast.Node) -> ordercast.Group:
    """Whoever has given up to join may be let in all the same, and leaves then."""
    while True:
        with suppress(ordercast.UsageError):
            return await node.join("g", timeout=25)
        await asyncio.sleep(0)


def test_a_process_is_added_takes_part_dies_and_is_removed(tmp_path: Path) -> None:
    """The others have logs, and one of them starts again with the old file."""
    (port,) = free_ports(1)
    old = make_configuration(protocol="token", log_directory=str(tmp_path))
    new = old | {"added": {"d": f"127.0.0.1:{port}"}}

    async def main() -> None:
        async with open_nodes(old) as (a, b, c):
            groups = [await node.join("g") for node in (a, b, c)]
            await groups[0].multicast(b"1")
            for group in groups:
                assert await payloads(group, 1) == [b"1"]
            engine = a.internals.engine
            for where in (engine.address, c.internals.engine.address):
                with pytest.raises(ordercast.UsageError, match="give the new process its own"):
                    engine.add_process("d", where)
            for node in (a, b, c):
                node.internals.engine.add_process("d", ("127.0.0.1", port))
            async with ordercast.open(new, "d") as d:
                joined = await d.join("g", timeout=25)
                assert joined.members == ("a", "b", "c", "d")
                assert joined.offset == 1
                await joined.multicast(b"2")
                for group in (*groups, joined):
                    assert await payloads(group, 1) == [b"2"]
                b.kill()
                async with ordercast.open(old, "b") as again:
                    returned = await again.join("g")
                    await again.wait_for_peers("a", "c", "d")
                    await until(lambda: returned.members == ("a", "b", "c", "d"))
                    await joined.multicast(b"3")
                    assert (await payloads(returned, 3))[-1] == b"3"
                    d.kill()
                    await asyncio.wait_for(a.internals.remove_process("d"), 25)
                    await until(lambda: all(group.members == ("a", "b", "c") for group in (groups[0], returned)))
                    assert a.internals.engine.sites == ("a", "b", "c")
                    await groups[2].multicast(b"4")
                    assert (await payloads(groups[0], 2))[-1] == b"4"
                    assert await payloads(returned, 1) == [b"4"]
                    for node in (a, again, c):
                        node.kill()

    run(main())


def test_whoever_was_removed_and_comes_back_leaves_what_it_was_in_and_joins_it_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A founder: the configuration has it in the group, and the others have gone on without it for good."""
    configuration = make_configuration(protocol="token", log_directory=str(tmp_path))
    host, _, port = configuration["processes"]["b"].rpartition(":")

    async def main() -> None:
        async with open_nodes(configuration) as (a, b, c):
            groups = [await node.join("g") for node in (a, b, c)]
            await groups[0].multicast(b"1")
            assert await payloads(groups[1], 1) == [b"1"]
            b.kill()
            await asyncio.wait_for(a.internals.remove_process("b"), 25)
            await groups[0].multicast(b"2")
            assert await payloads(groups[0], 2) == [b"1", b"2"]
            async with ordercast.open(configuration, "b") as again:
                returned = await again.join("g")
                await until(lambda: "b is out of group g" in caplog.text)
                assert await payloads(returned, 1) == [b"1"]
                with pytest.raises(ordercast.UsageError, match="joined already"):
                    await again.join("g")
                await returned.leave(timeout=25)
                a.internals.engine.add_process("b", (host, int(port)))
                given_up = asyncio.create_task(again.join("g"))
                branches = again.internals.engine.core.branches
                await until(lambda: branches["came"] > 0)
                given_up.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await given_up
                joined = await join_when_left(again)
                assert joined.members == ("a", "b", "c")
                assert joined.offset == 2
                await joined.multicast(b"3")
                assert await payloads(joined, 1) == [b"3"]
                assert await payloads(groups[2], 3) == [b"1", b"2", b"3"]
                for node in (a, again, c):
                    node.kill()

    run(main())
