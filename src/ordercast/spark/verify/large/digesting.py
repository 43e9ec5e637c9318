"""What a task says of the rows that it reads, so that they need not travel: digests of blocks, and stretches of order.

A digest of a set of rows is their number and the sum of a hash of each: the same for the same rows in any order, and
added up where the rows of a block lie in several files. (Two sets that differ have the same digest with a chance of
2^-64.) Of deliveries there are two kinds, for two questions:

- `KEYED`, by site, address and block of order keys, a hash of message and key: where all sites that have a block agree,
  each of its messages has one key;
- `GOT`, by site, address and block of messages, a hash of message, source and number; beside it `SENT`, the same of the
  multicasts. Where every member has got what was sent, nothing is missing, doubled, made up or astray.

A stretch is what one site has in one batch of rows: from which row to which, its lowest key and its highest. Where it
does not ascend, the keys between the ends of each step back are a span; the messages beside such a step are `TURN`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from ordercast.check.facts.columns import Ints
from ordercast.spark.verify.large.survey import KeyBlocks

KEYED, GOT, SENT, STRETCH, SPAN, TURN, SENDING, FROM_SOURCE = range(8)
"""What a row of the evidence is."""

NUMBERS: Final = ("sends", "site", "seq", "id", "address", "source", "number", "odd")
"""What is read of an event, behind which come the numbers of its key. `site`, `id`, `address` and `source` are hashes;
`odd` is a multicast whose name is not that of its source and number."""
_SAID: Final = ("site", "address", "block", "rows", "low", "high", "first", "last", "id")

_TURNS_MAX: Final = 1000
"""Steps back of a batch of which the messages are named: that many pairs are wrong, and more need not be shown."""

Rows: TypeAlias = dict[str, Ints]
WithRank: TypeAlias = Callable[[Ints], list[Ints]]
"""From ranks to the keys that have them."""


def evidence_schema(key_length: int) -> pa.Schema:
    """what, and what is said: numbers only, 0 where there is nothing to be said."""
    keys = [f"{end}_{place}" for end in ("low", "high") for place in range(key_length)]
    return pa.schema([("what", pa.int8()), *((name, pa.int64()) for name in (*_SAID, *keys))])


class Digesting:
    """From batches of numbers to evidence."""

    def __init__(self, key_length: int, key_blocks: KeyBlocks, blocks: int) -> None:
        self._keys = [f"key_{place}" for place in range(key_length)]
        self._key_blocks = key_blocks
        self._blocks = blocks
        self._schema = evidence_schema(key_length)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = {
                name: column.to_numpy(zero_copy_only=False)
                for name, column in zip((*NUMBERS, *self._keys), batch.columns, strict=True)
            }
            sends = rows["sends"].astype(bool)
            for own, of_rows in ((sends, self._of_multicasts), (~sends, self._of_deliveries)):
                if own.any():
                    chosen = _in_order({name: column[own] for name, column in rows.items()})
                    for what, said in of_rows(chosen):
                        yield self._batch(what, said)

    def _of_multicasts(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        yield SENT, self._by_message(rows)
        # Names that are their source's and number's own, and numbers that ascend: no message is multicast twice.
        for own in _of_one(rows["site"]):
            number = rows["number"][own]
            strange = int(rows["odd"][own].any() or (np.diff(number) <= 0).any())
            yield SENDING, _stretch(rows, own) | _one(low=number.min(), high=number.max(), rows=strange)

    def _of_deliveries(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        yield GOT, self._by_message(rows)
        yield from ((FROM_SOURCE, said) for said in _from_sources(rows))
        if not self._keys:
            return
        keys = [rows[name] for name in self._keys]
        place, low, width = self._key_blocks
        block = (keys[place] - low) // width
        yield KEYED, digests(rows["site"], rows["address"], block, mixed(rows["id"], *keys))
        for own in _of_one(rows["site"]):
            yield from self._order(rows, own)

    def _by_message(self, rows: Rows) -> Rows:
        block = rows["id"] % self._blocks
        return digests(rows["site"], rows["address"], block, mixed(rows["id"], rows["source"], rows["number"]))

    def _order(self, rows: Rows, own: slice) -> Iterator[tuple[int, Rows]]:
        """Of one site's deliveries in their order."""
        keys = [rows[name][own] for name in self._keys]
        rank, with_rank = ranked(keys)
        lowest, highest = (with_rank(np.array([end])) for end in (rank.min(), rank.max()))
        ids = rows["id"][own]
        yield STRETCH, _stretch(rows, own) | self._between(lowest, highest)
        for end in (ids[:1], ids[-1:]):
            yield TURN, {"id": end}
        low, high = steps_back(rank)
        if len(low):
            yield SPAN, self._between(with_rank(low), with_rank(high))
            back = np.flatnonzero(np.diff(rank) <= 0)[:_TURNS_MAX]
            yield TURN, {"id": ids[np.unique(np.concatenate([back, back + 1]))]}

    def _between(self, low: Sequence[Ints], high: Sequence[Ints]) -> Rows:
        named = {f"low_{place}": column for place, column in enumerate(low)}
        return named | {f"high_{place}": column for place, column in enumerate(high)}

    def _batch(self, what: int, said: Rows) -> pa.RecordBatch:
        length = len(next(iter(said.values())))
        nothing = np.zeros(length, dtype=np.int64)
        columns = [pa.array(said.get(name, nothing), pa.int64()) for name in self._schema.names[1:]]
        return pa.record_batch([pa.array(np.full(length, what, dtype=np.int8)), *columns], schema=self._schema)


