"""Which packets serve which messages, and whom they were meant for."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ordercast.check.facts.columns import Columns, Floats, Ints
from ordercast.check.facts.deliveries import first_rows


class Service(NamedTuple):
    """Pairs: a packet row, and a message that it serves."""

    row: Ints
    message: Ints


class Arrivals(NamedTuple):
    """Pairs of a packet and a site that received or dropped it, sorted by packet, then site."""

    packet: Ints
    site: Ints
    received: Floats
    """When it was first received there; infinite when it was only dropped."""


class Packets:
    """The `send`, `receive` and `drop` rows of a run."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    @cached_property
    def sends(self) -> Service:
        return self._service("send")

    @cached_property
    def receives(self) -> Service:
        return self._service("receive")

    @cached_property
    def first_send_time(self) -> Floats:
        """Of each message, the time of the first send that serves it, at any site; infinite where there is none."""
        first = np.full(self.columns.message_count, np.inf)
        np.minimum.at(first, self.sends.message, self.columns.time[self.sends.row])
        return first

    @cached_property
    def first_receive_row(self) -> Ints:
        """[site, message]: the first receive row that serves it there, -1 where there is none."""
        row, message = self.receives
        return first_rows(self.columns, row, self.columns.site[row], message)

    def first_send_rows_at(self, source: Ints) -> Ints:
        """Of each message, the first send row that serves it at its source; beyond the last row where there is none."""
        row, message = self.sends
        first = np.full(self.columns.message_count, self.columns.length, dtype=np.int64)
        own = self.columns.site[row] == source[message]
        np.minimum.at(first, message[own], row[own])
        return first

    @cached_property
    def arrivals(self) -> Arrivals:
        """Where each packet arrived, dead or alive."""
        columns = self.columns
        packet = columns.coded("packet_id")[0]
        received, dropped = columns.rows("receive"), columns.rows("drop")
        rows = np.concatenate([received, dropped])
        time = np.concatenate([columns.time[received], np.full(len(dropped), np.inf)])
        named = packet[rows] >= 0
        rows, time = rows[named], time[named]
        order = np.lexsort((time, columns.site[rows], packet[rows]))
        rows, time = rows[order], time[order]
        site, packet = columns.site[rows], packet[rows]
        first = np.ones(len(rows), dtype=bool)
        first[1:] = (np.diff(site) != 0) | (np.diff(packet) != 0)
        return Arrivals(packet[first], site[first], time[first])

    def addressees(self, send_rows: Ints) -> tuple[Ints, Ints, Floats]:
        """Each send with each site that it was meant for: index into `send_rows`, site, and when that site received it.

        A network multicast is meant for those that received or dropped it: nobody else is known to have listened.
        """
        columns, arrivals = self.columns, self.arrivals
        packet = columns.coded("packet_id")[0][send_rows]
        has_peer = columns.coded("peer")[0][send_rows] >= 0
        # To one site: that one, whether or not it arrived.
        single = np.flatnonzero(has_peer)
        single_site = columns.sites_in("peer")[send_rows[single]]
        keys = arrivals.packet.astype(np.int64) * len(columns.sites) + arrivals.site
        wanted = packet[single].astype(np.int64) * len(columns.sites) + single_site
        place = np.searchsorted(keys, wanted)
        there = (place < len(keys)) & (packet[single] >= 0) & (single_site >= 0)
        there[there] = keys[place[there]] == wanted[there]
        single_received = np.full(len(single), np.inf)
        single_received[there] = arrivals.received[place[there]]
        # To many: whoever saw it.
        many = np.flatnonzero(~has_peer & (packet >= 0))
        low = np.searchsorted(arrivals.packet, packet[many], "left")
        size = np.searchsorted(arrivals.packet, packet[many], "right") - low
        each = np.repeat(low - np.cumsum(size) + size, size) + np.arange(size.sum())
        return (
            np.concatenate([single, np.repeat(many, size)]),
            np.concatenate([single_site, arrivals.site[each]]),
            np.concatenate([single_received, arrivals.received[each]]),
        )

    def _service(self, kind: str) -> Service:
        columns = self.columns
        row, message = columns.message_lists("messages", columns.rows(kind))
        named = message >= 0
        if not named.all():
            row, message = row[named], message[named]
        # A packet that lists a message twice serves it once.
        key = row * columns.message_count + message
        if len(key) > 1 and not (np.diff(key) > 0).all():
            key = np.unique(key)
            row, message = key // columns.message_count, key % columns.message_count
        return Service(row, message)
