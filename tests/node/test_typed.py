"""Groups whose messages have a type: values go in and come out, and whoever has another type is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

import msgspec
import pytest

from ordercast import TypedGroup, TypeRefused, UsageError
from tests.node.cluster import make_configuration, open_nodes, run

Value = TypeVar("Value")


class Order(msgspec.Struct, frozen=True):
    article: str
    count: int = 1


@dataclass
class Payment:
    account: str
    amount: float


class Note(TypedDict):
    text: str
    tags: list[str]


async def values(group: TypedGroup[Value], count: int) -> list[Value]:
    taken: list[Value] = []
    async for delivery in group:
        taken.append(delivery.value)
        if len(taken) == count:
            break
    return taken


@pytest.mark.parametrize(
    ("wanted", "value"),
    [(Order, Order("apple", 3)), (Payment, Payment("42", 1.5)), (Note, {"text": "hello", "tags": ["a"]})],
    ids=["struct", "dataclass", "TypedDict"],
)
def test_values_go_in_and_come_out_at_every_member(wanted: type[Any], value: object) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            first, second = await a.join("g", type=wanted), await b.join("g", type=wanted)
            receipt = await first.multicast(value, confirm=True)
            await second.multicast_many([value, value])
            assert await values(first, 3) == await values(second, 3) == [value] * 3
            assert receipt.offset < second.offset

    run(main())


def test_an_application_has_its_own_encoders() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (node,):
            group = await node.join(
                "g",
                type=complex,
                encode=lambda value: str(value).encode(),
                decode=lambda data: complex(data.decode()),
            )
            await group.multicast(1 + 2j)
            assert await values(group, 1) == [1 + 2j]

    run(main())


def test_what_is_not_of_the_type_is_the_senders_error_and_is_not_sent() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (node,):
            group = await node.join("g", type=Order)
            with pytest.raises(TypeError, match="not of type Order"):
                # `make check` fails when a type checker accepts this, too.
                await group.multicast(Payment("42", 1.0))  # type: ignore[call-overload]
            await group.multicast(Order("pear"))
            assert await values(group, 1) == [Order("pear")]

    run(main())


def test_whoever_comes_with_another_type_is_refused_in_words_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    newer = msgspec.defstruct("Order", [("article", str), ("count", float)], frozen=True)

    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            first = await a.join("g", type=Order)
            await first.multicast(Order("apple"))
            assert await values(first, 1) == [Order("apple")]
            reading = asyncio.create_task(values(first, 1))
            late = await b.join("g", type=newer)
            await late.multicast(newer("apple", 0.5))
            with pytest.raises(TypeRefused, match=r"Order of schema \w+ at process a.*process b has Order of schema"):
                await values(late, 99)
            with pytest.raises(TypeRefused, match="install the same version"):
                await late.multicast(newer("apple", 0.5))
            await first.multicast(Order("pear"))
            assert await reading == [Order("pear")]  # what has another schema is not read as an Order
            assert a.status()["dropped"]["other-types"] == 1

    run(main())
    assert "is refused: those here are Order of schema" in caplog.text


def test_a_version_decides_in_the_place_of_the_fields() -> None:
    newer = msgspec.defstruct("Order", [("article", str), ("count", int, 1), ("colour", str, "")], frozen=True)

    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            old, new = await a.join("g", type=Order, version="1"), await b.join("g", type=newer, version="1")
            await old.multicast(Order("apple"))
            assert await values(new, 1) == [newer("apple")]
            await new.multicast(newer("pear", 2, "green"))
            assert await values(old, 2) == [Order("apple"), Order("pear", 2)]

    run(main())


def test_bytes_from_a_shell_are_passed_over_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (node,):
            group = await node.join("g", type=Order)
            await node.multicast(b"hello", ["g"])
            await group.multicast(Order("apple"))
            assert await values(group, 1) == [Order("apple")]
            assert node.status()["dropped"]["other-types"] == 1

    run(main())
    assert "sent to the group without a type" in caplog.text


def test_what_cannot_be_a_type_is_refused_with_what_to_do() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (node,):
            with pytest.raises(UsageError, match="encode= and decode="):
                await node.join("g", type=UsageError)
            with pytest.raises(UsageError, match="belong together"):
                await node.join("g", type=Order, encode=lambda value: b"")
            await node.join("g")  # nothing was joined by those who failed

    run(main())
