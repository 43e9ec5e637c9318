"""Turns the recorder's tuples into the columns of a trace.

What can be told from the other rows (which delivery of a message this is, what a multicast depends on) is worked out
here, on whole columns, and costs the run nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ordercast.core import MessageId
from ordercast.trace.schema import EVENTS

Arrays = dict[str, pa.Array]

WIDTH = {
    "multicast": 6,
    "send": 7,
    "receive": 8,
    "drop": 8,
    "deliver": 5,
    "replay": 5,
    "rollback": 5,
    "view": 5,
    "join": 6,
    "leave": 5,
    "activate": 5,
    "fail": 5,
    "awake": 4,
    "recover": 4,
}
"""The kinds of events that a simulation records, and how many values a row of each has: the common four, and what
`Columns` takes apart for that kind."""


class Columns:
    """The columns of one run, in chunks of one kind of event each."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._chunks: list[tuple[int, Arrays]] = []
        self._names = _Names()

    def add(self, kind: str, values: list[Any]) -> None:
        """Take rows of one kind, flat: site, seq, time, incarnation, and what the kind has besides, again and again."""
        width = WIDTH[kind]
        site, seq, time, incarnation, *rest = (values[at::width] for at in range(width))
        rows = len(site)
        arrays: Arrays = {
            "run": pa.repeat(self._run, rows),
            "site": pa.array(site, pa.string()),
            "seq": pa.array(seq, pa.int64()),
            "time": pa.array(time, pa.float64()),
            "kind": pa.repeat(kind, rows),
            "incarnation": pa.array(incarnation, pa.int32()),
        }
        extra = self._EXTRA.get(kind)
        if extra is not None:
            arrays.update(extra(self, *rest))
        self._chunks.append((rows, arrays))

    def table(self) -> pa.Table:
        """Everything so far, sorted by site and seq."""
        if not self._chunks:
            return EVENTS.empty_table()
        rows = sum(chunk_rows for chunk_rows, _ in self._chunks)
        columns = {field.name: self._column(field) for field in EVENTS}
        self._chunks = [(rows, columns.copy())]
        sites = columns["site"].dictionary_encode()
        rank = np.argsort(np.argsort(np.array(sites.dictionary.to_pylist())))
        site = rank[sites.indices.to_numpy()]
        order = np.lexsort((columns["seq"].to_numpy(), site))
        site, take = site[order], pa.array(order)
        columns = {name: column.take(take) if column.null_count < rows else column for name, column in columns.items()}
        kind = columns["kind"].dictionary_encode()
        codes = {name: code for code, name in enumerate(kind.dictionary.to_pylist())}
        kinds = kind.indices.to_numpy()
        delivers = np.flatnonzero(kinds == codes.get("deliver", -1))
        multicasts = np.flatnonzero(kinds == codes.get("multicast", -1))
        columns["time"] = _in_order(columns["time"], site, np.flatnonzero(kinds == codes.get("fail", -1)))
        columns["delivery"] = _delivery(rows, site, delivers, columns["message"])
        columns["depends"] = _depends(rows, site, delivers, multicasts, columns["message"])
        return pa.table(list(columns.values()), schema=EVENTS)

    def _column(self, field: pa.Field) -> pa.Array:
        """One column of all chunks; null where a kind of event does not have it."""
        if not any(field.name in arrays for _, arrays in self._chunks):
            return pa.nulls(sum(rows for rows, _ in self._chunks), field.type)
        return pa.concat_arrays(
            [
                arrays[field.name] if field.name in arrays else pa.nulls(rows, field.type)
                for rows, arrays in self._chunks
            ]
        )

    # ------------------------------------------------------------------ what a kind has besides
    def _packets(self, peer: Sequence[str | None], packet_ids: Sequence[int], envelopes: Sequence[Any]) -> Arrays:
        distinct, which = _distinct(envelopes)
        described: Arrays = {
            "packet": pa.array([envelope.name for envelope in distinct], pa.string()),
            "messages": _lists([envelope.served for envelope in distinct], self._name),
            "size": pa.array([envelope.size for envelope in distinct], pa.int32()),
        }
        return {name: column.take(which) for name, column in described.items()} | {
            "peer": pa.array(peer, pa.string()),
            "packet_id": pa.array(packet_ids, pa.int64()).cast(pa.string()),
        }

    def _receives(
        self, peer: Sequence[str], packet_ids: Sequence[int], envelopes: Sequence[Any], cost: Sequence[int]
    ) -> Arrays:
        return self._packets(peer, packet_ids, envelopes) | {"cost": pa.array(cost, pa.int32())}

    def _drops(
        self, peer: Sequence[str], packet_ids: Sequence[int], envelopes: Sequence[Any], reason: Sequence[str]
    ) -> Arrays:
        return self._packets(peer, packet_ids, envelopes) | {"reason": pa.array(reason, pa.string())}

    def _deliveries(self, effects: Sequence[Any]) -> Arrays:
        return self._described([effect.multicast for effect in effects]) | {
            "parent": pa.array([effect.parent for effect in effects], pa.string()),
            "order_key": _lists(
                [effect.order_key for effect in effects], lambda keys: pa.array(list(keys), pa.int64())
            ),
            "service": pa.array([effect.service for effect in effects], pa.string()),
            "view": pa.array([effect.view for effect in effects], pa.string()),
        }

    def _described(self, multicasts: Sequence[Any]) -> Arrays:
        distinct, which = _distinct(multicasts)
        messages = [multicast.id for multicast in distinct]
        described: Arrays = {
            "message": self._name(messages),
            "source": pa.array([message.source for message in messages], pa.string()),
            "source_seq": pa.array([message.source_seq for message in messages], pa.int64()),
            "groups": pa.array([multicast.groups for multicast in distinct], EVENTS.field("groups").type),
            "destinations": pa.array([multicast.destinations for multicast in distinct], EVENTS.field("groups").type),
            "count": pa.array([multicast.count for multicast in distinct], pa.int32()),
            "size": pa.array([len(multicast.payload) for multicast in distinct], pa.int32()),
        }
        return {name: column.take(which) for name, column in described.items()}

    def _multicasts(self, multicasts: Sequence[Any], services: Sequence[str | None]) -> Arrays:
        return self._described(multicasts) | {"service": pa.array(services, pa.string())}

    def _views(self, effects: Sequence[Any]) -> Arrays:
        return {
            name: pa.array([getattr(effect, name) for effect in effects], EVENTS.field(name).type)
            for name in ("view", "members", "transitional", "groups")
        }

    def _moves(self, groups: Sequence[str]) -> Arrays:
        return {"groups": pa.array([[group] for group in groups], EVENTS.field("groups").type)}

    def _joins(self, groups: Sequence[str], offsets: Sequence[int]) -> Arrays:
        return self._moves(groups) | {"offset": pa.array(offsets, pa.int64())}

    def _activations(self, effects: Sequence[Any]) -> Arrays:
        return self._moves([effect.group for effect in effects]) | {
            name: pa.array([getattr(effect, name) for effect in effects], pa.string()) for name in ("service", "source")
        }

    def _fails(self, reason: Sequence[str | None]) -> Arrays:
        return {"reason": pa.array(reason, pa.string())}

    _EXTRA: ClassVar[dict[str, Callable[..., Arrays]]] = {
        "multicast": _multicasts,
        "send": _packets,
        "receive": _receives,
        "drop": _drops,
        "deliver": _deliveries,
        "replay": _deliveries,
        "rollback": _described,
        "view": _views,
        "join": _joins,
        "leave": _moves,
        "activate": _activations,
        "fail": _fails,
    }

    # ------------------------------------------------------------------ names of messages
    def _name(self, messages: Iterable[MessageId]) -> pa.Array:
        names = self._names
        return pa.array([names[message] for message in messages], pa.string())


