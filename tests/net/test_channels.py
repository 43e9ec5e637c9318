"""Broadcasts on channels, on the loopback: by IP multicast where it reaches, by copies where it does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from ipaddress import ip_address

import pytest

from ordercast.core.events import Arrival
from ordercast.net.channels import TELL_SECONDS_MAX, channel_group, hops_of
from ordercast.net.ports import free_ports
from tests.net.strangers import Stranger, started, until
from tests.net.test_discovery import multicast_address
from tests.node.cluster import run

AGAIN_SECONDS = 0.02


def test_each_channel_has_an_address_in_the_configured_range_that_is_not_the_configured_one() -> None:
    groups = {channel_group("239.7.7.7", f"channel {number}") for number in range(2000)}
    assert len(groups) > 1900
    assert all(group.startswith("239.7.") for group in groups)
    assert "239.7.7.7" not in groups
    assert not any(group.startswith("224.0.0.") for group in (channel_group("224.0.1.1", f"{n}") for n in range(2000)))
    assert all(ip_address(group).is_multicast for group in groups)
    assert channel_group("239.7.7.7", "x") == channel_group("239.7.1.2", "x"), "the same at every process"


@pytest.mark.parametrize(("ttl", "left", "hops"), [(9, 9, 1), (9, 8, 2), (255, 250, 6), (1, None, 1), (1, 64, 1)])
def test_hops_are_what_is_missing_of_the_ttl(ttl: int, left: int | None, hops: int) -> None:
    assert hops_of(ttl, left) == hops


def met(*strangers: Stranger) -> bool:
    names = {stranger.name for stranger in strangers}
    return all(set(stranger.peers) == names - {stranger.name} for stranger in strangers)


async def said(speaker: Stranger, text: str, *listeners: Stranger) -> None:
    """Say something again and again until all have heard it: until they have told that they listen, nobody knows."""

    loop = asyncio.get_running_loop()
    due = loop.time()

    def again() -> bool:
        nonlocal due
        if loop.time() >= due:
            due += AGAIN_SECONDS
            speaker.say("x", text)
        return all(listener.heard(text) for listener in listeners)

    await until(again)


def test_a_broadcast_leaves_once_for_all_who_listen_and_the_sender_hears_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        address = multicast_address()
        a, b, c, deaf = strangers = [Stranger(name, multicast=address) for name in ("a", "b", "c", "deaf")]
        async with started(*strangers):
            await until(lambda: met(*strangers))
            for each in (a, b, c):
                each.join("x")
            deaf.join("y")
            a.say("x", "first")
            await until(lambda: all(each.heard("first") for each in (a, b, c)))
            await until(lambda: "IP multicast on channel x reaches everyone who listens: b, c" in caplog.text)
            sent = count_datagrams(a)
            a.say("x", "once", ttl=1)
            assert sent() == 1
            await until(lambda: b.heard("once") and c.heard("once"))
            assert b.heard("once") == [("a", Arrival("x", hops=1))]
            assert a.heard("once") == [("a", Arrival("x", hops=0))]
            assert deaf.core.heard == []

    with caplog.at_level(logging.INFO, "ordercast.net"):
        run(main())


def count_datagrams(stranger: Stranger) -> Callable[[], int]:
    """How many datagrams have left since."""
    count = 0

    def note(_datagram: memoryview, _address: object) -> int:
        nonlocal count
        count += 1
        return 1

    stranger.transport.disturb(note)
    return lambda: count


def test_a_listener_whose_first_words_are_lost_is_heard_of_soon() -> None:
    async def main() -> None:
        seed = Stranger("seed", port=free_ports(1)[0])
        a = Stranger("a", seeds=[seed.address])
        async with started(seed, a):
            await until(lambda: met(seed, a))
            lost: list[int] = []

            def lose_some(_datagram: memoryview, _address: object) -> int:
                if len(lost) < 3:
                    lost.append(1)
                    return 0
                return 1

            a.transport.disturb(lose_some)
            begin = asyncio.get_running_loop().time()
            a.join("x")
            await said(seed, "hello", a)
            assert asyncio.get_running_loop().time() - begin < TELL_SECONDS_MAX
            assert len(lost) == 3

    run(main())


def test_without_multicast_those_who_listen_get_copies() -> None:
    async def main() -> None:
        seed = Stranger("seed", port=free_ports(1)[0])
        a, b, c = (Stranger(name, seeds=[seed.address]) for name in "abc")
        async with started(seed, a, b, c):
            await until(lambda: met(seed, a, b, c))
            b.join("x")
            c.join("x")
            await said(a, "copy", b, c)
            assert set(b.heard("copy")) == {("a", Arrival("x", hops=1))}
            assert a.heard("copy") == [], "it has not joined"
            assert seed.core.heard == []

    run(main())


def test_who_is_not_reached_by_multicast_is_named_and_gets_copies(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        address = multicast_address()
        a, b = Stranger("a", multicast=address), Stranger("b", multicast=address)
        # c hears the cluster's address, and none of a channel.
        c = Stranger("c", multicast=address)
        monkeypatch.setattr(c.transport, "join_group", lambda _group: None)
        async with started(a, b, c):
            await until(lambda: met(a, b, c))
            for each in (a, b, c):
                each.join("x")
            a.say("x", "first")
            await until(lambda: "IP multicast on channel x does not reach c: copies by unicast" in caplog.text)
            a.say("x", "both ways")
            await until(lambda: b.heard("both ways") and c.heard("both ways"))
            assert c.heard("both ways") == [("a", Arrival("x", hops=1))]

    with caplog.at_level(logging.INFO, "ordercast.net"):
        run(main())


def test_two_channels_that_share_an_address_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordercast.net.channels.channel_group", lambda _base, _channel: "239.192.78.99")

    async def main() -> None:
        address = multicast_address()
        a, b = Stranger("a", multicast=address), Stranger("b", multicast=address)
        async with started(a, b):
            await until(lambda: met(a, b))
            b.join("x")
            b.join("y")
            b.leave("y")
            a.say("y", "not for b")
            a.say("x", "for b")
            await until(lambda: b.heard("for b"))
            await until(lambda: b.endpoint.counters["not-joined"])
            assert b.heard("not for b") == []

    run(main())


def test_who_has_left_a_channel_gets_nothing_of_it_and_can_join_again() -> None:
    async def main() -> None:
        address = multicast_address()
        a, b = Stranger("a", multicast=address), Stranger("b", multicast=address)
        async with started(a, b):
            await until(lambda: met(a, b))
            b.join("x")
            a.say("x", "one")
            await until(lambda: b.heard("one"))
            b.leave("x")
            b.leave("x")
            a.say("x", "two")
            b.join("x")
            a.say("x", "three")
            await until(lambda: b.heard("three"))
            b.leave("x")
            assert not b.transport.multicast_groups

    run(main())


def test_long_broadcasts_arrive_whole() -> None:
    async def main() -> None:
        address = multicast_address()
        a, b = Stranger("a", multicast=address), Stranger("b", multicast=address)
        async with started(a, b):
            await until(lambda: met(a, b))
            b.join("x")
            a.say("x", "first")
            await until(lambda: b.heard("first"))
            a.say("x", "long", size=100_000)
            await until(lambda: b.heard("long"))

    run(main())


def test_a_channel_that_cannot_be_joined_by_multicast_comes_by_unicast(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        address = multicast_address()
        a, b = Stranger("a", multicast=address), Stranger("b", multicast=address)
        async with started(a, b):
            await until(lambda: met(a, b))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("ordercast.net.channels.channel_group", lambda _base, _channel: "10.0.0.1")
                b.join("x")
            assert "channel x comes by unicast: cannot join multicast 10.0.0.1" in caplog.text
            await said(a, "copy", b)

    run(main())
