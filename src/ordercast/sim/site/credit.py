"""What an application wants to multicast, and how much of it the protocol takes now."""

from __future__ import annotations

from collections import deque

import msgspec

from ordercast.core import Address, GroupId, SiteId


class Request(msgspec.Struct, frozen=True):
    """A message that the application hands over."""

    payload: bytes
    groups: tuple[GroupId, ...]
    destinations: tuple[SiteId, ...] | None


class CreditQueue:
    """Messages that wait at the application of one instance. An instance that never gave credit takes them all; one
    that gives it for single groups takes a message when each of its groups has some, past those that have to wait."""

    def __init__(self) -> None:
        self._credit: int | None = None
        """For all groups together; None where there is no such account."""
        self._credit_of: dict[GroupId, int] = {}
        """For single groups."""
        self._waiting: deque[Request] = deque()
        """While there is no credit for single groups: then nobody need look at a message's groups."""
        self._by_address: dict[Address, deque[tuple[int, Request]]] = {}
        """Afterwards, for those to one address wait for the same credit; each with its place among all."""
        self._place = 0

    def put(self, request: Request) -> None:
        """The application has one more message."""
        if self._credit_of:
            self._put_by_address(request)
        else:
            self._waiting.append(request)

    def _put_by_address(self, request: Request) -> None:
        self._place += 1
        address = (request.groups, request.destinations)
        self._by_address.setdefault(address, deque()).append((self._place, request))

    def give(self, available: int, group: GroupId | None = None) -> int:
        """The instance takes so many from now on; how many of those wait already."""
        if group is None:
            self._credit = available
            return min(available, len(self))
        self._credit_of[group] = available
        while self._waiting:
            self._put_by_address(self._waiting.popleft())
        return min(available, sum(len(those) for (to, _), those in self._by_address.items() if group in to))

    def take(self) -> Request | None:
        """The next message that the instance takes, for one credit of each account; None when there is none."""
        if self._credit is not None and self._credit <= 0:
            return None
        if self._credit_of:
            return self._take_by_address()
        if not self._waiting:
            return None
        if self._credit is not None:
            self._credit -= 1
        return self._waiting.popleft()

    def _take_by_address(self) -> Request | None:
        first: tuple[int, Address] | None = None
        for address, those in self._by_address.items():
            place = those[0][0]
            if (first is None or place < first[0]) and all(self._credit_of.get(group, 1) > 0 for group in address[0]):
                first = place, address
        if first is None:
            return None
        those = self._by_address[first[1]]
        _, request = those.popleft()
        if not those:
            del self._by_address[first[1]]
        self._charge(request, 1)
        return request

    def give_back(self, request: Request) -> None:
        """The instance has refused a message that it was to take."""
        self._charge(request, -1)

    def _charge(self, request: Request, credit: int) -> None:
        if self._credit is not None:
            self._credit -= credit
        if self._credit_of:
            for group in request.groups:
                if group in self._credit_of:
                    self._credit_of[group] -= credit

    def least(self) -> int | None:
        """Of all accounts; None when there are none."""
        together = () if self._credit is None else (self._credit,)
        return min((*together, *self._credit_of.values()), default=None)

    def __len__(self) -> int:
        """How many messages wait."""
        if self._by_address:
            return sum(map(len, self._by_address.values()))
        return len(self._waiting)
