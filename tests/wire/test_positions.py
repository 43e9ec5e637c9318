"""Every datagram says how far its sender's log is stable, and a greeting is judged by what was heard."""

from __future__ import annotations

from random import Random

import pytest

from ordercast.core import MAIN_INSTANCE
from ordercast.core.memory import Memory
from ordercast.wire import ClusterKeys, Endpoint
from ordercast.wire.greeting import History
from tests.wire.cluster import CODEC, KEY, Cluster, Note

NAMES = ("a", "b")


def make_one(
    name: str,
    memory: Memory | None = None,
    *,
    incarnation: int = 0,
    position: int = 0,
    began: int = 0,
    stable: bool = True,
    repairs: bool = False,
) -> Endpoint:
    return Endpoint(
        "bank",
        name,
        NAMES,
        ClusterKeys(KEY),
        CODEC,
        incarnation,
        stable,
        1450,
        Random(f"{name} {incarnation} {position}").randbytes,
        history=History(position, began, repairs),
        memory=memory,
    )


def meet(a: Endpoint, b: Endpoint) -> Cluster:
    cluster = Cluster([("a", a), ("b", b)])
    cluster.introduce()
    return cluster


@pytest.mark.parametrize("size", [10, 1000, 100_000], ids=["datagram", "a full one", "fragments"])
def test_the_position_is_heard_with_whatever_is_sent(size: int) -> None:
    memory = Memory()
    cluster = meet(make_one("a"), make_one("b", memory))
    cluster.endpoints["a"].position = 7
    for _ in range(3):
        cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1, bytes(size)))
    assert len(cluster.exchange()) == 3
    assert memory.heard == {"a": 7}
    # It is the one at which a datagram leaves.
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(2, bytes(size)))
    cluster.endpoints["a"].position = 9
    cluster.exchange()
    assert memory.heard == {"a": 7 if size > 1450 else 9}


def test_one_without_a_log_is_not_remembered() -> None:
    memory = Memory()
    cluster = meet(make_one("a", stable=False), make_one("b", memory))
    cluster.endpoints["a"].position = 7
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1))
    assert len(cluster.exchange()) == 1
    assert memory.heard == {}
    assert not memory.has_met_later("a", 0, b"another")


def remembered(position: int) -> Memory:
    """What b keeps of a, incarnation 0, that was heard at a position."""
    memory = Memory()
    cluster = meet(make_one("a"), make_one("b", memory))
    cluster.endpoints["a"].position = position
    cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(1))
    cluster.exchange()
    assert memory.heard == {"a": position}
    return memory


def greet(a: Endpoint, b: Endpoint, first: str) -> Cluster:
    """One of them says hello."""
    cluster = Cluster([("a", a), ("b", b)])
    cluster.endpoints[first].tick(cluster.now)
    cluster.exchange()
    return cluster


@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize("repairs", [False, True])
def test_less_than_was_heard_is_refused_and_both_say_so(first: str, repairs: bool) -> None:
    a, b = make_one("a", incarnation=1, position=5, repairs=repairs), make_one("b", remembered(7), repairs=repairs)
    greet(a, b, first)
    remedy = (
        "give it the log that it had, or stop it and run `ordercast repair CONFIG --process a`"
        if repairs
        else "give it the log that it had, or stop all processes and begin anew: see docs/log.md"
    )
    line = (
        "b refuses a: its log had 5 records when it started, and 7 when it was heard before: what it acknowledged "
        "since is lost (a backup was restored, the disk returned to an earlier state, or its folder was emptied); "
        f"{remedy}"
    )
    assert a.refused == line
    assert b.refusals == {"a": f"process {line}"}
    assert "a" not in b.established
    assert a.deadline == 0, "whoever drives it looks at once"


@pytest.mark.parametrize("first", NAMES)
def test_as_much_as_was_heard_and_the_next_log_after_a_repair_are_welcome(first: str) -> None:
    for history in ({"position": 7}, {"position": 0, "began": 1}):
        a, b = make_one("a", incarnation=1, **history), make_one("b", remembered(7))  # type: ignore[arg-type]
        greet(a, b, first)
        assert (a.refused, dict(b.refusals)) == (None, {})
        assert "a" in b.established


def test_an_incarnation_that_comes_again_is_refused_by_one_that_was_restarted_itself() -> None:
    a, b = make_one("a", incarnation=0, position=7), make_one("b", remembered(7), incarnation=1)
    greet(a, b, "a")
    assert a.refused is not None
    assert "was here before with a later log than this one, says b" in a.refused


def test_a_peer_that_restarts_takes_back_one_that_has_logged_more_since_its_start() -> None:
    memory = remembered(7)
    a = make_one("a")
    a.position = 9
    greet(a, make_one("b", memory, incarnation=1), "b")
    assert a.refused is None


def test_a_recorded_hello_of_an_earlier_start_accuses_nobody() -> None:
    old = meet(make_one("a"), make_one("b"))
    recorded = [sent for sent in old.sent if sent[:2] == ("a", "b")]
    memory = remembered(7)
    memory.meet("a", 7, incarnation=1, boot=b"later")
    b = make_one("b", memory, incarnation=1)
    cluster = Cluster([("a", make_one("a", incarnation=2, position=7)), ("b", b)])
    for sent in recorded:
        cluster.arrive(sent)
    cluster.exchange()
    assert dict(b.refusals) == {}
    cluster.introduce()
    assert cluster.endpoints["a"].refused is None
