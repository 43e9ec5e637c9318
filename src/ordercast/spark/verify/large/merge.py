"""Merge the sites' orders into one, without ever holding more of them than a window.

A message is let through when it stands at the front of every site that delivers it; whatever is let through makes one
order that all sites agree with. When nothing can be let through, each site's front message stands behind another
site's front message, and going from one to the other must come round: the union of the orders has a cycle. So the
merge gets stuck exactly where the run is not acyclic, and needs to remember nothing but the fronts.

To make that fast the front of a site is here not one message but a window of them, and what can be let through is
worked out for all windows at once: everything but the messages that some site has not shown yet, and what stands behind
these. That is a set with no edge leading into it, so a cycle lies inside it as a whole or not at all; the cycles among
what is let through (a knot: a strongly connected component of more than one message) are found there, and are exactly
those of the run. Stuck, the windows are widened until the knot fits into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from ordercast.check.facts.columns import Bools, Ints


class Stretch(NamedTuple):
    """Consecutive first deliveries of one site."""

    message: Ints
    sites: Ints
    """Of each of these messages, the number of sites that deliver it."""


Read = Callable[[int, int, int], Stretch]
"""Of a site (its number), the deliveries from one place up to another."""


class Merge:
    """The merge of the orders of sites 0, 1 … with so many deliveries each.

    It looks at `window_rows` deliveries together, and at `knot_rows_max` where it must.
    """

    def __init__(self, lengths: Sequence[int], read: Read, window_rows: int, knot_rows_max: int) -> None:
        self._lengths = lengths
        self._read = read
        self._loaded = [0] * len(lengths)
        self._windows = [Stretch(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)) for _ in lengths]
        self._width = max(1, window_rows // max(1, len(lengths)))
        self._wanted = [self._width] * len(lengths)
        self._rows_max = max(knot_rows_max, 2 * window_rows)
        self.stuck_at: Ints | None = None
        """The messages at the fronts where it gave up, because of a knot that is too large; they have a cycle."""

    def knots(self) -> Iterator[tuple[Ints, Ints]]:
        """Each knot: its messages, and of each the number of sites that deliver it."""
        while True:
            self._load()
            starts = np.cumsum([0, *(len(window.message) for window in self._windows)])
            if starts[-1] == 0:
                return
            distinct, code = np.unique(np.concatenate([w.message for w in self._windows]), return_inverse=True)
            sites = np.zeros(len(distinct), dtype=np.int32)
            sites[code] = np.concatenate([w.sites for w in self._windows])
            graph = _graph(code, starts, len(distinct))
            free = _free(graph, np.bincount(code, minlength=len(distinct)) < sites)
            passed = [int(np.count_nonzero(free[code[low:high]])) for low, high in pairwise(starts)]
            if any(passed):
                for knot in _knots(graph, free):
                    yield distinct[knot], sites[knot]
                self._advance(passed)
            elif starts[-1] <= self._rows_max // 2:
                self._wanted = [2 * len(window.message) for window in self._windows]
            else:
                self.stuck_at = np.array([w.message[0] for w in self._windows if len(w.message)])
                return

    def _load(self) -> None:
        for site, window in enumerate(self._windows):
            have, place = len(window.message), self._loaded[site]
            more = min(self._wanted[site] - have, self._lengths[site] - place)
            if more > 0:
                read = self._read(site, place, place + more)
                self._windows[site] = Stretch(*(np.concatenate(parts) for parts in zip(window, read, strict=True)))
                self._loaded[site] += more

    def _advance(self, passed: list[int]) -> None:
        eager = [site for site, count in enumerate(passed) if 0 < count == len(self._windows[site].message)]
        self._windows = [
            Stretch(window.message[count:], window.sites[count:])
            for window, count in zip(self._windows, passed, strict=True)
        ]
        waiting = sum(len(window.message) for window in self._windows)
        # While most sites wait for a few, these few take wider and wider steps: otherwise the windows of all the
        # others would be gone through again for every small step of theirs.
        share = (self._rows_max // 2 - waiting) // max(1, len(eager))
        wider = {site: max(self._width, min(2 * self._wanted[site], share)) for site in eager}
        self._wanted = [wider.get(site, self._width) for site in range(len(self._windows))]


def _graph(code: Ints, starts: Ints, count: int) -> csr_array:
    """An edge from each message to the next one at a site."""
    follows = np.ones(len(code), dtype=bool)
    follows[starts[:-1][starts[:-1] < len(code)]] = False
    after = np.flatnonzero(follows)
    # Edges that several sites have in common are added up, and must not wrap to 0: they are true or not.
    edges = (code[after - 1].astype(np.int32), code[after].astype(np.int32))
    return csr_array((np.ones(len(after), dtype=bool), edges), shape=(count, count))


def _free(graph: csr_array, missing: Bools) -> Bools:
    """What is not missing somewhere, nor behind anything that is: what cannot be reached from there."""
    if not missing.any():
        return ~missing
    # One more node, from which an edge leads to each missing message.
    count = len(missing)
    targets = np.flatnonzero(missing).astype(graph.indices.dtype)
    indices = np.concatenate([graph.indices, targets])
    indptr = np.append(graph.indptr, len(indices))
    from_missing = csr_array((np.ones(len(indices), dtype=bool), indices, indptr), shape=(count + 1, count + 1))
    reached = breadth_first_order(from_missing, count, directed=True, return_predecessors=False)
    free = np.ones(count + 1, dtype=bool)
    free[reached] = False
    return free[:-1]


def _knots(graph: csr_array, free: Bools) -> Iterator[Ints]:
    """The strongly connected components among the free messages that have more than one."""
    _, label = connected_components(graph, directed=True, connection="strong")
    size = np.bincount(label[free])
    if size.max() == 1:
        return
    members = np.flatnonzero(free)
    members = members[size[label[members]] > 1]
    members = members[np.argsort(label[members], kind="stable")]
    yield from np.split(members, np.flatnonzero(np.diff(label[members])) + 1)
