"""What an application wants to multicast, and how much of it the protocol takes now."""

from __future__ import annotations

from collections import deque

import msgspec

from ordercast.core import GroupId, InstanceId, SiteId

Account = tuple[InstanceId, GroupId | None]
"""Credit for one group, or for all together."""


class Request(msgspec.Struct, frozen=True):
    """A message that the application hands over."""

    payload: bytes
    groups: tuple[GroupId, ...]
    destinations: tuple[SiteId, ...] | None


class CreditQueue:
    """Messages that wait at the application of each instance. An instance that never gave credit takes them all; one
    that gives it for single groups takes a message when each of its groups has some, past those that have to wait."""

    def __init__(self) -> None:
        self._credit: dict[Account, int] = {}
        self._waiting: dict[InstanceId, deque[Request]] = {}

    def put(self, instance: InstanceId, request: Request) -> None:
        """The application has one more message."""
        self._waiting.setdefault(instance, deque()).append(request)

    def give(self, instance: InstanceId, available: int, group: GroupId | None = None) -> int:
        """The instance takes so many from now on; how many of those wait already."""
        self._credit[instance, group] = available
        waiting = self._waiting.get(instance, ())
        return min(available, len(waiting) if group is None else sum(group in each.groups for each in waiting))

    def take(self, instance: InstanceId) -> Request | None:
        """The next message that the instance takes, for one credit of each account; None when there is none."""
        waiting = self._waiting.get(instance, ())
        for place, request in enumerate(waiting):
            accounts = self._accounts(instance, request)
            if all(self._credit[account] > 0 for account in accounts):
                for account in accounts:
                    self._credit[account] -= 1
                del self._waiting[instance][place]
                return request
            if self._credit.get((instance, None), 1) <= 0:
                return None
        return None

    def give_back(self, instance: InstanceId, request: Request) -> None:
        """The instance has refused a message that it was to take."""
        for account in self._accounts(instance, request):
            self._credit[account] += 1

    def _accounts(self, instance: InstanceId, request: Request) -> list[Account]:
        return [account for group in (None, *request.groups) if (account := (instance, group)) in self._credit]

    def count(self) -> int:
        """How many messages wait."""
        return sum(map(len, self._waiting.values()))

    def forget(self, instance: InstanceId) -> None:
        """The instance has crashed, and its application with it."""
        self._credit = {account: credit for account, credit in self._credit.items() if account[0] != instance}
        self._waiting.pop(instance, None)
