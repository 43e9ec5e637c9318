"""A cluster without a list of processes: whoever holds the key may come, and nobody else; all of it is bounded."""

from __future__ import annotations

import os
import tracemalloc
from random import Random

import pytest

from ordercast.core import MAIN_INSTANCE, SiteId, UsageError
from ordercast.core.memory import Memory
from ordercast.wire.datagram import ANNOUNCEMENT, HANDSHAKE_BYTES, HELLO, REFUSAL
from ordercast.wire.door import STARTS_MAX
from ordercast.wire.endpoint import SIGHTINGS_MAX
from ordercast.wire.greeting import Sighting
from ordercast.wire.numbers import REST_SECONDS, SPARE, Numbers
from ordercast.wire.presence import FORGET_SECONDS
from ordercast.wire.refusals import STRANGERS_MAX
from ordercast.wire.whereabouts import Address
from tests.wire.cluster import OTHER_KEY, START, Note, known_cluster, make_endpoint
from tests.wire.strangers import address_of, network_of, open_endpoint

NAMES = int(os.environ.get("ORDERCAST_HELLO_NAMES", "2000"))
"""With 100,000, which take a minute or two, what is held is the same."""


# ---------------------------------------------------------------------- coming
def test_a_stranger_with_the_key_is_a_peer_after_one_hello_and_both_hear_each_other() -> None:
    network = network_of("a", "b")
    network.meet("a", "b")
    a, b = network.endpoints["a"], network.endpoints["b"]
    assert (set(a.established), set(b.established)) == ({"b"}, {"a"})
    a.send(("b",), MAIN_INSTANCE, Note(1))
    b.send(("a",), MAIN_INSTANCE, Note(2))
    network.exchange()
    assert network.taken == [("b", "a", Note(1)), ("a", "b", Note(2))]
    assert not a.counters
    assert not b.counters
    assert (a.address_of("b"), b.address_of("a")) == (address_of("b"), address_of("a"))


def test_five_strangers_number_each_other_as_they_come_and_hear_what_is_sent_once_for_all() -> None:
    names = ("d", "a", "e", "c", "b")
    network = network_of(*names)
    for one, other in [(one, other) for one in names for other in names if one < other]:
        network.meet(one, other)
    for name in names:
        others = tuple(sorted(set(names) - {name}))
        network.endpoints[name].send(others, MAIN_INSTANCE, Note(ord(name)))
    network.exchange()
    assert sorted(network.taken, key=repr) == sorted(
        [(one, other, Note(ord(other))) for one in names for other in names if one != other], key=repr
    )


@pytest.mark.parametrize("number", range(5))
def test_whichever_datagram_of_the_handshake_is_lost_the_next_hello_makes_up_for_it(number: int) -> None:
    network = network_of("a", "b")
    counted = 0

    def lose(_sender: SiteId, _where: Address, _datagram: bytes) -> bool:
        nonlocal counted
        counted += 1
        return counted == number + 1

    network.meet("a", "b", lose)
    network.pass_time(1.0)
    network.meet("a", "b")
    network.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1))
    network.endpoints["b"].send(("a",), MAIN_INSTANCE, Note(2))
    network.exchange()
    network.pass_time(1.0)
    network.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(3))
    network.endpoints["b"].send(("a",), MAIN_INSTANCE, Note(4))
    network.exchange()
    assert {("b", "a", Note(3)), ("a", "b", Note(4))} <= {*network.taken}


def test_a_peer_that_was_told_no_number_asks_for_it_when_something_comes() -> None:
    network = network_of("a", "b")
    seen = 0

    def lose_the_second_challenge(sender: SiteId, _where: Address, datagram: bytes) -> bool:
        nonlocal seen
        seen += sender == "b" and datagram[1] == 2
        return sender == "b" and datagram[1] == 2 and seen > 1

    network.meet("a", "b", lose_the_second_challenge)
    network.endpoints["b"].send(("a",), MAIN_INSTANCE, Note(1))
    network.exchange()
    assert network.taken == [], "a does not know by which number b means it"
    network.pass_time(0.5)
    network.endpoints["b"].send(("a",), MAIN_INSTANCE, Note(2))
    network.exchange()
    assert network.taken == [("a", "b", Note(2))]


