"""Who is in a group, and who hears of it."""

from __future__ import annotations

import asyncio

import pytest

from ordercast.core import UsageError
from ordercast.core.effects import InstallView
from ordercast.node.views import Views
from tests.node.cluster import run


def test_whoever_follows_views_gets_those_of_its_groups_until_the_end() -> None:
    async def main() -> None:
        views = Views({"g": ("a", "b"), "h": ("b", "c")})
        following = views.follow(("g",))
        assert (await anext(following)).members == ("a", "b")
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        views.install(InstallView("2", ("b",), groups=("h",)))
        views.install(InstallView("3", ("b", "c")))
        seen = await waiting
        assert (seen.view, seen.group, seen.members) == ("3", "g", ("b",)), "who is not configured is not in it"
        assert views.members("h") == ("b", "c")
        views.end(UsageError("over"))
        with pytest.raises(UsageError, match="over"):
            await anext(following)

    run(main())
