"""What an application wants to multicast, and how much of it the protocol takes now."""

from __future__ import annotations

from collections import deque

import msgspec

from ordercast.core import Address, GroupId, InstanceId, SiteId

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
        self._by_group: set[InstanceId] = set()
        """Instances that give credit for single groups: with the others, nobody need look at a message's groups."""
        self._waiting: dict[InstanceId, dict[Address, deque[tuple[int, Request]]]] = {}
        """By address, for those to one address wait for the same credit; each with its place among all."""
        self._place = 0

    def put(self, instance: InstanceId, request: Request) -> None:
        """The application has one more message."""
        self._place += 1
        address = (request.groups, request.destinations)
        addresses = self._waiting.setdefault(instance, {})
        if address not in addresses:
            addresses[address] = deque()
        addresses[address].append((self._place, request))

    def give(self, instance: InstanceId, available: int, group: GroupId | None = None) -> int:
        """The instance takes so many from now on; how many of those wait already."""
        self._credit[instance, group] = available
        if group is not None:
            self._by_group.add(instance)
        addresses = self._waiting.get(instance)
        if not addresses:
            return 0
        return min(available, sum(len(those) for (to, _), those in addresses.items() if group is None or group in to))

    def take(self, instance: InstanceId) -> Request | None:
        """The next message that the instance takes, for one credit of each account; None when there is none."""
        addresses = self._waiting.get(instance)
        left = self._credit.get((instance, None))
        if not addresses or (left is not None and left <= 0):
            return None
        if instance not in self._by_group:
            if left is not None:
                self._credit[instance, None] = left - 1
            longest = next(iter(addresses)) if len(addresses) == 1 else min(addresses, key=lambda to: addresses[to][0])
            return self._pop(addresses, longest)
        first: tuple[int, Address] | None = None
        for address, those in addresses.items():
            place = those[0][0]
            if (first is None or place < first[0]) and self._has_credit(instance, address):
                first = place, address
        if first is None:
            return None
        for account in self._accounts(instance, first[1]):
            self._credit[account] -= 1
        return self._pop(addresses, first[1])

    def _pop(self, addresses: dict[Address, deque[tuple[int, Request]]], address: Address) -> Request:
        those = addresses[address]
        _, request = those.popleft()
        if not those:
            del addresses[address]
        return request

    def give_back(self, instance: InstanceId, request: Request) -> None:
        """The instance has refused a message that it was to take."""
        for account in self._accounts(instance, (request.groups, request.destinations)):
            self._credit[account] += 1

    def _has_credit(self, instance: InstanceId, address: Address) -> bool:
        return all(self._credit[account] > 0 for account in self._accounts(instance, address))

    def _accounts(self, instance: InstanceId, address: Address) -> list[Account]:
        if instance not in self._by_group:
            return [(instance, None)] if (instance, None) in self._credit else []
        return [account for group in (None, *address[0]) if (account := (instance, group)) in self._credit]

    def least(self) -> int | None:
        """Of all accounts; None when there are none."""
        return min(self._credit.values(), default=None)

    def count(self) -> int:
        """How many messages wait."""
        return sum(len(those) for addresses in self._waiting.values() for those in addresses.values())

    def forget(self, instance: InstanceId) -> None:
        """The instance has crashed, and its application with it."""
        self._credit = {account: credit for account, credit in self._credit.items() if account[0] != instance}
        self._by_group.discard(instance)
        self._waiting.pop(instance, None)