def test_a_configured_cluster_still_refuses_strangers_and_does_not_listen_to_announcements() -> None:
    cluster = known_cluster()
    stranger = open_endpoint("z")
    stranger.greet("a", address_of("a"), START)
    a = cluster.endpoints["a"]
    for outgoing in stranger.flush():
        a.receive(outgoing.buffer, cluster.now, address_of("z"))
    a.receive(stranger.announce(), cluster.now, address_of("z"))
    assert a.counters == {"unknown-process": 2}
    assert [outgoing.buffer[1] for outgoing in a.flush()] == [REFUSAL]
    assert not a.sightings


# ---------------------------------------------------------------------- where somebody is
@pytest.mark.parametrize(
    ("told", "seen", "used"),
    [
        (("10.0.0.9", 7001), ("10.0.0.9", 40_000), ("10.0.0.9", 7001)),
        (("0.0.0.0", 7001), ("10.0.0.9", 40_000), ("10.0.0.9", 7001)),
        (("10.0.0.9", 7001), ("10.1.0.9", 7001), ("10.0.0.9", 7001)),
        (("192.168.0.9", 7001), ("8.8.8.8", 40_000), ("8.8.8.8", 40_000)),
        (("127.0.0.1", 7001), ("10.0.0.9", 7001), ("10.0.0.9", 7001)),
        (("desk.example.org", 7001), ("10.0.0.9", 40_000), ("10.0.0.9", 7001)),
    ],
    ids=("as told", "any address", "two interfaces", "translated", "its own loopback", "a name"),
)
def test_an_answer_goes_where_the_sender_can_be_reached(told: Address, seen: Address, used: Address) -> None:
    a, b = open_endpoint("a"), open_endpoint("b", listens=told)
    b.greet("a", address_of("a"), START)
    (hello,) = b.flush()
    a.receive(hello.buffer, START, seen)
    (answer,) = a.flush()
    assert (answer.to, answer.where, len(answer.buffer)) == (("b",), used, HANDSHAKE_BYTES)


def test_a_hello_with_a_foreign_address_lets_nobody_in_and_sends_there_one_datagram() -> None:
    network = network_of("a", "victim")
    liar = open_endpoint("liar", listens=address_of("victim"))
    liar.greet("a", address_of("a"), START)
    (hello,) = liar.flush()
    a = network.endpoints["a"]
    a.receive(hello.buffer, network.now, address_of("victim"))
    network.exchange()
    assert [where for sender, where, _ in network.sent if sender == "a"] == [address_of("victim")]
    assert not a.established


def test_an_echo_of_what_was_sent_elsewhere_is_stale() -> None:
    a, b = open_endpoint("a"), open_endpoint("b", listens=("0.0.0.0", 7001))
    b.tick(START)
    b.greet("a", address_of("a"), START)
    (hello,) = b.flush()
    a.receive(hello.buffer, START, ("10.0.0.9", 40_000))
    (challenge,) = a.flush()
    assert challenge.where == ("10.0.0.9", 7001)
    b.receive(challenge.buffer, START, address_of("a"))
    (response,) = b.flush()
    a.receive(response.buffer, START, ("10.0.0.8", 40_000))
    assert a.counters == {"stale": 1}
    assert not a.established
    b.greet("a", address_of("a"), START)
    (hello,) = b.flush()
    a.receive(hello.buffer, START, ("10.0.0.9", 40_000))
    (challenge,) = a.flush()
    b.receive(challenge.buffer, START, address_of("a"))
    (response,) = b.flush()
    a.receive(response.buffer, START, ("10.0.0.9", 40_000))
    assert a.address_of("b") == ("10.0.0.9", 7001)


