"""Who is refused, and what is said of it: by those who differ, and of what cannot be opened."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ordercast.core import MAIN_INSTANCE
from ordercast.wire import ClusterKeys, Endpoint
from ordercast.wire.datagram import HELLO, REFUSAL, VERSION
from ordercast.wire.door import HANDSHAKES_MAX
from ordercast.wire.handshake import NEWCOMER_SECONDS
from ordercast.wire.refusals import CAUSES, STRANGERS_MAX
from ordercast.wire.whereabouts import Address
from tests.wire.cluster import OTHER_KEY, START, Cluster, Note, Sent, flushed, make_endpoint

ONE: dict[str, Any] = {"protocol": "sequencer", "[processes]": ["a", "b", "c"], "[options] sequencer": "a"}
OTHER = ONE | {"[options] sequencer": "b"}
ADVICE = "; use one configuration file for all processes"
AT_ONE = f'[options] sequencer differs: "a" here, "b" there{ADVICE}'
AT_OTHER = f'[options] sequencer differs: "b" here, "a" there{ADVICE}'
SOMEWHERE = ("127.0.0.1", 7004)
LONG_ENOUGH = NEWCOMER_SECONDS + 1.5


def make(agreed: dict[str, dict[str, Any]], **details: Any) -> Cluster:
    return Cluster((name, make_endpoint(name, agreed=values, **details)) for name, values in agreed.items())


def kind_of(datagram: bytes) -> int:
    return datagram[1] & 0x7F


@pytest.mark.parametrize("insecure", [False, True])
def test_processes_that_differ_have_no_session_and_both_say_where(
    insecure: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = make({"a": ONE, "b": ONE, "c": OTHER}, insecure=insecure)
    cluster.pass_time(LONG_ENOUGH)
    a, b, c = cluster.endpoints.values()
    assert (list(a.established), list(b.established), list(c.established)) == (["b"], ["a"], [])
    assert a.refusals == {"c": f"process a refuses c: {AT_ONE}"}
    assert b.refusals == {"c": f"process b refuses c: {AT_ONE}"}
    assert c.refusals == {name: f"process c refuses {name}: {AT_OTHER}" for name in "ab"}
    assert sorted(caplog.messages) == sorted([*a.refusals.values(), *b.refusals.values(), *c.refusals.values()])


def test_the_newcomer_ends_and_an_established_process_goes_on() -> None:
    cluster = make({"a": ONE, "b": ONE})
    cluster.pass_time(1.0)
    cluster.endpoints["c"] = c = make_endpoint("c", agreed=OTHER)
    cluster.pass_time(NEWCOMER_SECONDS - 0.1)
    soon = c.refused
    assert soon is None, "somebody who agrees may be about to start"
    cluster.pass_time(1.6)
    assert c.refused == f"process c refuses a: {AT_OTHER}"
    assert cluster.endpoints["a"].refused is None
    assert cluster.endpoints["b"].refused is None


def test_a_process_that_comes_back_as_the_others_are_is_refused_no_more() -> None:
    cluster = make({"a": ONE, "b": ONE, "c": OTHER})
    cluster.pass_time(LONG_ENOUGH)
    cluster.endpoints["c"] = make_endpoint("c", agreed=ONE, seed="again")
    cluster.pass_time(2.0)
    for endpoint in cluster.endpoints.values():
        assert len(endpoint.established) == 2
        assert not endpoint.refusals


def test_a_known_process_that_comes_back_different_is_not_heard() -> None:
    cluster = make({"a": ONE, "b": ONE})
    cluster.introduce()
    cluster.endpoints["b"] = b = make_endpoint("b", agreed=OTHER, seed="again", incarnation=1)
    cluster.pass_time(LONG_ENOUGH)
    assert cluster.endpoints["a"].incarnation_of("b") == 0
    assert b.refused is not None
    b.send(("a",), MAIN_INSTANCE, Note(1))
    assert cluster.exchange() == []


@pytest.mark.parametrize("lost_sender", ["a", "b"])
@pytest.mark.parametrize("lost_kind", [HELLO, REFUSAL])
def test_a_refusal_that_is_lost_comes_again(lost_sender: str, lost_kind: int) -> None:
    cluster = make({"a": ONE, "b": OTHER}, processes=("a", "b"))
    lost: list[Sent] = []

    def lose_two(sent: Sent) -> bool:
        if len(lost) < 2 and (sent[0], kind_of(sent[2])) == (lost_sender, lost_kind):
            lost.append(sent)
            return True
        return False

    cluster.pass_time(1.0, lose_two)
    assert len(lost) == 2
    assert cluster.endpoints["a"].refusals == {"b": f"process a refuses b: {AT_ONE}"}
    assert cluster.endpoints["b"].refusals == {"a": f"process b refuses a: {AT_OTHER}"}


def test_refusals_do_not_answer_each_other_for_ever() -> None:
    cluster = make({"a": ONE, "b": OTHER}, processes=("a", "b"))
    cluster.endpoints["a"].tick(START)
    cluster.exchange(rounds=100)
    assert [kind_of(datagram) for _, _, datagram in cluster.sent] == [HELLO, REFUSAL, REFUSAL]


def test_recordings_of_a_process_that_differed_prove_nothing() -> None:
    cluster = make({"a": ONE, "b": OTHER}, processes=("a", "b"))
    cluster.pass_time(1.0)
    recorded = [sent for sent in cluster.sent if sent[1] == "a"]
    assert {kind_of(datagram) for _, _, datagram in recorded} == {HELLO, REFUSAL}
    fresh = make({"a": ONE, "b": ONE}, processes=("a", "b"), seed="again")
    for sent in recorded:
        fresh.arrive(sent)
    fresh.pass_time(LONG_ENOUGH)
    for endpoint in fresh.endpoints.values():
        assert len(endpoint.established) == 1
        assert not endpoint.refusals
        assert endpoint.refused is None


@pytest.mark.parametrize("process_count", [2, 1024])
def test_refusals_with_the_longest_names_and_values_fit_into_the_smallest_datagrams(process_count: int) -> None:
    names = tuple(letter * 255 for letter in "ab")
    many = [*names, *(f"{number:04}" * 63 for number in range(process_count - 2))]
    cluster = make(
        {name: ONE | {"[processes]": many, "protocol": name * 9} for name in names},
        cluster="c" * 255,
        processes=names,
        max_datagram=1200,
    )
    cluster.pass_time(1.0)
    assert max(len(datagram) for _, _, datagram in cluster.sent) <= 1200
    for endpoint in cluster.endpoints.values():
        (line,) = endpoint.refusals.values()
        assert "protocol differs" in line


def test_processes_with_other_lists_of_processes_exchange_no_packets() -> None:
    """A packet that names a process which its receiver does not know ended the receiver."""
    names = ("a", "b", "c")
    cluster = Cluster(
        (name, make_endpoint(name, processes=known, agreed={"[processes]": known}))
        for name, known in {"a": names, "b": names, "c": ("a", "b", "c", "d")}.items()
    )
    cluster.pass_time(1.0)
    cluster.endpoints["c"].send(("a", "b", "d"), MAIN_INSTANCE, Note(1))
    cluster.endpoints["a"].send(("b", "c"), MAIN_INSTANCE, Note(2))
    assert {(taker, sender) for taker, sender, *_ in cluster.pass_time(1.0)} == {("b", "a")}


# ---------------------------------------------------------------------- what cannot be proven
def told(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, once it is clear that all of it is shown too."""
    assert sorted(set(caplog.messages)) == sorted(endpoint.refusals.values())
    return caplog.messages


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        ({"keys": ClusterKeys(OTHER_KEY)}, "forged"),
        ({"cluster": "shop"}, "forged"),
        ({"insecure": True}, "plaintext"),
    ],
)
def test_a_process_that_cannot_be_understood_is_told_of_once(
    details: dict[str, Any], cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    b = make_endpoint("b")
    a = make_endpoint("a", **details)
    for second in range(10):
        a.tick(START + second)
        for datagram in flushed(a):
            b.receive(datagram, START + second)
    assert told(b, caplog) == [f"process b refuses a: {CAUSES[cause]}"]
    assert b.counters[cause] >= 10


def test_a_process_of_another_version_is_refused_in_words(caplog: pytest.LogCaptureFixture) -> None:
    a, b = make_endpoint("a"), make_endpoint("b")
    a.tick(START)
    for datagram in flushed(a):
        for version in (1, VERSION + 1, 1):
            b.receive(bytes((version,)) + datagram[1:], START)
    assert told(b, caplog) == [f"process b refuses a: {CAUSES['version']}"]


def test_a_second_process_under_a_name_is_told_of_by_those_who_know_the_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = make({"a": ONE, "b": ONE})
    cluster.introduce()
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1))
    cluster.pass_time(0.1)
    twin = make_endpoint("a", agreed=ONE, seed="elsewhere")
    for second in range(5):
        twin.tick(START + second)
        for outgoing in twin.flush():
            if outgoing.to == ("b",):
                cluster.endpoints["b"].receive(bytes(outgoing.buffer), START + second)
    assert told(cluster.endpoints["b"], caplog) == [f"process b refuses a: {CAUSES['was-here']}"]