class _Names(dict[MessageId, str]):
    """Message -> its name in the trace, made when it is first asked for."""

    def __missing__(self, message: MessageId) -> str:
        name = self[message] = str(message)
        return name


def _distinct(objects: Sequence[Any]) -> tuple[list[Any], pa.Array]:
    """Each object once, and for each row which of them it is. (All sites of a run share one object per message.)"""
    identities = np.fromiter(map(id, objects), np.int64, len(objects))
    _, first, which = np.unique(identities, return_index=True, return_inverse=True)
    return [objects[at] for at in first.tolist()], pa.array(which)


def _lists(values: Sequence[tuple[Any, ...] | None], convert: Callable[[Iterable[Any]], pa.Array]) -> pa.Array:
    """A column of lists, converted in one go."""
    absent = np.fromiter((value is None for value in values), bool, len(values))
    present = [() if value is None else value for value in values]
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, present), np.int32, len(values)), out=offsets[1:])
    items = convert(chain.from_iterable(present))
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(absent) if absent.any() else None)


def _in_order(times: pa.Array, site: Any, fails: Any) -> pa.Array:
    """No fail is earlier than the row before it: a site may declare itself failed since a time that is past."""
    time = times.to_numpy()
    early = [at for at in fails.tolist() if at and site[at] == site[at - 1] and time[at] < time[at - 1]]
    if not early:
        return times
    time = time.copy()
    for at in early:
        time[at] = time[at - 1]
    return pa.array(time, pa.float64())


def _delivery(rows: int, site: Any, delivers: Any, messages: pa.Array) -> pa.Array:
    """1 for the first delivery of a message at a site, 2 … for a redelivery; rows are sorted by site and seq."""
    result = np.zeros(rows, dtype=np.int32)
    absent = np.ones(rows, dtype=bool)
    if len(delivers):
        absent[delivers] = False
        message = messages.take(pa.array(delivers)).dictionary_encode().indices.to_numpy().astype(np.int64)
        key = site[delivers] * (message.max() + 1) + message
        order = np.argsort(key, kind="stable")
        first = np.concatenate([[True], np.diff(key[order]) != 0])
        starts = np.flatnonzero(first)
        nth = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order)))) + 1
        result[delivers[order]] = nth
    return pa.array(result, pa.int32(), mask=absent)


def _depends(rows: int, site: Any, delivers: Any, multicasts: Any, messages: pa.Array) -> pa.Array:
    """For each multicast what was delivered at that site since its previous multicast; rows are sorted by site and
    seq."""
    ends = np.searchsorted(delivers, multicasts)
    site_begins = np.searchsorted(delivers, np.searchsorted(site, site[multicasts]))
    same_site = np.zeros(len(multicasts), dtype=bool)
    same_site[1:] = site[multicasts[1:]] == site[multicasts[:-1]]
    starts = np.where(same_site, np.concatenate([[0], ends[:-1]]) if len(ends) else ends, site_begins)
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    flat = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    counts = np.zeros(rows, dtype=np.int32)
    counts[multicasts] = lengths
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    absent = np.ones(rows, dtype=bool)
    absent[multicasts] = False
    items = messages.take(pa.array(delivers[flat] if len(flat) else flat.astype(np.int64)))
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(absent))
