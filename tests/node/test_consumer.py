"""Consumers with named positions, deliveries that say whether they are replayed, and the end of what the log holds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ordercast import CaughtUp, Consumer, Pending, UsageError
from ordercast.node.deliveries import Batch
from tests.node.cluster import make_configuration, open_nodes, payloads, run, take

PROTOCOLS = ("sequencer", "token", "three-step", "lamport")


async def take_pending(consumer: Consumer[bytes], count: int) -> list[Pending[bytes]]:
    return [await anext(consumer) for _ in range(count)]


def logged(tmp_path: Path, names: str = "a", **keys: Any) -> dict[str, Any]:
    return make_configuration(names, log_directory=str(tmp_path / "log"), **keys)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_restart_goes_on_behind_what_was_done(protocol: str, tmp_path: Path) -> None:
    configuration = logged(tmp_path, protocol=protocol)

    async def first() -> None:
        async with open_nodes(configuration) as (node,):
            group = await node.join("g")
            await group.multicast_many([b"%d" % index for index in range(10)])
            given = await take_pending(group.consume("billing"), 7)
            assert [pending.value for pending in given] == [b"%d" % index for index in range(7)]
            await given[4].done()
            node.kill()

    async def second() -> None:
        async with open_nodes(configuration) as (node,):
            consumer = (await node.join("g")).consume("billing")
            assert consumer.position == 5
            given = await take_pending(consumer, 5)
            assert [(each.offset, each.value) for each in given] == [(index, b"%d" % index) for index in range(5, 10)]
            assert all(each.replayed for each in given)
            await given[-1].done()
            assert consumer.position == 10

    run(first())
    run(second())


def test_the_log_keeps_what_is_not_done_although_more_was_asked_for(tmp_path: Path) -> None:
    configuration = logged(tmp_path)

    async def first() -> None:
        async with open_nodes(configuration) as (node,):
            group = await node.join("g")
            consumer = group.consume("billing")
            for index in range(6):
                await group.multicast(b"%d" % index, confirm=True)
            given = await take_pending(consumer, 6)
            await given[1].done()
            # What a checkpoint would keep: everything that is not done.
            kept = node.internals._attachment().untaken
            assert [waiting.offset for waiting in kept] == [2, 3, 4, 5]

    run(first())


def test_commits_that_come_together_are_written_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_nodes(logged(tmp_path)) as (node,):
            group = await node.join("g")
            await group.multicast_many([b"x"] * 100)
            consumer = group.consume("billing")
            given = await take_pending(consumer, 100)
            journal, written = node.internals.engine.journal, []
            write = journal.write_state

            def counted(name: str, content: bytes) -> None:
                written.append(content)
                write(name, content)

            journal.write_state = counted  # type: ignore[method-assign]
            await asyncio.gather(*(each.done() for each in given))
            assert consumer.position == 100
            assert len(written) <= 2

    run(main())


def test_two_names_have_two_positions(tmp_path: Path) -> None:
    configuration = logged(tmp_path)

    async def main() -> None:
        async with open_nodes(configuration) as (node,):
            group = await node.join("g")
            await group.multicast_many([b"0", b"1", b"2"])
            billing = group.consume("billing")
            (first, second) = await take_pending(billing, 2)
            assert repr(first) == "Pending(offset=0, source='a', value=b'0')"
            await second.done()
            # Whoever comes next is given what the first was not done with.
            (only,) = await take_pending(group.consume("audit"), 1)
            assert only.offset == 0
            with pytest.raises(UsageError, match="instead of consumer billing: one way at a time"):
                await anext(billing)
            # It may still say what it has done, which is not what the other one has.
            await second.done()
            node.kill()

    async def again() -> None:
        async with open_nodes(configuration) as (node,):
            group = await node.join("g")
            assert group.consume("billing").position == 2
            assert group.consume("audit").position == 0
            assert await payloads(group, 3) == [b"0", b"1", b"2"]

    run(main())
    run(again())


def test_a_typed_group_is_consumed_by_values(tmp_path: Path) -> None:
    class Order(msgspec.Struct, frozen=True):
        article: str

    async def main() -> None:
        async with open_nodes(logged(tmp_path)) as (node,):
            group = await node.join("g", type=Order)
            await group.multicast(Order("apple"))
            async for delivery in group.consume("billing"):
                assert delivery.value == Order("apple")
                await delivery.done()
                break

    run(main())


def test_who_cannot_consume_is_told_so() -> None:
    async def main() -> None:
        configuration = make_configuration("a", groups={"g": ["a"], "h": ["a"]})
        async with open_nodes(configuration) as (node,):
            both = await node.join("g", "h")
            with pytest.raises(UsageError, match="one group"):
                both.consume("billing")
        async with open_nodes(make_configuration("a")) as (node,):
            group = await node.join("g")
            with pytest.raises(UsageError, match="characters"):
                group.consume("")
            await group.multicast(b"x")
            consumer = group.consume("billing")
            await anext(consumer)
            with pytest.raises(UsageError, match="nothing at offset"):
                await consumer.commit(5)
            group.on_batch(lambda batch: None)
            with pytest.raises(UsageError, match="one way at a time"):
                group.consume("billing")

    run(main())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_the_log_held_comes_before_caught_up_and_says_that_it_is_replayed(protocol: str, tmp_path: Path) -> None:
    configuration = logged(tmp_path, protocol=protocol)

    async def first() -> None:
        async with open_nodes(configuration) as (node,):
            group = await node.join("g")
            await group.multicast_many([b"0", b"1"])
            assert not any(delivery.replayed for delivery in await take(group, 2))
            node.kill()

    async def second() -> None:
        async with open_nodes(configuration) as (node,):
            group = await node.join("g")
            told: list[CaughtUp] = []
            group.on_caught_up(told.append)
            seen: list[tuple[bytes, bool]] = []
            async for event in group.events():
                if isinstance(event, Batch):
                    assert event.replayed == (not told)
                    seen += [(delivery.payload, delivery.replayed) for delivery in event.deliveries()]
                if isinstance(event, CaughtUp):
                    assert told == [event] == [CaughtUp("g", 2)]
                    await group.multicast(b"2")
                if len(seen) == 3:
                    break
            assert seen == [(b"0", True), (b"1", True), (b"2", False)]

    run(first())
    run(second())
