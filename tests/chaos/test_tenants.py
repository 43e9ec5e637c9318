"""Users of building blocks under chaos: each block has its life, and each life writes down what the rules judge."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

import ordercast
from ordercast.chaos.tenants import LIVES, Tenant
from ordercast.chaos.worker import Work
from ordercast.cli.chaos.blocks import NEEDED, Block
from ordercast.trace.uses import FOLDER, Use
from tests.node.cluster import make_configuration, open_nodes, run

WRITTEN = {
    "lock": {("lock", "held"), ("register", "written")},
    "election": {("election", "held")},
    "queue": {("queue", "put"), ("queue", "given"), ("queue", "finishing"), ("queue", "done")},
    "map": {("map", "changing"), ("map", "changed"), ("map", "reading"), ("map", "read"), ("map", "seen")},
    "counter": {("counter", "changing"), ("counter", "changed"), ("counter", "reading"), ("counter", "read")},
    "question": {("question", "answered")},
}


def uses(folder: Path) -> list[Use]:
    lines = [line for file in (folder / FOLDER).glob("*.jsonl") for line in file.read_bytes().splitlines()]
    return [msgspec.json.decode(line, type=Use) for line in lines]


def test_every_block_can_be_asked_for_has_a_life_and_is_looked_for_in_the_end() -> None:
    assert [*LIVES] == [*Block] == [*NEEDED] == [*WRITTEN]


@pytest.mark.parametrize("block", LIVES)
def test_a_life_writes_down_all_that_the_rules_need(block: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            no_more = asyncio.Event()
            shared = [ordercast.Shared() for _ in nodes]
            await asyncio.gather(*(each.join(node, "g") for each, node in zip(shared, nodes, strict=True)))
            tenants = [
                Tenant(each, 2, Work("", node.process, str(tmp_path), 1, 1_000.0), no_more)
                for each, node in zip(shared, nodes, strict=True)
            ]
            living = asyncio.gather(*(LIVES[block](tenant) for tenant in tenants))
            while not WRITTEN[block] <= {(use.block, use.what) for use in uses(tmp_path)}:
                await shared[0].counter("a round of the group").add()
            no_more.set()
            await living
            assert "mistaken" not in {use.what for use in uses(tmp_path)}

    run(main())
