"""Do the order keys ascend along every site's deliveries, and where do they not?

Whoever reads a piece of a run says of each site in it from where to where it goes, and whether keys ascend in it.
Pieces that do not overlap are put together from that alone. Of the other sites, and of those where keys do not ascend,
all keys come together in one place, site by site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ordercast.check.facts.columns import Bools, Ints
from ordercast.spark.verify.large.packs import Cut, Find, Rows, ask_packs, split

KEY_LENGTH_MAX: Final = 8
"""Numbers in an order key; keys are one to three long."""
SPANS_MAX: Final = 1000
"""Spans of a site that are told apart: a site with more of them is wrong a thousand times."""

_READ: Final = ("site", "seq", "kind", "order_key")
_KEY: Final = pa.list_(pa.int64())
_PIECES: Final = pa.schema(
    [
        ("site", pa.string()),
        ("rows", pa.int64()),
        ("shortest", pa.int32()),
        ("longest", pa.int32()),
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
        ("first_key", _KEY),
        ("last_key", _KEY),
        ("ascends", pa.bool_()),
    ]
)
_SITES: Final = pa.schema(
    [
        ("site", pa.string()),
        ("rows", pa.int64()),
        ("shortest", pa.int32()),
        ("longest", pa.int32()),
        ("ascends", pa.bool_()),
    ]
)
_DESCENTS: Final = pa.schema([("site", pa.string()), ("low", _KEY), ("high", _KEY), ("odd", pa.list_(_KEY))])

Key = tuple[int, ...]


class Span(NamedTuple):
    """Keys from one to another."""

    low: Key
    high: Key


class Ascent(NamedTuple):
    """What the keys of a run say."""

    sites: Sequence[str]
    """Those that deliver anything, by name."""
    rows: Sequence[int]
    """Of each of them, the number of its deliveries."""
    key_length: int
    """0 where some delivery has no key, or the lengths differ."""
    doubtful: frozenset[str]
    """Sites of which it is not known that their keys ascend."""


class Descents(NamedTuple):
    """Where keys do not ascend, at some sites."""

    spans: list[Span]
    """Every two deliveries at one of the sites that are not in the order of their keys have both keys in one."""
    odd: frozenset[Key]
    """Of every two such deliveries one has such a key: without these, keys ascend."""


def find_ascent(rows: Rows) -> Ascent:
    """Of all sites."""
    found = ask_packs(rows.pack(_READ, _summaries), _put_together, _SITES).toArrow().to_pylist()
    found.sort(key=lambda row: str(row["site"]))
    shortest = min((row["shortest"] for row in found), default=0)
    longest = max((row["longest"] for row in found), default=0)
    key_length = shortest if shortest == longest <= KEY_LENGTH_MAX else 0
    doubtful = frozenset(row["site"] for row in found if not row["ascends"])
    return Ascent([row["site"] for row in found], [row["rows"] for row in found], key_length, doubtful)


def find_descents(rows: Rows, ascent: Ascent, odd_max: int) -> Descents | None:
    """At the doubtful sites; None where they are too many to be told."""
    codes = {site: code for code, site in enumerate(ascent.sites) if site in ascent.doubtful}
    found = ask_packs(rows.pack(_READ, _of_sites(codes)), _look_for_descents(odd_max), _DESCENTS).toArrow().to_pylist()
    if any(row["low"] is None for row in found):
        return None
    odd = frozenset(tuple(key) for row in found for key in row["odd"])
    if len(odd) > odd_max:
        return None
    return Descents(_merged(Span(tuple(row["low"]), tuple(row["high"])) for row in found), odd)


def _merged(spans: Iterator[Span]) -> list[Span]:
    """Those that overlap taken together, ascending."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.low <= merged[-1].high:
            merged[-1] = Span(merged[-1].low, max(merged[-1].high, span.high))
        else:
            merged.append(span)
    return merged


# ---------------------------------------------------------------------- pieces
def _deliveries(table: pa.Table) -> tuple[pa.Array, pa.Table]:
    """The deliveries of a piece by site and seq: the sites (as codes with names), and the rest."""
    chosen = table.filter(pc.equal(table.column("kind"), "deliver")).combine_chunks()
    site = chosen.column("site").combine_chunks()
    coded = site if pa.types.is_dictionary(site.type) else site.dictionary_encode()
    code, seq = coded.indices.to_numpy(), chosen.column("seq").to_numpy()
    step = np.diff(code)
    if len(code) > 1 and not ((step > 0) | ((step == 0) & (np.diff(seq) >= 0))).all():
        order = pa.array(np.lexsort((seq, code)))
        return coded.take(order), chosen.take(order)
    return coded, chosen


def _bounds(code: Ints) -> Iterator[tuple[int, int]]:
    starts = [0, *(np.flatnonzero(np.diff(code)) + 1).tolist()]
    return zip(starts, [*starts[1:], len(code)], strict=True)


