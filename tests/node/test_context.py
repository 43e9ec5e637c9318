"""What replicated methods may know of their calls, and replicas that compare their states."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

import ordercast
from ordercast import Context, NodeFailed, Replicated, UsageError
from ordercast.blocks.state import Line, State
from ordercast.node import replica_calls
from ordercast.node.replica_digests import digest_steps
from tests.node.cluster import make_configuration, open_nodes, run


@dataclass
class Diary:
    """Remembers the circumstances of its calls."""

    entries: list[tuple[float, str, int, float, str]] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def write(self, context: Context, text: str) -> int:
        self.entries.append((context.time, context.caller, context.offset, context.random.random(), text))
        self.seen.add(text)
        return context.offset

    def roll(self) -> None:
        self.numbers.append(0.5)


@dataclass
class Dice(Diary):
    """A version of the diary whose method is not deterministic."""

    def roll(self) -> None:
        self.numbers.append(random.random())


@dataclass
class Loaded(Diary):
    """A version of the diary whose method does something else, and always the same."""

    def roll(self) -> None:
        self.numbers.append(0.75)


async def replicas(nodes: list[ordercast.Node], *classes: type[Diary]) -> list[Replicated[Diary]]:
    chosen = classes or (Diary,) * len(nodes)
    return [await Replicated(each()).join(node, "g") for node, each in zip(nodes, chosen, strict=True)]


def test_a_method_is_given_the_same_time_randomness_caller_and_offset_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([100.0, 90.0, 110.0])
    monkeypatch.setattr(replica_calls, "time", lambda: next(clock, 111.0))

    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, second = await replicas(nodes)
            offsets = [await first.call(Diary.write, "x"), await second.call(Diary.write, "y")]
            offsets.append(await first.call(Diary.write, text="z"))
            await second.read(lambda diary: None, linearizable=True)
            assert first.state is not None
            assert second.state is not None
            assert first.state.entries == second.state.entries
            times, callers, seen, drawn, texts = zip(*first.state.entries, strict=True)
            assert times == (100.0, 100.0, 110.0), "time does not go back when a clock is behind"
            assert (callers, list(seen), texts) == (("a", "b", "a"), offsets, ("x", "y", "z"))
            assert len(set(drawn)) == 3

    run(main())


def test_time_goes_on_after_a_restart_and_for_whoever_takes_the_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(replica_calls, "time", lambda: clock[0])
    configuration = make_configuration("ab", log_directory=str(tmp_path / "log"), protocol="token")

    async def main() -> None:
        async with ordercast.open(configuration, "a") as a, ordercast.open(configuration, "b") as b:
            first, second = await replicas([a, b])
            await first.call(Diary.write, "early")
            clock[0] = 10.0
            second._machine._on_gap(first.applied + 5)  # as if the others had gone on without it
            await first.call(Diary.write, "late")
            await second.call(Diary.write, "later")
            assert second.state is not None
            assert [time for time, *_ in second.state.entries] == [1000.0] * 3
        async with ordercast.open(configuration, "a") as a, ordercast.open(configuration, "b") as b:
            first, second = await replicas([a, b])
            await first.call(Diary.write, "after")
            assert first.state is not None
            assert first.state.entries[-1][0] == 1000.0

    run(main())


def test_the_context_comes_first() -> None:
    @dataclass
    class Wrong:
        count: int = 0

        def add(self, amount: int, context: Context) -> None:
            self.count += amount

    with pytest.raises(UsageError, match="the Context comes first, before amount"):
        Replicated(Wrong())


# ---------------------------------------------------------------------- states that differ
def check_now(replica: Replicated[Diary]) -> None:
    machine = replica._machine
    machine._digests.ask(lambda: machine.lineage.calls)


async def until_failed(node: ordercast.Node) -> str:
    with pytest.raises(NodeFailed) as failure:
        await node.wait_failed()
    return str(failure.value)


def test_states_that_are_the_same_pass_whatever_the_order_of_their_sets() -> None:
    one, other = Diary(seen={"a", "b", "c"}), Diary(seen={"c", "b", "a"})
    assert list(digest_steps(one))[-1] == list(digest_steps(other))[-1]
    assert list(digest_steps(one))[-1] != list(digest_steps(Diary(seen={"a", "b"})))[-1]
    assert list(digest_steps({"x": 1, "y": 2}))[-1] == list(digest_steps({"y": 2, "x": 1}))[-1]
    assert list(digest_steps([1, 2]))[-1] != list(digest_steps([2, 1]))[-1]

    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            all_of_them = await replicas(nodes)
            for index in range(5):
                await all_of_them[index % 3].call(Diary.write, f"{index}")
                check_now(all_of_them[index % 3])
            for replica in all_of_them:
                await replica.call(Diary.write, "end")
            assert not any(node.internals.over.is_set() for node in nodes)

    run(main())


class Pair(msgspec.Struct, frozen=True):
    """What cannot be compared with its like."""

    left: int
    right: int = 0


@pytest.mark.parametrize(
    ("one", "other", "different"),
    [
        ({"q": {1: "a", 2: "b"}}, {"q": {2: "b", 1: "a"}}, {"q": {1: "b", 2: "a"}}),
        ({"q": [{(1, 2): 3, (0, 2): 4}]}, {"q": [{(0, 2): 4, (1, 2): 3}]}, {"q": [{(1, 2): 3}]}),
        ({"q": {Pair(1), Pair(2)}}, {"q": {Pair(2), Pair(1)}}, {"q": {Pair(1), Pair(2, 1)}}),
        (
            State(queues={"q": Line(1, {1: (b"x", 0), 2: (b"y", 0)})}),
            State(queues={"q": Line(1, {2: (b"y", 0), 1: (b"x", 0)})}),
            State(queues={"q": Line(1, {1: (b"x", 0), 2: (b"y", 1)})}),
        ),
        ({"q": State(queues={"q": Line(2)})}, {"q": State(queues={"q": Line(2)})}, {"q": State(queues={"q": Line(1)})}),
    ],
)
def test_states_with_any_keys_within_are_compared(one: object, other: object, different: object) -> None:
    told, same, else_ = (list(digest_steps(state))[-1] for state in (one, other, different))
    assert told == same != else_


def test_what_no_message_can_hold_is_no_state() -> None:
    with pytest.raises(TypeError, match="a state cannot hold a object"):
        list(digest_steps({"q": {1: object()}}))


def test_a_replica_with_another_version_of_a_method_stops_and_names_the_offset(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The class has the same schema, so nothing else tells them apart. The others go on, and so does the wrong one
    after a restart with the right version: it takes the state of the others, and not its own log."""
    caplog.set_level(logging.WARNING)
    configuration = make_configuration(log_directory=str(tmp_path / "log"), protocol="token")
    Dice.__name__ = "Diary"

    async def main() -> None:
        async with open_nodes(configuration) as nodes:
            first, second, wrong = await replicas(nodes, Diary, Diary, Dice)
            offset = await first.call(Diary.write, "before")
            await first.call(Diary.roll)
            check_now(second)
            why = await until_failed(nodes[2])
            assert "replica c differs from that of a, b in group g at offset" in why
            named = int(why.partition("at offset ")[2].partition(":")[0])
            assert named > offset
            offset = await first.call(Diary.write, "after")
            assert await second.read(lambda diary: diary.entries[-1][2], linearizable=True) == offset
            assert wrong.state is not None
            async with ordercast.open(configuration, "c") as node:
                again = await Replicated(Diary()).join(node, "g")
                await again.call(Diary.write, "again")
                assert again.state == await first.read(lambda diary: diary, linearizable=True)
                check_now(again)
                await again.call(Diary.write, "still there")
                assert not node.internals.over.is_set()

    run(main())
    assert "replica c has another state of group g than the others at offset" in caplog.text


