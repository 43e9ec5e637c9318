"""Processes that no list names find each other, on the loopback: by multicast, by a seed, and from each other."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from ordercast.core import UsageError, WireError
from ordercast.core.events import Discovered
from ordercast.net import sockets
from ordercast.net.discovery import SOUGHT_MAX
from ordercast.net.packets import NET_INSTANCE, NET_PACKETS, Goodbye, Heard, Known, Listening, Probe
from ordercast.net.ports import free_ports
from ordercast.wire import Codec
from tests.net.strangers import HOST, Stranger, started, until
from tests.node.cluster import run
from tests.wire.cluster import OTHER_KEY
from tests.wire.test_fuzz import mutate

FUZZED = 5000


def multicast_address() -> tuple[str, int]:
    # Organisation-local addresses (RFC 2365); a port of our own, so that parallel tests do not hear each other.
    return "239.192.78.1", free_ports(1)[0]


def knows(stranger: Stranger, *names: str) -> bool:
    return stranger.peers == sorted(names)


def test_processes_find_each_other_by_multicast() -> None:
    async def main() -> None:
        address = multicast_address()
        a, b, c = (Stranger(name, multicast=address) for name in "abc")
        async with started(a, b, c):
            await until(lambda: knows(a, "b", "c") and knows(b, "a", "c") and knows(c, "a", "b"))
            await until(lambda: a.core.discovered and a.core.discovered[-1] == Discovered(("b", "c"), True))
            late = Stranger("late", multicast=address)
            async with started(late):
                await until(lambda: all(knows(each, *({*"abc", "late"} - {each.name})) for each in (a, b, c, late)))
                found = late.discovery.status()["found"]
                assert {name: each["address"] for name, each in found.items()} == {
                    each.name: each.address for each in (a, b, c)
                }

    run(main())


def test_a_process_that_knows_one_seed_finds_all_and_is_found_by_all() -> None:
    async def main() -> None:
        seed = Stranger("seed", port=free_ports(1)[0])
        others = [Stranger(name, seeds=[seed.address]) for name in "abcd"]
        async with started(seed, *others):
            everyone = {"seed", *"abcd"}
            await until(lambda: all(knows(each, *(everyone - {each.name})) for each in (seed, *others)))
            status = others[0].discovery.status()
            assert status["found"]["seed"] == {"address": seed.address, "how": "seed"}
            assert {each["how"] for name, each in status["found"].items() if name != "seed"} <= {
                "came",
                *(f"told by {name}" for name in everyone),
            }
            await until(lambda: others[0].discovery.settled)
            assert others[0].discovery.status()["looked_for"] == []

    run(main())


def test_who_finds_nobody_is_told_so_and_goes_on_looking(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        port = free_ports(1)[0]
        alone = Stranger("alone", seeds=[f"{HOST}:{port}"])
        with caplog.at_level(logging.INFO, "ordercast.net"):
            async with started(alone):
                await until(lambda: alone.core.discovered and alone.core.discovered[-1] == Discovered((), True))
                assert alone.discovery.status() == {
                    "settled": True,
                    "multicast": False,
                    "found": {},
                    "looked_for": [f"seed {HOST}:{port}"],
                    "foreign": 0,
                }
                assert f"no other process was found yet; looking for seed {HOST}:{port}" in caplog.text
                seed = Stranger("seed", port=port)
                async with started(seed):
                    await until(lambda: knows(alone, "seed") and knows(seed, "alone"))
                    await until(lambda: alone.core.discovered[-1] == Discovered(("seed",), True))

    run(main())


def test_a_process_that_ends_is_forgotten_at_once_and_can_come_back_under_its_name() -> None:
    async def main() -> None:
        a = Stranger("a", port=free_ports(1)[0])
        b = Stranger("b", seeds=[a.address])
        async with started(a):
            b.start()
            await until(lambda: knows(a, "b"))
            b.stop()
            await until(lambda: knows(a))
            await until(lambda: a.core.discovered[-1].sites == ())
            again = Stranger("b", seeds=[a.address])
            async with started(again):
                await until(lambda: knows(a, "b") and knows(again, "a"))
                assert again.endpoint.refused is None

    run(main())


def test_a_goodbye_that_comes_twice_in_one_piece_is_one() -> None:
    async def main() -> None:
        a = Stranger("a", port=free_ports(1)[0])
        b = Stranger("b", seeds=[a.address])
        async with started(a, b):
            await until(lambda: knows(a, "b") and knows(b, "a"))
            goodbyes = []
            for _ in range(2):
                b.endpoint.send(("a",), NET_INSTANCE, Goodbye())
                goodbyes += [bytes(outgoing.buffer) for outgoing in b.endpoint.flush()]
            now = asyncio.get_running_loop().time()
            train = memoryview(b"".join(goodbyes))
            assert a.site.on_datagram(train, now, False, len(goodbyes[0]), (HOST, b.transport.port), 64)
            await until(lambda: knows(a))

    run(main())


def test_whatever_a_member_says_about_the_network_is_a_packet_or_garbage() -> None:
    """Mutated packets of the network itself, under a member's own seal: the site goes on."""

    async def main() -> None:
        a = Stranger("a", port=free_ports(1)[0])
        b = Stranger("b", seeds=[a.address])
        async with started(a, b):
            await until(lambda: knows(a, "b") and knows(b, "a"))
            a.join("x")
            random = Random(7)
            ways = a.site._ways
            assert ways is not None
            codec = Codec({NET_INSTANCE: NET_PACKETS})
            sound: list[bytes] = []
            for packet in (
                Probe(1),
                Heard(1),
                Heard(1, b"12345678"),
                Known((("c", HOST, 9), ("d", "10.0.0.1", 7001))),
                Listening((b"12345678", b"abcdefgh")),
            ):
                buffer = bytearray()
                codec.encode_into(NET_INSTANCE, packet, buffer, 0)
                sound.append(bytes(buffer))
            packets = 0
            for _ in range(FUZZED):
                frames = mutate(random.choice(sound), random)
                try:
                    decoded = codec.decode(frames)
                except WireError:
                    continue
                for _, received in decoded:
                    packets += 1
                    ways.on_packet("b", received, random.random() < 0.5)
            assert packets > FUZZED / 20
            assert not a.application.errors

    run(main())


