"""Members of a group that are asked while they die, come back and starve. Nothing here needs Spark, or time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from ordercast.core import MessageId, UsageError
from ordercast.node.bundles import encode_bundle
from ordercast.node.control import NodeSilent
from ordercast.node.reading import HeldBatch
from ordercast.spark.source import group as group_module
from ordercast.spark.source.data_source import group_options
from ordercast.spark.source.group import GroupStreamReader
from ordercast.spark.source.members import PAUSE_SECONDS, Members, NoNews

SILENT = NodeSilent("no node answers")


class Nodes:
    """What the members a, b and c have, and at which time."""

    def __init__(self, has: Callable[[float, str], range | UsageError]) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self._has = has

    def ask(self, paths: Sequence[str], request: dict[str, Any]) -> list[dict[str, Any] | UsageError]:
        return [self._answer(path, request["from"], request["to"]) for path in paths]

    def _answer(self, path: str, start: int, stop: int) -> dict[str, Any] | UsageError:
        self.asked.append(path)
        has = self._has(self.now, path)
        if isinstance(has, UsageError):
            return has
        # Two messages a bundle, and two bundles an answer.
        first = max(has.start, start - start % 2)
        batches = [_bundle(offset) for offset in range(first, min(has.stop, stop), 2)][:2]
        return {"first": has.start, "end": has.stop, "batches": msgspec.to_builtins(msgspec.msgpack.encode(batches))}

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def members(self, patience: float = 60.0) -> Members:
        sockets = [(name, name) for name in "abc"]
        return Members("g", sockets, patience, self.ask, lambda: self.now, self.pause)

    def read(self, start: int, stop: int, on_lost: Callable[[int, int], None] | None = None) -> list[bytes]:
        found = self.members().read(start, stop, on_lost or refuse)
        messages = [each for held in found for each in enumerate(held.messages(), held.offset)]
        return [payload for offset, payload in messages if start <= offset < stop]


def _bundle(offset: int) -> HeldBatch:
    packed = encode_bundle([str(offset).encode(), str(offset + 1).encode()])
    return HeldBatch(MessageId("a", 0, offset), ("g",), 2, offset, packed, False, "", None, 0.0)


def refuse(start: int, following: int) -> None:
    raise AssertionError(f"{start} to {following} is not lost")


def numbers(start: int, stop: int) -> list[bytes]:
    return [str(number).encode() for number in range(start, stop)]


def test_another_member_goes_on_at_the_same_offset_and_is_asked_first_from_then_on() -> None:
    nodes = Nodes(lambda now, name: SILENT if name == "a" else range(20))
    assert nodes.read(3, 17) == numbers(3, 17)
    assert nodes.asked == ["a", "b", "b", "b", "b"]


def test_while_all_are_silent_it_is_asked_again_until_one_is_back() -> None:
    nodes = Nodes(lambda now, name: range(20) if now > 30 and name == "c" else SILENT)
    assert nodes.members().extent() == (0, 20)
    assert 30 < nodes.now < 31
    nodes.now = 0.0
    assert nodes.read(0, 4) == numbers(0, 4)


def test_silence_that_lasts_is_an_error_of_one_line() -> None:
    nodes = Nodes(lambda now, name: SILENT)
    with pytest.raises(UsageError, match=r"no node with group 'g' answers \(asked: a, b, c\): start one"):
        nodes.members(patience=5).extent()
    assert 5 <= nodes.now <= 5 + 2 * PAUSE_SECONDS


def test_what_all_refuse_is_told_at_once() -> None:
    nodes = Nodes(lambda now, name: UsageError(f"process {name} is not in group 'g'"))
    with pytest.raises(UsageError, match="process a is not in group 'g'; process b is not"):
        nodes.members().extent()
    assert nodes.now == 0


def test_what_one_member_had_before_it_died_is_awaited_from_those_that_are_behind() -> None:
    """a told of 20 deliveries and is gone; b is behind and gets there. c was just started and has nothing before 20."""

    def has(now: float, name: str) -> range | UsageError:
        return SILENT if name == "a" else range(14 + int(now)) if name == "b" else range(20, 20)

    nodes = Nodes(has)
    assert nodes.read(10, 20) == numbers(10, 20)
    assert 5 < nodes.now < 8


def test_what_nobody_has_any_more_is_lost_at_once_when_all_answer_and_after_a_while_when_one_is_silent() -> None:
    lost: list[tuple[int, int]] = []
    nodes = Nodes(lambda now, name: range(8, 20))
    assert nodes.read(2, 12, lambda *between: lost.append(between)) == numbers(8, 12)
    assert (lost, nodes.now) == ([(2, 8)], 0)
    nodes = Nodes(lambda now, name: SILENT if name == "b" else range(16, 20))
    assert nodes.read(2, 12, lambda *between: lost.append(between)) == []
    assert lost[1] == (2, 12)
    assert nodes.now >= 60


def test_a_query_that_is_started_again_while_its_nodes_are_away_keeps_its_offsets_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes(lambda now, name: range(40) if 10 < now < 100 else SILENT)
    monkeypatch.setattr(group_module, "find_members", lambda *_: nodes.members())
    options = group_options({"config": "x", "group": "g"}, "earliest")
    checkpoint, limit = {"g": 24}, ReadMaxRows(10)

    # With the trigger that ends at what there is, the start waits for a node.
    reader = GroupStreamReader(options, ["offset"])
    reader.prepareForTriggerAvailableNow()
    assert 10 < nodes.now < 11
    nodes.now = 200
    assert reader.latestOffset(checkpoint, limit) == {"g": 34}
    assert reader.reportLatestOffset() is None

    # With any other, nothing is new until one is there.
    reader = GroupStreamReader(options, ["offset"])
    assert reader.latestOffset(checkpoint, limit) == checkpoint
    nodes.now = 50
    assert reader.latestOffset(checkpoint, limit) == {"g": 34}
    assert reader.reportLatestOffset() == {"g": 40}
    nodes.now = 200
    assert reader.latestOffset({"g": 34}, limit) == {"g": 34}
    assert reader.reportLatestOffset() == {"g": 40}


def test_no_news_is_told_apart_from_what_is_wrong() -> None:
    with pytest.raises(NoNews):
        Nodes(lambda now, name: SILENT).members().look()
