"""Deliveries that a protocol takes back, as an application sees it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast import protocols
from ordercast.core import MessageId, Multicast
from ordercast.core.effects import Deliver
from ordercast.node.bundles import encode_bundle
from ordercast.node.deliveries import Batch, CaughtUp, Rollback, View
from ordercast.node.inbox import Inbox
from ordercast.node.journal import Attachment
from ordercast.node.receiver import Receiver
from ordercast.trace.read import read_events
from tests.node.cluster import make_configuration, open_nodes, run


def bundle(number: int, *payloads: bytes, groups: tuple[str, ...] = ("g",)) -> Multicast:
    return Multicast(MessageId("a", 0, number), groups, encode_bundle(list(payloads)), count=len(payloads))


def receiver(**keys: Any) -> Receiver:
    views = [View("1", name, ("a",)) for name in "gh"]
    return Receiver(views, 1 << 20, Attachment(), keys.get("history", 0), keys.get("taken", lambda: None))


def deliver(to: Receiver, *multicasts: Multicast) -> None:
    for multicast in multicasts:
        to.deliver("main", Deliver(multicast))


async def take(inbox: Inbox, count: int) -> list[Batch | View | Rollback | CaughtUp]:
    inbox.shows_views = True
    return [await anext(inbox) for _ in range(count)]


def test_what_the_application_has_seen_is_taken_back_where_it_happened() -> None:
    async def main() -> None:
        held = receiver()
        inbox = held.claim(("g",), {})
        deliver(held, bundle(1, b"x"), bundle(2, b"y", b"z"))
        _view, one, two = await take(inbox, 3)
        held.take_back(bundle(2, b"y", b"z"))
        held.take_back(bundle(1, b"x"))
        deliver(held, bundle(2, b"y", b"z"))
        events = await take(inbox, 3)
        assert isinstance(one, Batch)
        assert isinstance(two, Batch)
        assert events[:2] == [Rollback(two.bundle, ("g",), 2, 1), Rollback(one.bundle, ("g",), 1, 0)]
        again = events[2]
        assert isinstance(again, Batch)
        assert (again.offset, list(again)) == (0, [b"y", b"z"])

    asyncio.run(main())


def test_what_the_application_has_not_seen_does_not_come_and_counts_as_taken() -> None:
    async def main() -> None:
        taken: list[int] = []
        held = receiver(taken=lambda: taken.append(1))
        inbox = held.claim(("g",), {})
        deliver(held, bundle(1, b"x"), bundle(2, b"y"))
        held.take_back(bundle(2, b"y"))
        assert taken == [1]
        assert inbox.bytes == len(bundle(1, b"x").payload)
        deliver(held, bundle(3, b"z"))
        events = (await take(inbox, 3))[1:]
        assert [(event.offset, list(event)) for event in events if isinstance(event, Batch)] == [
            (0, [b"x"]),
            (1, [b"z"]),
        ]

    asyncio.run(main())


def test_a_bundle_to_two_groups_that_one_task_takes_is_taken_back_once() -> None:
    async def main() -> None:
        held = receiver()
        inbox = held.claim(("g", "h"), {})
        deliver(held, bundle(1, b"x", groups=("g", "h")))
        await take(inbox, 3)
        held.take_back(bundle(1, b"x", groups=("g", "h")))
        assert await take(inbox, 1) == [Rollback(MessageId("a", 0, 1), ("g", "h"), 1, 0)]
        assert not inbox.waiting()

    asyncio.run(main())


def test_whoever_does_not_listen_is_warned_and_it_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    held = receiver()
    inbox = held.claim(("g",), {})
    inbox.call(lambda batch: None)
    deliver(held, bundle(1, b"x"))
    with caplog.at_level(logging.WARNING):
        held.take_back(bundle(1, b"x"))
    assert "bundle a:0:1 of group g is taken back, and nobody listens" in caplog.text
    assert held.counters["rolled-back"] == 1
    heard: list[Rollback] = []
    inbox.on_rollback = heard.append
    deliver(held, bundle(2, b"y"))
    held.take_back(bundle(2, b"y"))
    assert heard == [Rollback(MessageId("a", 0, 2), ("g",), 1, 0)]


def test_the_history_shows_what_came_instead() -> None:
    async def main() -> None:
        held = receiver(history=1 << 20)
        deliver(held, bundle(1, b"x"), bundle(2, b"y"))
        held.take_back(bundle(2, b"y"))
        deliver(held, bundle(3, b"z"))
        following = held.histories["g"].follow(0)
        assert [(await anext(following)).payload for _ in range(2)] == [b"x", b"z"]
        assert held.histories["g"].next_offset == 2

    asyncio.run(main())


def test_on_sockets_rollbacks_come_in_the_order_of_the_deliveries_and_stand_in_the_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(vars(protocols)["_OWN"], "repenting", "tests.sim.desk:Repenting")

    async def main() -> None:
        configuration = make_configuration(protocol="repenting", trace_directory=str(tmp_path))
        async with open_nodes(configuration) as (a, b, _c):
            group: ordercast.Group = await b.join("g")
            standing: list[bytes] = []
            events = group.events()
            for payload in (b"1", b"2"):
                await a.multicast(payload, ["g"])
                while payload not in standing:
                    event = await anext(events)
                    standing += event.payloads if isinstance(event, Batch) else []
            await a.multicast(b"3", ["g"])
            told: list[str] = []
            while len(told) < 5:
                event = await anext(events)
                told.append(type(event).__name__)
                if isinstance(event, Rollback):
                    assert len(standing) == event.offset + event.count
                    del standing[event.offset :]
                elif isinstance(event, Batch):
                    assert event.offset == len(standing)
                    standing += event.payloads
            assert told == ["Rollback", "Rollback", "Batch", "Batch", "Batch"]
            assert standing == [b"3", b"2", b"1"]

    run(main())
    kinds = read_events(tmp_path).column("kind").to_pylist()
    assert kinds.count("rollback") == 6


@dataclass
class Book:
    """What was written, in order."""

    lines: list[str] = field(default_factory=list)

    def write(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)


def test_a_replica_that_is_told_of_a_rollback_takes_the_state_anew_from_a_member(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            books = [await ordercast.Replicated(Book()).join(node, "g") for node in nodes]
            own = nodes[1].internals.receiver
            delivered: list[Multicast] = []

            def note(instance: str, effect: Any) -> None:
                delivered.append(effect.multicast)
                own.deliver(instance, effect)

            monkeypatch.setattr(nodes[1].internals, "deliver", note)
            await books[0].call(Book.write, "x")
            await books[1].call(Book.write, "y")
            for multicast in reversed(delivered):
                own.take_back(multicast)
            for multicast in tuple(delivered):
                own.deliver("main", Deliver(multicast))
            await books[1].call(Book.write, "z")
            while any(book.state is None or len(book.state.lines) < 3 for book in books):
                await asyncio.sleep(0)
            assert [book.state and book.state.lines for book in books] == [["x", "y", "z"]] * 3

    caplog.set_level(logging.INFO)
    run(main())
    assert any("goes on at" in record.message for record in caplog.records)