def test_strangers_are_told_of_by_name_up_to_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    a = make_endpoint("a")
    for number in range(2 * STRANGERS_MAX):
        stranger = make_endpoint(f"stranger-{number}", processes=("a",))
        stranger.tick(START)
        for datagram in flushed(stranger):
            a.receive(datagram, START)
    assert len(told(a, caplog)) == STRANGERS_MAX
    assert a.refusals["stranger-0"] == f"process a refuses stranger-0: {CAUSES['unknown-process']}"
    assert a.counters == {"unknown-process": 2 * STRANGERS_MAX}


@pytest.mark.parametrize("insecure", [False, True])
def test_a_process_that_is_not_configured_at_the_others_is_told_so_and_ends(insecure: bool) -> None:
    cluster = make({"a": ONE, "b": ONE}, insecure=insecure, processes=("a", "b"))
    cluster.introduce()
    agreed = ONE | {"[processes]": ["a", "b", "d"]}
    cluster.endpoints["d"] = d = make_endpoint(
        "d", agreed=agreed, insecure=insecure, processes=("a", "b", "d"), listens=("127.0.0.1", 7004)
    )
    cluster.pass_time(LONG_ENOUGH)
    assert {where for receiver, where in cluster.wheres if receiver == "d"} == {("127.0.0.1", 7004)}
    assert d.refusals == {
        name: f"process d refuses {name}: {name} has no process d in [processes]: add it at all of them"
        for name in "ab"
    }
    assert d.refused == d.refusals["a"]
    for name in "ab":
        assert cluster.endpoints[name].refused is None
        assert cluster.endpoints[name].refusals == {"d": f"process {name} refuses d: {CAUSES['unknown-process']}"}


