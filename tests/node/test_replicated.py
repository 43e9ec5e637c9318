"""A replicated state machine: same calls, same order, same state."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ordercast
from ordercast import Replicated
from ordercast.core.effects import EnterGroup
from ordercast.node import replica_digests
from ordercast.node.replica_backlog import Backlog
from ordercast.node.replica_messages import Announce, Call, encode_message
from ordercast.node.replica_sending import SENDING_MAX
from tests.node.cluster import make_configuration, open_nodes, run


class Line(msgspec.Struct, frozen=True):
    """An argument that is no builtin."""

    author: str
    text: str


@dataclass
class Ledger:
    """A state that remembers every call."""

    lines: list[str] = field(default_factory=list)
    total: int = 0

    def add(self, text: str, amount: int = 1) -> int:
        self.lines.append(text)
        self.total += amount
        return self.total

    def write(self, line: Line) -> str:
        self.lines.append(f"{line.author}: {line.text}")
        return type(line).__name__

    def refuse(self, text: str) -> None:
        raise ValueError(f"no {text}")


async def _replicas(nodes: list[ordercast.Node]) -> list[Replicated[Ledger]]:
    return [await Replicated(Ledger()).join(node, "g") for node in nodes]


def test_calls_are_applied_everywhere_in_one_order_and_the_caller_gets_the_result() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            replicas = await _replicas(nodes)
            for index in range(30):
                total = await replicas[index % 3].call(Ledger.add, f"{index}", amount=2)
                assert total == 2 * (index + 1)
            for replica in replicas:
                await replica.call(Ledger.add, "end")
            assert replicas[0].state == replicas[1].state == replicas[2].state

    run(main())


def test_arguments_arrive_as_the_types_that_the_method_names() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, _ = await _replicas(nodes)
            assert await first.call(Ledger.write, Line("a", "hello")) == "Line"

    run(main())


def test_what_a_method_raises_is_raised_to_the_caller_and_replicas_go_on() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, second = await _replicas(nodes)
            with pytest.raises(ValueError, match="no way"):
                await first.call(Ledger.refuse, "way")
            assert await second.call(Ledger.add, "on") == 1

    run(main())


def test_mistakes_of_the_caller_are_told_before_anything_is_sent() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as nodes:
            (replica,) = await _replicas(nodes)
            with pytest.raises(TypeError):
                await replica.call(Ledger.add)  # type: ignore[call-overload]
            with pytest.raises(ordercast.UsageError, match="not a public method of Ledger"):
                await replica.call(dict.clear)  # type: ignore[call-overload]
            assert replica._machine.calls._number == 0

    run(main())


def test_a_replica_comes_back_with_its_state_from_the_log(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration(log_directory=str(tmp_path))
        async with open_nodes(configuration, "ab") as nodes:
            first, second = await _replicas(nodes)
            async with ordercast.open(configuration, "c") as c:
                third = await Replicated(Ledger()).join(c, "g")
                for index in range(10):
                    await third.call(Ledger.add, f"{index}")
                c.kill()
            await first.call(Ledger.add, "while c is away")
            async with ordercast.open(configuration, "c") as c:
                third = await Replicated(Ledger()).join(c, "g")
                assert await third.call(Ledger.add, "back") == 12
                await second.call(Ledger.add, "end")
                await first.call(Ledger.add, "end")
                await third.call(Ledger.add, "end")
                assert third.state == first.state

    run(main())


def test_a_snapshot_stands_for_what_the_log_has_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_digests, "CHECK_SECONDS", 1000.0)  # comparisons would be deliveries, too

    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path), retain_bytes=1 << 20)
        async with open_nodes(configuration) as nodes:
            first, second = await _replicas(nodes)
            for _ in range(800):
                await first.call(Ledger.add, "x" * 2000)
            await second.call(Ledger.add, "end")
            for node in nodes:
                node.kill()
        async with open_nodes(configuration) as nodes:
            first, second = await _replicas(nodes)
            assert all(node.internals.engine.journal.attachment.named for node in nodes)
            assert 803 <= first.applied <= 805, "801 calls, and each replica has announced itself, perhaps again"
            assert await second.call(Ledger.add, "again") == 802
            assert await first.call(Ledger.add, "again") == 803
            assert first.state == second.state or await second.call(Ledger.add, "end") == 804

    run(main())


def test_a_replica_whose_log_was_cut_without_a_snapshot_gets_the_state_from_another(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path), retain_bytes=1 << 20)
        async with open_nodes(configuration) as (a, b):
            first = await Replicated(Ledger()).join(a, "g")
            # b takes part without keeping a state: its log is cut, and no snapshot stands for what is gone.
            (await b.join("g")).on_batch(_drop)
            for _ in range(800):
                await first.call(Ledger.add, "x" * 2000)
            b.kill()
            async with ordercast.open(configuration, "b") as again:
                second = await Replicated(Ledger()).join(again, "g")
                assert await second.call(Ledger.add, "last") == 801
                assert await first.call(Ledger.add, "end") == 802
                assert await second.call(Ledger.add, "end") == 803
                assert second.state is not None
                assert second.state.lines[:801] == first.state.lines[:801]  # type: ignore[union-attr]

    run(main())


def _drop(batch: Any) -> None:
    """Take it and forget it."""


def test_waiting_calls_end_when_the_node_does() -> None:
    async def main() -> None:
        async with ordercast.open(make_configuration("ab"), "b") as b:
            replica = await Replicated(Ledger()).join(b, "g")
            call = replica.call(Ledger.add, "never ordered: a is not there")
            waiting = asyncio.create_task(call)
            await asyncio.sleep(0)
            b.kill()
            with pytest.raises(ordercast.NodeClosed):
                await waiting

    run(main())


FOREIGN = (
    b"x\n",
    b"",
    b"\xc1ocr",
    b"\xc1ocr\x01",
    b"\xc1ocr\x01\x91\xa4call",
    b"\xff" * 40,
    b"\x91" * 5000,
    b"\x91\xa1\xff",
    msgspec.msgpack.encode(["call", "a", 0, 0, "add", ["old"], {}]),
    encode_message(Call("a", 0, 1, "add", [], {}, "")),
    encode_message(Announce("b", 0, "x" * 101, is_answer=True)),
)
"""What no replica sends: text, nothing, half a message, something broken, something deep,
calls by b in the name of a, and a name without end."""


def test_a_message_that_is_no_replicas_is_skipped_by_all_of_them_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path))
        async with open_nodes(configuration) as nodes:
            first, second = await _replicas(nodes)
            await first.call(Ledger.add, "before")
            await nodes[1].multicast_many(FOREIGN, ["g"])
            assert await second.call(Ledger.add, "after") == 2
            assert await first.call(Ledger.add, "end") == 3
            assert await second.call(Ledger.add, "end") == 4
            assert [node.status()["dropped"]["no-replica-messages"] for node in nodes] == [len(FOREIGN)] * 2
            assert caplog.text.count("it is no call of a replica") == 2, "once for each source, at each replica"
            for node in nodes:
                node.kill()
        async with open_nodes(configuration) as nodes:
            first, second = await _replicas(nodes)
            assert await first.call(Ledger.add, "again") == 5, "the log replays them, and they are skipped again"
            assert await second.call(Ledger.add, "again") == 6

    run(main())


def test_foreign_sources_that_the_log_names_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ordercast.node.replica_versions.TOLD_MAX", 1)

    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, second = await _replicas(nodes)
            for node in nodes:
                await node.multicast(b"x", ["g"])
                await node.multicast(b"y", ["g"])
            await second.call(Ledger.add, "end")
            await first.call(Ledger.add, "end")
            await second.call(Ledger.add, "end")
            assert caplog.text.count("it is no call of a replica") == 2
            assert [node.status()["dropped"]["no-replica-messages"] for node in nodes] == [4, 4]

    run(main())


def test_calls_of_earlier_versions_which_have_no_mark_are_applied() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            (replica,) = await _replicas([a])
            await a.multicast(msgspec.msgpack.encode(["call", "a", 0, 0, "add", ["old"], {"amount": 5}]), ["g"])
            assert await replica.call(Ledger.add, "new") == 6

    run(main())


def test_a_format_of_a_later_version_stops_a_replica_and_says_what_to_install() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            await _replicas([a, b])
            with pytest.raises(ordercast.NodeFailed, match="knows format 1"):
                await a.multicast(b"\xc1ocr\x02...", ["g"])
            with pytest.raises(ordercast.NodeFailed, match="install here the version of ordercast that a runs"):
                await b.wait_failed()
            assert a.internals.over.is_set()

    run(main())


def _next_ledger() -> Any:
    """The class of the next version: one method more, and another argument for one of them."""

    @dataclass
    class NextLedger(Ledger):
        def rename(self, old: str, new: str) -> None:
            self.lines = [new if line == old else line for line in self.lines]

        def write(self, line: Line | list[str]) -> str:
            self.lines.append(str(line))
            return type(line).__name__

    NextLedger.__name__ = NextLedger.__qualname__ = "Ledger"
    return NextLedger


def _name(replica: Replicated[Any]) -> str:
    return replica._schema.name


@pytest.mark.parametrize("what", ["rename", "write"])
def test_a_call_that_a_replica_does_not_understand_stops_it_before_its_state_differs(what: str, tmp_path: Path) -> None:
    next_ledger = _next_ledger()

    async def main() -> None:
        configuration = make_configuration(log_directory=str(tmp_path))
        async with open_nodes(configuration, "ab") as (a, b):
            first = await Replicated(next_ledger()).join(a, "g")
            second = await Replicated(next_ledger()).join(b, "g")
            async with ordercast.open(configuration, "c") as c:
                old = await Replicated(Ledger()).join(c, "g")
                await old.call(Ledger.add, "x")
                if what == "rename":
                    await second.call(next_ledger.rename, "x", "y")
                    problem = "called Ledger.rename, which does not exist here"
                else:
                    await second.call(next_ledger.write, ["y"])
                    problem = "called Ledger.write, whose arguments do not fit here .*line"
                with pytest.raises(ordercast.NodeFailed) as failure:
                    await c.wait_failed()
                advice = (
                    f"its schema is {_name(second)}, that of c is {_name(old)}: install here the version that b runs"
                )
                assert failure.match(f"^process b {problem}.*; {advice}")
                assert old.state == Ledger(["x"], 1)
                with pytest.raises(ordercast.NodeFailed, match="install here"):
                    await old.call(Ledger.add, "too late")
            async with ordercast.open(configuration, "c") as c:
                with pytest.raises(ordercast.NodeFailed, match="install here"):
                    await Replicated(Ledger()).join(c, "g")
                assert c.internals.over.is_set(), "the same version stops again, wherever the log has the call"
            async with ordercast.open(configuration, "c") as c:
                third = await Replicated(next_ledger()).join(c, "g")
                assert await third.call(next_ledger.add, "on") == 2
                await first.call(next_ledger.add, "end")
                await third.call(next_ledger.add, "end")
                assert first.state == third.state

    run(main())


def test_replicas_of_two_versions_find_out_when_one_joins(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as (a, b, c):
            first = await Replicated(Ledger()).join(a, "g")
            second = await Replicated(Ledger()).join(b, "g")
            await second.call(Ledger.add, "x")
            assert "another version" not in caplog.text
            other = await Replicated(_next_ledger()()).join(c, "g")
            wanted = {
                f"process {process} runs another version of Ledger: its schema is {schema}, that of {here}"
                for process, schema, here in (
                    ("c", _name(other), "a"),
                    ("c", _name(other), "b"),
                    ("a", _name(first), "c"),
                    ("b", _name(first), "c"),
                )
            }
            while not all(line in caplog.text for line in wanted):
                await asyncio.sleep(0)
            assert caplog.text.count("another version") == len(wanted)

    run(main())


def test_versions_of_long_ago_in_the_log_are_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    next_ledger = _next_ledger()

    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path))
        for state in (Ledger, next_ledger):
            async with open_nodes(configuration) as (a, b):
                first = await Replicated(state()).join(a, "g")
                second = await Replicated(state()).join(b, "g")
                for replica in (first, second, first, second):
                    await replica.call(state.add, "x")
                for node in (a, b):
                    node.kill()
        assert "another version" not in caplog.text

    run(main())


def test_the_applications_own_version_stands_in_what_replicas_say() -> None:
    assert _name(Replicated(Ledger(), version="1.4")) == f"1.4-{_name(Replicated(Ledger()))}"
    with pytest.raises(ordercast.UsageError, match="at most 64"):
        Replicated(Ledger(), version="x" * 65)


def test_a_schema_is_the_same_in_every_process() -> None:
    program = "from tests.node.test_replicated import Ledger, Replicated, _name; print(_name(Replicated(Ledger())))"
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == _name(Replicated(Ledger()))


def test_an_argument_of_the_wrong_type_is_the_callers_mistake_and_is_not_sent() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, second = await _replicas(nodes)
            with pytest.raises(TypeError, match="add: argument 'amount': Expected `int`, got `str`"):
                await first.call(Ledger.add, "x", "many")  # type: ignore[call-overload]
            assert await second.call(Ledger.add, "on") == 1

    run(main())


def test_a_method_that_raises_stop_iteration_stops_no_replica() -> None:
    @dataclass
    class Empty:
        values: list[int] = field(default_factory=list)

        def first(self) -> int:
            return next(iter(self.values))

        def add(self, *values: int, **more: int) -> int:
            self.values += [*values, *more.values()]
            return len(self.values)

    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            replica = await Replicated(Empty()).join(a, "g")
            with pytest.raises(RuntimeError, match="first raised StopIteration"):
                await replica.call(Empty.first)
            assert await replica.call(Empty.add, 1, 2, x=3) == 3, "and no argument is lost"

    run(main())


def test_a_snapshot_of_another_version_that_does_not_fit_is_refused_with_the_schema_that_wrote_it(
    tmp_path: Path,
) -> None:
    @dataclass
    class Other:
        total: str = ""

    async def main() -> None:
        configuration = make_configuration("a", log_directory=str(tmp_path), retain_bytes=1 << 20)
        async with open_nodes(configuration) as nodes:
            (first,) = await _replicas(nodes)
            for _ in range(800):
                await first.call(Ledger.add, "x" * 2000)
        async with open_nodes(configuration) as (a,):
            with pytest.raises(ordercast.NodeFailed, match=f"snapshot in the log of a .* its schema is {_name(first)}"):
                await Replicated(Other()).join(a, "g")

    run(main())


@pytest.mark.parametrize("protocol", ["sequencer", "token", "two-phase", "scalatom"])
def test_a_call_in_a_group_that_cannot_go_on_raises_group_blocked_and_what_comes_after_it_is_not_sent(
    protocol: str,
) -> None:
    async def main() -> None:
        async with ordercast.open(make_configuration(protocol=protocol), "c") as c:
            replica = await Replicated(Ledger()).join(c, "g")
            with pytest.raises(ordercast.GroupBlocked, match="add may be applied all the same"):
                await replica.call(Ledger.add, "x")
            sent = replica._machine.calls._number
            with pytest.raises(ordercast.GroupBlocked, match="add was not sent, and can be called again later"):
                await replica.call(Ledger.add, "x")
            assert replica._machine.calls._number == sent
            assert not len(replica._machine.calls)

    run(main())


def test_calls_work_again_when_the_group_goes_on() -> None:
    async def main() -> None:
        configuration = make_configuration("ab")
        async with ordercast.open(configuration, "b") as b:
            replica = await Replicated(Ledger()).join(b, "g")
            with pytest.raises(ordercast.GroupBlocked):
                await replica.call(Ledger.add, "x")
            async with ordercast.open(configuration, "a") as a:
                await Replicated(Ledger()).join(a, "g")
                while b.status()["blocked"]:
                    await asyncio.sleep(0)
                assert await replica.call(Ledger.add, "y") == 2, "the first one was applied all the same"

    run(main())


def test_a_call_takes_no_longer_than_the_replicas_timeout() -> None:
    async def main() -> None:
        async with ordercast.open(make_configuration("ab"), "b") as b:
            replica = await Replicated(Ledger(), timeout=0.2).join(b, "g")
            with pytest.raises(TimeoutError, match=r"no result of add in 0.2 s: .*; it may be applied all the same"):
                await replica.call(Ledger.add, "x")
            assert not len(replica._machine.calls)

    run(main())
    with pytest.raises(ordercast.UsageError, match="timeout=0"):
        Replicated(Ledger(), timeout=0)


def test_a_state_of_which_no_snapshot_can_be_made_is_refused_at_once() -> None:
    class Plain:
        def put(self) -> None: ...

    with pytest.raises(ordercast.UsageError, match="and Plain is neither: write @dataclass above it"):
        Replicated(Plain())


def test_a_timeout_that_the_method_raises_is_its_result() -> None:
    @dataclass
    class Impatient:
        def hurry(self) -> None:
            raise TimeoutError("of the method")

    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            replica = await Replicated(Impatient(), timeout=5.0).join(a, "g")
            with pytest.raises(TimeoutError, match="of the method"):
                await replica.call(Impatient.hurry)

    run(main())


def test_a_cancelled_call_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        async with ordercast.open(make_configuration("ab"), "b") as b:
            replica = await Replicated(Ledger()).join(b, "g")
            calls = [asyncio.create_task(replica.call(Ledger.add, "x" * 10_000)) for _ in range(100)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            assert all(call.cancelled() for call in calls)
            assert not len(replica._machine.calls)
            b.kill()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == before

    run(main())
    gc.collect()
    assert not caplog.records, "no exception that nobody has fetched"


def test_a_replica_that_waits_for_its_state_is_blocked_like_others_and_asks_no_more_when_its_node_is_closed(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path), retain_bytes=1 << 20)
        async with open_nodes(configuration) as (a, b):
            first = await Replicated(Ledger()).join(a, "g")
            (await b.join("g")).on_batch(_drop)
            for _ in range(800):
                await first.call(Ledger.add, "x" * 2000)
            for node in (a, b):
                node.kill()
        async with ordercast.open(configuration, "b") as b:
            second = Replicated(Ledger())
            waiting = asyncio.create_task(second.join(b, "g"))
            while not b.status()["transfers"]:
                await asyncio.sleep(0)
            assert second.state is None
            b.kill()
            with pytest.raises(ordercast.NodeClosed):
                await waiting
        async with ordercast.open(configuration, "b") as b:
            second = Replicated(Ledger())
            with pytest.raises(TimeoutError, match=r"process b has no state of group g after 0.01 s: the process sta"):
                await second.join(b, "g", timeout=0.01)
            while not b.status()["transfers"]:
                await asyncio.sleep(0)
            with pytest.raises(TimeoutError, match=r"process b has no state of group g after 0.01 s: nobody of a, b"):
                await second.join(b, "g", timeout=0.01)
            with pytest.raises(ordercast.GroupBlocked, match="add was not sent"):
                await second.call(Ledger.add, "x")
        assert second._machine._seeker._timer is not None
        assert second._machine._seeker._timer.cancelled()

    run(main())


def test_a_method_whose_arguments_cannot_travel_may_be_there_and_cannot_be_called() -> None:
    @dataclass
    class Helpful:
        total: int = 0

        def help(self, what: Line | Ledger) -> None:
            """Both are read from the same kind of map."""

    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            replica = await Replicated(Helpful()).join(a, "g")
            with pytest.raises(TypeError, match="help: argument 'what'"):
                await replica.call(Helpful.help, Line("a", "b"))

    run(main())


def test_what_a_replica_without_a_state_keeps_is_bounded_in_bytes_and_short_calls_count_for_what_they_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = Call("a", 0, 1, "add", [], {})
    monkeypatch.setattr("ordercast.node.replica_backlog.BACKLOG_BYTES_MAX", 1_200)
    backlog = Backlog()
    backlog.add(0, call, 10)
    backlog.add(1, call, 10)
    assert backlog.pop() == (0, call)
    backlog.add(2, call, 10)
    with pytest.raises(ordercast.UsageError, match="in 2 calls, which take 1530 bytes here: start one that has it"):
        backlog.add(3, call, 10)
    with pytest.raises(ordercast.UsageError, match="in 0 calls"):
        Backlog().add(0, call, 701)


def test_what_a_replica_says_to_a_group_that_takes_nothing_makes_no_heap() -> None:
    async def main() -> None:
        async with ordercast.open(make_configuration("ab"), "b") as b:
            replica = await Replicated(Ledger()).join(b, "g")
            for _ in range(10 * SENDING_MAX):
                replica._machine._versions.announce(is_answer=True)
            assert len(replica._machine._sending._tasks) == SENDING_MAX
            b.kill()

    run(main())


async def _miss(node: ordercast.Node, others: Replicated[Ledger], count: int) -> None:
    """What is ordered now never comes to a node, as if the others had gone on without it; then it enters again."""
    missed: list[int] = []
    deliver = node.internals.deliver
    node.internals.deliver = lambda _instance, effect: missed.append(effect.multicast.count)
    for index in range(count):
        await others.call(Ledger.add, f"missed {index}")
    while sum(missed) < count:
        await asyncio.sleep(0)
    node.internals.deliver = deliver
    node.internals.enter_group("main", EnterGroup("g", others.applied))


def test_a_replica_without_which_the_group_has_gone_on_gets_the_state_of_another() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            first, second, _ = await _replicas(nodes)
            await second.call(Ledger.add, "before")
            await _miss(nodes[1], first, 5)
            assert await second.call(Ledger.add, "after") == 7
            assert first.state == second.state
            assert second.state is not None
            assert second.state.lines[1:6] == [f"missed {index}" for index in range(5)]
            assert nodes[1].internals.receiver.counters["skipped-messages"] == 5

    run(main())


def test_a_call_that_may_lie_in_the_gap_is_given_up() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, second = await _replicas(nodes)
            await second.call(Ledger.add, "one")
            nodes[1].internals.deliver = lambda _instance, _effect: None
            call = asyncio.ensure_future(second.call(Ledger.add, "two"))
            while first.state is None or "two" not in first.state.lines:
                await asyncio.sleep(0)
            nodes[1].internals.enter_group("main", EnterGroup("g", first.applied))
            with pytest.raises(ordercast.GroupBlocked, match="may be applied all the same"):
                await call

    run(main())


def test_two_replicas_of_one_process_keep_their_snapshots_apart(tmp_path: Path) -> None:
    async def life(calls: int) -> tuple[Any, Any]:
        configuration = make_configuration("ab", groups={"g": ["a", "b"], "h": ["a", "b"]}, log_directory=str(tmp_path))
        async with open_nodes(configuration) as nodes:
            book, other = Replicated(Ledger()), Replicated(Ledger())
            await book.join(nodes[0], "g")
            await other.join(nodes[0], "h")
            for index in range(calls):
                await book.call(Ledger.add, f"book {index}")
                await other.call(Ledger.add, f"other {index}")
            attachment = nodes[0].internals._attachment()
            assert set(attachment.named) == {"replicated g", "replicated h"}
            assert attachment.snapshot is None
            with pytest.raises(ordercast.UsageError, match="kept already"):
                nodes[0].keep_snapshot(lambda: b"", "replicated g")
            return book.state, other.state

    before = run(life(3))
    assert run(life(0)) == before


def test_a_cancelled_sender_leaves_no_waiter_behind() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            sender = nodes[0].internals.sender
            waiting = asyncio.ensure_future(sender._wait(sender._waiters))
            await asyncio.sleep(0)
            assert len(sender._waiters) == 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert not sender._waiters

    run(main())


@pytest.mark.parametrize(
    "bad", [b"", b"\xff\xff", b"\xc1", b"\xc1" + bytes(3) + b"\x01" + bytes(3) + b"\x01" + bytes(3) + b"\x02"]
)
def test_a_malformed_bundle_is_skipped_by_all_replicas_and_none_loses_its_state(bad: bytes) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            replicas = await _replicas(nodes)
            await replicas[0].call(Ledger.add, "before")
            nodes[1].internals.engine.site.request(bad, ("g",), None, 3)
            await nodes[1].flush()
            for replica in replicas:
                await replica.call(Ledger.add, "after")
            for node, replica in zip(nodes, replicas, strict=True):
                while replica.state is None or len(replica.state.lines) < 4:
                    await asyncio.sleep(0)
                assert replica._machine._seeker._rounds == 0
                assert node.status()["dropped"]["bad-bundles"] == 1
                assert "skipped-messages" not in node.status()["dropped"]
            assert len({replica.applied for replica in replicas}) == 1

    run(main())
