"""What the multicast rows say about each message: source, address, when it began."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ordercast.check.facts.columns import Bools, Columns, Floats, Ints
from ordercast.check.facts.packets import Packets

_SEPARATOR = "\x00"


class Messages:
    """Facts per message code. A message without a multicast row is unknown: source -1, address 0 (the empty one)."""

    def __init__(self, columns: Columns, packets: Packets) -> None:
        self.columns = columns
        self._packets = packets
        count = columns.message_count
        rows = columns.rows("multicast")
        message = columns.message[rows]
        if len(message) and message.min() < 0:
            rows, message = rows[message >= 0], message[message >= 0]
        self.row: Ints = np.full(count, -1, dtype=np.int64)
        """The first multicast row of each message, -1 where there is none."""
        # The first by time; the row number decides between equal times.
        order = np.argsort(columns.time[rows], kind="stable")
        multicast, first = np.unique(message[order], return_index=True)
        self.row[multicast] = rows[order[first]]

    @cached_property
    def known(self) -> Bools:
        return self.row >= 0

    @cached_property
    def source(self) -> Ints:
        return np.where(self.known, self.columns.site[self.row], -1) if len(self.row) else self.row

    @cached_property
    def time(self) -> Floats:
        """Time of the multicast row; infinite where there is none."""
        return np.where(self.known, self.columns.time[self.row], np.inf) if len(self.row) else np.empty(0)

    @cached_property
    def begin(self) -> Floats:
        """The earlier of the multicast row and the first send that serves the message."""
        return np.minimum(self.time, self._packets.first_send_time)

    @cached_property
    def chains(self) -> list[Ints]:
        """Per site, the messages that it multicast, in that order."""
        known = np.flatnonzero(self.known)
        by_row = known[np.argsort(self.row[known])]
        starts = np.searchsorted(self.source[by_row], np.arange(len(self.columns.sites) + 1))
        return [by_row[starts[site] : starts[site + 1]] for site in range(len(self.columns.sites))]

    @cached_property
    def number(self) -> Ints:
        """Its place in the chain of its source, from 0; -1 for an unknown message."""
        number = np.full(len(self.row), -1, dtype=np.int64)
        for chain in self.chains:
            number[chain] = np.arange(len(chain))
        return number

    @property
    def address(self) -> Ints:
        """Of each message, the number of its address in `addresses`."""
        return self._addressing[0]

    @property
    def addresses(self) -> list[tuple[bool, frozenset[str]]]:
        """Each different address once: whether it names destinations (else groups), and what it names. 0 is empty."""
        return self._addressing[1]

    @cached_property
    def _addressing(self) -> tuple[Ints, list[tuple[bool, frozenset[str]]]]:
        numbers: dict[tuple[bool, frozenset[str]], int] = {(False, frozenset()): 0}
        address = np.zeros(len(self.row), dtype=np.int64)
        known = np.flatnonzero(self.known)
        if len(known):
            rows = self.row[known]
            by_group = self._intern("groups", rows, False, numbers)
            by_destination = self._intern("destinations", rows, True, numbers)
            address[known] = np.where(by_destination > 0, by_destination, by_group)
        return address, list(numbers)

    def _intern(self, name: str, rows: Ints, explicit: bool, numbers: dict[tuple[bool, frozenset[str]], int]) -> Ints:
        """The address number of each row's list. An empty list is as good as none."""
        lists = self.columns.take(name, rows)
        if lists.null_count == len(lists):
            return np.zeros(len(rows), dtype=np.int64)
        if pa.types.is_dictionary(lists.type.value_type):
            lists = lists.cast(pa.list_(pa.string()))
        # Few different lists: work on those, not on all.
        encoded = pc.binary_join(lists, _SEPARATOR).dictionary_encode()
        own = []
        for joined in encoded.dictionary.to_pylist():
            names = frozenset(joined.split(_SEPARATOR)) if joined else frozenset()
            own.append(numbers.setdefault((explicit, names), len(numbers)) if names else 0)
        indices = encoded.indices.fill_null(-1) if encoded.indices.null_count else encoded.indices
        return np.array([*own, 0], dtype=np.int64)[indices.to_numpy(zero_copy_only=False)]
