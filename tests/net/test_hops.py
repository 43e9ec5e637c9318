"""Channels between two networks with a router between them: how far a broadcast goes, and what can be seen of it.

Skipped by name where there are no network namespaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ordercast.core.events import Arrival
from ordercast.net.channels import channel_group
from tests.net.namespaces import LEFT, RIGHT, inside, two_networks
from tests.net.strangers import Stranger, started, until
from tests.net.test_channels import met, said
from tests.node.cluster import run

BASE = "239.77.7.7"
PORT = 7500
FAR, NEAR = 2, 1
"""A router lets a TTL of 2 pass, and leaves 1."""


def make(namespace: str, name: str, host: str, **details: Any) -> Stranger:
    with inside(namespace):
        return Stranger(name, host=host, **details)


def join(namespace: str, stranger: Stranger, channel: str) -> None:
    with inside(namespace):
        stranger.join(channel)


def in_two_networks(groups: tuple[str, ...], main: Callable[[str, str], Any]) -> None:
    with two_networks(groups) as (left, right):
        run(main(left, right))


def test_a_broadcast_goes_as_far_as_its_ttl_and_tells_how_far_it_has_come(caplog: pytest.LogCaptureFixture) -> None:
    async def main(left: str, right: str) -> None:
        a, near = (
            make(left, name, LEFT, multicast=(BASE, PORT), port=port) for name, port in (("a", 7001), ("b", 7002))
        )
        far = make(right, "far", RIGHT, multicast=(BASE, PORT), port=7003, seeds=[a.address])
        async with started(a, near, far):
            await until(lambda: met(a, near, far))
            join(left, a, "x")
            join(left, near, "x")
            join(right, far, "x")
            await said(a, "first", near, far)
            await until(lambda: "IP multicast on channel x reaches everyone who listens: b, far" in caplog.text)
            a.say("x", "near", ttl=NEAR)
            a.say("x", "far", ttl=FAR)
            await until(lambda: near.heard("near") and near.heard("far") and far.heard("far"))
            assert near.heard("near") == near.heard("far") == [("a", Arrival("x", hops=1))]
            assert far.heard("far") == [("a", Arrival("x", hops=2))]
            assert far.heard("near") == [], "it left first, and what came later has come"
            assert a.heard("near") == [("a", Arrival("x", hops=0))]

    with caplog.at_level("INFO", "ordercast.net"):
        in_two_networks((BASE, channel_group(BASE, "x")), main)


def test_copies_go_as_far_as_their_ttl_where_the_router_lets_no_multicast_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(left: str, right: str) -> None:
        a, near = (
            make(left, name, LEFT, multicast=(BASE, PORT), port=port) for name, port in (("a", 7001), ("b", 7002))
        )
        far = make(right, "far", RIGHT, multicast=(BASE, PORT), port=7003, seeds=[a.address])
        async with started(a, near, far):
            await until(lambda: met(a, near, far))
            join(left, near, "x")
            join(right, far, "x")
            await said(a, "first", near, far)
            await until(lambda: "IP multicast on channel x does not reach far: copies by unicast" in caplog.text)
            a.say("x", "near", ttl=NEAR)
            a.say("x", "far", ttl=FAR)
            await until(lambda: near.heard("near") and far.heard("far"))
            assert far.heard("far") == [("a", Arrival("x", hops=2))]
            assert far.heard("near") == []

    with caplog.at_level("INFO", "ordercast.net"):
        in_two_networks((), main)


def test_processes_of_two_networks_find_each_other_by_multicast_through_a_router() -> None:
    async def main(left: str, right: str) -> None:
        a = make(left, "a", LEFT, multicast=(BASE, PORT), port=7001)
        b = make(right, "b", RIGHT, multicast=(BASE, PORT), port=7001)
        async with started(a, b):
            await until(lambda: met(a, b))
            assert a.discovery.status()["found"]["b"]["address"] == f"{RIGHT}:7001"

    in_two_networks((BASE,), main)
