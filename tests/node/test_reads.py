"""Reads of a replicated state: of one's own replica, and such that nothing acknowledged before is missing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import ordercast
from ordercast import Replicated
from ordercast.node.replica_reads import Barriers
from tests.node.cluster import make_configuration, open_nodes, run


@dataclass
class Counter:
    """Counts its calls."""

    value: int = 0

    def add(self) -> int:
        self.value += 1
        return self.value


def value_of(counter: Counter) -> int:
    return counter.value


async def _replicas(nodes: list[ordercast.Node]) -> list[Replicated[Counter]]:
    return [await Replicated(Counter(), timeout=30.0).join(node, "g") for node in nodes]


def test_a_read_shows_the_state_of_this_replica() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            first, *_ = await _replicas(nodes)
            assert await first.read(value_of) == 0
            await first.call(Counter.add)
            assert await first.read(value_of) == 1
            assert await first.read(lambda counter: counter.value + 1) == 2

    run(main())


@pytest.mark.parametrize("protocol", ["three-step", "sequencer", "token"])
def test_a_linearizable_read_is_never_older_than_what_was_acknowledged_before_it_began(protocol: str) -> None:
    """Every call adds one, so what a read returns says which calls it has seen."""

    async def main() -> None:
        acknowledged = 0
        reads = 0

        async def write(replica: Replicated[Counter]) -> None:
            nonlocal acknowledged
            for _ in range(40):
                acknowledged = max(acknowledged, await replica.call(Counter.add))

        async def read(replica: Replicated[Counter], writing: asyncio.Future[Any]) -> None:
            nonlocal reads
            last = 0
            while not writing.done():
                before = acknowledged
                value = await replica.read(value_of, linearizable=True)
                assert value >= before
                assert value >= last, "a later read is older"
                last = value
                reads += 1

        async with open_nodes(make_configuration(protocol=protocol)) as nodes:
            replicas = await _replicas(nodes)
            writing = asyncio.gather(*map(write, replicas))
            await asyncio.gather(writing, *(read(replica, writing) for replica in replicas for _ in range(3)))
            for replica in replicas:
                assert await replica.read(value_of, linearizable=True) == 120
        assert reads > 20

    run(main())


def test_a_plain_read_may_be_older_where_a_replica_hears_of_nothing() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(protocol="three-step")) as nodes:
            first, _, last = await _replicas(nodes)
            nodes[2].internals.engine.transport.disturb(lambda _datagram, _address: 0)
            for node in nodes[:2]:
                address = node.internals.engine.transport
                address.disturb(lambda _datagram, where: 0 if where == nodes[2].internals.engine.address else 1)
            for _ in range(3):
                await first.call(Counter.add)
            assert await last.read(value_of) == 0
            with pytest.raises((TimeoutError, ordercast.GroupBlocked)):
                async with asyncio.timeout(0.2):
                    await last.read(value_of, linearizable=True)
            for node in nodes:
                node.internals.engine.transport.disturb(lambda _datagram, _address: 1)
            assert await last.read(value_of, linearizable=True) == 3

    run(main())


def test_what_the_function_raises_is_raised_to_the_reader() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, _ = await _replicas(nodes)
            with pytest.raises(KeyError):
                await first.read(lambda counter: {0: "nothing"}[counter.value + 1], linearizable=True)
            assert await first.call(Counter.add) == 1

    run(main())


def test_a_thousand_reads_at_a_time_cost_two_messages() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            first, *_ = await _replicas(nodes)
            await first.call(Counter.add)
            before = first.applied
            values = await asyncio.gather(*(first.read(value_of, linearizable=True) for _ in range(1000)))
            assert values == [1] * 1000
            # Replicas that have just joined may still say so.
            assert first.applied - before <= 2 + 6

    run(main())


def test_a_reader_that_gives_up_does_not_take_the_others_along() -> None:
    async def main() -> None:
        let, sent = asyncio.Event(), 0

        async def send() -> None:
            nonlocal sent
            sent += 1
            await let.wait()

        barriers = Barriers(send)
        impatient = asyncio.create_task(barriers.wait())
        patient = asyncio.create_task(barriers.wait())
        await asyncio.sleep(0)
        impatient.cancel()
        later = asyncio.create_task(barriers.wait())
        await asyncio.sleep(0)
        assert sent == 1
        let.set()
        await asyncio.gather(patient, later)
        assert impatient.cancelled()
        assert sent == 2

    asyncio.run(main())


def test_a_barrier_that_fails_fails_its_readers_and_not_the_next() -> None:
    async def main() -> None:
        outcomes = [ordercast.GroupBlocked("nobody is there"), None]

        async def send() -> None:
            error = outcomes.pop(0)
            if error is not None:
                raise error

        barriers = Barriers(send)
        with pytest.raises(ordercast.GroupBlocked, match="nobody is there"):
            await barriers.wait()
        await barriers.wait()
        assert outcomes == []

    asyncio.run(main())


def test_a_read_of_a_closed_node_says_so() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, _ = await _replicas(nodes)
        with pytest.raises(ordercast.OrdercastError):
            await first.read(value_of, linearizable=True)

    run(main())
