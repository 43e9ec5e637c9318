"""A cluster key is rotated while processes run."""

from __future__ import annotations

import pytest

from ordercast.core import MAIN_INSTANCE, UsageError
from ordercast.wire import ClusterKeys
from tests.wire.cluster import KEY, NAMES, OTHER_KEY, Cluster, Note, make_endpoint

STEPS = (ClusterKeys(KEY, OTHER_KEY), ClusterKeys(OTHER_KEY, KEY), ClusterKeys(OTHER_KEY))


def _cluster() -> Cluster:
    cluster = Cluster((name, make_endpoint(name)) for name in NAMES)
    cluster.pass_time(1.0)
    return cluster


def _everyone_hears_everyone(cluster: Cluster, payload: bytes = b"") -> None:
    for name, endpoint in cluster.endpoints.items():
        endpoint.send(tuple(other for other in NAMES if other != name), MAIN_INSTANCE, Note(1, payload))
    heard = {(receiver, sender) for receiver, sender, _, _ in cluster.exchange()}
    assert heard == {(one, other) for one in NAMES for other in NAMES if one != other}


@pytest.mark.parametrize("payload", [b"", bytes(10_000)])
def test_everybody_understands_everybody_after_each_process_of_each_step(payload: bytes) -> None:
    cluster = _cluster()
    for keys in STEPS:
        for endpoint in cluster.endpoints.values():
            endpoint.rotate(keys)
            _everyone_hears_everyone(cluster, payload)
    assert all(not endpoint.counters["forged"] for endpoint in cluster.endpoints.values())


def test_processes_that_say_nothing_are_known_to_have_gone_over() -> None:
    cluster = _cluster()
    for keys in STEPS:
        for endpoint in cluster.endpoints.values():
            endpoint.rotate(keys)
        cluster.pass_time(1.0)
    _everyone_hears_everyone(cluster)


def test_when_it_is_done_the_last_key_opens_nothing_and_lets_nobody_in() -> None:
    cluster = _cluster()
    for keys in STEPS:
        for endpoint in cluster.endpoints.values():
            endpoint.rotate(keys)
        cluster.pass_time(1.0)
    cluster.endpoints["c"] = make_endpoint("c", ClusterKeys(KEY), seed="thief", incarnation=7)
    cluster.pass_time(3.0)
    assert cluster.endpoints["a"].incarnation_of("c") == 0
    assert cluster.endpoints["a"].counters["forged"]
    cluster.endpoints["c"] = make_endpoint("c", ClusterKeys(OTHER_KEY), seed="genuine", incarnation=1)
    cluster.pass_time(3.0)
    assert cluster.endpoints["a"].incarnation_of("c") == 1
    _everyone_hears_everyone(cluster)


def test_a_process_that_restarts_in_the_middle_takes_part() -> None:
    cluster = _cluster()
    for keys in STEPS[:2]:
        for endpoint in cluster.endpoints.values():
            endpoint.rotate(keys)
        cluster.pass_time(1.0)
        cluster.endpoints["b"] = make_endpoint("b", keys, seed=keys.used, incarnation=keys.used[0] + 1)
        cluster.pass_time(3.0)
        _everyone_hears_everyone(cluster)


def test_a_step_too_far_is_refused_and_changes_nothing() -> None:
    cluster = _cluster()
    a = cluster.endpoints["a"]
    with pytest.raises(UsageError, match="the key in use is not in the key file"):
        a.rotate(ClusterKeys(OTHER_KEY))
    a.rotate(STEPS[0])
    a.rotate(STEPS[1])
    with pytest.raises(UsageError, match="b, c still uses a key that is not in the file"):
        a.rotate(STEPS[2])
    with pytest.raises(UsageError, match="nothing is sealed here"):
        make_endpoint("a", insecure=True).rotate(STEPS[0])


def test_old_datagrams_are_not_taken_again_under_either_key() -> None:
    cluster = _cluster()
    for keys in STEPS:
        for endpoint in cluster.endpoints.values():
            endpoint.rotate(keys)
            _everyone_hears_everyone(cluster)
    cluster.taken = []
    for sent in list(cluster.sent):
        cluster.arrive(sent)
    assert cluster.taken == []
