"""Questions to a group: the first answer, those of a majority, or all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

import ordercast
from tests.node.cluster import make_configuration, open_nodes, payloads, run


@pytest.mark.parametrize("protocol", ["sequencer", "token", "three-step"])
def test_members_answer_in_the_order_of_the_group_and_no_application_sees_it(protocol: str) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(protocol=protocol)) as nodes:
            groups = [await node.join("g") for node in nodes]
            for node, group in zip(nodes, groups, strict=True):
                group.on_question(lambda question, name=node.process: question + name.encode())  # type: ignore[misc]
            await groups[1].multicast(b"before")
            everybody = await groups[1].ask(b"who? ", wait="all")
            assert everybody == {name: b"who? " + name.encode() for name in "abc"}
            assert len(await groups[2].ask(b"who? ", wait="majority")) >= 2
            many = await asyncio.gather(*(groups[0].ask(b"%d " % n, wait="first") for n in range(50)))
            assert [next(iter(answer.values())).split()[0] for answer in many] == [b"%d" % n for n in range(50)]
            receipt = await groups[1].multicast(b"after", confirm=True)
            assert receipt.offset == 1
            for group in groups:
                assert await payloads(group, 2) == [b"before", b"after"]

    run(main())


def test_too_few_answers_are_told_with_the_reason() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            a, b, _ = [await node.join("g") for node in nodes]
            a.on_question(lambda question: question)
            b.on_question(lambda question: b"%d" % (1 // len(question)))
            assert await a.ask(b"x", wait="majority") == {"a": b"x", "b": b"1"}
            with pytest.raises(ordercast.NotAnswered, match=r"b: ZeroDivisionError.*; c: it answers no questions"):
                await a.ask(b"", wait="majority")
            with pytest.raises(ordercast.UsageError, match='"first", "majority" or "all"'):
                await a.ask(b"x", wait="both")  # type: ignore[arg-type]
            with pytest.raises(ordercast.UsageError, match="bytes at the most"):
                await a.ask(bytes(100_000))
        async with ordercast.open(make_configuration("ab"), "b") as node:
            alone = await node.join("g")
            with pytest.raises(TimeoutError, match="too few answers from group g in"):
                await alone.ask(b"x", timeout=0.1)

    run(main())


@dataclass
class Counter:
    value: int = 0

    def add(self, amount: int) -> int:
        self.value += amount
        return self.value


def test_a_program_without_an_event_loop_asks_and_replicates() -> None:
    configuration = make_configuration("a", groups={"g": ["a"], "h": ["a"]})
    with ordercast.open_synchronous(configuration, "a") as node:
        group = node.join("g")
        group.on_question(bytes.upper)
        assert group.ask(b"who?", wait="all") == {"a": b"WHO?"}
        replica = node.replicate(ordercast.Replicated(Counter()), "h", timeout=10.0)
        assert [replica.call(Counter.add, 2), replica.call(Counter.add, 3)] == [2, 5]
        assert replica.read(lambda counter: counter.value, linearizable=True) == 5
        replica.on_question(bytes.lower)
        assert replica.ask(b"WHO?", wait="first") == {"a": b"who?"}


def test_replicas_and_whoever_holds_blocks_ask_each_other_in_their_group() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            shared = [ordercast.Shared() for _ in nodes]
            with pytest.raises(ordercast.UsageError, match="join first"):
                shared[0].on_question(bytes.upper)
            await asyncio.gather(*(each.join(node, "g") for each, node in zip(shared, nodes, strict=True)))
            for each in shared:
                each.on_question(bytes.upper)
            assert await shared[1].ask(b"who?", wait="all") == {"a": b"WHO?", "b": b"WHO?"}
            assert await shared[0].counter("n").add() == 1

    run(main())
