"""Channels: one seal serves all who listen, whether the sender knows them or not, and nobody else."""

from __future__ import annotations

from random import Random

import pytest

from ordercast.core import MAIN_INSTANCE, UsageError
from ordercast.wire.casts import CHANNELS_MAX, Cast, Channels
from ordercast.wire.datagram import CAST, CAST_FRAGMENT, CHANNEL, HEADER
from ordercast.wire.reassembly import PATIENCE_SECONDS
from tests.wire.cluster import KEY, Note, datagrams_of
from tests.wire.strangers import Network, address_of, network_of, open_endpoint


def met(*names: str) -> Network:
    network = network_of(*names)
    for one in names:
        for other in names:
            if one < other:
                network.meet(one, other)
    return network


def cast_of(network: Network, sender: str = "a", number: int = 1, size: int = 0, ttl: int = 9) -> list[bytes]:
    """The datagrams of one broadcast on channel x."""
    endpoint = network.endpoints[sender]
    endpoint.broadcast("x", MAIN_INSTANCE, Note(number, Random(number).randbytes(size)), ttl)
    (outgoing,) = endpoint.flush()
    assert (outgoing.to, outgoing.channel, outgoing.ttl) == ((), "x", ttl)
    return datagrams_of(outgoing)


def hear(network: Network, receiver: str, *datagrams: bytes) -> list[Cast]:
    endpoint = network.endpoints[receiver]
    for datagram in datagrams:
        assert endpoint.receive(datagram, network.now, address_of("a")) == (), "they are no packets for this process"
    heard, endpoint.casts = endpoint.casts, []
    return heard


def test_one_datagram_serves_all_who_have_joined_the_channel_and_have_met_the_sender() -> None:
    network = met("a", "b", "c", "d")
    for name in "bc":
        network.endpoints[name].join("x")
    network.endpoints["d"].join("y")
    (datagram,) = cast_of(network)
    assert datagram[1] == CAST
    for name in "bc":
        assert hear(network, name, datagram) == [Cast("x", 9, "a", MAIN_INSTANCE, Note(1))]
    assert hear(network, "d", datagram) == []
    assert network.endpoints["d"].counters == {"not-joined": 1}


def test_who_has_left_a_channel_hears_no_more_of_it() -> None:
    network = met("a", "b")
    b = network.endpoints["b"]
    b.join("x")
    b.leave("x")
    b.leave("x")
    assert hear(network, "b", *cast_of(network)) == []


def test_a_listener_whom_the_sender_has_not_numbered_yet_hears_it() -> None:
    network = network_of("a", "b")
    network.endpoints["b"].join("x")
    # b has said hello and was challenged: a knows nothing of it.
    network.endpoints["b"].greet("a", address_of("a"), network.now)
    network.exchange(lambda sender, _where, datagram: sender == "b" and datagram[1] == 3)
    assert not network.endpoints["a"].established
    assert [cast.packet for cast in hear(network, "b", *cast_of(network))] == [Note(1)]


def test_a_cast_is_taken_once_and_not_from_a_past_life() -> None:
    network = met("a", "b")
    b = network.endpoints["b"]
    b.join("x")
    (datagram,) = cast_of(network)
    assert len(hear(network, "b", datagram, datagram)) == 1
    assert b.counters == {"replayed": 1}
    reborn = open_endpoint("b", seed=1, incarnation=1)
    network.endpoints["b"] = reborn
    reborn.join("x")
    assert hear(network, "b", datagram) == []
    reborn.sightings.clear()
    network.meet("b", "a")
    assert hear(network, "b", datagram) == [], "what was said before they met counts as heard"


def test_a_cast_of_somebody_unknown_tells_where_to_look_for_it() -> None:
    network = network_of("a", "b")
    b = network.endpoints["b"]
    b.join("x")
    assert hear(network, "b", *cast_of(network)) == []
    assert [(sighting.name, sighting.where) for sighting in b.sightings] == [(None, address_of("a"))]
    assert b.counters == {"unknown-session": 1}


