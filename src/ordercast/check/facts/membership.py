"""Who is in which group: at a row (for what a site may deliver), and for a message (for what it is owed)."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ordercast.check.facts.columns import Bools, Columns, Floats, Ints
from ordercast.check.facts.messages import Messages
from ordercast.check.facts.views import Series, ViewRows


class Moves(NamedTuple):
    """Pairs of a `join` or `leave` row and a group that it names, by row."""

    row: Ints
    group: Ints
    joins: Bools


class Membership:
    """Initial groups, joins and leaves, and views, seen from the addresses of messages."""

    def __init__(self, columns: Columns, messages: Messages, views: ViewRows) -> None:
        self.columns = columns
        self.messages = messages
        self.views = views
        names = set(columns.run.groups)
        names.update(series.group for series in views.series if series.group is not None)
        for kind in ("join", "leave"):
            names.update(columns.lists("groups", columns.rows(kind))[1].to_pylist())
        for explicit, address in messages.addresses:
            if not explicit:
                names |= address
        self.groups: list[str] = sorted(names)
        self.group_code: dict[str, int] = {name: code for code, name in enumerate(self.groups)}

    @cached_property
    def explicit(self) -> Bools:
        """Of each address, whether it names destinations instead of groups."""
        return np.array([explicit for explicit, _ in self.messages.addresses])

    @cached_property
    def address_groups(self) -> Bools:
        """[address, group]: whether the address names the group."""
        table = np.zeros((len(self.messages.addresses), len(self.groups)), dtype=bool)
        for number, (explicit, names) in enumerate(self.messages.addresses):
            if not explicit:
                table[number, [self.group_code[name] for name in names]] = True
        return table

    @cached_property
    def destinations(self) -> Bools:
        """[address, site]: whether the address names the site as a destination."""
        table = np.zeros((len(self.messages.addresses), len(self.columns.sites)), dtype=bool)
        for number, (explicit, names) in enumerate(self.messages.addresses):
            if explicit:
                table[number, [self.columns.site_code[name] for name in names]] = True
        return table

    @cached_property
    def initial(self) -> Bools:
        """[group, site]: the groups at the start."""
        table = np.zeros((len(self.groups), len(self.columns.sites)), dtype=bool)
        for name, members in self.columns.run.groups.items():
            table[self.group_code[name], [self.columns.site_code[site] for site in members]] = True
        return table

    @cached_property
    def moves(self) -> Moves:
        columns = self.columns
        joins, leaves = columns.rows("join"), columns.rows("leave")
        if not len(joins) and not len(leaves):
            none = np.empty(0, dtype=np.int64)
            return Moves(none, none, none.astype(bool))
        rows = np.sort(np.concatenate([joins, leaves]))
        owner, values = columns.lists("groups", rows)
        group = np.array([self.group_code.get(name, -1) for name in values.to_pylist()], dtype=np.int64)
        named = group >= 0
        owner, group = owner[named], group[named]
        return Moves(owner, group, np.isin(owner, joins))

    @cached_property
    def owed(self) -> Bools:
        """[site, message]: whether the site is a destination that is owed the message."""
        address, begin = self.messages.address, self.messages.begin
        site, group, moves = self.columns.site, self.address_groups, self.moves
        settled = self.initial.copy()
        settled[moves.group, site[moves.row]] = False
        by_address = self.destinations | (group.astype(np.int32) @ settled.astype(np.int32) > 0)
        owed = by_address.T[:, address]
        for member, moved in sorted(set(zip(site[moves.row].tolist(), moves.group.tolist(), strict=True))):
            own = (site[moves.row] == member) & (moves.group == moved)
            through = group[address, moved]
            owed[member, through] |= _owed_through(
                self.columns.time[moves.row[own]], moves.joins[own], bool(self.initial[moved, member]), begin[through]
            )
        return owed & self.messages.known

    @cached_property
    def destinations_of_messages(self) -> Bools:
        """[site, message]: whether the message is addressed to the site, by any membership it had during the run."""
        if not len(self.moves.row) and not len(self.views):
            return self.owed
        site, message = np.indices(self.owed.shape)
        ever = self.ever_addressed(site.ravel(), message.ravel()).reshape(self.owed.shape)
        return ever & self.messages.known

    def addressed_at(self, rows: Ints, site: Ints, message: Ints) -> Bools:
        """Of each row, whether its message is addressed to its site as things stand there at that row. Rows ascend."""
        address = self.messages.address[message]
        return np.where(self.explicit[address], self.destinations[address, site], self._member_at(rows, site, address))

    def ever_addressed(self, site: Ints, message: Ints) -> Bools:
        """Of each pair, whether the message is addressed to the site, by any membership it had during the run."""
        address = self.messages.address[message]
        ever = self.initial.copy()
        moves = self.moves
        ever[moves.group[moves.joins], self.columns.site[moves.row[moves.joins]]] = True
        for group, series in self._series:
            inside = series.views[self.views.includes_own_site[series.views]]
            ever[group, self.columns.site[self.views.rows[inside]]] = True
        table = self.destinations | (self.address_groups.astype(np.int32) @ ever.astype(np.int32) > 0)
        return table[address, site]

    def _member_at(self, rows: Ints, site: Ints, address: Ints) -> Bools:
        counts = self.address_groups.astype(np.int32) @ self.initial.astype(np.int32)
        member = counts[address, site] > 0
        moves = self.moves
        if len(moves.row):
            for mover in np.unique(self.columns.site[moves.row]).tolist():
                # In how many groups of each address the site is, from one move to the next.
                own = np.flatnonzero(self.columns.site[moves.row] == mover)
                inside = self.initial[:, mover].copy()
                count = counts[:, mover].copy()
                ends = [*moves.row[own[1:]].tolist(), int(self.columns.site_start[mover + 1])]
                for move, end in zip(own.tolist(), ends, strict=True):
                    group, joins = moves.group[move], moves.joins[move]
                    if inside[group] != joins:
                        inside[group] = joins
                        count += self.address_groups[:, group] * (1 if joins else -1)
                    low, high = np.searchsorted(rows, (moves.row[move], end))
                    member[low:high] = count[address[low:high]] > 0
        for group, series in self._series:
            member |= self._in_latest_view(rows, series) & self.address_groups[address, group]
        return member

    def joined(self, group: str, site: Ints, before: Ints) -> Bools:
        """Of each site, whether it has joined the group before a row and not left it since, or was there initially."""
        moves, code = self.moves, self.group_code[group]
        own = np.flatnonzero(moves.group == code)
        inside = self.initial[code, site]
        if not len(own):
            return inside
        place = np.searchsorted(moves.row[own], before) - 1
        last = own[place]
        moved = (place >= 0) & (self.columns.site[moves.row[last]] == site)
        return np.where(moved, moves.joins[last], inside)

    def is_member(self, series: Series, rows: Ints) -> Bools:
        """Of each row, whether its site is a member of the group of these views there."""
        if series.group is None:
            return np.ones(len(rows), dtype=bool)
        return self.joined(series.group, self.columns.site[rows], rows) | self._in_latest_view(rows, series)

    def _in_latest_view(self, rows: Ints, series: Series) -> Bools:
        latest = self.views.latest(rows, series)
        return (latest >= 0) & self.views.includes_own_site[latest]

    @cached_property
    def _series(self) -> list[tuple[int, Series]]:
        """By group, the views that name it. Only these make members of it: whoever is in a token list or a cluster may
        be in no group at all."""
        return [(self.group_code[each.group], each) for each in self.views.series if each.group is not None]


def _owed_through(times: Floats, joins: Bools, initially: bool, begin: Floats) -> Bools:
    """Whether a site with these moves (by seq) in one group was in it at each `begin`, and has not left it since."""
    order = np.argsort(times, kind="stable")
    # After the first k moves by time the one with the highest seq tells; k = 0 is the initial group.
    latest = np.maximum.accumulate(order)
    inside = np.concatenate([[initially], joins[latest]])[np.searchsorted(times[order], begin, "right")]
    leaves = times[~joins]
    return inside & (begin >= leaves.max()) if len(leaves) else inside
