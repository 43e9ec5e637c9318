"""Who is in a group, and who hears of it."""

from __future__ import annotations

import asyncio

import pytest

from ordercast.core import UsageError
from ordercast.core.effects import InstallView
from ordercast.node.deliveries import Batch, CaughtUp, Rollback, View
from ordercast.node.views import WAITING_MAX, Views
from tests.node.cluster import make_configuration, open_nodes, run


def test_whoever_follows_views_gets_those_of_its_groups_until_the_end() -> None:
    async def main() -> None:
        views = Views(lambda: {"g": ("a", "b"), "h": ("b", "c")})
        following = views.follow(("g",))
        assert (await anext(following)).members == ("a", "b")
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        views.install(InstallView("2", ("b",), groups=("h",)))
        views.install(InstallView("3", ("b", "c")))
        seen = await waiting
        assert (seen.view, seen.group, seen.members) == ("3", "g", ("b",)), "a view of processes, cut to the group's"
        assert (seen.joined, seen.left) == ((), ("a",))
        assert views.members("h") == ("b", "c")
        (grown,) = views.install(InstallView("4", ("b", "d"), ("b",), groups=("g",)))
        assert (grown.members, grown.joined, grown.transitional) == (("b", "d"), ("d",), ("b",)), "no file cuts it"
        assert await anext(following) == grown
        views.end(UsageError("over"))
        with pytest.raises(UsageError, match="over"):
            await anext(following)

    run(main())


def test_whoever_does_not_look_at_views_keeps_few_of_them_and_misses_nobody() -> None:
    async def main() -> None:
        views = Views(lambda: {"g": ("a",), "h": ("a",)})
        following = views.follow(("g", "h"))
        for _ in range(2):
            await anext(following)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        for index in range(1_000):
            views.install(InstallView(str(index), ("a", f"p{index}"), groups=("gh"[index % 2],)))
        views.end(None)
        seen = [await waiting, *[view async for view in following]]
        assert len(seen) < 2 * WAITING_MAX
        for group, last in (("g", 998), ("h", 999)):
            known = {"a"}
            for view in (view for view in seen if view.group == group):
                assert known >= set(view.left)
                known = known - set(view.left) | set(view.joined)
                assert known == set(view.members)
            assert known == {"a", f"p{last}"}

    run(main())


def test_a_member_that_dies_leaves_between_the_deliveries_before_and_after() -> None:
    """The first event is a view, and every delivery is in the view that stands before it."""

    async def main() -> None:
        async with open_nodes(make_configuration(protocol="token")) as (a, b, c):
            group = await a.join("g")
            await c.multicast(b"before", ["g"])
            events: list[Batch | View | Rollback | CaughtUp] = []
            async for event in group.events():
                events.append(event)
                if isinstance(event, Batch) and b"before" in event.payloads:
                    c.kill()
                if isinstance(event, View) and event.left:
                    await b.multicast(b"after", ["g"])
                if isinstance(event, Batch) and b"after" in event.payloads:
                    break
            first = events[0]
            assert isinstance(first, View)
            assert (first.members, first.joined) == (("a", "b", "c"), ("a", "b", "c"))
            (gone,) = [event for event in events if isinstance(event, View) and event.left]
            assert (gone.members, gone.left) == (("a", "b"), ("c",))
            current = ""
            for event in events:
                if isinstance(event, View):
                    current = event.view
                elif not isinstance(event, CaughtUp):
                    assert isinstance(event, Batch)
                    assert {delivery.view for delivery in event.deliveries()} == {current}

    run(main())


def test_a_callback_hears_of_the_first_view_and_of_each_change() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(protocol="token")) as (a, _, c):
            group = await a.join("g")
            changed = asyncio.Event()
            seen: list[View] = []

            def on_view(view: View) -> None:
                seen.append(view)
                if view.left:
                    changed.set()

            group.on_view(on_view)
            group.on_batch(lambda batch: None)
            assert seen[0].members == ("a", "b", "c")
            c.kill()
            await group.multicast(b"the token must pass c")
            await changed.wait()
            assert seen[-1].members == group.members == ("a", "b")

    run(main())


def test_who_comes_back_to_a_group_begins_with_its_view() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, _):
            group = await a.join("g")
            await group.leave()
            again = await a.join("g")
            await again.multicast(b"x")
            events = again.events()
            first, second = await anext(events), await anext(events)
            assert isinstance(first, View)
            assert first.members == ("a", "b")
            assert isinstance(second, Batch)
            assert list(second) == [b"x"]

    run(main())