def test_a_process_that_some_have_not_configured_goes_on_with_the_others() -> None:
    cluster = Cluster(
        (name, make_endpoint(name, processes=("a", "b", "d") if name != "a" else ("a", "b"), listens=SOMEWHERE))
        for name in "abd"
    )
    cluster.pass_time(LONG_ENOUGH)
    d = cluster.endpoints["d"]
    assert list(d.established) == ["b"]
    assert list(d.refusals) == ["a"]
    assert d.refused is None


@pytest.mark.parametrize(
    "listens",
    [
        None,
        ("", 7001),
        ("127.0.0.1", 0),
        ("localhost", 7001),
        ("0.0.0.0", 7001),
        ("224.0.0.1", 7001),
        ("ff02::1", 7001),
        ("::", 7001),
    ],
)
def test_a_stranger_that_cannot_be_reached_gets_no_answer(listens: Address | None) -> None:
    a, stranger = make_endpoint("a"), make_endpoint("d", processes=("a",), listens=listens)
    stranger.tick(START)
    for datagram in flushed(stranger):
        a.receive(datagram, START)
    assert a.flush() == []


def test_strangers_are_answered_at_a_bounded_rate() -> None:
    """Without a key anybody can name any place, and would have us send there."""
    a = make_endpoint("a", insecure=True)
    for start in range(100):
        stranger = make_endpoint("d", processes=("a",), insecure=True, seed=start, listens=SOMEWHERE)
        stranger.tick(START)
        for datagram in flushed(stranger):
            a.receive(datagram, START)
    assert len(flushed(a)) == HANDSHAKES_MAX


def test_nobody_is_told_by_a_recording_that_it_is_not_configured() -> None:
    a = make_endpoint("a", processes=("a", "b"))
    first = make_endpoint("d", processes=("a", "d"), listens=SOMEWHERE)
    first.tick(START)
    for datagram in flushed(first):
        a.receive(datagram, START)
    (recorded,) = flushed(a)
    again = make_endpoint("d", processes=("a", "d"), seed="again")
    again.tick(START)
    again.receive(recorded, START)
    assert again.counters == {"stale": 1}
    assert not again.refusals


def test_strangers_without_the_key_are_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    a = make_endpoint("a")
    stranger = make_endpoint("stranger", ClusterKeys(OTHER_KEY), processes=("a",))
    stranger.tick(START)
    for datagram in flushed(stranger):
        a.receive(datagram, START)
    assert told(a, caplog) == []


def test_nobody_without_the_key_can_replace_what_a_process_said_itself(caplog: pytest.LogCaptureFixture) -> None:
    cluster = make({"a": ONE, "b": OTHER}, processes=("a", "b"))
    cluster.pass_time(1.0)
    before = dict(cluster.endpoints["a"].refusals)
    forger = make_endpoint("b", ClusterKeys(OTHER_KEY), processes=("a", "b"))
    forger.tick(START)
    with caplog.at_level(logging.WARNING):
        for datagram in flushed(forger) * 10:
            cluster.endpoints["a"].receive(datagram, cluster.now)
    assert cluster.endpoints["a"].refusals == before
