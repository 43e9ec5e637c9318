"""Clients: sealed, exactly once whatever becomes of their member, and bounded."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.net.ports import free_ports
from ordercast.node.bundles import encode_bundle
from ordercast.node.replica_messages import encode_value
from ordercast.node.replica_outcomes import Outcomes
from ordercast.node.serving.packets import Hello, Send, encode
from ordercast.node.serving.server import CLIENTS_MAX, STRANGER_SECONDS, STRANGERS_MAX, find_room
from ordercast.node.serving.session import Session
from ordercast.wire.keys import create_key_file
from ordercast.wire.stream import Stream
from tests.node.cluster import make_configuration, open_nodes, run


def with_clients(names: str = "abc", **keys: Any) -> dict[str, Any]:
    """A cluster whose processes all listen for clients."""
    clients = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    return make_configuration(names, clients=clients, **keys)


def where(configuration: dict[str, Any], names: str = "") -> list[str]:
    clients = configuration["clients"]
    return [clients[name] for name in names or clients]


@asynccontextmanager
async def open_cluster(configuration: dict[str, Any]) -> AsyncIterator[list[ordercast.Node]]:
    """Nodes whose group g only passes by."""
    async with open_nodes(configuration) as nodes:
        for node in nodes:
            (await node.join("g")).on_batch(lambda batch: None)
        yield nodes


async def take(deliveries: AsyncIterator[ordercast.Delivery], count: int) -> list[ordercast.Delivery]:
    return [await anext(deliveries) for _ in range(count)]


@pytest.mark.parametrize("protocol", ["sequencer", "three-step"])
def test_a_client_multicasts_and_follows_like_a_member(protocol: str, tmp_path: Path) -> None:
    create_key_file(tmp_path / "key")

    async def main() -> None:
        configuration = with_clients(protocol=protocol, key_file=str(tmp_path / "key"))
        async with (
            open_cluster(configuration) as nodes,
            ordercast.connect(where(configuration), tmp_path / "key") as client,
        ):
            assert client.cluster == "test"
            group = client.group("g")
            receipts = [await group.multicast(b"%d" % number, confirm=True) for number in range(3)]
            assert [receipt.offset for receipt in receipts] == [0, 1, 2]
            await group.multicast_many([b"%d" % number for number in range(3, 2000)])
            large = bytes(300_000)
            assert (await group.multicast(large, confirm=True)).offset == 2000
            followed = group.subscribe(0)
            seen = await take(followed, 2001)
            assert [delivery.payload for delivery in seen[:2000]] == [b"%d" % number for number in range(2000)]
            assert seen[2000].payload == large
            assert [delivery.offset for delivery in seen] == list(range(2001))
            assert [seen[n].message for n in range(3)] == [receipt.message for receipt in receipts]
            assert all(node.status()["offsets"]["g"] == 2001 for node in nodes[:1])

    run(main())


def test_who_has_another_key_is_refused_in_words(tmp_path: Path) -> None:
    create_key_file(tmp_path / "key")
    create_key_file(tmp_path / "other")

    async def main() -> None:
        configuration = with_clients("a", key_file=str(tmp_path / "key"))
        async with open_cluster(configuration) as (node,):
            for wrong in ({"key": tmp_path / "other"}, {"insecure": True}):
                with pytest.raises(ordercast.UsageError, match="no member takes this key"):
                    async with ordercast.connect(where(configuration), **wrong):
                        pass
            assert node.status()["clients"]["cut"]["clients-with-another-key"] == 2

    run(main())


def test_every_message_is_delivered_once_in_its_order_while_members_are_killed_and_come_back(tmp_path: Path) -> None:
    """The member that the client is with dies three times, each time another one, and comes back with its log."""
    count, kills = 1_500, 3

    async def main() -> None:
        configuration = with_clients(protocol="three-step", log_directory=str(tmp_path), retain_bytes=1 << 26)
        nodes: dict[str, ordercast.Node] = {}

        async def start(name: str) -> None:
            node = nodes[name] = ordercast.open(configuration, name)
            await node.__aenter__()
            (await node.join("g")).on_batch(lambda batch: None)

        for name in "abc":
            await start(name)
        async with ordercast.connect(where(configuration), insecure=True) as client:
            group, killed = client.group("g"), 0
            for number in range(count):
                await group.multicast(b"%d" % number)
                if number % (count // kills) == count // kills // 2:
                    victim = client.member
                    nodes[victim].kill()
                    killed += 1
                    await group.multicast(b"killed %d" % killed, confirm=True)
                    await start(victim)
            await client.flush()
            assert (killed, client.connections) == (kills, kills + 1)
        await asyncio.sleep(0)
        reader = nodes["a"].internals.history("g")
        while reader.next_offset < count + kills:
            await anext(reader.follow(None))
        numbers = [d.payload async for d in _until(reader.follow(0), reader.next_offset)]
        assert [p for p in numbers if not p.startswith(b"killed")] == [b"%d" % number for number in range(count)]
        for node in nodes.values():
            await node.__aexit__(None, None, None)

    run(main())


async def _until(deliveries: AsyncIterator[ordercast.Delivery], end: int) -> AsyncIterator[ordercast.Delivery]:
    async for delivery in deliveries:
        yield delivery
        if delivery.offset == end - 1:
            return


def test_a_key_that_clients_choose_belongs_to_all_of_them() -> None:
    async def main() -> None:
        configuration = with_clients()
        async with open_cluster(configuration):
            receipts = []
            for name in "abc":
                async with ordercast.connect(where(configuration, name), insecure=True) as client:
                    receipts.append(await client.group("g").multicast(b"pay", confirm=True, key="order 17"))
            assert {receipt.offset for receipt in receipts} == {0}
            assert [receipt.repeated for receipt in receipts] == [False, True, True]

    run(main())


@dataclass
class Bank:
    balances: dict[str, int] = field(default_factory=dict)

    def deposit(self, account: str, amount: int) -> int:
        self.balances[account] = self.balances.get(account, 0) + amount
        return self.balances[account]

    def withdraw(self, account: str, amount: int) -> int:
        if self.balances.get(account, 0) < amount:
            raise ValueError(f"account {account} has less than {amount}")
        return self.deposit(account, -amount)

    def caller(self, context: ordercast.Context) -> str:
        return context.caller


def test_a_client_calls_a_replicated_object_and_gets_its_results_and_exceptions() -> None:
    async def main() -> None:
        configuration = with_clients()
        async with open_nodes(configuration) as nodes:
            replicas = [await ordercast.Replicated(Bank()).join(node, "g") for node in nodes]
            async with ordercast.connect(where(configuration), insecure=True) as client:
                bank = client.replicated(Bank, "g")
                results = await asyncio.gather(*(bank.call(Bank.deposit, "42", 1) for _ in range(100)))
                assert results == list(range(1, 101))
                with pytest.raises(ValueError, match="account 7 has less than 1"):
                    await bank.call(Bank.withdraw, "7", 1)
                assert await bank.call(Bank.caller) == client.name
                with pytest.raises(TypeError):
                    await bank.call(Bank.deposit, "42", "much")  # type: ignore[call-overload]
                with pytest.raises(ordercast.UsageError, match="install the same version at both"):
                    await client.replicated(Bank, "g", version="2").call(Bank.deposit, "42", 1)
                with pytest.raises(ordercast.UsageError, match="holds no replicated object in group 'h'"):
                    await client.replicated(Bank, "h").call(Bank.deposit, "42", 1)
            for replica in replicas:
                assert await replica.read(lambda bank: bank.balances["42"], linearizable=True) == 100

    run(main())


def _break(session: Session, _answer: object) -> None:
    session.abort()


def test_a_call_whose_member_is_lost_before_it_answers_is_applied_once() -> None:
    async def main() -> None:
        configuration = with_clients(protocol="three-step")
        async with open_nodes(configuration) as nodes:
            replicas = {node.process: await ordercast.Replicated(Bank()).join(node, "g") for node in nodes}
            async with ordercast.connect(where(configuration), insecure=True) as client:
                bank = client.replicated(Bank, "g")
                for lost in range(2):
                    member = next(node for node in nodes if node.process == client.member)
                    clients = member._clients
                    assert clients is not None
                    # The answers of this member never arrive: it has sent the call, and its connections break.
                    (session,) = clients._sessions
                    session.say = partial(_break, session)  # type: ignore[method-assign]
                    assert await bank.call(Bank.deposit, "42", 1) == lost + 1
            assert client.connections == 3
            for replica in replicas.values():
                assert await replica.read(lambda bank: bank.balances["42"], linearizable=True) == 2

    run(main())


def test_a_client_that_is_back_before_its_last_connection_is_known_to_be_lost_gets_its_result() -> None:
    """Both connections wait for the same call, and the first one gives up."""

    async def main() -> None:
        outcomes = Outcomes()
        lost, back = outcomes.expect("client", 1), outcomes.expect("client", 1)
        outcomes.forget("client", 1, lost)
        outcomes.add("client", 1, 42)
        assert not lost.done()
        assert (await back).value == encode_value(42)
        outcomes.forget("client", 1, back)
        assert outcomes.expect("client", 1).done()

    run(main())


class Stalled(asyncio.Transport):
    """The connection of a client that does not read: it stays when it is closed, until that is done by force."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = False

    def write(self, data: object) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close