def test_two_halves_that_have_lost_each_other_meet_again_although_the_seed_is_gone() -> None:
    async def main() -> None:
        seed = Stranger("seed", port=free_ports(1)[0])
        a, b = Stranger("a", seeds=[seed.address]), Stranger("b", seeds=[seed.address])
        async with started(a, b):
            seed.start()
            await until(lambda: knows(a, "b", "seed") and knows(b, "a", "seed"))
            seed.crash()
            # What a minute of silence does.
            a.site.step(lambda _now: a.endpoint.remove_site("b"))
            b.site.step(lambda _now: b.endpoint.remove_site("a"))
            await until(lambda: "b" in a.peers and "a" in b.peers)

    run(main())


def test_a_process_with_another_key_is_foreign_and_gets_no_further() -> None:
    async def main() -> None:
        address = multicast_address()
        a, b = Stranger("a", multicast=address), Stranger("b", multicast=address, key=OTHER_KEY)
        async with started(a, b):
            await until(lambda: a.discovery.status()["foreign"] > 2 and b.discovery.status()["foreign"] > 2)
            assert (a.peers, b.peers) == ([], [])
            assert not a.endpoint.refusals

    run(main())


def test_a_process_that_listens_everywhere_is_reached_where_it_is_seen() -> None:
    async def main() -> None:
        seed = Stranger("seed", port=free_ports(1)[0])
        anywhere = Stranger("anywhere", seeds=[seed.address], host="0.0.0.0")
        async with started(seed, anywhere):
            await until(lambda: knows(seed, "anywhere") and knows(anywhere, "seed"))
            assert seed.endpoint.address_of("anywhere") == (HOST, anywhere.transport.port)

    run(main())


