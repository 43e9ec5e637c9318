"""Who is there, and who is gone: greetings to the silent, and no session that is given up for it."""

from __future__ import annotations

from ordercast.core import MAIN_INSTANCE
from ordercast.wire.datagram import HELLO
from ordercast.wire.presence import GONE_SECONDS, LOOK_SECONDS, SILENT_SECONDS, SUSPECT_SECONDS
from tests.wire.cluster import Cluster, Note, make_endpoint

NAMES = ("a", "b", "c")


def make_cluster() -> Cluster:
    cluster = Cluster((name, make_endpoint(name)) for name in NAMES)
    cluster.introduce()
    return cluster


def test_a_process_that_is_gone_is_no_longer_among_the_peers_and_comes_back_with_its_session() -> None:
    cluster = make_cluster()
    a = cluster.endpoints["a"]
    assert a.present == ["b", "c"]
    paused = cluster.endpoints.pop("c")
    cluster.pass_time(SILENT_SECONDS)
    assert a.present == ["b", "c"], "it may just have nothing to say"
    cluster.pass_time(GONE_SECONDS + 2 * LOOK_SECONDS)
    assert a.present == ["b"]
    assert set(a.established) == {"b", "c"}
    cluster.endpoints["c"] = paused
    cluster.pass_time(2 * LOOK_SECONDS)
    assert a.present == ["b", "c"]


def test_processes_that_have_nothing_to_say_stay_and_greet_each_other_now_and_then() -> None:
    cluster = make_cluster()
    before = len(cluster.sent)
    cluster.pass_time(10 * GONE_SECONDS)
    assert cluster.endpoints["a"].present == ["b", "c"]
    hellos = [sent for sent in cluster.sent[before:] if sent[2][1] & 0x7F == HELLO]
    assert 0 < len(hellos) <= len(NAMES) * (len(NAMES) - 1) * 10 * GONE_SECONDS / SILENT_SECONDS


def test_whoever_says_something_is_not_greeted() -> None:
    cluster = make_cluster()
    before = len(cluster.sent)
    for number in range(30):
        for name in NAMES:
            others = tuple(other for other in NAMES if other != name)
            cluster.endpoints[name].send(others, MAIN_INSTANCE, Note(number))
        cluster.pass_time(1.0)
    assert not [sent for sent in cluster.sent[before:] if sent[2][1] & 0x7F == HELLO]


def test_a_process_is_up_since_it_was_found_and_after_a_suspicion_since_it_is_back() -> None:
    cluster = make_cluster()
    a = cluster.endpoints["a"]
    for _ in range(80):
        cluster.pass_time(0.25)
        assert set(a.up_seconds) == {"b", "c"}, "nobody is suspected for having nothing to say"
    assert 20.0 - LOOK_SECONDS <= a.up_seconds["b"] <= 20.0
    paused = cluster.endpoints.pop("c")
    cluster.pass_time(SUSPECT_SECONDS + LOOK_SECONDS)
    assert set(a.up_seconds) == {"b"}
    cluster.endpoints["c"] = paused
    cluster.pass_time(4 * LOOK_SECONDS)
    assert 0.0 < a.up_seconds["c"] <= 4 * LOOK_SECONDS
    assert a.up_seconds["b"] > 20.0
