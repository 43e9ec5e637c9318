"""The `activate` rows of a run: which service a site had chosen, for what, and since when."""

from __future__ import annotations

from collections.abc import Set
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from ordercast.check.facts.columns import Bools, Columns, Ints
from ordercast.check.facts.deliveries import Deliveries
from ordercast.check.facts.messages import Messages

_ANY: int = -1
_STRANGER: int = -2

TOLD: Final = -(2**63)
"""The `seq` of a row that nobody has written: it tells a part of a large run which services a site uses."""


class Activation(NamedTuple):
    """One `activate` row."""

    row: int
    time: float
    service: int
    """The code of the service; null is one too, the last."""
    groups: frozenset[str]
    """None: it is about all groups."""
    source: int
    """The only source that it is about; `_ANY`: it is about all of them."""
    is_told: bool = False
    """Whether it is a row of `TOLD`."""

    def is_about(self, group: str | None, source: int) -> bool:
        """Whether it concerns messages of the source in a group (None: in whatever group)."""
        return self.is_about_group(group) and self.source in (_ANY, source)

    def is_about_group(self, group: str | None) -> bool:
        return group is None or not self.groups or group in self.groups


class Stretches(NamedTuple):
    """Where the deliveries of one site begin anew in one group."""

    for_all: Ints
    """Rows of activations that name no source."""
    of_source: dict[int, Ints]
    """Rows of those that name one."""

    def bounds(self, *sources: int) -> Ints:
        """The rows at which messages of these sources begin anew."""
        named = [self.of_source[source] for source in dict.fromkeys(sources) if source in self.of_source]
        return np.sort(np.concatenate([self.for_all, *named])) if named else self.for_all


class Activations:
    """All `activate` rows of a run, site by site."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.rows: Ints = columns.rows("activate")

    @cached_property
    def by_site(self) -> dict[int, list[Activation]]:
        """The activations of each site that has any, in their order."""
        columns, rows = self._columns, self.rows
        named: dict[int, set[str]] = {}
        owner, values = columns.lists("groups", rows)
        for row, group in zip(owner.tolist(), values.to_pylist(), strict=True):
            named.setdefault(row, set()).add(group)
        codes, names = columns.coded("source")
        sources = [columns.site_code.get(name, _STRANGER) for name in names]
        found: dict[int, list[Activation]] = {}
        for row, service in zip(rows.tolist(), self.service_codes(rows).tolist(), strict=True):
            source = _ANY if codes[row] < 0 else sources[codes[row]]
            groups, told = frozenset(named.get(row, ())), bool(columns.seq[row] == TOLD)
            activation = Activation(row, float(columns.time[row]), service, groups, source, told)
            found.setdefault(int(columns.site[row]), []).append(activation)
        return found

    def service_codes(self, rows: Ints) -> Ints:
        """Codes of the services that these rows name; no service is one too, the last."""
        codes, names = self._columns.coded("service")
        return np.where(codes[rows] >= 0, codes[rows], len(names))

    @cached_property
    def service_names(self) -> list[str]:
        return [*self._columns.coded("service")[1], "none"]

    def stretches(self, deliveries: Deliveries, group: str | None) -> dict[int, Stretches]:
        """Of each site that has activations for a group among its deliveries, where it begins anew."""
        found: dict[int, Stretches] = {}
        for site, activations in self.by_site.items():
            low, high = np.searchsorted(deliveries.rows, self._columns.site_start[site : site + 2])
            between = [
                activation
                for activation in activations
                if activation.is_about_group(group)
                and low < high
                and deliveries.rows[low] < activation.row < deliveries.rows[high - 1]
            ]
            if between:
                of_source: dict[int, list[int]] = {}
                for activation in between:
                    of_source.setdefault(activation.source, []).append(activation.row)
                for_all = np.array(of_source.pop(_ANY, []), dtype=np.int64)
                named = {source: np.array(rows) for source, rows in of_source.items()}
                found[site] = Stretches(for_all, named)
        return found

    def active(self, messages: Messages, services: Set[str] | None) -> Bools:
        """[site, message]: whether the site had one of the services active for the message before it began, and has
        not chosen again since. Where no services are given, any will do, and none too."""
        columns = self._columns
        shape = (len(columns.sites), columns.message_count)
        active = np.full(shape, services is None)
        wanted = np.array([services is None or name in services for name in columns.coded("service")[1]] + [False])
        if services is None:
            wanted[-1] = True
        for site, activations in self.by_site.items():
            late = np.zeros(columns.message_count, dtype=bool)
            for activation in activations:
                concerned = self._concerned(messages, activation)
                late |= concerned & (messages.begin <= activation.time)
                active[site, concerned] = wanted[activation.service]
            active[site] &= ~late
        return active

    def _concerned(self, messages: Messages, activation: Activation) -> Bools:
        concerned = np.array(
            [
                not activation.groups or (not explicit and bool(activation.groups & names))
                for explicit, names in messages.addresses
            ]
        )[messages.address]
        return concerned if activation.source == _ANY else concerned & (messages.source == activation.source)
