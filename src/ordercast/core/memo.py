"""What follows from an address, computed once for each address."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ordercast.core.identifiers import GroupId, SiteId

Address = tuple[tuple[GroupId, ...], tuple[SiteId, ...] | None]
"""The groups of a multicast and its explicit destinations: `(multicast.groups, multicast.destinations)`."""

ADDRESSES_MAX = 4096
"""Addresses that are remembered: all combinations of a dozen groups. Beyond that the memo begins anew."""

Value = TypeVar("Value")


class AddressMemo(dict[Address, Value]):
    """`memo[address]` is `make(groups, destinations)`, remembered. Only misses reach Python code: this is on the way of
    every message."""

    def __init__(self, make: Callable[[tuple[GroupId, ...], tuple[SiteId, ...] | None], Value]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, address: Address) -> Value:
        # Before it is made room for: what raises (an unknown group) is not remembered and costs nothing that is.
        value = self._make(*address)
        if len(self) >= ADDRESSES_MAX:
            self.clear()
        self[address] = value
        return value
