"""Deliveries that wait for the application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from ordercast.core import MessageId, Multicast
from ordercast.core.effects import Deliver
from ordercast.node.bundles import encode_bundle
from ordercast.node.deliveries import Batch, View
from ordercast.node.history import History
from ordercast.node.inbox import VIEWS_MAX, Inbox
from ordercast.node.journal import Attachment
from ordercast.node.receiver import Receiver


class Kept(History):
    """A history that can be looked into."""

    def __init__(self) -> None:
        super().__init__("g", 0, 1 << 20)
        self.batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        super().add(batch)
        self.batches.append(batch)


def deliver(
    inbox: Inbox,
    messages: list[bytes],
    taken: Callable[[], None] = lambda: None,
    group: str = "g",
    ordinal: int = 1,
) -> None:
    multicast = Multicast(MessageId("a", 0, ordinal), (group,), encode_bundle(messages), count=len(messages))
    inbox.deliver(multicast, multicast.payload, None, ordinal, taken)


async def next_batch(inbox: Inbox) -> Batch:
    batch = await anext(inbox)
    assert isinstance(batch, Batch)
    return batch


def test_what_the_application_unpacks_stays_packed_in_the_history() -> None:
    """Its bound counts packed bytes."""
    inbox, history = Inbox(("g",)), Kept()
    inbox.history = history
    seen: list[bytes] = []
    inbox.call(seen.extend)
    deliver(inbox, [b"x", b"y"])
    assert seen == [b"x", b"y"]
    assert [(batch.offset, batch.count, batch.unpacked) for batch in history.batches] == [(0, 2, None)]


def test_the_rest_of_a_batch_is_the_next_batch_and_is_taken_once() -> None:
    """A checkpoint in between holds that rest, and the sequencer hears of the batch when all of it is taken."""
    inbox = Inbox(("g",))
    taken: list[str] = []
    deliver(inbox, [b"x", b"y", b"z"], lambda: taken.append("xyz"))
    deliver(inbox, [b"w"])

    async def take() -> None:
        await inbox.begin_next()
        assert next(inbox.rest).payload == b"x"
        inbox.put_back()
        assert [(batch.offset, list(batch)) for batch in inbox.untaken()] == [(1, [b"y", b"z"]), (3, [b"w"])]
        assert list(await next_batch(inbox)) == [b"y", b"z"]
        assert not taken
        assert list(await next_batch(inbox)) == [b"w"]
        assert taken == ["xyz"]
        assert inbox.bytes == 0

    asyncio.run(take())


def install(inbox: Inbox, view: str, members: str, before: str = "", group: str = "g", ordinal: int = 1) -> None:
    inbox.install(View(view, group, tuple(members)).follow(tuple(before)), ordinal)


def test_a_view_stands_between_the_deliveries_where_it_was_installed() -> None:
    inbox = Inbox(("g",))
    install(inbox, "1", "ab", ordinal=0)
    deliver(inbox, [b"x"])
    install(inbox, "2", "ac", "ab")
    deliver(inbox, [b"y"])
    inbox.shows_views = True

    async def take() -> None:
        first, x, second, y = [await anext(inbox) for _ in range(4)]
        assert isinstance(first, View)
        assert (first.view, first.joined, first.left) == ("1", ("a", "b"), ())
        assert isinstance(x, Batch)
        assert (list(x), x.view) == ([b"x"], "1")
        assert isinstance(second, View)
        assert (second.view, second.joined, second.left, second.before) == ("2", ("c",), ("b",), ("a", "b"))
        assert isinstance(y, Batch)
        assert [(delivery.payload, delivery.view) for delivery in y.deliveries()] == [(b"y", "2")]

    asyncio.run(take())


def test_who_wants_no_views_gets_none_and_the_callback_gets_them_at_their_places() -> None:
    inbox = Inbox(("g",))
    seen: list[object] = []
    inbox.on_view = lambda view: seen.append(view.view)
    inbox.on_gap = seen.append
    install(inbox, "1", "a")
    deliver(inbox, [b"x"])
    install(inbox, "2", "ab", "a")
    inbox.skip(7, 1)
    deliver(inbox, [b"y"])

    async def take() -> None:
        seen.append(list(await next_batch(inbox)))
        seen.append(list(await next_batch(inbox)))

    asyncio.run(take())
    assert seen == ["1", [b"x"], "2", 7, [b"y"]]
    inbox.call(lambda batch: seen.append((batch.offset, list(batch))))
    install(inbox, "3", "a", "ab")
    deliver(inbox, [b"z"])
    assert seen[5:] == ["3", (8, [b"z"])]


def test_what_a_callback_for_views_delivers_waits_until_it_is_done() -> None:
    inbox = Inbox(("g",))
    seen: list[object] = []

    def on_view(view: View) -> None:
        deliver(inbox, [b"greeting"])
        seen.append(view.view)

    inbox.on_view = on_view
    inbox.call(lambda batch: seen.extend(batch))
    install(inbox, "1", "a")
    assert seen == ["1", b"greeting"]


def test_views_that_nobody_reads_are_bounded_and_the_last_one_tells_all_of_it() -> None:
    inbox = Inbox(("g",))
    install(inbox, "0", "a")
    deliver(inbox, [b"x"])
    for turn in range(10 * VIEWS_MAX):
        install(inbox, str(2 * turn + 1), "abc", "a" if turn == 0 else "ad")
        install(inbox, str(2 * turn + 2), "ad", "abc")
    waiting = inbox.waiting()
    assert len(waiting) == VIEWS_MAX + 1
    inbox.shows_views = True

    async def last() -> View:
        for _ in range(VIEWS_MAX):
            view = await anext(inbox)
            if isinstance(view, Batch):
                assert view.view == "0"
        view = await anext(inbox)
        assert isinstance(view, View)
        return view

    view = asyncio.run(last())
    assert (view.view, view.members) == (str(20 * VIEWS_MAX), ("a", "d"))
    assert set(view.joined) | set(view.left) <= {"b", "c", "d"}
    install(inbox, "more", "a", "ad")
    assert len(inbox.waiting()) == 1, "there is room again"


def test_an_inbox_of_several_groups_has_the_views_of_each_in_the_order_of_delivery() -> None:
    one, other = Inbox(("g",)), Inbox(("h",))
    install(one, "g1", "ab", ordinal=0)
    install(other, "h1", "ac", group="h", ordinal=0)
    deliver(one, [b"x"])
    install(other, "h2", "a", "ac", "h", ordinal=1)
    deliver(other, [b"y"], group="h", ordinal=2)
    install(one, "g2", "a", "ab", ordinal=2)
    both = Inbox(("g", "h"))
    both.take_over([one, other])
    deliver(both, [b"z"], group="h", ordinal=3)
    both.shows_views = True

    async def take() -> list[tuple[str, int]]:
        events = [await anext(both) for _ in range(7)]
        assert all(isinstance(event, Batch | View) for event in events)
        return [
            (event.view, event.offset if isinstance(event, Batch) else -1)
            for event in events
            if isinstance(event, Batch | View)
        ]

    assert asyncio.run(take()) == [("g1", -1), ("h1", -1), ("g1", 0), ("h2", -1), ("h2", 1), ("g2", -1), ("h2", 2)]


def test_what_waited_before_a_restart_comes_back_to_several_groups_in_its_order() -> None:
    receiver = Receiver([View("1", name, ("a",)) for name in "gh"], 1 << 20, Attachment(), 0, lambda: None)
    for number, groups in enumerate((("g",), ("h",), ("g", "h"), ("g",)), start=1):
        multicast = Multicast(MessageId("a", 0, number), groups, encode_bundle([bytes([number])]))
        receiver.deliver("main", Deliver(multicast))
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(receiver.attachment({})), type=Attachment)
    again = Receiver([View("2", name, ("a",)) for name in "gh"], 1 << 20, kept, 0, lambda: None)
    both = again.claim(("g", "h"), {})

    async def take() -> None:
        batches = [await next_batch(both) for _ in range(4)]
        assert [list(batch) for batch in batches] == [[b"\1"], [b"\2"], [b"\3"], [b"\4"]]
        assert {batch.view for batch in batches} == {"1"}

    asyncio.run(take())
