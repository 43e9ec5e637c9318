"""The union of all sites' delivery orders, and where it runs in a circle."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ordercast.check.facts.columns import Columns, Ints
from ordercast.check.facts.deliveries import Deliveries


class Cycles:
    """The first deliveries of all sites as a graph of messages."""

    def __init__(self, columns: Columns, deliveries: Deliveries) -> None:
        self._columns = columns
        self._deliveries = deliveries

    @cached_property
    def components(self) -> list[Ints]:
        """The strongly connected components of more than one message; none: the union of the orders is one."""
        if self._longest_order_settles_it():
            return []
        count, label = connected_components(self.graph(), directed=True, connection="strong")
        if count == len(label):
            return []
        order = np.argsort(label, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
        return sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0]))

    def graph(self) -> csr_array:
        """An edge from each message to the next one at a site; made anew each time, for it is large."""
        # Edges that several sites have in common are added up: numbers of a byte would wrap to 0, no edge, at 256.
        orders = self._deliveries.first.messages
        before = np.concatenate([messages[:-1] for messages in orders])
        after = np.concatenate([messages[1:] for messages in orders])
        count = self._columns.message_count
        return csr_array((np.ones(len(before), dtype=bool), (before, after)), shape=(count, count))

    def _longest_order_settles_it(self) -> bool:
        """Whether one site's order contains all others: usual in a single group, and far cheaper than a graph."""
        first = self._deliveries.first
        if not first.messages:
            return True
        longest = max(range(len(first.messages)), key=lambda site: len(first.messages[site]))
        rank = first.row[longest]
        for messages in first.messages:
            place = rank[messages]
            if len(place) and (place.min() < 0 or (place[1:] < place[:-1]).any()):
                return False
        return True
