"""The rows of one run as numpy arrays of integers; every column is decoded once, when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ordercast.trace.schema import EVENTS, KINDS, REFUSED, Run

Ints: TypeAlias = npt.NDArray[np.integer]
Floats: TypeAlias = npt.NDArray[np.floating]
Bools: TypeAlias = npt.NDArray[np.bool_]

_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}


class Columns:
    """Rows are numbered by site, then by seq: at one site a lower row number is an earlier event.

    Sites and messages are small integers (-1: none). The sites of a run are those named in its groups, those that have
    rows and those that a message names as its destinations.
    """

    def __init__(self, run: Run, events: pa.Table) -> None:
        self.run = run
        self._events = events
        self.length = len(events)
        own_codes, own_names = _encode(self._arrow("site"))
        names = set(own_names)
        for members in run.groups.values():
            names.update(members)
        destinations = self._arrow("destinations")
        if destinations.null_count < self.length:
            names.update(name for name in pc.unique(pc.list_flatten(destinations)).to_pylist() if name is not None)
        self.sites: list[str] = sorted(names)
        self.site_code: dict[str, int] = {name: code for code, name in enumerate(self.sites)}
        site = np.array([self.site_code[name] for name in own_names], dtype=np.int32)[own_codes]
        seq = self._arrow("seq").to_numpy(zero_copy_only=False)
        if self.length > 1:
            step = np.diff(site)
            if not ((step > 0) | ((step == 0) & (seq[1:] >= seq[:-1]))).all():
                order = np.lexsort((seq, site))
                site = site[order]
                self._events = events.take(pa.array(order))
        self.site = site
        self.site_start: Ints = np.searchsorted(site, np.arange(len(self.sites) + 1))
        self._rows: dict[str, Ints] = {}
        self._codes: dict[str, tuple[Ints, list[str]]] = {}

    @cached_property
    def seq(self) -> Ints:
        return self._arrow("seq").to_numpy(zero_copy_only=False)

    @cached_property
    def time(self) -> Floats:
        return self._arrow("time").to_numpy(zero_copy_only=False)

    @cached_property
    def kind(self) -> Ints:
        codes, names = _encode(self._arrow("kind"))
        return np.array([_KIND_CODES.get(name, -1) for name in names], dtype=np.int8)[codes]

    def rows(self, kind: str) -> Ints:
        """The numbers of the rows of that kind, ascending."""
        if kind not in self._rows:
            self._rows[kind] = np.flatnonzero(self.kind == _KIND_CODES[kind])
        return self._rows[kind]

    def are(self, kind: str, rows: Ints) -> Bools:
        """Of each of these rows, whether it is of that kind."""
        return self.kind[rows] == _KIND_CODES[kind]

    def rows_at(self, kind: str, site: int) -> Ints:
        """The numbers of that site's rows of that kind."""
        rows = self.rows(kind)
        low, high = np.searchsorted(rows, self.site_start[site : site + 2])
        return rows[low:high]

    def refusal_rows(self) -> Ints:
        """The numbers of the rows where a site was refused and stopped."""
        rows = self.rows("fail")
        codes, names = self.coded("reason")
        return rows[codes[rows] == names.index(REFUSED)] if REFUSED in names else rows[:0]

    @cached_property
    def _messages(self) -> tuple[Ints, pa.Array]:
        array = self._arrow("message")
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        return _codes(array), array.dictionary

    @property
    def message(self) -> Ints:
        """Of each row, the message that it is about."""
        return self._messages[0]

    @property
    def message_count(self) -> int:
        return len(self._messages[1])

    def message_name(self, message: int) -> str:
        return str(self._messages[1][int(message)].as_py())

    def coded(self, name: str) -> tuple[Ints, list[str]]:
        """A column of strings as codes (-1: null) and the names behind them."""
        if name not in self._codes:
            self._codes[name] = _encode(self._arrow(name))
        return self._codes[name]

    def sites_in(self, name: str) -> Ints:
        """A column of site names as site codes; -1 for null and for strangers."""
        codes, names = self.coded(name)
        # One more entry, for the code -1.
        return np.array([*(self.site_code.get(site, -1) for site in names), -1], dtype=np.int32)[codes]

    def numbers(self, name: str, rows: Ints) -> tuple[Ints, Bools]:
        """An integer column at these rows, 0 where it is null, and where it is not."""
        array = self.take(name, rows)
        present = np.ones(len(rows), dtype=bool)
        if array.null_count:
            present = array.is_valid().to_numpy(zero_copy_only=False)
            array = array.fill_null(0)
        return array.to_numpy(zero_copy_only=False), present

    def take(self, name: str, rows: Ints) -> pa.Array:
        """A column at these rows, as it stands in the table."""
        array = self._arrow(name)
        return array if len(rows) == self.length else array.take(pa.array(rows))

    def lists(self, name: str, rows: Ints) -> tuple[Ints, pa.Array]:
        """A column of lists at these rows: all elements, and for each the row number that it stands in."""
        array = self.take(name, rows)
        if array.null_count == len(array):
            return np.empty(0, dtype=np.int64), pa.nulls(0, pa.string())
        return rows[pc.list_parent_indices(array).to_numpy(zero_copy_only=False)], pc.list_flatten(array)

    def name_in_list(self, name: str, rows: Ints, wanted: str) -> Bools:
        """Of each of these rows, which ascend, whether its list has that name in it."""
        owner, values = self.lists(name, rows)
        has = np.zeros(len(rows), dtype=bool)
        if len(values):
            found = pc.fill_null(pc.equal(values, wanted), False).to_numpy(zero_copy_only=False)
            has[np.searchsorted(rows, owner[found])] = True
        return has

    def site_lists(self, name: str, rows: Ints) -> tuple[Ints, Ints]:
        """Like `lists`, with site codes for elements."""
        owner, values = self.lists(name, rows)
        return owner, _index_in(values, pa.array(self.sites, pa.string()))

    def message_lists(self, name: str, rows: Ints) -> tuple[Ints, Ints]:
        """Like `lists`, with message codes for elements; -1 for a message that no row is about."""
        owner, values = self.lists(name, rows)
        return owner, _index_in(values, self._messages[1])

    def _arrow(self, name: str) -> pa.Array:
        if name not in self._events.schema.names:
            return pa.nulls(self.length, EVENTS.field(name).type)
        column = self._events.column(name)
        if column.num_chunks == 1:
            return column.chunk(0)
        return column.combine_chunks()


def stable_order(keys: Ints) -> Ints:
    """The places of these keys in ascending order, equal ones as they stand."""
    # numpy sorts 16 bits by radix, ten times as fast as anything wider.
    if len(keys) and keys.max() < 1 << 16:
        keys = keys.astype(np.uint16)
    return np.argsort(keys, kind="stable")


def _encode(array: pa.Array) -> tuple[Ints, list[str]]:
    if pa.types.is_null(array.type):
        return np.full(len(array), -1, dtype=np.int32), []
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    return _codes(array), array.dictionary.to_pylist()


def _codes(array: pa.DictionaryArray) -> Ints:
    """The indices of an encoded column; -1 for null."""
    # A caller's own encoding may be narrow or without a sign, and then has no room for what is counted beyond its end.
    indices = array.indices.cast(pa.int32())
    return (indices.fill_null(-1) if indices.null_count else indices).to_numpy(zero_copy_only=False)


def _index_in(values: pa.Array, names: pa.Array) -> Ints:
    if not len(values):
        return np.empty(0, dtype=np.int32)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.type != names.type:
        values = values.cast(names.type)
    indices = pc.index_in(values, value_set=names)
    return (indices.fill_null(-1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
