"""Typed groups and consumers of the synchronous node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

import ordercast
from ordercast import NodeClosed, SynchronousNode, TypeRefused, UsageError
from tests.node.cluster import make_configuration

Item = TypeVar("Item")

SECONDS = 30.0
"""Against hanging."""


class Order(msgspec.Struct, frozen=True):
    article: str
    count: int = 1


def first(items: Iterator[Item], count: int) -> list[Item]:
    return list(islice(items, count))


def test_values_go_in_and_come_out_of_a_group_with_a_type() -> None:
    configuration = make_configuration("ab")
    with (
        ordercast.open_synchronous(configuration, "a") as a,
        ordercast.open_synchronous(configuration, "b") as b,
    ):
        sending, taking = a.join("g", type=Order, timeout=SECONDS), b.join("g", type=Order, timeout=SECONDS)
        receipt = sending.multicast(Order("tea", 2), confirm=True, timeout=SECONDS)
        sending.multicast_many([Order("milk"), Order("salt")], timeout=SECONDS)
        sending.try_multicast(Order("bread"))
        with pytest.raises(TypeError, match="not of type Order"):
            sending.multicast(b"tea")  # type: ignore[call-overload]
        taken = first(taking.deliveries(SECONDS), 2)
        assert taken[0].offset == receipt.offset
        # Nothing is lost between two iterations, nor by one that was given up.
        taken += first(taking.deliveries(SECONDS), 2)
        assert [delivery.value for delivery in taken] == [Order("tea", 2), Order("milk"), Order("salt"), Order("bread")]
        with pytest.raises(TimeoutError):
            next(taking.deliveries(0.01))
        sending.multicast(Order("rice"), timeout=SECONDS)
        assert next(iter(taking)).value == Order("rice")
        assert next(taking.views(SECONDS)).members == taking.members == ("a", "b")
        with pytest.raises(UsageError, match="belong to a type="):
            a.join("h", version="2")  # type: ignore[call-overload]


def test_status_views_and_a_full_window_without_an_event_loop() -> None:
    configuration = make_configuration("ab", options={"sequencer": "b"})
    with ordercast.open_synchronous(configuration, "a") as a:
        group = a.join("g")
        status = a.status()
        assert (status["process"], status["orders"], status["members"]["b"]["state"]) == ("a", "b", "gone")
        view = next(group.events(SECONDS))
        assert isinstance(view, ordercast.View)
        assert view.members == group.members == a.members("g") == ("a", "b")
        assert next(group.views(SECONDS)).members == ("a", "b")
        # Nobody orders: the window of the protocol fills up, and so does what waits for it.
        with suppress(ordercast.WouldBlock):
            while True:
                group.try_multicast(bytes(60_000))
        with pytest.raises(ordercast.WouldBlock):
            a.try_multicast(bytes(60_000), ["g"])
        with pytest.raises(TimeoutError):
            group.multicast(bytes(60_000), timeout=0.01)


def test_whoever_comes_with_another_type_is_refused() -> None:
    configuration = make_configuration("ab")
    with ordercast.open_synchronous(configuration, "a") as a, ordercast.open_synchronous(configuration, "b") as b:
        orders = a.join("g", type=Order, timeout=SECONDS)
        orders.multicast(Order("tea"), confirm=True, timeout=SECONDS)
        assert next(orders.deliveries(SECONDS)).value == Order("tea")
        numbers = b.join("g", type=int, timeout=SECONDS)
        orders.multicast(Order("milk"), confirm=True, timeout=SECONDS)
        numbers.multicast(1, confirm=True, timeout=SECONDS)
        orders.multicast(Order("salt"), confirm=True, timeout=SECONDS)
        # It reads who has come, and refuses it, on its way to what was sent after that.
        assert [each.value.article for each in first(orders.deliveries(SECONDS), 2)] == ["milk", "salt"]
        with pytest.raises(TypeRefused, match=r"type Order .* at process a, which was there before"):
            first(numbers.deliveries(SECONDS), 2)  # its own value, and then the word of a


def test_a_consumer_goes_on_behind_what_was_done_when_the_process_comes_back(tmp_path: Path) -> None:
    configuration = make_configuration("a", log_directory=str(tmp_path / "log"))

    def start() -> SynchronousNode:
        return ordercast.open_synchronous(configuration, "a")

    with start() as node:
        group = node.join("g")
        group.multicast_many([b"%d" % index for index in range(10)])
        consumer = group.consume("billing", SECONDS)
        given = first(consumer, 7)
        assert [(each.offset, each.value, each.payload) for each in given[:2]] == [(0, b"0", b"0"), (1, b"1", b"1")]
        given[4].done(SECONDS)
        assert (consumer.name, consumer.position) == ("billing", 5)
    with start() as node:
        consumer = node.join("g").consume("billing", SECONDS)
        given = first(consumer, 5)
        assert [each.value for each in given] == [b"%d" % index for index in range(5, 10)]
        assert all(each.replayed for each in given)
        given[-1].done()
        assert consumer.position == 10


def test_a_consumer_that_has_waited_in_vain_goes_on_with_the_same_iteration(tmp_path: Path) -> None:
    configuration = make_configuration("a", log_directory=str(tmp_path / "log"))
    with ordercast.open_synchronous(configuration, "a") as node:
        group = node.join("g", type=Order)
        consumer = group.consume("billing", timeout=0.01)
        with pytest.raises(TimeoutError):
            next(consumer)
        group.multicast(Order("tea"), confirm=True, timeout=SECONDS)
        pending = next(consumer)
        assert pending.value == Order("tea")
        pending.done(SECONDS)
        with pytest.raises(UsageError, match="1 to 200 characters"):
            group.consume("")
    with pytest.raises(NodeClosed):
        next(consumer)