@asynccontextmanager
async def stalled_session() -> AsyncIterator[tuple[ordercast.Node, Session, Stream]]:
    """A member, a client that does not read, and what the client says."""
    async with open_cluster(with_clients("a")) as (node,):
        server = node._clients
        assert server is not None
        session, stream = Session(server), Stream(None, is_member=False, record_bytes_max=1 << 20)
        session.connection_made(Stalled())
        session.data_received(stream.greeting())
        stream.receive(session._stream.greeting())
        yield node, session, stream
        session.connection_lost(None)


def test_nothing_is_taken_of_a_client_that_was_cut_and_it_counts_once() -> None:
    """What is sent behind a run that was not taken would make the run count as one that is there already."""

    async def main() -> None:
        async with stalled_session() as (node, session, stream):
            malformed = Send("g", 1, 2, memoryview(encode_bundle([b"x"])))
            good = Send("g", 2, 1, memoryview(encode_bundle([b"y"])))
            session.data_received(b"".join(stream.seal(encode(each)) for each in (Hello("c"), malformed, good)))
            session.look(session.heard_at + 100.0)
            assert node.status()["clients"]["cut"] == {"clients-malformed": 1, "cut": 1}
            await node.multicast(b"z", ["g"], confirm=True)
            assert node.status()["offsets"]["g"] == 1

    run(main())