def test_a_deterministic_method_of_another_version_passes_until_it_is_called_and_is_found_at_the_next_hash() -> None:
    Loaded.__name__ = "Diary"

    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            first, second, wrong = await replicas(nodes, Diary, Diary, Loaded)
            await wrong.call(Diary.write, "the same in both versions")
            check_now(wrong)
            for replica in (first, second, wrong):
                before = await replica.call(Diary.write, "whose digest was told before this call")
            assert not any(node.internals.over.is_set() for node in nodes)
            # The wrong one calls its method itself, and is the one who asks: that makes it no less wrong.
            await wrong.call(type(wrong.state).roll)  # type: ignore[union-attr]
            check_now(wrong)
            why = await until_failed(nodes[2])
            assert "replica c differs from that of a, b in group g at offset" in why
            after = await first.call(Diary.write, "without c")
            assert before < int(why.partition("at offset ")[2].partition(":")[0]) < after
            assert await second.read(lambda diary: diary.entries[-1][2], linearizable=True) == after
            assert not any(node.internals.over.is_set() for node in nodes[:2])

    run(main())


def test_of_two_replicas_that_differ_one_goes_on() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, second = await replicas(nodes, Dice, Dice)
            await first.call(type(first.state).roll)  # type: ignore[union-attr]
            check_now(second)
            failing = [asyncio.create_task(until_failed(node)) for node in nodes]
            done, _ = await asyncio.wait(failing, return_when=asyncio.FIRST_COMPLETED)
            assert len(done) == 1
            for task in failing:
                task.cancel()

    run(main())