@pytest.mark.parametrize("told", [("224.0.0.1", 7001), ("10.0.0.9", 0), ("::", 7001)])
def test_addresses_to_which_nobody_can_send_are_garbage_where_nothing_else_is_seen(told: Address) -> None:
    a, b = open_endpoint("a"), open_endpoint("b", listens=told)
    b.greet("a", address_of("a"), START)
    (hello,) = b.flush()
    a.receive(hello.buffer, START)
    a.receive(b.announce(), START)
    assert a.counters == {"garbage": 2}
    assert not a.flush()


# ---------------------------------------------------------------------- announcements
def test_an_announcement_tells_who_is_where_to_those_who_hold_the_key() -> None:
    a, b = open_endpoint("a"), open_endpoint("b")
    announcement = b.announce()
    assert (len(announcement), announcement[1]) == (HANDSHAKE_BYTES, ANNOUNCEMENT)
    a.receive(announcement, START, address_of("b"))
    assert a.sightings == [Sighting("b", address_of("b"))]
    assert not a.flush(), "what to do about it is for others to decide"


def test_announcements_of_another_key_or_cluster_are_counted_and_nothing_else() -> None:
    a = open_endpoint("a")
    for stranger in (open_endpoint("b", key=OTHER_KEY), open_endpoint("b", cluster="other")):
        a.receive(stranger.announce(), START, address_of("b"))
    assert a.counters == {"foreign": 2}
    assert not a.sightings
    assert not a.refusals


def test_without_a_key_another_clusters_announcement_is_foreign_too() -> None:
    a = open_endpoint("a", key=None)
    a.receive(open_endpoint("b", key=None, cluster="other").announce(), START, address_of("b"))
    assert sum(a.counters.values()) == 1
    assert not a.sightings


def test_a_replayed_announcement_is_heard_once() -> None:
    a, b = open_endpoint("a"), open_endpoint("b")
    announcement = b.announce()
    for _ in range(5):
        a.receive(announcement, START, address_of("b"))
    assert len(a.sightings) == 1
    assert a.counters == {"replayed": 4}


