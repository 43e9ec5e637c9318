"""The `view` rows of a run: who was in which view, and when."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ordercast.check.facts.columns import Bools, Columns, Ints


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

    def groups(self) -> tuple[Ints, list[str]]:
        """Pairs of a view row and a group that it names. A view of a list or a cluster names none."""
        owner, values = self.columns.lists("groups", self.rows)
        return np.searchsorted(self.rows, owner), values.to_pylist()

    def at(self, site: int) -> slice:
        """The view rows of a site."""
        low, high = np.searchsorted(self.rows, self.columns.site_start[site : site + 2])
        return slice(int(low), int(high))

    def latest(self, rows: Ints, among: Ints | None = None) -> Ints:
        """Of each row, the last view row before it at its site, of all or of these; -1 where there is none."""
        views = np.arange(len(self.rows)) if among is None else among
        before = np.searchsorted(self.rows[views], rows) - 1
        latest = np.append(views, -1)[before]
        here = latest >= 0
        here[here] = self.columns.site[self.rows[latest[here]]] == self.columns.site[rows[here]]
        return np.where(here, latest, -1)
