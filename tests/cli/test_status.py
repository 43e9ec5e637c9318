"""`ordercast status`: what the running processes of a cluster say of themselves."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from ordercast.cli.status import _ask_all, add_rates, describe
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
            before = await _ask_all({name: tmp_path / f"{name}.sock" for name in "abc"})
            answers["a"]["now"] += 2.0
            answers["a"]["offsets"]["g"] += 8
            add_rates(answers, before)
            assert 3.0 < answers["a"]["rates"]["g"] < 5.0
            answers["a"]["offsets"]["g"] -= 8
            assert answers["a"]["orders"] == "a"
            assert answers["a"]["members"]["b"]["state"] == "up"
            assert answers["a"]["members"]["c"] == {"state": "gone", "up_seconds": None, "silent_seconds": None}
            assert answers["a"]["sending"]["round_trip_seconds"] > 0
            assert answers["b"]["sending"]["round_trip_seconds"] is None
            lines = describe(answers)
            assert lines[0].startswith("a: up for ")
            assert lines[1] == "  a orders"
            assert re.fullmatch(r"  up: b for \d+ s", lines[2])
            assert lines[3] == "  c is gone: never heard of"
            assert re.fullmatch(r"  credit for \d+ bundles, round trip \d+\.\d ms", lines[4])
            assert lines[5].startswith("  g: offset 1, 4 a second, ")
            assert lines[-1].startswith("c: down, or not on this machine (")
            answers["a"]["blocked"] = "waits for c"
            assert describe(answers)[:2] == [lines[0], "  blocked: waits for c"]
            answers["b"]["offsets"]["g"] = 0
            assert "  g: offset 0, 1 behind" in "\n".join(describe(answers))

    run(main())


def test_status_of_a_process_with_a_log_tells_its_size_and_what_a_sync_takes(tmp_path: Path) -> None:
    configuration = make_configuration("ab", log_directory=tmp_path / "log")

    async def main() -> None:
        async with open_nodes(configuration, "ab") as (a, _):
            group = await a.join("g")
            await group.multicast(b"x", confirm=True)
            log = a.status()["log"]
            assert log["bytes"] > 0
            assert 0 < log["sync_seconds"] <= log["sync_seconds_max"] < 10
            assert a.status()["retransmissions"] == {}

    run(main())