def test_a_stranger_that_says_a_byte_now_and_then_is_cut_all_the_same() -> None:
    async def main() -> None:
        async with stalled_session() as (node, session, stream):
            server, hello = node._clients, stream.seal(encode(Hello("c")))
            assert server is not None
            session.came_at -= STRANGER_SECONDS + 1.0
            session.data_received(hello[:1])
            assert session._open is not None
            server._look()
            assert session._open is None

    run(main())


@pytest.mark.parametrize(
    ("limits", "room", "raised"),
    [
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (CLIENTS_MAX, STRANGERS_MAX), None),
        ((1_024, resource.RLIM_INFINITY), (CLIENTS_MAX, STRANGERS_MAX), 10_750),
        ((1_024, 524_288), (CLIENTS_MAX, STRANGERS_MAX), 10_750),
        ((20_000, 20_000), (CLIENTS_MAX, STRANGERS_MAX), None),
        ((1_024, 4_096), (3_346, STRANGERS_MAX), 4_096),
        ((100, 100), (1, 1), 100),
    ],
)
def test_there_are_no_more_clients_than_a_process_may_have_files(
    limits: tuple[int, int], room: tuple[int, int], raised: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[tuple[int, int]]()
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: said.append(given))
    assert find_room() == room
    assert said == ([] if raised is None else [(raised, limits[1])])


def test_one_client_too_many_is_sent_to_another_member() -> None:
    async def main() -> None:
        configuration = with_clients("ab")
        async with open_cluster(configuration) as (a, _):
            assert a._clients is not None
            a._clients._clients_max = 1
            async with ordercast.connect(where(configuration, "a"), insecure=True):
                with pytest.raises(ordercast.NoMember, match="this member has 1 clients: go to another one"):
                    async with ordercast.connect(where(configuration, "a"), insecure=True, timeout=0.1):
                        pass
                async with ordercast.connect(where(configuration), insecure=True) as client:
                    assert client.member == "b"

    run(main())


def test_a_client_that_reads_too_slowly_is_told_and_cut() -> None:
    async def main() -> None:
        configuration = with_clients("a", history_bytes=1 << 20)
        async with open_cluster(configuration) as (node,):
            group = node.internals
            async with ordercast.connect(where(configuration), insecure=True) as client:
                followed = client.group("g").subscribe(0)
                await node.multicast(b"first", ["g"])
                assert (await anext(followed)).payload == b"first"
                for _ in range(500):
                    await node.multicast(bytes(10_000), ["g"])
                await node.flush()
                with pytest.raises(ordercast.ClientCut, match="delivers faster than this reads"):
                    await take(followed, 501)
                # It may go on from where the members are.
                again = client.group("g").subscribe(group.history("g").first_offset)
                assert len((await anext(again)).payload) == 10_000

    run(main())


def test_who_waits_hears_that_the_group_is_blocked_and_what_was_sent_is_ordered_later() -> None:
    async def main() -> None:
        configuration = with_clients("ab")
        async with ordercast.open(configuration, "b") as b:
            (await b.join("g")).on_batch(lambda batch: None)
            async with ordercast.connect(where(configuration, "b"), insecure=True) as client:
                with pytest.raises(ordercast.GroupBlocked, match="may be ordered all the same"):
                    await client.group("g").multicast(b"x", confirm=True)
                async with ordercast.open(configuration, "a") as a:
                    (await a.join("g")).on_batch(lambda batch: None)
                    await client.flush()
                    assert (await client.group("g").multicast(b"y", confirm=True)).offset == 1

    run(main())


def test_what_is_wrong_with_a_request_is_told_to_whoever_made_it() -> None:
    async def main() -> None:
        configuration = with_clients("ab", groups={"g": ["a", "b"], "h": ["a"]})
        async with (
            open_cluster(configuration),
            ordercast.connect(where(configuration, "b"), insecure=True) as client,
        ):
            with pytest.raises(ordercast.UsageError, match="process b is not in h"):
                await client.group("h").multicast(b"x", confirm=True)
            with pytest.raises(ordercast.ClientCut, match="sees nothing of it"):
                await anext(client.group("h").subscribe(0))
            with pytest.raises(TypeError, match="a message is bytes, not str"):
                await client.group("g").multicast("x")  # type: ignore[call-overload]
            assert (await client.group("g").multicast(b"y", confirm=True)).offset == 0
        with pytest.raises(ordercast.NoMember, match="no member answers"):
            async with ordercast.connect(where(configuration), insecure=True, timeout=0.1):
                pass

    run(main())