def test_every_bit_of_a_cast_is_protected_its_channel_and_its_ttl_too() -> None:
    network = met("a", "b")
    b = network.endpoints["b"]
    for channel in ("x", "y"):
        b.join(channel)
    (datagram,) = cast_of(network)
    for bit in range(8 * len(datagram)):
        changed = bytearray(datagram)
        changed[bit // 8] ^= 1 << bit % 8
        assert hear(network, "b", bytes(changed)) == []
    other = Channels("bank").tag("y")
    moved = datagram[: HEADER.size] + CHANNEL.pack(other, 9) + datagram[HEADER.size + CHANNEL.size :]
    assert hear(network, "b", moved) == []
    assert len(hear(network, "b", datagram)) == 1


def test_a_cast_is_nothing_that_was_sent_to_destinations_and_the_other_way_round() -> None:
    network = met("a", "b")
    b = network.endpoints["b"]
    b.join("x")
    (datagram,) = cast_of(network)
    assert hear(network, "b", datagram[:1] + b"\x05" + datagram[2:]) == []
    network.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(2))
    (outgoing,) = network.endpoints["a"].flush()
    assert hear(network, "b", bytes(outgoing.buffer[:1]) + bytes((CAST,)) + bytes(outgoing.buffer[2:])) == []


def test_long_casts_arrive_whole_and_what_is_missing_is_repaired_for_who_asks() -> None:
    network = met("a", "b", "c")
    for name in "bc":
        network.endpoints[name].join("x")
    datagrams = cast_of(network, size=20_000)
    assert {datagram[1] for datagram in datagrams} == {CAST_FRAGMENT}
    assert [cast.packet for cast in hear(network, "b", *datagrams)] == [Note(1, Random(1).randbytes(20_000))]
    assert hear(network, "c", *datagrams[:3], *datagrams[5:]) == []
    network.now += PATIENCE_SECONDS
    c = network.endpoints["c"]
    c.tick(network.now)
    network.exchange()
    (cast,) = c.casts
    assert (cast.channel, cast.ttl, cast.sender) == ("x", 9, "a")
    assert cast.packet == Note(1, Random(1).randbytes(20_000))
    assert network.endpoints["a"].counters["fragments-repaired"] == 2


def test_small_broadcasts_on_a_channel_share_a_datagram_and_those_with_another_ttl_do_not() -> None:
    network = met("a", "b")
    a, b = network.endpoints["a"], network.endpoints["b"]
    b.join("x")
    for number, ttl in ((1, 9), (2, 9), (3, 1)):
        a.broadcast("x", MAIN_INSTANCE, Note(number), ttl)
    outgoing = a.flush()
    assert [each.ttl for each in outgoing] == [9, 1]
    heard = hear(network, "b", *(bytes(each.buffer) for each in outgoing))
    assert [(cast.packet, cast.ttl) for cast in heard] == [(Note(1), 9), (Note(2), 9), (Note(3), 1)]


@pytest.mark.parametrize("ttl", [0, 256, -1])
def test_a_ttl_that_no_network_knows_is_refused(ttl: int) -> None:
    with pytest.raises(UsageError, match="a TTL is 1 to 255"):
        open_endpoint("a").broadcast("x", MAIN_INSTANCE, Note(1), ttl)


def test_names_of_channels_and_their_number_are_bounded() -> None:
    a = open_endpoint("a")
    for name in ("", "x" * 256):
        with pytest.raises(UsageError, match="names of channels have 1 to 255 bytes"):
            a.join(name)
    for number in range(CHANNELS_MAX):
        a.join(f"x{number}")
    a.join("x0")
    with pytest.raises(UsageError, match="leave one first"):
        a.join("one more")


def test_a_member_with_another_key_is_not_heard_on_a_channel() -> None:
    network = met("a", "b")
    network.endpoints["b"].join("x")
    foreign = open_endpoint("a", key=bytes(32))
    assert bytes(32) != KEY
    foreign.broadcast("x", MAIN_INSTANCE, Note(1))
    (outgoing,) = foreign.flush()
    assert hear(network, "b", bytes(outgoing.buffer)) == []
