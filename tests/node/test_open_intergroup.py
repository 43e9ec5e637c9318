"""InterGroup in clusters that no file lists: roles, services, views, and a name for each life."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

import ordercast
from ordercast.net.ports import free_ports
from tests.node.cluster import payloads, run
from tests.node.test_open_cluster import by_multicast, by_seeds, until

INTERGROUP: dict[str, Any] = {"protocol": "intergroup"}


def place(process: str) -> str:
    """The name without the life."""
    return process.partition("#")[0]


def places(group: ordercast.Group) -> list[str]:
    return [place(member) for member in group.members]


@dataclass
class Ledger:
    """A replicated object."""

    entries: list[str] = field(default_factory=list)

    def add(self, entry: str) -> int:
        self.entries.append(entry)
        return len(self.entries)


async def open_all(stack: AsyncExitStack, configuration: dict[str, Any], names: str) -> list[ordercast.Node]:
    return [await stack.enter_async_context(ordercast.open(configuration, name)) for name in names]


async def check_receiver(first: dict[str, Any], others: dict[str, Any]) -> None:
    """One that is named nowhere joins, chooses its service, and is no sender."""
    async with AsyncExitStack() as stack:
        (a,) = await open_all(stack, first, "a")
        (b,) = await open_all(stack, others, "b")
        feed, archive = await asyncio.gather(*(node.join("quotes", timeout=25) for node in (a, b)))
        feed.on_delivery(lambda _: None)
        await until(lambda: places(feed) == places(archive) == ["a", "b"])
        async with ordercast.open(others, "desk-4") as desk:
            assert re.fullmatch(r"desk-4#[0-9a-f]+", desk.process)
            quotes = await desk.join("quotes", role="receiver", service="group-timestamp", timeout=25)
            assert places(quotes) == ["a", "b"], "a view has the senders"
            await quotes.multicast(b"by proxy")
            assert await payloads(quotes, 1) == await payloads(archive, 1) == [b"by proxy"]
            await feed.multicast(b"1")
            assert await payloads(quotes, 1) == await payloads(archive, 1) == [b"1"]
            await quotes.choose("unreliable", [b.process])
            # By the name of the life, or as it was opened.
            await quotes.choose("reliable-source", ["a"])
            await archive.multicast(b"not meant")
            await feed.multicast(b"2")
            assert await payloads(quotes, 1) == [b"2"]
            assert await payloads(archive, 2)
        await feed.multicast(b"3")
        assert await payloads(archive, 1) == [b"3"]


def test_a_receiver_that_is_named_nowhere_joins_by_multicast_and_chooses_its_service() -> None:
    configuration = by_multicast(**INTERGROUP)
    run(check_receiver(configuration, configuration))


def test_a_receiver_that_is_named_nowhere_joins_by_one_seed_and_chooses_its_service() -> None:
    (seed,) = free_ports(1)
    run(check_receiver(by_seeds(seed, listen=seed, **INTERGROUP), by_seeds(seed, **INTERGROUP)))


def test_the_others_go_on_without_one_that_is_killed_and_whoever_starts_again_is_another_process() -> None:
    async def main() -> None:
        configuration = by_multicast(**INTERGROUP)
        async with AsyncExitStack() as stack:
            a, b, c = await open_all(stack, configuration, "abc")
            groups = await asyncio.gather(*(node.join("quotes", timeout=25) for node in (a, b, c)))
            await until(lambda: all(places(group) == ["a", "b", "c"] for group in groups))
            c.kill()
            await until(lambda: all(places(group) == ["a", "b"] for group in groups[:2]))
            (again,) = await open_all(stack, configuration, "c")
            assert again.process != c.process
            assert place(again.process) == place(c.process)
            back = await again.join("quotes", timeout=25)
            await until(lambda: all(again.process in group.members for group in groups[:2]))
            await back.multicast(b"here")
            assert await payloads(groups[0], 1) == [b"here"]

    run(main())


def test_what_a_sender_multicasts_as_soon_as_it_has_joined_waits_until_it_may_send() -> None:
    async def main() -> None:
        configuration = by_multicast(**INTERGROUP)
        async with AsyncExitStack() as stack:
            a, b = await open_all(stack, configuration, "ab")
            first = await a.join("quotes", timeout=25)
            second = await b.join("quotes", role="sender", timeout=25)
            for payload in (b"1", b"2", b"3"):
                await second.multicast(payload)
            assert await payloads(first, 3) == [b"1", b"2", b"3"]

    run(main())


def test_a_replicated_state_goes_on_with_a_quorum_and_a_stranger_gets_it() -> None:
    async def main() -> None:
        configuration = by_multicast(**INTERGROUP)
        async with AsyncExitStack() as stack:
            nodes = await open_all(stack, configuration, "abc")
            replicas = await asyncio.gather(
                *(ordercast.Replicated(Ledger(), quorum=2).join(node, "books", timeout=25) for node in nodes)
            )
            await until(lambda: all(len(node.members("books")) == 3 for node in nodes))
            assert await replicas[0].call(Ledger.add, "one") == 1
            nodes[2].kill()
            assert await replicas[1].call(Ledger.add, "two") == 2
            (again,) = await open_all(stack, configuration, "c")
            replica = await ordercast.Replicated(Ledger(), quorum=2).join(again, "books", timeout=25)
            assert await replica.call(Ledger.add, "three") == 3
            assert replica.state is not None
            assert replica.state.entries == ["one", "two", "three"]

    run(main())


def test_whoever_has_left_a_group_has_neither_a_role_nor_a_service_there() -> None:
    async def main() -> None:
        async with ordercast.open(by_multicast(**INTERGROUP), "a") as node:
            group = await node.join("quotes", timeout=25)
            await group.leave()
            with pytest.raises(ordercast.UsageError, match="it has no role there"):
                group.choose_role("receiver")
            with pytest.raises(ordercast.UsageError, match="it has no service there"):
                await group.choose("reliable-source")

    run(main())


def test_a_replicated_state_needs_a_rule_for_sides_that_lose_each_other() -> None:
    async def main() -> None:
        async with ordercast.open(by_multicast(**INTERGROUP), "a") as node:
            with pytest.raises(ordercast.UsageError, match="quorum=N"):
                await ordercast.Replicated(Ledger()).join(node, "books")

    run(main())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"options": {"views": "fixed"}}, "intergroup has the processes and groups of a file"),
        ({"log_directory": "logs"}, "take log_directory away"),
        ({"protocol": "sequencer"}, "whose processes come and go: token, propagation-graph, intergroup"),
    ],
)
def test_what_makes_no_sense_where_no_file_lists_the_processes_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ordercast.UsageError) as refused:
        ordercast.open(by_multicast(**INTERGROUP) | changed, "a")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("wish", "words"), [({"role": "sendr"}, "did you mean 'sender'?"), ({"service": "reliable"}, "no service")]
)
def test_a_role_or_a_service_that_there_is_not_is_refused_at_once(wish: dict[str, str], words: str) -> None:
    async def main() -> None:
        async with ordercast.open(by_multicast(**INTERGROUP), "a") as node:
            with pytest.raises(ordercast.UsageError) as refused:
                await node.join("quotes", **wish)  # type: ignore[call-overload]
            assert words in str(refused.value)

    run(main())
