"""Building blocks for programs without an event loop."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

import ordercast
from ordercast.blocks import Change
from tests.node.cluster import make_configuration


def open_shared(stack: ExitStack, names: str = "abc") -> list[ordercast.SynchronousShared]:
    configuration = make_configuration(names, protocol="token")
    nodes = [stack.enter_context(ordercast.open_synchronous(configuration, name)) for name in names]
    return [ordercast.SynchronousShared(timeout=10.0).join(node, "g", timeout=10.0) for node in nodes]


def test_maps_queues_and_counters_block() -> None:
    with ExitStack() as stack:
        first, second, _ = open_shared(stack)
        settings, seen = first.map("settings", str), second.map("settings", str)
        version = settings.put("colour", "blue")
        assert seen.get("colour", linearizable=True) == "blue"
        entry = seen.entry("colour")
        assert entry is not None
        assert seen.compare_and_set("colour", "green", entry.version)
        assert not seen.compare_and_set("colour", "red", entry.version)
        changes = settings.watch("col", since=0, timeout=10.0)
        assert [next(changes), next(changes).value] == [Change("colour", "blue", version), "green"]
        with pytest.raises(TimeoutError, match=r"not done, after 0\.1 s"):
            next(settings.watch(timeout=0.1))
        assert settings.remove("colour")
        assert settings.items(linearizable=True) == {}
        with pytest.raises(TypeError, match="not of type str"):
            settings.put("colour", 3)  # type: ignore[arg-type]

        letters = second.queue("letters", str)
        assert first.queue("letters", str).put("dear all") == 1
        job = letters.get(timeout=10.0)
        assert (repr(job), len(letters)) == ("SynchronousJob(number=1, item='dear all', attempt=1)", 0)
        assert job.give_back()
        assert letters.get(timeout=10.0).done()
        with pytest.raises(TimeoutError, match="queue letters has nothing"):
            letters.get(timeout=0.1)

        counter = first.counter("invoices")
        with ThreadPoolExecutor(4) as threads:
            assert sorted(threads.map(lambda _: counter.add(), range(20))) == list(range(1, 21))
        assert second.counter("invoices").value(linearizable=True) == 20


def test_locks_and_elections_block() -> None:
    with ExitStack() as stack:
        first, second, _ = open_shared(stack)
        lock, other = first.lock("backup"), second.lock("backup")
        with lock as fence:
            assert (lock.is_held, lock.is_lost, lock.fence) == (True, False, fence)
            assert other.try_acquire() == 0
            with pytest.raises(TimeoutError, match="lock backup is not had"):
                other.acquire(timeout=0.1)
        assert other.acquire(timeout=10.0) > fence
        assert other.release()

        election, rival = first.election("billing"), second.election("billing")
        term = election.win(timeout=10.0)
        assert (election.is_leader, election.is_lost, election.leader) == (True, False, "a")
        election.resign()
        assert rival.win(timeout=10.0) > term


def test_questions_are_answered_and_a_function_that_the_node_calls_cannot_wait_for_the_node() -> None:
    with ExitStack() as stack:
        first, second, third = open_shared(stack)
        first.on_question(bytes.upper)
        assert third.ask(b"who?", wait="first", timeout=10.0) == {"a": b"WHO?"}
        second.on_question(lambda question: b"%d" % second.counter("asked").add())
        third.on_question(bytes.lower)
        with pytest.raises(ordercast.NotAnswered, match="runs in the node's own thread"):
            first.ask(b"who?", wait="all", timeout=10.0)


def test_blocks_that_are_in_no_group_say_so() -> None:
    with pytest.raises(ordercast.UsageError, match="join one first"):
        ordercast.SynchronousShared().map("settings")
    with ExitStack() as stack:
        (shared,) = open_shared(stack, "a")
        shared.leave(timeout=10.0)