def _keys(lists: pa.Array, length: int) -> Ints:
    """[row, place]: keys that have all so many numbers."""
    numbers = pc.fill_null(pc.list_flatten(lists), 0).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.int64).reshape(-1, length)


def _summaries(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    coded, chosen = _deliveries(table)
    if not len(coded):
        return
    lists = chosen.column("order_key").combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    seq, code, names = chosen.column("seq").to_numpy(), coded.indices.to_numpy(), coded.dictionary
    found = []
    for start, end in _bounds(code):
        shortest, longest = int(lengths[start:end].min()), int(lengths[start:end].max())
        row = {"site": names[int(code[start])].as_py(), "rows": end - start, "shortest": shortest, "longest": longest}
        row |= {"first_seq": int(seq[start]), "last_seq": int(seq[end - 1]), "ascends": False}
        if shortest == longest and 0 < longest <= KEY_LENGTH_MAX:
            keys = _keys(lists.slice(start, end - start), longest)
            row |= {"first_key": keys[0].tolist(), "last_key": keys[-1].tolist()}
            row["ascends"] = bool(_ascends(keys).all()) and bool((np.diff(seq[start:end]) > 0).all())
        found.append(row)
    yield 0, pa.Table.from_pylist(found, schema=_PIECES)


def _ascends(keys: Ints) -> Bools:
    """Of each key but the last, whether the next one is higher."""
    higher = np.zeros(len(keys) - 1, dtype=bool)
    for place in reversed(range(keys.shape[1])):
        before, after = keys[:-1, place], keys[1:, place]
        higher = (after > before) | ((after == before) & higher)
    return higher


def _put_together(_: int, pieces: pa.Table) -> pa.Table:
    of_site: dict[str, list[dict[str, Any]]] = {}
    for row in pieces.to_pylist():
        of_site.setdefault(row["site"], []).append(row)
    found = []
    for site, own in of_site.items():
        own.sort(key=lambda row: row["first_seq"])
        ascends = all(row["ascends"] for row in own) and all(
            before["last_seq"] < after["first_seq"] and before["last_key"] < after["first_key"]
            for before, after in pairwise(own)
        )
        found.append(
            {
                "site": site,
                "rows": sum(row["rows"] for row in own),
                "shortest": min(row["shortest"] for row in own),
                "longest": max(row["longest"] for row in own),
                "ascends": ascends,
            }
        )
    return pa.Table.from_pylist(found, schema=_SITES)


# ---------------------------------------------------------------------- descents
def _of_sites(codes: dict[str, int]) -> Cut:
    """The deliveries of these sites, a part for each."""

    def cut(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        coded, chosen = _deliveries(table)
        part = np.array([codes.get(name, -1) for name in coded.dictionary.to_pylist()], dtype=np.int64)
        part = part[coded.indices.to_numpy()] if len(coded) else part[:0]
        wanted = np.flatnonzero(part >= 0)
        columns = {"seq": chosen.column("seq"), "order_key": chosen.column("order_key")}
        columns["site"] = coded.dictionary_decode()
        yield from split(pa.table(columns).take(pa.array(wanted)), part[wanted])

    return cut


def _look_for_descents(odd_max: int) -> Find:
    def look(_: int, rows: pa.Table) -> pa.Table:
        lists, seq = rows.column("order_key").combine_chunks(), rows.column("seq").to_numpy()
        order = np.argsort(seq, kind="stable")
        keys = _keys(lists, len(lists[0]))[order]
        # Places among the different keys compare as the keys do.
        distinct, place = np.unique(keys, axis=0, return_inverse=True)
        place = place.ravel()
        highest = np.maximum.accumulate(place)
        below = np.flatnonzero(place[1:] <= highest[:-1]) + 1
        site = rows.column("site")[0].as_py()
        if not len(below):
            return _DESCENTS.empty_table()
        low, high = place[below], highest[below - 1]
        by_low = np.lexsort((high, low))
        low, high = low[by_low], np.maximum.accumulate(high[by_low])
        begins = np.flatnonzero(np.concatenate([[True], low[1:] > high[:-1]]))
        ends = np.append(begins[1:], len(low)) - 1
        odd = _odd(place)
        if len(begins) > SPANS_MAX or len(odd) > odd_max:
            return pa.Table.from_pylist([{"site": site, "odd": []}], schema=_DESCENTS)
        found = [
            {"site": site, "low": distinct[low[begin]].tolist(), "high": distinct[high[end]].tolist(), "odd": []}
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        found[0]["odd"] = distinct[odd].tolist()
        return pa.Table.from_pylist(found, schema=_DESCENTS)

    return look


def _odd(place: Ints) -> Ints:
    """Some without which the others ascend: at most twice as many as it takes, for of every two neighbours that do not
    ascend one has to go."""
    gone: list[Ints] = []
    while True:
        falls = np.flatnonzero(place[1:] <= place[:-1])
        if not len(falls):
            return np.unique(np.concatenate(gone)) if gone else place[:0]
        both = np.union1d(falls, falls + 1)
        gone.append(place[both])
        place = np.delete(place, both)
