"""A configured cluster that grows and shrinks while it runs, under `token`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import ordercast
from ordercast.net.ports import free_ports
from tests.node.cluster import make_configuration, open_nodes, payloads, run


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
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
