"""What an application wants to multicast, and how much of it the protocol takes now."""

from __future__ import annotations

from collections import deque

import msgspec

from ordercast.core import GroupId, InstanceId, SiteId


class Request(msgspec.Struct, frozen=True):
    """A message that the application hands over."""

    payload: bytes
    groups: tuple[GroupId, ...]
    destinations: tuple[SiteId, ...] | None


class CreditQueue:
    """Messages that wait at the application of each instance. An instance that never gave credit takes them all."""

    def __init__(self) -> None:
        self._credit: dict[InstanceId, int] = {}
        self._waiting: dict[InstanceId, deque[Request]] = {}

    def put(self, instance: InstanceId, request: Request) -> None:
        """The application has one more message."""
        self._waiting.setdefault(instance, deque()).append(request)

    def give(self, instance: InstanceId, available: int) -> int:
        """The instance takes so many from now on; how many of those wait already."""
        self._credit[instance] = available
        return min(available, len(self._waiting.get(instance, ())))

    def take(self, instance: InstanceId) -> Request | None:
        """The next message that the instance takes, for one credit; None without a message or without credit."""
        waiting = self._waiting.get(instance)
        if not waiting or self._credit.get(instance, 1) <= 0:
            return None
        if instance in self._credit:
            self._credit[instance] -= 1
        return waiting.popleft()

    def count(self) -> int:
        """How many messages wait."""
        return sum(map(len, self._waiting.values()))

    def forget(self, instance: InstanceId) -> None:
        """The instance has crashed, and its application with it."""
        self._credit.pop(instance, None)
        self._waiting.pop(instance, None)
