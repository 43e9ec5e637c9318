"""What a client sends and nobody can take, or nobody can order now: it is told, and what is behind it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

import ordercast
from ordercast.client import client as client_module
from ordercast.client.outgoing import Outgoing
from ordercast.node.serving.packets import RUN_BYTES_MAX, Ordered
from tests.client.test_client import Bank, open_cluster, where, with_clients
from tests.node.cluster import open_nodes, run

PAYLOAD_MAX = 100_000


def cut_off(node: ordercast.Node, others: Sequence[ordercast.Node]) -> None:
    """The others do not hear it, nor it them; its clients reach it all the same."""
    node.internals.engine.transport.disturb(lambda *_: 0)
    address = node.internals.engine.address
    for each in others:
        each.internals.engine.transport.disturb(lambda _, where: int(where != address))


def test_a_message_that_is_too_large_is_refused_at_once_and_what_follows_it_is_ordered() -> None:
    async def main() -> None:
        configuration = with_clients("ab", payload_max=PAYLOAD_MAX)
        async with (
            open_nodes(configuration) as nodes,
            ordercast.connect(where(configuration), insecure=True) as client,
        ):
            for node in nodes:
                await ordercast.Replicated(Bank()).join(node, "g")
            bank, group, large = client.replicated(Bank, "g"), client.group("g"), bytes(PAYLOAD_MAX + 1)
            too_large = f"a message of {len(large)} bytes is larger than payload_max"
            with pytest.raises(ordercast.UsageError, match=too_large):
                await group.multicast(large, confirm=True)
            with pytest.raises(ordercast.UsageError, match=too_large):
                await group.multicast(large, key="17")
            with pytest.raises(ordercast.UsageError, match=too_large):
                group.try_multicast(large)
            with pytest.raises(ordercast.UsageError, match=too_large):
                await group.multicast_many([b"fits", large])
            with pytest.raises(ordercast.UsageError, match="is larger than payload_max"):
                await bank.call(Bank.deposit, "4" * PAYLOAD_MAX, 1)
            with pytest.raises(ordercast.UsageError, match="is larger than payload_max"):
                await bank.call(Bank.deposit, account="4" * PAYLOAD_MAX, amount=1)
            await group.multicast(large[1:])
            await group.multicast(large[1:], key="18")
            assert await bank.call(Bank.deposit, "4" * (PAYLOAD_MAX // 2), 1) == 1
            await client.flush()
            assert client.connections == 1

    run(main())


def test_runs_are_taken_where_messages_are_small() -> None:
    async def main() -> None:
        configuration = with_clients("a", payload_max=1_000)
        async with open_cluster(configuration), ordercast.connect(where(configuration), insecure=True) as client:
            await client.group("g").multicast_many([bytes(1_000)] * 200)
            await client.flush()
            assert client.connections == 1

    run(main())


def test_what_the_next_member_does_not_allow_is_dropped_and_told() -> None:
    async def main() -> None:
        said = list[object]()

        def say(request: object) -> bool:
            said.append(request)
            return True

        out, future = Outgoing(say), asyncio.get_running_loop().create_future()
        out.send_again(PAYLOAD_MAX)
        out.add("g", bytes(PAYLOAD_MAX), future)
        out.add("g", b"small")
        out.add_keyed("g", "key", bytes(PAYLOAD_MAX), None)
        out.flush()
        assert len(said) == 3
        out.send_again(RUN_BYTES_MAX)
        assert len(said) == 4
        with pytest.raises(ordercast.UsageError, match="let it be the same at every process"):
            await future
        out.on_ordered(Ordered("g", 2, 0, "b:0:1/0", False))
        with pytest.raises(ordercast.UsageError, match="may be ordered all the same"):
            await out.wait_idle()

    run(main())


def test_a_refusal_for_which_nobody_waits_is_told_to_whoever_flushes_or_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        configuration = with_clients("ab", groups={"g": ["a", "b"], "h": ["a"]})
        async with open_cluster(configuration), ordercast.connect(where(configuration, "b"), insecure=True) as client:
            await client.group("h").multicast(b"x")
            with pytest.raises(ordercast.UsageError, match="process b is not in h"):
                await client.flush()
            await client.flush()
            await client.group("i").multicast(b"x", key="17")

    with pytest.raises(ordercast.UsageError, match="no group 'i'"):
        run(main())
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "what was sent to group 'h' is refused",
        "what was sent to group 'i' is refused",
    ]


def test_everybody_who_waits_hears_that_a_group_is_blocked() -> None:
    """Also whoever begins to wait when the client was told before."""

    async def main() -> None:
        configuration = with_clients("ab")
        async with ordercast.open(configuration, "b") as b:
            (await b.join("g")).on_batch(lambda batch: None)
            async with ordercast.connect(where(configuration), insecure=True) as client:
                for number in range(3):
                    with pytest.raises(ordercast.GroupBlocked):
                        await client.group("g").multicast(b"%d" % number, confirm=True)
                async with ordercast.open(configuration, "a") as a:
                    (await a.join("g")).on_batch(lambda batch: None)
                    await client.flush()

    run(main())


@pytest.mark.parametrize("is_call", [False, True])
def test_a_client_leaves_a_member_that_is_cut_off_from_the_others(is_call: bool) -> None:
    async def main() -> None:
        configuration = with_clients(protocol="three-step")
        async with open_nodes(configuration) as nodes:
            for node in nodes:
                await ordercast.Replicated(Bank()).join(node, "g")
            async with ordercast.connect(where(configuration), insecure=True) as client:
                (lost,) = (node for node in nodes if node.process == client.member)
                cut_off(lost, [node for node in nodes if node is not lost])
                if is_call:
                    assert await client.replicated(Bank, "g").call(Bank.deposit, "42", 1) == 1
                else:
                    await client.group("g").multicast(b"x", confirm=True)
                assert client.member != lost.process
            lost.kill()

    run(main())


def test_a_client_whose_group_goes_on_nowhere_looks_around_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is with a member that stays cut off, and the others come later."""
    monkeypatch.setattr(client_module, "ROUND_SECONDS", 1.0)

    async def main() -> None:
        configuration = with_clients(protocol="three-step")
        async with ordercast.open(configuration, "c") as c:
            (await c.join("g")).on_batch(lambda batch: None)
            async with ordercast.connect(where(configuration, "cab"), insecure=True) as client:
                with pytest.raises(ordercast.GroupBlocked):
                    await client.group("g").multicast(b"x", confirm=True)
                c.internals.engine.transport.disturb(lambda *_: 0)
                async with open_nodes(configuration, "ab") as nodes:
                    for node in nodes:
                        (await node.join("g")).on_batch(lambda batch: None)
                    while client.member not in ("a", "b"):
                        with suppress(ordercast.GroupBlocked):
                            await client.flush()
                    await client.flush()
            c.kill()

    run(main())


def test_a_client_that_is_closed_or_asked_for_what_it_has_not_says_so() -> None:
    async def main() -> None:
        configuration = with_clients("a")
        async with open_cluster(configuration):
            client = ordercast.connect(where(configuration), insecure=True)
            with pytest.raises(ordercast.UsageError, match="enter the client first"):
                client.group("g")
            async with client:
                group = client.group("g")
                with pytest.raises(ordercast.UsageError, match="confirm='majority': a client is told when"):
                    await group.multicast(b"x", confirm="majority")  # type: ignore[call-overload]
            with pytest.raises(ordercast.NodeClosed):
                await group.multicast(b"x")
            with pytest.raises(ordercast.NodeClosed):
                await anext(group.subscribe(0))

    run(main())
