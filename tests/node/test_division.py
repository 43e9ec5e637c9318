"""Replicated states where sides of a group go on apart: with a quorum, or merged by the application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

import ordercast
from ordercast import Replicated
from ordercast.core.effects import Deliver, InstallView, Replay
from tests.node.cluster import make_configuration, open_nodes, run


@dataclass
class Notes:
    """A state that remembers every call."""

    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)


def unite(states: list[Notes]) -> Notes:
    """Every line of any side, once."""
    return Notes(sorted({line for state in states for line in state.lines}))


class Divided:
    """Processes whose views a test decides: what is said on one side does not come to the other."""

    def __init__(self, nodes: list[ordercast.Node]) -> None:
        self.nodes = {node.process: node for node in nodes}
        self.replicas: dict[str, Replicated[Notes]] = {}
        self._deliver: dict[str, Any] = {name: node.internals.deliver for name, node in self.nodes.items()}
        self._views = 0
        for node in nodes:
            engine = node.internals.engine
            engine.contract = msgspec.structs.replace(engine.contract, partitionable=True)

    async def join(self, *names: str, make: Callable[[], Replicated[Notes]]) -> None:
        """These become replicas."""
        joined = await asyncio.gather(*(make().join(self.nodes[name], "g") for name in names))
        self.replicas |= dict(zip(names, joined, strict=True))

    async def view(self, *sides: str) -> None:
        """From now on the processes are in these views, one letter for each; what is under way comes before."""
        for node in self.nodes.values():
            await node.flush()
        while len({node.internals.receiver.offsets()["g"] for node in self.nodes.values()}) > 1 and not self._views:
            await asyncio.sleep(0)
        self._views += 1
        for side in sides:
            for name in side:
                self.nodes[name].internals.deliver = self._filter(name, side)
        for side in sides:
            for name in side:
                view = InstallView(f"{self._views}-{side}", tuple(side), groups=("g",))
                self.nodes[name].internals.install_view("main", view)

    def _filter(self, name: str, side: str) -> Callable[[str, Deliver | Replay], None]:
        deliver = self._deliver[name]

        def filtered(instance: str, effect: Deliver | Replay) -> None:
            if effect.multicast.id.source in side:
                deliver(instance, effect)
            else:
                self.nodes[name].internals.engine.site.consumed()

        return filtered

    async def until_settled(self, names: str) -> None:
        """Until these have a state and apply calls."""
        while any(self.replicas[name]._machine.arrival is not None for name in names):
            await asyncio.sleep(0)


@asynccontextmanager
async def divided(names: str = "abc", **rule: Any) -> AsyncIterator[Divided]:
    """A cluster with a replica at each process, all in one view, and nothing under way."""
    async with open_nodes(make_configuration(names)) as nodes:
        cluster = Divided(nodes)
        await cluster.join(*names, make=lambda: Replicated(Notes(), **rule))
        await cluster.until_settled(names)
        await asyncio.gather(*(cluster.replicas[name].call(Notes.add, f"first of {name}") for name in names))
        for replica in cluster.replicas.values():
            while replica.state is None or len(replica.state.lines) < len(names):
                await asyncio.sleep(0)
        yield cluster


def test_without_a_rule_a_replica_refuses_to_run_where_sides_go_on_apart() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as nodes:
            cluster = Divided(nodes)
            with pytest.raises(ordercast.UsageError, match=r"under sequencer, sides .* quorum=N\) or .*merge=function"):
                await cluster.join("a", make=lambda: Replicated(Notes()))

    run(main())
    for wrong in ({"quorum": 0}, {"quorum": 2, "merge": unite}):
        with pytest.raises(ordercast.UsageError, match="1 or more, and not together with merge"):
            Replicated(Notes(), **wrong)


def test_a_rule_changes_nothing_where_there_is_one_history() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            replica = await Replicated(Notes(), quorum=2).join(nodes[0], "g")
            assert await replica.call(Notes.add, "x") == 1

    run(main())


def test_a_side_without_a_quorum_applies_nothing_and_takes_the_state_of_the_others_when_they_meet() -> None:
    async def main() -> None:
        async with divided(quorum=2) as cluster:
            a, b, c = cluster.replicas.values()
            await cluster.view("ab", "c")
            await cluster.until_settled("abc")
            assert await a.call(Notes.add, "of the majority") == 4
            with pytest.raises(ordercast.GroupBlocked, match="1 replicas are here, and quorum is 2; add was not sent"):
                await c.call(Notes.add, "of the minority")
            assert c.state is not None, "it can be read"
            assert len(c.state.lines) == 3
            await cluster.view("abc")
            assert await c.call(Notes.add, "again") == 5
            assert await b.call(Notes.add, "end") == 6
            assert await c.call(Notes.add, "end") == 7
            assert a.state is not None
            assert c.state is not None
            assert a.state.lines[:6] == c.state.lines[:6]

    run(main())


def test_a_call_that_is_delivered_where_there_is_no_quorum_is_not_applied_and_its_caller_hears_it() -> None:
    async def main() -> None:
        async with divided(quorum=2) as cluster:
            c = cluster.replicas["c"]
            call = asyncio.ensure_future(c.call(Notes.add, "late"))
            await asyncio.sleep(0)
            for name, side in (("a", "ab"), ("b", "ab"), ("c", "c")):
                view = InstallView(f"9-{side}", tuple(side), groups=("g",))
                cluster.nodes[name].internals.install_view("main", view)
            with pytest.raises(ordercast.GroupBlocked, match="quorum is 2; the call was not applied"):
                await call
            assert c.state is not None
            assert "late" not in c.state.lines

    run(main())


def test_who_was_in_the_last_view_with_a_quorum_is_right_and_not_who_has_more_company() -> None:
    async def main() -> None:
        async with divided("abcde", quorum=3) as cluster:
            await cluster.view("abc", "de")
            await cluster.until_settled("abc")
            assert await cluster.replicas["a"].call(Notes.add, "with three") == 6
            await cluster.view("ade", "bc")
            await cluster.until_settled("ade")
            assert await cluster.replicas["d"].call(Notes.add, "with others") == 7
            await cluster.view("abcde")
            await cluster.until_settled("abcde")
            assert await cluster.replicas["b"].call(Notes.add, "end") == 8
            states = [replica.state for replica in cluster.replicas.values()]
            assert all(state is not None and state.lines[5:7] == ["with three", "with others"] for state in states)

    run(main())


def test_sides_that_meet_make_one_state_of_theirs_with_the_applications_function() -> None:
    async def main() -> None:
        async with divided("abcd", merge=unite) as cluster:
            a, b, c, d = cluster.replicas.values()
            await cluster.view("ab", "cd")
            await cluster.until_settled("abcd")
            await asyncio.gather(a.call(Notes.add, "left"), d.call(Notes.add, "right"))
            await asyncio.gather(b.call(Notes.add, "left too"), c.call(Notes.add, "right too"))
            await cluster.view("abcd")
            await cluster.until_settled("abcd")
            for replica in (a, b, c, d):
                assert replica.state is not None
                assert replica.state.lines == sorted(
                    ["left", "left too", "right", "right too", *(f"first of {name}" for name in "abcd")]
                )
            assert await c.call(Notes.add, "together") == 9

    run(main())


def test_a_view_without_those_who_left_needs_no_merge_and_no_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with divided(merge=unite) as cluster:
            monkeypatch.setattr(
                "ordercast.node.state_transfer.StateTransfer.take", lambda *_: pytest.fail("nobody lacks anything")
            )
            await cluster.view("ab", "c")
            await cluster.until_settled("abc")
            assert await cluster.replicas["a"].call(Notes.add, "x") == 4
            assert await cluster.replicas["c"].call(Notes.add, "y") == 4

    run(main())


def test_a_view_that_changes_while_sides_are_merged_begins_the_merge_anew() -> None:
    async def main() -> None:
        async with divided("abc", merge=unite) as cluster:
            a, b, c = cluster.replicas.values()
            await cluster.view("ab", "c")
            await cluster.until_settled("abc")
            await a.call(Notes.add, "left")
            await c.call(Notes.add, "right")
            await cluster.view("abc")
            # Before anybody has heard where the others stand.
            await cluster.view("abc")
            await cluster.until_settled("abc")
            assert a.state is not None
            assert {"left", "right"} <= set(a.state.lines)
            assert a.state == b.state == c.state

    run(main())


def test_a_newcomer_takes_the_state_of_the_only_side_that_there_is() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            cluster = Divided(nodes)
            await cluster.view("a", "b")
            await cluster.join("a", make=lambda: Replicated(Notes(), merge=unite))
            await cluster.until_settled("a")
            assert await cluster.replicas["a"].call(Notes.add, "alone") == 1
            await cluster.join("b", make=lambda: Replicated(Notes(["not the group's"]), merge=unite))
            replica = cluster.replicas["b"]
            replica._machine._division._side = ""  # type: ignore[union-attr]
            await cluster.view("ab")
            await cluster.until_settled("ab")
            assert replica.state is not None
            assert replica.state.lines == ["alone"]

    run(main())
