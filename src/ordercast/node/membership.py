"""Groups that are joined and left while the process runs: what was asked of the protocol, and who waits for the
answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ordercast.core import GroupId, SiteId, UsageError
from ordercast.net.site import LiveSite
from ordercast.node.errors import JoinRefused, ServiceUnavailable

ABANDONED_MAX = 256
"""Groups whose joins were given up, and are remembered for it."""


class Membership:
    """What this process wants of its groups and has not got yet. Whoever stops waiting leaves nothing behind."""

    def __init__(self, loop: asyncio.AbstractEventLoop, site: LiveSite) -> None:
        self._loop = loop
        self._site = site
        self._joining: dict[GroupId, asyncio.Future[None]] = {}
        self._leaving: dict[GroupId, asyncio.Future[None]] = {}
        """Groups of which the exit was asked for, whether anybody waits for it or not."""
        self._abandoned: dict[GroupId, None] = {}
        """Groups whose joins nobody waits for any more; the protocol may be let in all the same, for a moment."""
        self._choosing: dict[tuple[GroupId, str, SiteId | None], asyncio.Future[None]] = {}
        self._active: dict[GroupId, dict[SiteId | None, str]] = {}
        """Group -> source, or None for those that are not named -> the service that is active."""
        self._failure: BaseException | None = None

    # ------------------------------------------------------------------ what the application asks
    async def wait_left(self, group: GroupId) -> None:
        """Wait until a group is left of which the exit was asked for. (Joined before, it would be one that ends.)"""
        if group in self._leaving:
            await asyncio.shield(self._leaving[group])

    async def enter(self, group: GroupId, role: str, service: str) -> None:
        """Be in a group; done when its first view is there. `UsageError` and `JoinRefused` say why not."""
        self._refuse_failed()
        if group in self._joining:
            raise UsageError(f"group {group!r} is being joined already: wait for that")
        was_abandoned = group in self._abandoned
        self._abandoned.pop(group, None)
        answer = self._joining[group] = self._loop.create_future()
        asked = False
        try:
            self._site.join(group, role, service)
            asked = True
            self._refuse_failed()
            await answer
        except BaseException as error:
            if asked and not isinstance(error, JoinRefused) and self._failure is None:
                # Cancelled, perhaps just when the answer came: a member that nobody knows of would hold the others up.
                if len(self._abandoned) == ABANDONED_MAX:
                    self._abandoned.pop(next(iter(self._abandoned)))
                self._abandoned[group] = None
                with suppress(UsageError):
                    self.give_up(group)
            elif was_abandoned and not asked:
                self._abandoned[group] = None  # it is still on its way in, to leave
            raise
        finally:
            del self._joining[group]
            _settle(answer)

    def give_up(self, group: GroupId) -> asyncio.Future[None]:
        """Ask to be out of a group; what is given back is done when those who stay have delivered that. `UsageError`
        when the protocol says that it cannot be."""
        answer = self._leaving.get(group)
        if answer is None:
            answer = self._leaving[group] = self._loop.create_future()
            try:
                self._site.leave(group)
            except UsageError:
                self._leaving.pop(group, None)
                raise
        return answer

    def choose_role(self, group: GroupId, role: str) -> None:
        """Want another role in a group."""
        self._refuse_failed()
        self._site.choose_role(group, role)

    async def choose_service(self, group: GroupId, service: str, sources: tuple[SiteId, ...]) -> None:
        """Want another service in a group; done when it is active for all of the sources."""
        self._refuse_failed()
        keys = [(group, service, source) for source in sources or (None,)]
        for key in keys:
            if key in self._choosing:
                raise UsageError(f"service {service!r} is being chosen in group {group!r} already: wait for that")
        answers = {key: self._loop.create_future() for key in keys}
        self._choosing |= answers
        try:
            self._site.choose_service(group, service, sources)
            self._refuse_failed()
            await asyncio.gather(*answers.values())
        finally:
            for key, answer in answers.items():
                del self._choosing[key]
                _settle(answer)

    # ------------------------------------------------------------------ what the protocol answers
    def wants(self, group: GroupId) -> bool:
        """Whether what is delivered in a group that was entered is of use: nobody has stopped waiting for it."""
        return group not in self._leaving and group not in self._abandoned

    def installed(self, group: GroupId) -> None:
        """There is a view of a group, and this process is in it."""
        _answer(self._joining.get(group), None)

    def refused(self, group: GroupId, reason: str) -> None:
        """A join will not come about."""
        _answer(self._joining.get(group), JoinRefused(f"group {group!r} cannot be joined: {reason}"))

    def exited(self, group: GroupId) -> bool:
        """This process is out of a group; whether that was asked for."""
        self._active.pop(group, None)
        answer = self._leaving.pop(group, None)
        _answer(answer, None)
        return answer is not None

    def activated(self, group: GroupId, service: str, source: SiteId | None) -> bool:
        """A service is active, of a source or of all. Whether it was so before, and nobody has asked for it: then it
        begins anew behind a gap."""
        asked = _answer(self._choosing.get((group, service, source)), None)
        active = self._active.setdefault(group, {})
        before = active.get(source, active.get(None))
        if source is None:
            active.clear()
        active[source] = service
        return source is not None and before == service and not asked

    def unavailable(self, group: GroupId, service: str, source: SiteId | None, reason: str) -> bool:
        """A service cannot be had, of a source or at all; whether somebody waited for it. (Whoever wants it of all
        sources and does not get it of one would wait for ever.)"""
        whose = "" if source is None else f" of {source}"
        choosing = self._choosing
        answer = choosing.get((group, service, source)) or choosing.get((group, service, None))
        error = ServiceUnavailable(f"service {service!r}{whose} in group {group!r} cannot be had: {reason}")
        return _answer(answer, error)

    # ------------------------------------------------------------------ the end
    def end(self, failure: BaseException) -> None:
        """No answer will come any more."""
        self._failure = failure
        for answer in (*self._joining.values(), *self._choosing.values()):
            _answer(answer, failure)
        for answer in self._leaving.values():
            # Whoever is over is out.
            _answer(answer, None)
        self._leaving.clear()

    def _refuse_failed(self) -> None:
        if self._failure is not None:
            raise self._failure


def _answer(waiter: asyncio.Future[None] | None, error: BaseException | None) -> bool:
    if waiter is None or waiter.done():
        return False
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
    return True


def _settle(answer: asyncio.Future[None]) -> None:
    """Nobody waits for it any more; what it says is known, or of no use."""
    if not answer.cancel():
        answer.exception()