def test_every_bit_of_an_announcement_is_marked() -> None:
    a, b = open_endpoint("a"), open_endpoint("b")
    announcement = b.announce()
    for bit in range(0, 8 * len(announcement), 7):
        changed = bytearray(announcement)
        changed[bit // 8] ^= 1 << bit % 8
        a.receive(bytes(changed), START, address_of("b"))
    assert not a.sightings
    a.receive(announcement, START, address_of("b"))
    assert len(a.sightings) == 1


def test_an_announcement_is_no_hello_and_a_hello_is_no_announcement() -> None:
    a, b = open_endpoint("a"), open_endpoint("b")
    a.receive(b.announce()[:1] + bytes((HELLO,)) + b.announce()[2:], START, address_of("b"))
    b.greet("a", address_of("a"), START)
    (hello,) = b.flush()
    a.receive(bytes(hello.buffer[:1]) + bytes((ANNOUNCEMENT,)) + bytes(hello.buffer[2:]), START, address_of("b"))
    assert not a.flush()
    assert not a.sightings
    assert sum(a.counters.values()) == 2


def test_another_process_under_ones_own_name_is_named_in_a_line() -> None:
    a, other = open_endpoint("a"), open_endpoint("a", seed=1)
    a.receive(other.announce(), START, address_of("b"))
    assert a.counters == {"same-name": 1}
    assert "another process announces itself under this name" in a.refusals["a"]
    a.receive(a.announce(), START, address_of("a"))
    assert a.counters == {"same-name": 1, "own": 1}


# ---------------------------------------------------------------------- bounds
def test_names_that_only_say_hello_cost_no_memory_however_many_they_are() -> None:
    a = open_endpoint("a")
    rng = Random(0)
    hellos = []
    for number in range(NAMES):
        stranger = open_endpoint(f"stranger {number}", seed=rng.random())
        stranger.greet("a", address_of("a"), START)
        hellos += [bytes(outgoing.buffer) for outgoing in stranger.flush()]
        hellos.append(stranger.announce())
    tracemalloc.start(1)
    try:
        for index, hello in enumerate(hellos):
            a.receive(hello, START + index, ("10.0.0.9", 7001))
            if index % 64 == 0:
                a.flush()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not a.established
    assert len(a.sightings) == SIGHTINGS_MAX
    assert held < 400 * STARTS_MAX, "what is remembered of starts, and sightings that wait to be taken"
    assert len(a.refusals) <= STRANGERS_MAX


def test_processes_beyond_the_bound_are_refused_and_said_so() -> None:
    network = network_of("a", "b", "c", "d", processes_max=3)
    for other in ("b", "c", "d"):
        network.meet(other, "a")
    a = network.endpoints["a"]
    assert set(a.established) == {"b", "c"}
    assert a.counters["full"] >= 1
    assert "as many processes as a cluster can have" in a.refusals["d"]


def test_a_peer_that_is_gone_is_forgotten_and_can_come_back() -> None:
    network = network_of("a", "b")
    network.meet("a", "b")
    network.cut = {"b"}
    gone: list[SiteId] = []
    a = network.endpoints["a"]
    a.on_peer = gone.append
    network.pass_time(FORGET_SECONDS + 10)
    assert not a.established
    assert a.address_of("b") is None
    assert gone == ["b"]
    a.send(("b",), MAIN_INSTANCE, Note(1))
    assert a.counters["nowhere"] == 1
    network.cut = set()
    network.meet("b", "a")
    network.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(2))
    network.exchange()
    assert network.taken == [("b", "a", Note(2))]


def test_peers_that_say_nothing_but_answer_when_they_are_greeted_are_not_forgotten() -> None:
    network = network_of("a", "b")
    network.meet("a", "b")
    network.pass_time(3 * FORGET_SECONDS)
    assert set(network.endpoints["a"].established) == {"b"}


def test_a_number_rests_before_it_is_given_to_somebody_else() -> None:
    numbers = Numbers(("a",), 8)
    for index in range(7):
        assert numbers.give(f"x{index}", START)
    assert not numbers.give("y", START)
    numbers.take_back("x3", START)
    assert not numbers.give("y", START + REST_SECONDS - 1)
    assert numbers.give("y", START + REST_SECONDS)
    assert numbers.get("y") == 4


def test_what_waits_for_a_peer_that_is_forgotten_goes_to_the_others_only() -> None:
    network = network_of("a", "b", "c")
    network.meet("a", "b")
    network.meet("a", "c")
    a = network.endpoints["a"]
    a.send(("b", "c"), MAIN_INSTANCE, Note(1))
    a.remove_site("b")
    network.exchange()
    assert network.taken == [("c", "a", Note(1))]


def test_logs_that_are_remembered_of_those_who_may_come_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordercast.wire.handshake.REMEMBERED_MAX", 2)
    memory = Memory()
    network = network_of("b", "c", "d", stable=True)
    network.add("a", open_endpoint("a", memory=memory))
    for name in "bcd":
        network.endpoints[name].position = 7
        network.meet(name, "a")
        network.endpoints[name].send(("a",), MAIN_INSTANCE, Note(1))
        network.exchange()
    assert len(network.taken) == 3
    assert memory.heard == {"b": 7, "c": 7}
    network.endpoints["b"].position = 8
    network.endpoints["b"].send(("a",), MAIN_INSTANCE, Note(2))
    network.exchange()
    assert memory.heard == {"b": 8, "c": 7}