def test_what_peers_tell_of_others_is_bounded_and_forgotten_when_nobody_answers() -> None:
    async def main() -> None:
        a = Stranger("a", port=free_ports(1)[0])
        liar = Stranger("liar", seeds=[a.address])
        async with started(a, liar):
            await until(lambda: knows(a, "liar") and knows(liar, "a"))
            nobody = sockets.resolve(HOST, free_ports(1)[0]).address[1]

            def lie(_now: float) -> None:
                for part in range(SOUGHT_MAX // 32):
                    names = [f"made up {part} {number}" for number in range(64)]
                    liar.endpoint.send(("a",), NET_INSTANCE, Known(tuple((name, HOST, nobody) for name in names)))
                liar.endpoint.send(("a",), NET_INSTANCE, Known((("x" * 300, HOST, nobody), ("y", "a.name", 7001))))

            liar.site.step(lie)
            await until(lambda: len(a.discovery.status()["looked_for"]) == SOUGHT_MAX)
            assert knows(a, "liar")

    run(main())


def test_nobody_answers_more_announcements_than_there_is_room_for() -> None:
    async def main() -> None:
        address = multicast_address()
        a = Stranger("a", multicast=address, processes_max=3)
        others = [Stranger(name, multicast=address) for name in "bcd"]
        async with started(a, *others):
            await until(lambda: all(len(each.peers) >= 2 for each in others) and a.endpoint.counters["full"])
            assert len(a.peers) == 2
            assert any("as many processes as a cluster can have" in line for line in a.endpoint.refusals.values())

    run(main())


def test_a_process_with_a_log_starts_when_those_who_were_found_have_had_their_say() -> None:
    async def main() -> None:
        seed = Stranger("seed", port=free_ports(1)[0])
        async with started(seed):
            late = Stranger("late", seeds=[seed.address])
            late.site.start(late.transport, multicast=False, roll_call=True, discovery=late.discovery)
            try:
                assert late.core.discovered == [], "nothing has started"
                await until(lambda: knows(late, "seed"))
                await until(lambda: late.core.discovered)
                assert late.core.discovered[0].sites == ("seed",)
            finally:
                late.stop()
            alone = Stranger("alone")
            alone.site.start(alone.transport, multicast=False, roll_call=True, discovery=alone.discovery)
            try:
                await until(lambda: alone.core.discovered)
                await until(lambda: alone.core.discovered[-1] == Discovered((), True))
            finally:
                alone.stop()

    run(main())


def test_where_most_are_meant_one_multicast_goes_to_all_who_came() -> None:
    async def main() -> None:
        address = multicast_address()
        strangers = [Stranger(name, multicast=address) for name in "abcd"]
        async with started(*strangers):
            await until(lambda: all(len(each.peers) == 3 for each in strangers))
            await until(lambda: strangers[0].site.uses_multicast)

    run(main())


def test_a_seed_that_is_the_process_itself_is_not_looked_for() -> None:
    async def main() -> None:
        port = free_ports(1)[0]
        seed = Stranger("seed", port=port, seeds=[f"{HOST}:{port}"])
        async with started(seed):
            await until(lambda: seed.discovery.settled)
            assert seed.discovery.status()["looked_for"] == []

    run(main())


def test_a_seed_whose_name_is_found_later_is_asked_then() -> None:
    async def main() -> None:
        seed = Stranger("seed", port=free_ports(1)[0])
        a = Stranger("a", seeds=["127.0.0.1:9"])
        a.discovery.set_seed("seed.example.org:7001", sockets.resolve(HOST, seed.transport.port))
        async with started(seed, a):
            await until(lambda: knows(a, "seed"))

    run(main())


def test_a_host_without_a_way_to_an_address_says_what_to_do() -> None:
    assert sockets.own_host((HOST, 9)) == HOST
    with pytest.raises(UsageError, match="correct \\[discovery\\], or set listen"):
        sockets.own_host(("255.255.255.255", 9))


def test_a_multicast_address_that_cannot_be_joined_is_named() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="cannot join multicast"):
            Stranger("a", multicast=("10.0.0.1", 7500))
        await asyncio.sleep(0)

    run(main())
