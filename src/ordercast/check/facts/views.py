"""The `view` rows of a run: who was in which view, and when."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ordercast.check.facts.columns import Bools, Columns, Ints


class Series(NamedTuple):
    """The views of one group."""

    group: str | None
    """None: the views that name no group, of everything."""
    views: Ints
    """Their numbers among all view rows, ascending."""
    leaves: Ints
    """The rows of those who leave the group, and with it its views."""
    previous: Ints
    """Of each of them, the number of the view of the group right before it at its site; -1 where there is none, or the
    site has left the group since."""


class ViewRows:
    """View rows are numbered in the order of rows: by site, then seq."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.rows: Ints = columns.rows("view")

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def names(self) -> Ints:
        """Of each view row, the code of the view's name; -1 when it has none."""
        return self.columns.coded("view")[0][self.rows]

    @cached_property
    def member(self) -> Bools:
        """[view row, site]: whether the site is among its members."""
        table = np.zeros((len(self.rows), len(self.columns.sites)), dtype=bool)
        owner, site = self.columns.site_lists("members", self.rows)
        named = site >= 0
        table[np.searchsorted(self.rows, owner[named]), site[named]] = True
        return table

    @cached_property
    def includes_own_site(self) -> Bools:
        return self.member[np.arange(len(self.rows)), self.columns.site[self.rows]]

    def at(self, site: int) -> slice:
        """The view rows of a site."""
        low, high = np.searchsorted(self.rows, self.columns.site_start[site : site + 2])
        return slice(int(low), int(high))

    @cached_property
    def member_names(self) -> list[frozenset[str]]:
        """Of each view row its members, also those that the run knows nothing else of."""
        return self.names_in("members")

    def names_in(self, column: str) -> list[frozenset[str]]:
        """Of each view row, the names in one of its lists."""
        owner, values = self.columns.lists(column, self.rows)
        names: list[set[str]] = [set() for _ in range(len(self.rows))]
        for place, name in zip(np.searchsorted(self.rows, owner).tolist(), values.to_pylist(), strict=True):
            names[place].add(name)
        return [frozenset(each) for each in names]

    @cached_property
    def series(self) -> list[Series]:
        """The views of each group that they name, and, last, those that name none."""
        if not len(self.rows):
            return []
        owner, values = self.columns.lists("groups", self.rows)
        place = np.searchsorted(self.rows, owner)
        names = np.array(values.to_pylist(), dtype=object)
        found = [self._series(group, np.unique(place[names == group])) for group in sorted(set(names.tolist()))]
        nameless = np.setdiff1d(np.arange(len(self.rows)), place)
        return [*found, self._series(None, nameless)] if len(nameless) else found

    def _series(self, group: str | None, views: Ints) -> Series:
        leaves: Ints = np.empty(0, dtype=np.int64)
        if group is not None:
            leaves = self.columns.rows("leave")
            leaves = leaves[self.columns.name_in_list("groups", leaves, group)]
        series = Series(group, views, leaves, np.empty(0, dtype=np.int64))
        return series._replace(previous=self.latest(self.rows[views], series))

    def latest(self, rows: Ints, series: Series) -> Ints:
        """Of each row, the last view of the series before it at its site, unless the site has left the group since; -1
        where there is none."""
        before = np.searchsorted(self.rows[series.views], rows) - 1
        latest = np.append(series.views, -1)[before]
        here = latest >= 0
        here[here] = self.columns.site[self.rows[latest[here]]] == self.columns.site[rows[here]]
        if len(series.leaves):
            last_leave = np.append(series.leaves, -1)[np.searchsorted(series.leaves, rows) - 1]
            here[here] = last_leave[here] < self.rows[latest[here]]
        return np.where(here, latest, -1)
