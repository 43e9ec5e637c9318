"""Judge of offsets: a message has the same place in a group at every site that counts the group's messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Bools, Ints
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness
from ordercast.check.wording import OFFSETS_AT_THE_END, OFFSETS_DIFFER


def judge_offset_agreement(facts: Facts) -> Finding:
    """Whoever enters a group counts on from where the others are, and misses nothing from there on."""
    obliged = False
    witnesses: list[Witness] = []
    for code, group in enumerate(facts.membership.groups):
        count = _Count(facts, code)
        standing = count.standing()
        obliged |= len(standing.message) > len(np.unique(standing.message))
        for first, other in standing.differing().tolist():
            sites = (int(standing.site[first]), int(standing.site[other]))
            named = {"group": group, "one": str(standing.offset[first]), "two": str(standing.offset[other])}
            message = int(standing.message[first])
            witnesses.append(facts.witness(sites, (message,), OFFSETS_DIFFER, **named))
        if facts.run.settled and facts.outages.correct.all():
            there, at = count.in_the_end()
            obliged |= len(there) > 1 and bool(at.any())
            for other in np.flatnonzero(at != at[:1]).tolist():
                named = {"group": group, "one": str(at[0]), "two": str(at[other])}
                witnesses.append(facts.witness((int(there[0]), int(there[other])), (), OFFSETS_AT_THE_END, **named))
    return Finding(obliged, witnesses[:WITNESSES_MAX])


class _Standing(NamedTuple):
    """Where messages stand in a group: a site, a message and its offset there, ordered by message, then site."""

    site: Ints
    message: Ints
    offset: Ints

    def differing(self) -> Ints:
        """[first, other]: places of a message at the first site that has it, and at another one that differs."""
        _, first, which = np.unique(self.message, return_index=True, return_inverse=True)
        others = np.flatnonzero(self.offset != self.offset[first[which]])[:WITNESSES_MAX]
        return np.column_stack([first[which[others]], others])


class _Count:
    """How the sites count the messages of one group.

    A stretch is a part of a site's rows in which it counts on, or does not count: from the beginning, and from each
    `join` or `leave` row of the group.
    """

    def __init__(self, facts: Facts, group: int) -> None:
        self._facts = facts
        columns, moves = facts.columns, facts.membership.moves
        own = moves.group == group
        offsets, told = columns.numbers("offset", moves.row[own])
        sites = len(columns.sites)
        start = np.concatenate([columns.site_start[:-1], moves.row[own] + 1])
        self._site: Ints = np.concatenate([np.arange(sites), columns.site[moves.row[own]]])
        order = np.lexsort((self._site, start))
        self._start: Ints = start[order]
        self._site = self._site[order]
        self._counts: Bools = np.concatenate([facts.membership.initial[group], moves.joins[own] & told])[order]
        self._base: Ints = np.concatenate([np.zeros(sites, dtype=np.int64), offsets])[order]
        self._delivered = self._of_group(group, facts.deliveries.rows)
        self._taken_back = self._of_group(group, columns.rows("rollback"))
        self._rows: Ints = np.sort(np.concatenate([self._delivered, self._taken_back]))
        steps = self._numbers_of(self._rows) * np.where(columns.are("rollback", self._rows), -1, 1)
        self._moved: Ints = np.concatenate([[0], np.cumsum(steps)])
        """How far all rows of all sites have moved on before each row, and at the end."""

    def _of_group(self, group: int, rows: Ints) -> Ints:
        """Those of the rows that are about a message to the group."""
        facts = self._facts
        message = facts.columns.message[rows]
        rows, message = rows[message >= 0], message[message >= 0]
        named = facts.membership.address_groups[facts.messages.address[message], group]
        return rows[named & facts.messages.known[message]]

    def _numbers_of(self, rows: Ints) -> Ints:
        counts, told = self._facts.columns.numbers("count", rows)
        return np.where(told, counts, 1).astype(np.int64)

    def _offsets(self, stretch: Ints, rows: Ints) -> Ints:
        """At which offset the site of a stretch is before a row of it."""
        so_far = self._moved[np.searchsorted(self._rows, rows)]
        return self._base[stretch] + so_far - self._moved[np.searchsorted(self._rows, self._start[stretch])]

    def standing(self) -> _Standing:
        """The last delivery of each message at each site, unless it was taken back."""
        columns = self._facts.columns
        rows = self._delivered
        stretch = np.searchsorted(self._start, rows, "right") - 1
        rows, stretch = rows[self._counts[stretch]], stretch[self._counts[stretch]]
        key = columns.message[rows].astype(np.int64) * len(columns.sites) + columns.site[rows]
        # Of equal keys the last one: rows ascend.
        keys, from_the_end = np.unique(key[::-1], return_index=True)
        last = len(key) - 1 - from_the_end
        back = self._taken_back
        taken_back = np.full(len(keys), -1, dtype=np.int64)
        key_back = columns.message[back].astype(np.int64) * len(columns.sites) + columns.site[back]
        place = np.minimum(np.searchsorted(keys, key_back), max(0, len(keys) - 1))
        if len(keys):
            hits = keys[place] == key_back
            np.maximum.at(taken_back, place[hits], back[hits])
        stands = last[taken_back < rows[last]]
        offset = self._offsets(stretch[stands], rows[stands])
        return _Standing(columns.site[rows[stands]], columns.message[rows[stands]], offset)

    def in_the_end(self) -> tuple[Ints, Ints]:
        """The sites that count when the run ends, and where they are."""
        columns = self._facts.columns
        # Of the stretches of a site the last one.
        by_site = np.lexsort((self._start, self._site))
        last = by_site[np.searchsorted(self._site[by_site], np.arange(len(columns.sites)), "right") - 1]
        last = last[self._counts[last]]
        site = self._site[last]
        return site, self._offsets(last, columns.site_start[site + 1])
