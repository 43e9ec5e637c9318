"""Who is in which group, as far as this process knows."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

from ordercast.core import GroupId, SiteId, UsageError
from ordercast.core.effects import InstallView
from ordercast.node.deliveries import View

logger = logging.getLogger("ordercast.node")

INITIAL = "initial"
"""The view of each configured group before the first one that is installed."""

WAITING_MAX = 64
"""Views that wait for somebody who follows. With more, the last one of a group stands for the next, too: nothing holds
back processes that come and go while nobody looks."""


class _Watcher:
    """Somebody who follows, and what it has not seen yet; None is the end."""

    def __init__(self) -> None:
        self._waiting: deque[View | None] = deque()
        self._grown = asyncio.Event()

    def put(self, view: View | None) -> None:
        """Something has changed."""
        self._grown.set()
        if view is not None and len(self._waiting) >= WAITING_MAX:
            for index in reversed(range(len(self._waiting))):
                last = self._waiting[index]
                if last is not None and last.group == view.group:
                    del self._waiting[index]
                    view = view.follow(last.before)
                    break
        self._waiting.append(view)

    async def get(self) -> View | None:
        """The next that was not seen."""
        while not self._waiting:
            self._grown.clear()
            await self._grown.wait()
        return self._waiting.popleft()


class Views:
    """The last view of each group, and those who want to hear of the next."""

    def __init__(self, groups: Callable[[], Mapping[GroupId, tuple[SiteId, ...]]]) -> None:
        """`groups` says which there are, and who is in them."""
        self._groups = groups
        self._views = {name: View(INITIAL, name, members).follow(()) for name, members in groups().items()}
        self._watchers: list[_Watcher] = []
        self._failure: BaseException | None = None

    def members(self, group: GroupId) -> tuple[SiteId, ...]:
        """Who is in a group; `UsageError` when there is none of that name."""
        # Of a group in which this process is not, it installs no views.
        if group in self._views and self._views[group].view != INITIAL:
            return self._views[group].members
        groups = self._groups()
        if group not in groups:
            raise UsageError(f"there is no group {group!r}; known: {', '.join(groups) or 'none'}")
        return groups[group]

    def current(self, group: GroupId) -> View:
        """The last view of a group, as whoever comes to it gets it first."""
        return self._views[group].follow(())

    def describe(self, joined: Collection[GroupId]) -> dict[GroupId, dict[str, Any]]:
        """Every group that this process knows of, its members, and whether the application has joined it."""
        names = sorted({*(name for name, view in self._views.items() if view.view != INITIAL), *self._groups()})
        return {
            name: {
                "members": self.members(name),
                "view": self._views[name].view if name in self._views else None,
                "joined": name in joined,
            }
            for name in names
        }

    def forget(self, group: GroupId) -> None:
        """This process is out of a group, and hears no more of who is in it."""
        self._views.pop(group, None)

    def install(self, effect: InstallView) -> list[View]:
        """The members of some groups have agreed on who they are; the view of each. Where none is named it is a view of
        processes, and each group has those of its members that are in it."""
        installed, groups = [], self._groups()
        for group in effect.groups or tuple(self._views):
            members = effect.members
            if not effect.groups:
                members = tuple(site for site in members if site in groups.get(group, ()))
            before = self._views[group].members if group in self._views else ()
            view = View(effect.view, group, members, transitional=effect.transitional, merged=effect.merged)
            view = view.follow(before)
            self._views[group] = view
            installed.append(view)
            for watcher in self._watchers:
                watcher.put(view)
        return installed

    async def follow(self, names: tuple[GroupId, ...]) -> AsyncIterator[View]:
        """Who is in the groups: now, and whenever that changes. Whoever looks seldom sees several changes as one."""
        watcher = _Watcher()
        self._watchers.append(watcher)
        try:
            for name in names:
                yield self.current(name)
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
            watcher.put(None)


def log_moves(view: View, word: str, effect: InstallView) -> None:
    """What the protocol says of a view; else one line for those who come, and one for those who go."""
    if effect.line:
        logger.warning("%s", effect.line)
        return
    if not effect.groups:
        return
    took = "" if effect.seconds is None else f" ({1000 * effect.seconds:.0f} ms)"
    for sites, verb in ((view.joined, "join"), (view.left, "leave")):
        if sites:
            names = ", ".join(sites[:9]) + (" and others" if len(sites) > 9 else "")
            verb = f"{verb}s" if len(sites) == 1 else verb
            logger.info("%s %s: %s %s %s%s", word, view.view, names, verb, view.group, took)
