"""States that differ only in the names of sites: one of them stands for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ordercast.explore.freeze import Alias, Anchor, Frozen
from ordercast.explore.site import Sites


class Renaming:
    """The key of a state, the same for all that a renaming of sites makes of it.

    The search goes on with the state itself, not with the one that stands for all, so that the way to it is a real one.
    """

    def __init__(self, sites: Sites, symmetries: tuple[tuple[int, ...], ...]) -> None:
        identity = tuple(range(len(sites.world.sites)))
        self._views = [_View(sites, each) for each in (identity, *symmetries)]

    def key(self, state: tuple[tuple[int, ...], tuple[int, ...], Any]) -> int:
        """The least of the hashes of the state under all renamings."""
        locals_, packets, rest = state
        return min([hash((view.locals_of(locals_), view.packets_of(packets), rest)) for view in self._views])


class _View:
    """What one renaming makes of states and packets, as hashes."""

    def __init__(self, sites: Sites, permutation: tuple[int, ...]) -> None:
        names = sites.world.sites
        self._sites = sites
        self._permutation = permutation
        self._names = {names[old]: names[new] for old, new in enumerate(permutation)}
        self._from = [permutation.index(site) for site in range(len(permutation))]
        self._locals: dict[int, int] = {}
        self._packets: dict[int, int] = {}

    def locals_of(self, locals_: tuple[int, ...]) -> tuple[int, ...]:
        known = self._locals
        hashes = []
        for site in self._from:
            local = locals_[site]
            number = known.get(local)
            if number is None:
                number = known[local] = hash(rename(self._sites.contents(local), self._names))
            hashes.append(number)
        return tuple(hashes)

    def packets_of(self, packets: tuple[int, ...]) -> tuple[int, ...]:
        known = self._packets
        hashes = []
        for packet in packets:
            number = known.get(packet)
            if number is None:
                receiver, sender, content, channel = self._sites.packets[packet]
                ends = (self._permutation[receiver], self._permutation[sender])
                number = known[packet] = hash((ends, rename(content, self._names), channel))
            hashes.append(number)
        hashes.sort()
        return tuple(hashes)


def rename(value: Any, names: Mapping[str, str]) -> Any:
    """The same with other names, as something that can be hashed. (Tables lose their order: after a renaming it would
    be another one than that in which the other sites were met.)"""
    kind = type(value)
    if kind is str:
        return names.get(value, value)
    if kind is Frozen:
        if issubclass(value[0], dict):
            keys = (rename(key, names) for key in value[2])
            entries = frozenset(zip(keys, (rename(each, names) for each in value[3]), strict=True))
            return (dict, entries, *(rename(each, names) for each in value[4:]))
        return (value[0], *(rename(each, names) for each in value[1:]))
    if kind is tuple:
        if value and all(type(each) is str for each in value):
            return _rename_names(value, names)
        return tuple([rename(each, names) for each in value])
    if kind is frozenset:
        return frozenset([rename(each, names) for each in value])
    if kind is Anchor or kind is Alias:
        return (kind, value[0])
    if isinstance(value, msgspec.Struct):
        return (kind, *(rename(getattr(value, name), names) for name in kind.__struct_fields__))
    return value


def _rename_names(value: tuple[Any, ...], names: Mapping[str, str]) -> tuple[Any, ...]:
    """Names of sites in the order of the world stay in that order: cores keep the others so, as they were told them.
    Renamed in place, ("b", "c") of site a would be ("c", "b"), which no core has, and no two states would ever be one.
    (What comes in the order of events, cores keep in lists.)"""
    renamed = [rename(each, names) for each in value]
    order = {name: place for place, name in enumerate(names)}
    places = [order.get(each, -1) for each in value]
    if min(places) >= 0 and places == sorted(places):
        renamed.sort(key=order.__getitem__)
    return tuple(renamed)