# ---------------------------------------------------------------------- digests
def digests(site: Ints, address: Ints, block: Ints, hashes: np.ndarray) -> Rows:
    """site, address, block, rows, and the sums of the halves of the hashes: a sum of whole ones would overflow."""
    cell = mixed(site, address, block)
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[order], prepend=~cell[order[:1]]))
    first, hashes = order[starts], hashes[order]
    return {
        "site": site[first],
        "address": address[first],
        "block": block[first],
        "rows": np.diff(np.append(starts, len(order))),
        "low": np.add.reduceat((hashes & np.uint64(0xFFFFFFFF)).astype(np.int64), starts),
        "high": np.add.reduceat((hashes >> np.uint64(32)).astype(np.int64), starts),
    }


def mixed(*columns: Ints) -> np.ndarray:
    """A hash of the numbers in each row (the finalizer of splitmix64, once for each column)."""
    state = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        state = (state ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


# ---------------------------------------------------------------------- order
def ranked(keys: Sequence[Ints]) -> tuple[Ints, WithRank]:
    """The rank of each key among all, equal keys with equal ranks; and the way back."""
    if len(keys) == 1:
        return keys[0], lambda rank: [rank]
    order = np.lexsort(keys[::-1])
    new = np.zeros(len(order), dtype=bool)
    for key in keys:
        new[1:] |= np.diff(key[order]) != 0
    place = np.cumsum(new)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = place
    first = order[np.searchsorted(place, np.arange(place[-1] + 1))]
    return rank, lambda wanted: [key[first[wanted]] for key in keys]


def steps_back(rank: Ints) -> tuple[Ints, Ints]:
    """The spans, lowest and highest, over which an order does not ascend; those that overlap taken together."""
    so_far = np.maximum.accumulate(rank)[:-1]
    wrong = rank[1:] <= so_far
    return united(rank[1:][wrong], so_far[wrong])


def united(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Spans that overlap, taken together."""
    if not len(low):
        return low, high
    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    begins = np.append(True, low[1:] > reach[:-1])
    ends = np.append(np.flatnonzero(begins)[1:], len(low)) - 1
    return low[begins], reach[ends]


def _from_sources(rows: Rows) -> Iterator[Rows]:
    """Of each source at each site: do its numbers ascend (`block`: 1 where not), and are there two to one address
    (`rows`)?"""
    order = np.argsort(mixed(rows["site"], rows["source"]), kind="stable")
    site, source, number, address, seq = (rows[name][order] for name in ("site", "source", "number", "address", "seq"))
    same = (np.diff(site) == 0) & (np.diff(source) == 0)
    starts = np.append(0, np.flatnonzero(~same) + 1)
    ends = np.append(starts[1:], len(order)) - 1
    back = np.append(False, same & (np.diff(number) <= 0))
    twice = np.append(False, same & (np.diff(address) == 0))
    yield {
        "site": site[starts],
        "address": source[starts],
        "block": np.maximum.reduceat(back.astype(np.int64), starts),
        "rows": np.maximum.reduceat(twice.astype(np.int64), starts),
        "low": np.minimum.reduceat(number, starts),
        "high": np.maximum.reduceat(number, starts),
        "first": seq[starts],
        "last": seq[ends],
    }


def _in_order(rows: Rows) -> Rows:
    """Sorted by site and seq; most batches are."""
    site, seq = rows["site"], rows["seq"]
    same = site[1:] == site[:-1]
    if (np.diff(seq)[same] > 0).all() and np.count_nonzero(~same) < len(np.unique(site)):
        return rows
    order = np.lexsort((seq, site))
    return {name: column[order] for name, column in rows.items()}


def _of_one(site: Ints) -> Iterator[slice]:
    starts = [0, *(np.flatnonzero(np.diff(site)) + 1).tolist(), len(site)]
    yield from (slice(low, high) for low, high in pairwise(starts))


def _stretch(rows: Rows, own: slice) -> Rows:
    seq = rows["seq"][own]
    return _one(site=rows["site"][own][0], first=seq[0], last=seq[-1])


def _one(**said: int | np.integer) -> Rows:
    return {name: np.array([value], dtype=np.int64) for name, value in said.items()}