def test_a_second_process_under_a_name_in_use_is_refused_and_told_what_to_do() -> None:
    network = network_of("a", "b")
    network.meet("a", "b")
    second = open_endpoint("b", seed=1, listens=("10.0.0.200", 7001))
    network.add("second", second, ("10.0.0.200", 7001))
    second.greet("a", address_of("a"), START)
    network.exchange()
    assert second.refused is not None
    assert "choose another name" in second.refused


def test_a_past_life_replayed_lets_nobody_in_and_a_later_one_takes_its_place() -> None:
    network = network_of("a", "b")
    network.meet("a", "b")
    past = [datagram for sender, _, datagram in network.sent if sender == "b"]
    a = open_endpoint("a", seed=1, incarnation=1)
    network.endpoints["a"] = a
    for datagram in past:
        a.receive(datagram, network.now, address_of("b"))
    assert not a.established
    a.flush()
    network.meet("a", "b")
    assert network.endpoints["b"].incarnation_of("a") == 1


# ---------------------------------------------------------------------- configured clusters
def test_a_process_is_added_to_a_configured_cluster_while_it_runs() -> None:
    cluster = known_cluster()
    for endpoint in cluster.endpoints.values():
        endpoint.add_site("d")
    cluster.endpoints["d"] = make_endpoint("d", processes=("a", "b", "c", "d"))
    cluster.pass_time(1.0)
    assert all("d" in cluster.endpoints[name].established for name in "abc")
    cluster.endpoints["a"].send(("b", "c", "d"), MAIN_INSTANCE, Note(1))
    assert {(receiver, sender) for receiver, sender, _, _ in cluster.exchange()} == {("b", "a"), ("c", "a"), ("d", "a")}
    cluster.endpoints["d"].send(("a",), MAIN_INSTANCE, Note(2))
    assert [receiver for receiver, *_ in cluster.exchange()] == ["a"]


def test_a_process_is_removed_from_a_configured_cluster_while_it_runs() -> None:
    cluster = known_cluster(changes=True)
    a = cluster.endpoints["a"]
    a.remove_site("c")
    assert set(a.established) == {"b"}
    cluster.endpoints["c"].send(("a",), MAIN_INSTANCE, Note(1))
    assert cluster.exchange() == []
    cluster.pass_time(3.0)
    assert set(a.established) == {"b"}
    a.send(("b", "c"), MAIN_INSTANCE, Note(2))
    assert [receiver for receiver, *_ in cluster.exchange()] == ["b"], "a protocol may still answer who was removed"
    assert a.counters["nowhere"] == 1
    a.add_site("c")
    cluster.endpoints["c"] = make_endpoint("c", seed=1, incarnation=1)
    cluster.pass_time(3.0)
    assert set(a.established) == {"b", "c"}


def test_adding_and_removing_says_what_is_wrong() -> None:
    a = make_endpoint("a")
    for name in ("a", "b"):
        with pytest.raises(UsageError, match="among the processes already"):
            a.add_site(name)
    for name in ("a", "z"):
        with pytest.raises(UsageError, match="not among the other processes"):
            a.remove_site(name)
    with pytest.raises(UsageError, match="1 to 255 bytes"):
        a.add_site("x" * 256)
    room = Numbers("abc", 3 + SPARE).room
    for number in range(3, room):
        a.add_site(f"x{number}")
    with pytest.raises(UsageError, match="restart it"):
        a.add_site("one more")


def test_what_is_agreed_can_change_while_a_cluster_runs() -> None:
    cluster = known_cluster(agreed={"[processes] d": "127.0.0.1:1"})
    newcomer = make_endpoint("d", processes=("a", "b", "c", "d"), agreed={"[processes] d": "127.0.0.1:2"})
    cluster.endpoints["d"] = newcomer
    for name in "abc":
        cluster.endpoints[name].add_site("d")
    cluster.pass_time(1.0)
    assert not newcomer.established
    for name in "abc":
        cluster.endpoints[name].agree({"[processes] d": "127.0.0.1:2"})
    cluster.pass_time(1.5)
    assert set(newcomer.established) == {"a", "b", "c"}
