"""ARCHITECTURE.md draws a message's way through a live node; the functions are there, and a message goes that way."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.node.cluster import make_configuration, open_nodes, run, take

ARCHITECTURE = Path(__file__).parents[1] / "ARCHITECTURE.md"
HEADING = "## A message on a live node"
_ROW = re.compile(r"^\| *(?P<at>[a-z]*) *\| `(?P<function>[\w.]+)` \|", re.MULTILINE)


def read_walk(text: str) -> list[tuple[str, str]]:
    """Where, and which function, in the order of the picture."""
    section = text.split(HEADING)[1].split("\n## ")[0]
    walk: list[tuple[str, str]] = []
    for row in _ROW.finditer(section):
        walk.append((row["at"] or walk[-1][0], row["function"]))
    return walk


def resolve(dotted: str) -> Any:
    """What a name below `ordercast` means: modules as far as there are any, then attributes."""
    parts = dotted.split(".")
    found: Any = import_module("ordercast")
    name = "ordercast"
    for index, part in enumerate(parts):
        try:
            found = import_module(f"{name}.{part}")
            name = f"{name}.{part}"
        except ModuleNotFoundError:
            for attribute in parts[index:]:
                found = getattr(found, attribute)
            return found
    return found


WALK = read_walk(ARCHITECTURE.read_text(encoding="utf-8"))


def test_the_walk_goes_from_a_source_by_the_sequencer_to_a_destination() -> None:
    assert list(dict.fromkeys(at for at, _ in WALK)) == ["source", "sequencer", "destination"]
    assert WALK[0] == ("source", "node.group.Group.multicast")
    assert WALK[-1] == ("destination", "node.deliveries.Batch.deliveries")


@pytest.mark.parametrize("function", sorted({function for _, function in WALK}))
def test_each_function_of_the_walk_is_there(function: str) -> None:
    assert callable(resolve(function))


def test_each_dotted_name_beside_the_walk_is_there() -> None:
    section = ARCHITECTURE.read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    names = re.findall(r"`((?:node|net|wire|core|runtime|protocols)\.[\w.]+)`", section)
    assert "node.deliveries.Delivery" in names
    for name in names:
        assert resolve(name) is not None


def called_for_one_message() -> Iterator[CodeType]:
    """The functions that run from the moment in which b multicasts until c has its message; a is the sequencer."""
    calls: list[CodeType] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            calls.append(frame.f_code)

    async def main() -> None:
        async with open_nodes(make_configuration("abc")) as nodes:
            source, destination = [await node.join("g") for node in nodes[1:]]
            # The first message finds nothing in any memo.
            await source.multicast(b"first")
            await take(destination, 1)
            await source.flush()
            taking = asyncio.create_task(take(destination, 1))
            await asyncio.sleep(0)
            sys.setprofile(note)
            try:
                await source.multicast(b"second")
                await taking
            finally:
                sys.setprofile(None)

    run(main())
    return iter(calls)


def test_a_message_goes_that_way() -> None:
    calls = called_for_one_message()
    for at, function in WALK:
        code = resolve(function).__code__
        assert any(called is code for called in calls), f"{function} at the {at} is not called after those before it"


def test_a_name_that_is_not_there_is_found() -> None:
    for wrong in ("node.group.Group.broadcast", "node.nowhere.Group", "net.site.LiveSite.depart"):
        with pytest.raises(AttributeError):
            resolve(wrong)
