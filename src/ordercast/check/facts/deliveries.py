"""Who delivered what, and in which order."""

from __future__ import annotations

from collections.abc import Set
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ordercast.check.facts.columns import Bools, Columns, Floats, Ints


class Sequences(NamedTuple):
    """One delivery of each message at each site: an order per site, and where in it each message stands."""

    messages: list[Ints]
    """Per site, the messages in the order of delivery."""
    row: Ints
    """[site, message]: the row of the delivery, -1 where there is none."""


class Deliveries:
    """The `deliver` rows of a run. The first of a message at a site is the one that counts, unless said otherwise."""

    def __init__(self, columns: Columns, services: Set[str] | None = None) -> None:
        """All of them, or those with one of these services."""
        self.columns = columns
        rows = columns.rows("deliver")
        if services is not None:
            codes, names = columns.coded("service")
            counts = np.array([*(name in services for name in names), False])
            rows = rows[counts[codes[rows]]]
        message = columns.message[rows]
        if len(message) and message.min() < 0:
            rows, message = rows[message >= 0], message[message >= 0]
        self.rows: Ints = rows
        self.message: Ints = message
        self.site: Ints = columns.site[rows]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def first_row(self) -> Ints:
        """[site, message]: the row of the first delivery, -1 where there is none."""
        return first_rows(self.columns, self.rows, self.site, self.message)

    @cached_property
    def is_first(self) -> Bools:
        """Of each delivery, whether it is the first of that message at that site."""
        # One number for both, as in `first_rows`: two would take numpy twice as long.
        cell = self.site.astype(np.int64) * self.columns.message_count + self.message
        return self.first_row.ravel().take(cell) == self.rows

    @cached_property
    def first(self) -> Sequences:
        """The sites' orders, first deliveries only."""
        # What `sequences` would say of these rows; that it would find `first_row` again costs as much as all the rest.
        is_first = self.is_first
        site, message = self.site, self.message
        if not is_first.all():
            site, message = site[is_first], message[is_first]
        return Sequences(_orders(self.columns, site, message), self.first_row)

    @cached_property
    def time(self) -> Floats:
        """[site, message]: the time of the first delivery, infinite where there is none."""
        return np.where(self.first_row >= 0, self.columns.time[self.first_row], np.inf)

    @cached_property
    def repeats(self) -> Ints:
        """The rows of second and later deliveries."""
        return self.rows[~self.is_first]

    @cached_property
    def duplicates(self) -> Ints:
        """Those of them at a site that was not refused since its delivery right before: one that was has lost its
        history, and gets some of it again."""
        refusals = self.columns.refusal_rows()
        if not len(self.repeats) or not len(refusals):
            return self.repeats
        cell = self.site.astype(np.int64) * self.columns.message_count + self.message
        # Stable: the rows of one message at one site stand together, in their order.
        order = np.argsort(cell, kind="stable")
        rows, cell = self.rows[order], cell[order]
        refused = np.searchsorted(refusals, rows[1:]) > np.searchsorted(refusals, rows[:-1])
        return np.sort(rows[1:][(cell[1:] == cell[:-1]) & ~refused])

    @cached_property
    def delivered_at(self) -> Ints:
        """Of each message, the number of sites that delivered it."""
        return np.count_nonzero(self.first_row >= 0, axis=0)


def first_rows(columns: Columns, rows: Ints, site: Ints, message: Ints) -> Ints:
    """[site, message]: the lowest of these rows, -1 where there is none."""
    never = columns.length
    table = np.full(len(columns.sites) * columns.message_count, never, dtype=np.int32)
    np.minimum.at(table, site.astype(np.int64) * columns.message_count + message, rows.astype(np.int32))
    table[table == never] = -1
    return table.reshape(len(columns.sites), columns.message_count)


def sequences(columns: Columns, rows: Ints) -> Sequences:
    """The sites' orders by these rows, which hold a message at a site at most once."""
    site, message = columns.site[rows], columns.message[rows]
    return Sequences(_orders(columns, site, message), first_rows(columns, rows, site, message))


def _orders(columns: Columns, site: Ints, message: Ints) -> list[Ints]:
    """Per site its messages, of deliveries in the order of rows."""
    starts = np.searchsorted(site, np.arange(len(columns.sites) + 1))
    return [message[starts[code] : starts[code + 1]] for code in range(len(columns.sites))]
