"""Who is accepted: only processes that hold the key, and that are there now."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import MAIN_INSTANCE, UsageError
from ordercast.wire import ClusterKeys, Endpoint
from ordercast.wire.datagram import CHALLENGE, HELLO, REFUSAL, RESPONSE
from ordercast.wire.greeting import NONCE_SECONDS
from ordercast.wire.presence import LOOK_SECONDS
from ordercast.wire.salutes import HELLO_SECONDS_MAX, HELLO_SECONDS_MIN, PROVOKED_SECONDS
from tests.wire.cluster import (
    KEY,
    NAMES,
    OTHER_KEY,
    START,
    Cluster,
    Note,
    Sent,
    flushed,
    known_cluster,
    make_cluster,
    make_endpoint,
)

PAIR = ("a", "b")


def kind_of(datagram: bytes) -> int:
    return datagram[1] & 0x7F


def restart(cluster: Cluster, name: str, incarnation: int, **details: object) -> Endpoint:
    """The process crashes and comes back."""
    endpoint = make_endpoint(name, seed=f"boot {incarnation} {details}", incarnation=incarnation, **details)  # type: ignore[arg-type]
    cluster.endpoints[name] = endpoint
    return endpoint


@pytest.mark.parametrize("insecure", [False, True])
def test_processes_get_to_know_each_other(insecure: bool) -> None:
    cluster = known_cluster(insecure=insecure, incarnation=3, stable=False)
    for name, endpoint in cluster.endpoints.items():
        for other in set(NAMES) - {name}:
            assert endpoint.incarnation_of(other) == 3
            assert endpoint.is_stable(other) is False
        assert endpoint.incarnation_of(name) is None
        assert endpoint.is_stable("stranger") is None


def test_one_hello_is_enough_for_both() -> None:
    cluster = make_cluster(PAIR)
    cluster.endpoints["a"].tick(START)
    cluster.exchange()
    assert [kind_of(datagram) for _, _, datagram in cluster.sent] == [HELLO, CHALLENGE, RESPONSE]
    assert [list(endpoint.established) for endpoint in cluster.endpoints.values()] == [["b"], ["a"]]
    cluster.now += 100
    cluster.tick()
    assert not cluster.leave()
    later = cluster.now + LOOK_SECONDS
    assert [endpoint.tick(cluster.now) for endpoint in cluster.endpoints.values()] == [later, later]


def test_hellos_to_a_silent_peer_come_more_and_more_rarely() -> None:
    endpoint = make_endpoint("a", processes=PAIR)
    times: list[float] = []
    now = START
    while len(times) < 9:
        endpoint.tick(now)
        if flushed(endpoint):
            times.append(now)
        now = endpoint.deadline
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == pytest.approx([HELLO_SECONDS_MIN * 2**power for power in range(5)] + [HELLO_SECONDS_MAX] * 3)


@pytest.mark.parametrize("lost_kind", [HELLO, CHALLENGE, RESPONSE])
@pytest.mark.parametrize("lost_sender", PAIR)
def test_a_lost_datagram_of_the_handshake_only_costs_time(lost_kind: int, lost_sender: str) -> None:
    cluster = make_cluster(PAIR)
    lost: list[Sent] = []

    def lose_first(sent: Sent) -> bool:
        if not lost and sent[0] == lost_sender and kind_of(sent[2]) == lost_kind:
            lost.append(sent)
            return True
        return False

    cluster.pass_time(2.5 * HELLO_SECONDS_MIN, lose_first)
    assert lost or lost_kind == RESPONSE
    assert [list(endpoint.established) for endpoint in cluster.endpoints.values()] == [["b"], ["a"]]


@given(st.data())
def test_processes_get_to_know_each_other_over_a_bad_network(data: st.DataObject) -> None:
    cluster = make_cluster()
    fates = st.sampled_from(["lose", "keep", "twice", "later"])
    late: list[Sent] = []
    for _ in range(4):
        cluster.tick()
        for _ in range(3):
            arriving, late = late + cluster.leave(), []
            for sent in data.draw(st.permutations(arriving)):
                fate = data.draw(fates)
                if fate == "later":
                    late.append(sent)
                elif fate != "lose":
                    for _ in range(2 if fate == "twice" else 1):
                        cluster.arrive(sent)
        cluster.now += 0.3
    for sent in late:
        cluster.arrive(sent)
    cluster.pass_time(3.0)
    for name, endpoint in cluster.endpoints.items():
        assert set(endpoint.established) == set(NAMES) - {name}
        assert endpoint.refused is None
    cluster.endpoints["a"].send(("b", "c"), MAIN_INSTANCE, Note(1))
    assert len(cluster.exchange()) == 2


# ---------------------------------------------------------------------- who does not get in
def strangers(make: Callable[[], Endpoint], reason: str) -> None:
    """A process that is not one of us sends and hears nothing, and its hellos are not answered."""
    cluster = Cluster([("a", make()), ("b", make_endpoint("b"))])
    cluster.pass_time(3.0)
    for endpoint in cluster.endpoints.values():
        assert not endpoint.established
        assert set(endpoint.counters) == {reason}
    assert {kind_of(datagram) for _, _, datagram in cluster.sent} == {HELLO}


def test_a_process_with_another_key_is_not_heard() -> None:
    strangers(lambda: make_endpoint("a", ClusterKeys(OTHER_KEY)), "forged")


def test_a_process_of_another_cluster_with_the_same_key_is_not_heard() -> None:
    strangers(lambda: make_endpoint("a", cluster="shop"), "forged")


def test_an_insecure_process_of_another_cluster_is_not_heard() -> None:
    cluster = Cluster(
        [("a", make_endpoint("a", insecure=True, cluster="shop")), ("b", make_endpoint("b", insecure=True))]
    )
    cluster.pass_time(3.0)
    assert not cluster.endpoints["b"].established
    assert set(cluster.endpoints["b"].counters) == {"forged"}


def test_plaintext_and_sealed_processes_do_not_hear_each_other() -> None:
    cluster = Cluster([("a", make_endpoint("a", insecure=True)), ("b", make_endpoint("b"))])
    cluster.pass_time(3.0)
    assert set(cluster.endpoints["a"].counters) == {"sealed"}
    assert set(cluster.endpoints["b"].counters) == {"plaintext"}
    assert not cluster.endpoints["a"].established
    assert not cluster.endpoints["b"].established


def test_a_process_that_is_not_configured_is_not_heard() -> None:
    endpoint = make_endpoint("a", processes=PAIR)
    stranger = make_endpoint("z", processes=("a", "z"))
    stranger.tick(START)
    for datagram in flushed(stranger):
        assert endpoint.receive(datagram, START) == ()
    assert endpoint.counters == {"unknown-process": 1}
    assert not endpoint.flush()


def test_the_name_in_a_hello_cannot_be_changed() -> None:
    a, b = make_endpoint("a"), make_endpoint("b")
    a.tick(START)
    hello = next(bytes(outgoing.buffer) for outgoing in a.flush() if outgoing.to == ("b",))
    name_at = 18 + 16 + 1
    assert hello[name_at : name_at + 1] == b"a"
    b.receive(hello[:name_at] + b"c" + hello[name_at + 1 :], START)
    assert b.counters == {"forged": 1}
    assert not b.flush()


def test_a_hello_to_one_is_not_taken_by_another() -> None:
    a, c = make_endpoint("a"), make_endpoint("c")
    a.tick(START)
    hello = next(bytes(outgoing.buffer) for outgoing in a.flush() if outgoing.to == ("b",))
    c.receive(hello, START)
    assert c.counters == {"forged": 1}
    assert not c.flush()


def test_what_comes_back_to_its_sender_is_dropped() -> None:
    cluster = known_cluster()
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1))
    mine = [datagram for sender, _, datagram in cluster.sent + cluster.leave() if sender == "a"]
    for datagram in mine:
        assert cluster.endpoints["a"].receive(datagram, cluster.now) == ()
    assert cluster.endpoints["a"].counters == {"own": len(mine)}


# ---------------------------------------------------------------------- incarnations
def test_a_new_incarnation_replaces_the_old_one() -> None:
    cluster = known_cluster()
    old = cluster.endpoints["a"]
    restart(cluster, "a", 1)
    cluster.introduce()
    assert cluster.endpoints["b"].incarnation_of("a") == 1
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(2))
    assert [message for *_, message in cluster.exchange()] == [Note(2)]
    old.send(("b",), MAIN_INSTANCE, Note(1))
    for datagram in flushed(old):
        assert cluster.endpoints["b"].receive(datagram, cluster.now) == ()
    assert cluster.endpoints["b"].counters == {"unknown-session": 1}


def test_an_old_incarnations_whole_handshake_replayed_to_a_newcomer_lets_nobody_in() -> None:
    cluster = known_cluster()
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1))
    cluster.exchange()
    recorded = [datagram for sender, receiver, datagram in cluster.sent if (sender, receiver) == ("a", "b")]
    assert {kind_of(datagram) for datagram in recorded} >= {HELLO, CHALLENGE}
    # b comes back, and a does not; somebody plays a's part from a recording, as often as he likes.
    newcomer = restart(cluster, "b", 1)
    newcomer.tick(cluster.now)
    newcomer.flush()
    for _ in range(3):
        for datagram in recorded:
            assert newcomer.receive(datagram, cluster.now) == ()
            for answer in newcomer.flush():
                assert kind_of(bytes(answer.buffer)) == CHALLENGE
    assert not newcomer.established
    assert set(newcomer.counters) == {"stale", "unknown-session", "replayed"}


def test_a_recording_of_an_old_incarnation_does_not_replace_the_new_one() -> None:
    cluster = known_cluster()
    recorded = [datagram for sender, receiver, datagram in cluster.sent if (sender, receiver) == ("a", "b")]
    restart(cluster, "a", 1)
    cluster.introduce()
    for datagram in recorded:
        cluster.endpoints["b"].receive(datagram, cluster.now)
    cluster.exchange()
    assert cluster.endpoints["b"].incarnation_of("a") == 1
    assert cluster.endpoints["a"].refused is None
    # b has seen them.
    assert cluster.endpoints["b"].counters == {"replayed": len(recorded)}
    # Its next life has not. What that answers is for a boot of a that is gone.
    newcomer = restart(cluster, "b", 1)
    for datagram in recorded:
        newcomer.receive(datagram, cluster.now)
    cluster.exchange()
    assert cluster.endpoints["a"].refused is None
    assert set(cluster.endpoints["a"].counters) == {"stale"}


def test_what_was_said_to_the_last_incarnation_is_not_taken_by_the_next() -> None:
    cluster = known_cluster()
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1))
    cluster.exchange()
    recorded = cluster.sent[-1]
    restart(cluster, "b", 1)
    cluster.introduce()
    assert cluster.endpoints["b"].receive(recorded[2], cluster.now) == ()
    assert cluster.endpoints["b"].counters == {"replayed": 1}
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(2))
    assert [message for *_, message in cluster.exchange()] == [Note(2)]


@pytest.mark.parametrize(("seconds", "taken"), [(0.0, True), (NONCE_SECONDS, True), (2 * NONCE_SECONDS, False)])
def test_an_echo_that_comes_too_late_is_stale(seconds: float, taken: bool) -> None:
    cluster = make_cluster(PAIR)
    cluster.endpoints["a"].tick(START)
    cluster.arrive(cluster.leave()[0])
    (challenge,) = cluster.leave()
    cluster.now += seconds
    cluster.arrive(challenge)
    assert list(cluster.endpoints["a"].established) == (["b"] if taken else [])
    assert cluster.endpoints["a"].counters["stale"] == (0 if taken else 1)


def test_a_handshake_that_repeats_itself_does_not_open_the_window_again() -> None:
    cluster = known_cluster(PAIR)
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1))
    assert len(cluster.exchange()) == 1
    repeated = list(cluster.sent)
    for sent in repeated:
        cluster.arrive(sent)
    assert cluster.endpoints["b"].counters == {"replayed": sum(receiver == "b" for _, receiver, _ in repeated)}
    assert cluster.exchange() == []


# ---------------------------------------------------------------------- refusal
@pytest.mark.parametrize(("stable", "words"), [(False, "was here before and has no log"), (True, "a later log")])
@pytest.mark.parametrize("insecure", [False, True])
def test_a_process_that_comes_back_without_its_history_is_refused(stable: bool, words: str, insecure: bool) -> None:
    cluster = known_cluster(stable=stable, insecure=insecure)
    cluster.endpoints["a"].send(("b", "c"), MAIN_INSTANCE, Note(0))
    cluster.exchange()
    a = restart(cluster, "a", 0, stable=stable, insecure=insecure)
    cluster.tick()
    cluster.exchange()
    assert a.refused is not None
    assert words in a.refused
    assert a.refused.startswith("a ")
    assert "\n" not in a.refused
    assert cluster.endpoints["b"].counters["peer-refused"] == 1
    assert cluster.endpoints["b"].refused is None
    a.send(("b", "c"), MAIN_INSTANCE, Note(1))
    assert cluster.exchange() == []


def test_a_process_without_its_history_is_refused_in_answer_to_its_challenge() -> None:
    cluster = known_cluster(PAIR, stable=False)
    a, b = restart(cluster, "a", 0, stable=False), cluster.endpoints["b"]
    # b's hello was late on its way, and reaches the new a; b's nonce in it is still fresh.
    for sender, receiver, datagram in tuple(cluster.sent):
        if (sender, receiver, kind_of(datagram)) == ("b", "a", HELLO):
            a.receive(datagram, cluster.now)
    (challenge,) = flushed(a)
    assert kind_of(challenge) == CHALLENGE
    b.receive(challenge, cluster.now)
    (refusal,) = flushed(b)
    assert kind_of(refusal) == REFUSAL
    a.receive(refusal, cluster.now)
    assert a.refused is not None


def test_processes_that_have_all_lost_their_history_begin_anew() -> None:
    cluster = known_cluster(stable=False)
    for name in NAMES:
        restart(cluster, name, 0, stable=False)
    cluster.introduce()
    assert all(endpoint.refused is None for endpoint in cluster.endpoints.values())


def test_the_second_of_two_processes_with_one_name_is_refused() -> None:
    b = make_endpoint("b", processes=PAIR)
    first, second = (make_endpoint("a", processes=PAIR, seed=seed) for seed in ("first", "second"))
    challenges = []
    for twin in (first, second):
        twin.tick(START)
        for hello in flushed(twin):
            b.receive(hello, START)
        challenges += flushed(b)
    # Both were challenged before either answered.
    for twin, challenge in zip((first, second), challenges, strict=True):
        twin.receive(challenge, START)
        for response in flushed(twin):
            b.receive(response, START)
        twin.send(("b",), MAIN_INSTANCE, Note(1))
        for said in flushed(twin):
            b.receive(said, START)
    (refusal,) = (answer for answer in flushed(b) if kind_of(answer) == REFUSAL)
    assert kind_of(refusal) == REFUSAL
    first.receive(refusal, START)
    assert first.refused is None
    second.receive(refusal, START)
    assert second.refused is not None


def test_a_recorded_refusal_refuses_nobody() -> None:
    cluster = known_cluster(PAIR, stable=False)
    restart(cluster, "a", 0, stable=False)
    cluster.tick()
    cluster.exchange()
    refusals = [sent for sent in cluster.sent if kind_of(sent[2]) == REFUSAL]
    assert refusals
    # All processes start anew.
    fresh = make_cluster(PAIR, seed="again", stable=False)
    fresh.tick()
    for sent in refusals:
        fresh.arrive(sent)
    fresh.exchange()
    assert fresh.endpoints["a"].refused is None
    assert set(fresh.endpoints["a"].established) == {"b"}


# ---------------------------------------------------------------------- unknown sessions
def test_an_unknown_session_provokes_a_hello_now_and_then() -> None:
    cluster = make_cluster(PAIR)
    a, b = cluster.endpoints["a"], cluster.endpoints["b"]
    # a knows b, but b has not heard the answer, and has waited for long.
    b.tick(START)
    for _ in range(6):
        cluster.now += HELLO_SECONDS_MAX
        b.tick(cluster.now)
        b.flush()
    a.tick(cluster.now)
    cluster.exchange(lost=lambda sent: kind_of(sent[2]) == RESPONSE)
    assert (list(a.established), list(b.established)) == (["b"], [])
    hellos = 0
    for _ in range(100):
        a.send(("b",), MAIN_INSTANCE, Note(1))
        for sent in cluster.leave():
            cluster.arrive(sent)
        b.tick(cluster.now)
        hellos += len(b.flush())
        cluster.now += 0.01
    assert 3 <= hellos <= 1 / PROVOKED_SECONDS + 1
    assert b.counters["unknown-session"] == 100


def test_garbage_from_outside_provokes_nothing_when_everyone_is_known() -> None:
    cluster = known_cluster()
    stranger = known_cluster(seed="stranger").endpoints["a"]
    stranger.send(("b",), MAIN_INSTANCE, Note(1))
    for datagram in flushed(stranger):
        cluster.endpoints["b"].receive(datagram, cluster.now)
    cluster.tick()
    assert not cluster.leave()
    assert cluster.endpoints["b"].counters == {"unknown-session": 1}


def test_answers_that_nobody_takes_are_bounded() -> None:
    """Where nothing is sealed, everybody can provoke any number; else the door lets one of them in."""
    a, b = make_endpoint("a", insecure=True, processes=PAIR), make_endpoint("b", insecure=True, processes=PAIR)
    a.tick(START)
    (hello,) = flushed(a)
    for _ in range(5000):
        b.receive(hello, START)
    assert len(b.flush()) == 4096
    assert b.counters == {"flooded": 5000 - 4096}


# ---------------------------------------------------------------------- rotation
def test_a_key_is_rotated_one_process_at_a_time() -> None:
    old, new = KEY, OTHER_KEY
    stages = [ClusterKeys(old), ClusterKeys(old, new), ClusterKeys(new, old), ClusterKeys(new)]
    cluster = known_cluster(keys=stages[0])
    for incarnation, stage in enumerate(stages[1:], start=1):
        for name in NAMES:
            restart(cluster, name, incarnation, keys=stage)
            cluster.introduce()
            for sender in NAMES:
                cluster.endpoints[sender].send(tuple(set(NAMES) - {sender}), MAIN_INSTANCE, Note(incarnation))
            assert len(cluster.exchange()) == 6


def test_keys_two_stages_apart_do_not_meet() -> None:
    cluster = Cluster(
        [("a", make_endpoint("a", ClusterKeys(KEY))), ("b", make_endpoint("b", ClusterKeys(OTHER_KEY, KEY)))]
    )
    cluster.pass_time(2.0)
    # b understands a, but a does not understand b.
    assert not cluster.endpoints["a"].established
    assert set(cluster.endpoints["a"].counters) == {"forged"}


# ---------------------------------------------------------------------- misuse
@pytest.mark.parametrize(
    "details",
    [
        {"cluster": ""},
        {"cluster": "x" * 256},
        {"processes": ("", "b")},
        {"processes": [f"p{number}" for number in range(1024)]},
        {"incarnation": -1},
        {"max_datagram": 1199},
        {"max_datagram": 65508},
    ],
)
def test_an_endpoint_that_cannot_work_is_refused(details: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        make_endpoint("a", **details)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_the_longest_names_fit_into_the_smallest_datagrams() -> None:
    names = tuple(f"{letter * 255}" for letter in "ab")
    cluster = known_cluster(names, cluster="c" * 255, processes=names, max_datagram=1200)
    assert max(len(datagram) for _, _, datagram in cluster.sent) <= 1200


def test_a_restarted_process_whose_response_is_lost_is_greeted_by_those_who_hear_it() -> None:
    """Both would wait for ever: the one has a session, the other still has the one of the last life."""
    names = ("a", "b")
    cluster = Cluster((name, make_endpoint(name, processes=names)) for name in names)
    cluster.introduce()
    new = cluster.endpoints["a"] = make_endpoint("a", processes=names, seed="second life", incarnation=1)
    b = cluster.endpoints["b"]
    cluster.pass_time(1.0, lambda sent: sent[1] == "b" and sent[2][1] & 0x7F == RESPONSE)
    assert "b" in new.established
    assert b.incarnation_of("a") == 0, "b never heard the response"
    new.send(("b",), MAIN_INSTANCE, Note(1))
    cluster.pass_time(1.0)
    assert b.incarnation_of("a") == 1
