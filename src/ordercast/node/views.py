"""Who is in which group, as far as this process knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from ordercast.core import GroupId, SiteId, UsageError
from ordercast.core.effects import InstallView
from ordercast.node.deliveries import View


class Views:
    """The last view of each group, and those who want to hear of the next."""

    def __init__(self, groups: Mapping[GroupId, tuple[SiteId, ...]]) -> None:
        self._configured = groups
        self._views = {name: View("initial", name, members) for name, members in groups.items()}
        self._watchers: list[asyncio.Queue[View | None]] = []
        self._failure: BaseException | None = None

    def members(self, group: GroupId) -> tuple[SiteId, ...]:
        """Who is in a group; `UsageError` when there is none of that name."""
        if group not in self._views:
            raise UsageError(f"there is no group {group!r}; known: {', '.join(self._configured)}")
        return self._views[group].members

    def install(self, effect: InstallView) -> None:
        """The members of some groups (all, when none is named) have agreed on who they are."""
        for group in effect.groups or tuple(self._views):
            configured = self._configured.get(group, effect.members)
            members = tuple(site for site in effect.members if site in configured)
            view = self._views[group] = View(effect.view, group, members)
            for watcher in self._watchers:
                watcher.put_nowait(view)

    async def follow(self, names: tuple[GroupId, ...]) -> AsyncIterator[View]:
        """Who is in the groups: now, and whenever that changes."""
        watcher: asyncio.Queue[View | None] = asyncio.Queue()
        self._watchers.append(watcher)
        try:
            for name in names:
                yield self._views[name]
            while (view := await watcher.get()) is not None:
                if view.group in names:
                    yield view
            if self._failure is not None:
                raise self._failure
        finally:
            self._watchers.remove(watcher)

    def end(self, failure: BaseException | None) -> None:
        """Nothing will change any more; whoever follows gets the failure when there was one."""
        self._failure = failure
        for watcher in self._watchers:
            watcher.put_nowait(None)
