"""Destination sets."""

from __future__ import annotations

import msgspec

from ordercast.core import AddressMemo, Context, GroupId, SiteId, WireError


class Address(msgspec.Struct, frozen=True, gc=False):
    """The destinations of a message, sorted, each once."""

    sites: tuple[SiteId, ...]
    others: tuple[SiteId, ...]
    """Without this site."""


class Addresses(AddressMemo[Address]):
    """`addresses[multicast.groups, multicast.destinations]`."""

    def __init__(self, context: Context) -> None:
        super().__init__(self._find)
        self._context = context

    def _find(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> Address:
        if any(group not in self._context.groups for group in groups):
            raise WireError(f"unknown group in {groups}")
        sites = self._context.members(groups) if destinations is None else tuple(sorted(set(destinations)))
        return Address(sites, tuple(site for site in sites if site != self._context.site))
