"""Services that each process chooses, on sockets (Berket 2000, chapter 4)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import ordercast
from ordercast.core import MAIN_INSTANCE
from ordercast.core.effects import Activate
from tests.net.strangers import until
from tests.node.cluster import make_configuration, open_nodes, payloads, run

OPTIONS: dict[str, Any] = {"activation_seconds": 0.4, "keep_alive_seconds": 0.01}
QUICK = OPTIONS | {
    "senders": ["a"],
    "control_seconds_min": 0.01,
    "check_seconds": 0.01,
    "search_seconds": 0.25,
    "silence_seconds": 0.2,
    "stale_seconds": 0.5,
}
"""Whoever is silent for half a second holds nobody."""


def configuration(names: str, **options: Any) -> dict[str, Any]:
    return make_configuration(names) | {"protocol": "intergroup", "options": OPTIONS | options}


def test_a_process_joins_with_a_service_and_chooses_another_one_of_some_sources() -> None:
    async def main() -> None:
        async with open_nodes(configuration("abc")) as (a, b, c):
            (await a.join("g")).on_delivery(lambda _: None)
            display = await c.join("g", service="unreliable-source")
            await display.choose("reliable-source", ["a"])
            archive = await b.join("g")
            await a.multicast(b"from a", ["g"])
            await b.multicast(b"from b", ["g"])
            await a.multicast(b"again", ["g"])
            assert await payloads(archive, 3)
            assert await payloads(display, 2) == [b"from a", b"again"]

    run(main())


@pytest.mark.parametrize("service", ["group-timestamp", "unreliable"])
def test_small_messages_do_not_wait_until_those_before_them_are_stable(service: str) -> None:
    async def main() -> None:
        async with open_nodes(configuration("ab", control_seconds_min=5.0, start_seconds=0.1)) as nodes:
            a, b = nodes
            own, group = await a.join("g"), await b.join("g")
            own.on_delivery(lambda _: None)
            for number in range(6):
                await a.multicast(b"%d" % number, ["g"])
                assert await asyncio.wait_for(payloads(group, 1), 4.0) == [b"%d" % number]
                if number == 0:  # before that, a may not know yet who listens
                    await own.choose(service)
                    await group.choose(service)
            assert not a.status()["idle"], "the first one is not stable yet"
            for node in nodes:
                node.kill()

    run(main())


@pytest.mark.parametrize("sources", [[], ["a"]])
def test_a_service_of_a_source_that_does_not_answer_is_unavailable_and_nobody_waits_for_ever(
    sources: list[str],
) -> None:
    async def main() -> None:
        async with open_nodes(configuration("abc", service="unreliable")) as (a, b, _c):
            group = await b.join("g")
            a.kill()
            with pytest.raises(ordercast.ServiceUnavailable, match="'reliable-source' of a in group 'g' cannot be had"):
                await group.choose("reliable-source", sources)

    run(main())


@pytest.mark.parametrize(
    ("service", "sources", "words"),
    [
        ("relable-source", [], "did you mean 'reliable-source'?"),
        ("reliable-source", ["aa"], "'aa' is no sender of g; did you mean 'a'?"),
        ("group-timestamp", ["a"], "leave out the sources"),
    ],
)
def test_what_cannot_be_chosen_is_refused_at_once(service: str, sources: list[str], words: str) -> None:
    async def main() -> None:
        async with open_nodes(configuration("ab")) as (a, _b):
            group = await a.join("g")
            with pytest.raises(ordercast.UsageError) as refused:
                await group.choose(service, sources)
            assert words in str(refused.value)

    run(main())


def test_whoever_was_away_for_too_long_is_told_that_it_has_missed_something() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab") | {"protocol": "intergroup", "options": QUICK}) as (a, b):
            seen: list[bytes] = []
            gaps: list[int] = []
            (await a.join("g")).on_delivery(lambda _: None)
            group = await b.join("g", service="reliable-source")
            group.on_gap(gaps.append)
            group.on_delivery(lambda delivery: seen.append(delivery.payload))
            await a.multicast(b"before", ["g"])
            await until(lambda: seen == [b"before"])
            for node in (a, b):
                node.internals.engine.transport.disturb(lambda *_: 0)
            await a.multicast(b"lost", ["g"])
            sending = a.internals.engine.core.process_groups["g"]  # type: ignore[attr-defined]
            await until(lambda: not sending.buffer.own)
            for node in (a, b):
                node.internals.engine.transport.disturb(lambda *_: 1)
            await until(lambda: gaps)
            assert gaps == [1]
            await a.multicast(b"after", ["g"])
            await until(lambda: seen == [b"before", b"after"])
            assert b.status()["dropped"]["gaps"] == 1

    run(main())


def test_what_all_who_are_left_lack_alike_is_no_gap() -> None:
    async def main() -> None:
        async with open_nodes(configuration("ab")) as (a, _b):
            gaps: list[int] = []
            group = await a.join("g")
            group.on_gap(gaps.append)
            group.on_delivery(lambda _: None)
            again = Activate("g", "group-timestamp", "b", shared=True)
            a.internals.activate(MAIN_INSTANCE, again)
            assert gaps == []
            a.internals.activate(MAIN_INSTANCE, msgspec.structs.replace(again, shared=False))
            await until(lambda: gaps == [0])
            dropped = a.status()["dropped"]
            assert (dropped["holes"], dropped["gaps"]) == (1, 1)

    run(main())
