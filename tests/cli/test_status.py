"""`ordercast status`: what the running processes of a cluster say of themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ordercast.cli.status import _ask_all, describe
from tests.node.cluster import make_configuration, open_nodes, run


def test_status_tells_who_is_up_how_far_its_groups_are_and_what_waits(tmp_path: Path) -> None:
    configuration = make_configuration("abc", control=f"unix:{tmp_path}/{{process}}.sock")

    async def main() -> None:
        async with open_nodes(configuration, "ab") as (a, b):
            await a.join("g")
            await a.multicast(b"0123456789", ["g"])
            while b.status()["offsets"]["g"] < 1 or a.status()["offsets"]["g"] < 1:
                await asyncio.sleep(0)
            answers = await _ask_all({name: tmp_path / f"{name}.sock" for name in "abc"})
            assert [answers[name]["up"] for name in "abc"] == [True, True, False]
            assert answers["a"]["waiting"]["g"] > 0
            assert answers["a"]["memory_bytes"] > 1 << 20
            lines = describe(answers)
            assert lines[0].startswith("a: up for ")
            assert lines[1].startswith("  g: offset 1, ")
            assert lines[-1].startswith("c: down, or not on this machine (")
            answers["b"]["offsets"]["g"] = 0
            assert "  g: offset 0, 1 behind" in "\n".join(describe(answers))

    run(main())
