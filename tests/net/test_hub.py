"""One channel on sockets: everybody sees the same order, and a protocol that needs that is refused without it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import ordercast
from ordercast.check import choose, judge
from ordercast.net.ports import free_ports
from ordercast.net.sockets import open_udp, resolve
from ordercast.node.advice import find_warnings
from ordercast.node.configuration import read_configuration
from ordercast.protocols.selective_total import SelectiveTotal
from ordercast.trace import read_events, read_runs
from ordercast.wire.datagram import VERSION
from ordercast.wire.keys import ClusterKeys, create_key_file
from tests.node.cluster import make_configuration, open_nodes, payloads, run, start_hub
from tests.wire.cluster import OTHER_KEY, START, make_endpoint


def _configuration(names: str, **keys: Any) -> dict[str, Any]:
    return make_configuration(names, protocol="selective-total", channel=f"127.0.0.1:{free_ports(1)[0]}", **keys)


def test_five_processes_with_a_slow_one_lose_nothing_and_agree_on_the_order(tmp_path: Path) -> None:
    """Each says everything to the group, and something to two others; the judges look at what all of them recorded."""
    names = "abcde"

    async def main() -> None:
        configuration = _configuration(names, trace_directory=str(tmp_path))
        hub = start_hub(configuration)
        try:
            async with open_nodes(configuration) as nodes:
                groups = [await node.join("g") for node in nodes]
                for index in range(100):
                    for node, group in zip(nodes, groups, strict=True):
                        await group.multicast(f"{node.process}{index}".encode())
                        if index % 10 == 0:
                            pair = [other for other in names if other != node.process][index // 10 % 3 :][:2]
                            await node.multicast(f"{node.process}{index} to {pair}".encode(), destinations=pair)
                slow = asyncio.create_task(_take_slowly(groups[4], 500))
                first, *others = [await payloads(group, 500) for group in groups[:4]]
                assert all(other == first for other in (*others, await slow))
            assert hub.counters["relayed"] > 0
        finally:
            hub.close()

    run(main())
    (described,) = read_runs(tmp_path)
    assert described.settled
    verdicts = judge(described, read_events(tmp_path), choose(described.guarantees))
    assert {name: verdict.first for name, verdict in verdicts.items() if verdict.verdict != "holds"} == {}
    assert {"selective-information", "order-equivalence", "acyclic-order", "atomic-receipt"} <= set(verdicts)


def test_the_trace_of_the_sp_service_claims_what_that_promises() -> None:
    assert _claims_of_a_trace({"after_crash": "abort"}) == set(SelectiveTotal.contract.guarantees)
    assert _claims_of_a_trace({}) == set(SelectiveTotal.contract.guarantees) - {"no-silent-divergence"}
    weaker = _claims_of_a_trace({"service": "source"})
    assert "source-order" in weaker
    assert not weaker & {"order-equivalence", "acyclic-order", "multiple-source-order", "R1"}


def _claims_of_a_trace(options: dict[str, Any]) -> set[str]:
    with TemporaryDirectory() as folder:

        async def main() -> None:
            configuration = _configuration("ab", trace_directory=folder, options=options)
            async with ordercast.open(configuration, "a") as node:
                node.kill()

        run(main())
        (described,) = read_runs(Path(folder))
        return set(described.guarantees)


async def _take_slowly(group: ordercast.Group, count: int) -> list[bytes]:
    taken: list[bytes] = []
    async for delivery in group:
        taken.append(delivery.payload)
        # A hundred turns of the event loop for each: everybody else is done long before.
        for _ in range(100):
            await asyncio.sleep(0)
        if len(taken) == count:
            break
    return taken


def test_messages_for_some_reach_exactly_those() -> None:
    async def main() -> None:
        configuration = _configuration("abc")
        hub = start_hub(configuration)
        try:
            async with open_nodes(configuration) as (a, b, c):
                await a.multicast(b"for b", destinations=["b"])
                await a.multicast(b"for b and c", destinations=["b", "c"])
                assert await payloads(b.direct(), 2) == [b"for b", b"for b and c"]
                assert await payloads(c.direct(), 1) == [b"for b and c"]
                for node in (a, b, c):
                    node.kill()
        finally:
            hub.close()

    run(main())


def test_without_a_channel_the_protocol_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ordercast.UsageError, match="needs a channel that shows every process the same order"):
            await ordercast.open(make_configuration("ab", protocol="selective-total"), "a").__aenter__()
        with pytest.raises(ordercast.UsageError, match="needs whole datagrams"):
            await ordercast.open(_configuration("ab", max_datagram=1450), "a").__aenter__()

    run(main())


def test_a_configuration_without_a_channel_is_warned_of() -> None:
    warned = find_warnings(read_configuration(make_configuration("ab", protocol="selective-total"), {}, {}))
    assert any(warning.startswith("no channel: a node refuses selective-total") for warning in warned)
    fine = find_warnings(read_configuration(_configuration("ab"), {}, {}))
    assert not any(warning.startswith("no channel") for warning in fine)


def test_a_strangers_datagram_is_not_relayed() -> None:
    async def main() -> None:
        configuration = _configuration("ab")
        hub = start_hub(configuration)
        stranger = open_udp(resolve("127.0.0.1", 0), 1 << 16)
        try:
            port = int(configuration["channel"].rpartition(":")[2])
            stranger.sendto(b"hello", ("127.0.0.1", port))
            while not hub.counters["strangers"]:
                await asyncio.sleep(0)
            assert hub.counters["relayed"] == 0
        finally:
            stranger.close()
            hub.close()

    run(main())


def test_what_comes_under_a_process_address_is_relayed_and_no_process_believes_it(tmp_path: Path) -> None:
    """An address is no proof. Here c has not started, and somebody else has its address: garbage, a handshake under
    another key, and a datagram of the cluster that was recorded."""
    create_key_file(tmp_path / "c.key")

    async def main() -> None:
        configuration = _configuration("abc", key_file=str(tmp_path / "c.key"))
        hub = start_hub(configuration)
        port = int(configuration["channel"].rpartition(":")[2])
        forger = open_udp(resolve("127.0.0.1", int(configuration["processes"]["c"].rpartition(":")[2])), 1 << 22)
        try:
            async with open_nodes(configuration, "ab") as nodes:
                recorded = forger.recv(1 << 16)
                stranger = make_endpoint("c", ClusterKeys(OTHER_KEY), cluster="test")
                stranger.tick(START)
                hellos = [bytes(outgoing.buffer) for outgoing in stranger.flush()]
                assert len(hellos) == 2
                # The kernel may drop the first.
                for datagram in (b"garbage", bytes((VERSION,)) + b"garbage", recorded, *hellos):
                    forger.sendto(datagram, ("127.0.0.1", port))
                while not all({"short", "forged"} <= set(node.status()["dropped"]) for node in nodes):
                    await asyncio.sleep(0)
                assert [node.status()["peers"] for node in nodes] == [["b"], ["a"]]
                for node in nodes:
                    node.kill()
        finally:
            forger.close()
            hub.close()

    run(main())
