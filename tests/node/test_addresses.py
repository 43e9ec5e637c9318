"""A message to an address that the protocol does not know is refused at once, to who sends it, and costs nobody
anything."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest

import ordercast
from ordercast.core import UsageError
from ordercast.node.bundles import BUNDLE_BYTES_MAX
from ordercast.node.sender import Sender
from tests.hand_loop import HandLoop
from tests.node.cluster import make_configuration, open_nodes, payloads, run

TWO_GROUPS = {"g": ["a", "b"], "h": ["a", "b"]}
ONE_AT_A_TIME = "multicasts to one group at a time, not to g, h"


def test_two_groups_are_read_together_under_a_protocol_of_one_group_and_what_is_sent_to_both_is_refused() -> None:
    async def main() -> None:
        configuration = make_configuration("ab", protocol="fan-3", groups=TWO_GROUPS)
        async with open_nodes(configuration) as (a, b):
            both = await a.join("g", "h")
            await both.flush()
            for _ in range(20):  # more than a window: with a credit lost each time nothing could be sent after it
                with pytest.raises(ordercast.UsageError, match=ONE_AT_A_TIME):
                    await both.multicast(b"x")
                with pytest.raises(ordercast.UsageError, match=ONE_AT_A_TIME):
                    both.try_multicast(b"x")
                with pytest.raises(ordercast.UsageError, match=ONE_AT_A_TIME):
                    await both.multicast_many([b"x", b"y"])
            assert a.status()["idle"], "no credit is lost"
            await a.multicast(b"1", ["g"])
            await a.flush()
            await b.multicast(b"2", ["h"])
            assert sorted(await payloads(both, 2)) == [b"1", b"2"], "and nothing that was refused arrives"

    run(main())


def test_a_node_refuses_the_same_address_by_each_of_its_ways() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab", protocol="fan-3", groups=TWO_GROUPS)) as (a, _):
            with pytest.raises(ordercast.UsageError, match=ONE_AT_A_TIME):
                await a.multicast(b"x", ["g", "h"])
            with pytest.raises(ordercast.UsageError, match=ONE_AT_A_TIME):
                a.try_multicast(b"x", ["g", "h"])
            with pytest.raises(ordercast.UsageError, match=ONE_AT_A_TIME):
                await a.multicast_many([b"x"], ["g", "h"])
            assert a.status()["idle"]

    run(main())


def test_nothing_can_be_sent_to_messages_that_name_no_group() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab", protocol="two-phase")) as (a, _):
            with pytest.raises(ordercast.UsageError, match="at least one group"):
                await a.direct().multicast(b"x")
            assert a.status()["idle"]

    run(main())


@pytest.mark.parametrize(
    ("destinations", "complaint"),
    [(["b", "x"], "there is no process 'x'"), ([], "a multicast needs at least one destination")],
)
def test_single_processes_have_to_be_there(destinations: list[str], complaint: str) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab", protocol="two-phase")) as (a, _):
            with pytest.raises(ordercast.UsageError, match=complaint):
                await a.multicast(b"x", destinations=destinations)

    run(main())


def test_the_control_socket_refuses_it_too(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration(
            "ab", protocol="fan-3", groups=TWO_GROUPS, control=f"unix:{tmp_path}/{{process}}"
        )
        async with open_nodes(configuration) as (a, _):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "a"))
            payload = base64.b64encode(b"x").decode()
            for line in ({"command": "send", "groups": ["g", "h"]}, {"payload_base64": payload}):
                writer.write(json.dumps(line).encode() + b"\n")
            assert ONE_AT_A_TIME in json.loads(await reader.readline())["error"]
            writer.close()
            assert a.status()["idle"]

    run(main())


def test_a_message_that_the_protocol_itself_refuses_costs_no_credit() -> None:
    refused: list[bytes] = []

    def request(payload: bytes, *_: object) -> None:
        refused.append(payload)
        raise UsageError("not among the sources")

    sender = Sender(HandLoop(), request, BUNDLE_BYTES_MAX)  # type: ignore[arg-type]
    sender.on_credit(2)
    for _ in range(3):
        with pytest.raises(UsageError, match="not among the sources"):
            sender.add((("g",), None), b"x")
    assert sender.is_idle
    assert len(refused) == 3
