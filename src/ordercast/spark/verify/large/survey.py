"""A large run read once: what is judged message by message, and whether its keys tell one order.

Rows go to their parts by message. There the judges judge, and beside them three things are noted that the judging of
order wants to know: whether a message has one key wherever it is delivered, whether its deliveries name the source and
the number of its multicast, and how many messages of which source and address are delivered at which set of sites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check import choose
from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Bools, Ints, stable_order
from ordercast.check.judging import judge_facts
from ordercast.check.verdict import Finding
from ordercast.spark.verify.large.ascent import Ascent
from ordercast.spark.verify.large.names import mix, number_texts
from ordercast.spark.verify.large.obligations import EXPLICIT
from ordercast.spark.verify.large.packs import Cut, Find, Rows, ask_packs
from ordercast.spark.verify.large.parts import (
    ABOUT_A_MESSAGE,
    ABOUT_SITES,
    COLUMNS_OF_PARTS,
    FOUND,
    ONLY_OF,
    collect_findings,
    found_rows,
)
from ordercast.spark.verify.large.tables import BITS, words_of
from ordercast.trace.schema import COLUMNS, Run

_READ: Final = (*COLUMNS_OF_PARTS, "source_seq", "order_key")
_KEY, _SENDER = "key", "sender"
"""Columns of numbers: of a delivery its key, and of a delivery or multicast the source with its number for it."""


class Survey(NamedTuple):
    """What came of it."""

    findings: dict[str, Finding]
    one_key: bool
    """Whether every message has the same key wherever it is delivered, and every delivery has one."""
    one_sender: bool
    """Whether all deliveries of a message say of whom and of which number it is, as its only multicast does."""
    sets: DataFrame
    """source, address, the words of a set of sites, at (how many sites), count (of messages)."""


def take_survey(rows: Rows, ascent: Ascent, count: int, properties: Sequence[str], part_rows: int) -> DataFrame:
    """Of so many rows in all; what the parts say, for `read_survey`, when it has been kept."""
    parts = max(1, -(-count // part_rows))
    packs = rows.pack(_READ, _cut(parts, ascent.key_length))
    return ask_packs(packs, _survey_part(rows.run, ascent.sites, properties), _surveyed(len(ascent.sites)))


def read_survey(said: DataFrame, run: Run, sites: Sequence[str], properties: Sequence[str]) -> Survey:
    """What they say together."""
    findings = collect_findings(said.where(F.col("property").isNotNull()).select(*FOUND.names), run, properties)
    noted = said.agg(F.min("one_key"), F.min("one_sender")).collect()[0]
    sets = said.where(F.col("count").isNotNull()).select("source", "address", *words_of(len(sites)), "at", "count")
    summed = sets.groupBy("source", "address", *words_of(len(sites)), "at").agg(F.sum("count").alias("count"))
    return Survey(findings, bool(noted[0]), bool(noted[1]), summed)


def _surveyed(sites: int) -> pa.Schema:
    noted = [("one_key", pa.bool_()), ("one_sender", pa.bool_())]
    of_sets = [("source", pa.string()), ("address", pa.list_(pa.string()))]
    of_sets += [(word, pa.int64()) for word in words_of(sites)]
    of_sets += [("at", pa.int64()), ("count", pa.int64())]
    return pa.schema([*FOUND, *(pa.field(name, kind) for name, kind in (*noted, *of_sets))])


# ---------------------------------------------------------------------- where rows are read
def _cut(parts: int, key_length: int) -> Cut:
    """Every message with all that concerns it in one part; what is about sites in each."""

    def cut(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        if not len(table):
            return
        kind = _coded(table.column("kind"))
        kinds = kind.dictionary.to_pylist()
        codes = kind.indices.to_numpy()

        def is_of(*names: str) -> Bools:
            return np.isin(codes, [code for code, name in enumerate(kinds) if name in names])

        message = _coded(table.column("message"))
        number = np.append(number_texts(message.dictionary), np.uint64(0))
        indices = message.indices.fill_null(len(message.dictionary)).to_numpy()
        part = (number % np.uint64(parts)).astype(np.int64)
        about = np.flatnonzero(is_of(*ABOUT_A_MESSAGE))
        of_sites = np.flatnonzero(is_of(*ABOUT_SITES))
        serving, served_part = _sends(table.column("messages"), np.flatnonzero(is_of("send")), parts)
        row = np.concatenate([about, np.repeat(of_sites, parts), serving])
        of_row = np.concatenate([part[indices[about]], np.tile(np.arange(parts), len(of_sites)), served_part])
        if not len(row):
            return
        order = stable_order(of_row)
        row, of_row = row[order], of_row[order]
        chosen = _columns(table, row, is_of, message)
        chosen |= _numbers(table, row, is_of("deliver"), is_of("multicast"), key_length)
        taken = pa.table(chosen)
        starts = np.flatnonzero(np.diff(of_row, prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(row)], strict=True):
            yield int(of_row[start]), taken.slice(start, end - start)

    return cut


def _coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    array = column.combine_chunks()
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def _sends(lists: pa.ChunkedArray, rows: Ints, parts: int) -> tuple[Ints, Ints]:
    """Packets and the parts of the messages that they serve: a packet that serves those of several goes to all."""
    if not len(rows):
        return rows, rows
    own = lists.take(pa.array(rows)).combine_chunks()
    served = pc.list_flatten(own)
    owner = rows[pc.list_parent_indices(own).to_numpy(zero_copy_only=False)]
    part = (number_texts(served) % np.uint64(parts)).astype(np.int64)
    both = np.unique(owner.astype(np.int64) * parts + part)
    return both // parts, both % parts


def _columns(table: pa.Table, row: Ints, is_of: Any, message: pa.DictionaryArray) -> dict[str, pa.Array]:
    """What the judges look at, of these rows; with null where they do not look, and deliveries are many."""
    delivers = is_of("deliver")
    chosen: dict[str, pa.Array] = {}
    for name in COLUMNS_OF_PARTS:
        column = table.column(name)
        if name == "message":
            # In plain texts: a part has few of those that are read with it.
            chosen[name] = message.dictionary.take(message.indices.take(pa.array(row)))
            continue
        unseen = delivers if COLUMNS[name].startswith("list") else None
        if name in ONLY_OF:
            unseen = ~is_of(ONLY_OF[name])
        places = pa.array(row, mask=None if unseen is None else unseen[row])
        if column.null_count == len(column):
            taken = pa.nulls(len(row), column.type)
        else:
            taken = column.take(places).combine_chunks()
        # Whether texts come as codes depends on the file, and the pieces of a part must be alike.
        is_plain = COLUMNS[name] == "string" and not pa.types.is_dictionary(taken.type)
        chosen[name] = taken.dictionary_encode() if is_plain else taken
    return chosen


def _numbers(table: pa.Table, row: Ints, delivers: Bools, multicasts: Bools, key_length: int) -> dict[str, pa.Array]:
    delivery, multicast = delivers[row], multicasts[row]
    key = np.zeros(len(row), dtype=np.uint64)
    if key_length:
        lists = table.column("order_key").combine_chunks().take(pa.array(row[delivery]))
        keys = pc.fill_null(pc.list_flatten(lists), 0).to_numpy(zero_copy_only=False).reshape(-1, key_length)
        hashed = np.zeros(len(keys), dtype=np.uint64)
        for place in range(key_length):
            hashed = mix(hashed ^ keys[:, place].astype(np.int64).view(np.uint64)) + np.uint64(1)
        key[delivery] = hashed
    site, source = _coded(table.column("site")), _coded(table.column("source"))
    of_site = number_texts(site.dictionary)[site.indices.to_numpy()] if len(site.dictionary) else key
    of_source = np.append(number_texts(source.dictionary), np.uint64(0))
    of_source = of_source[source.indices.fill_null(len(source.dictionary)).to_numpy()]
    number = pc.fill_null(table.column("source_seq"), -1).to_numpy()[row]
    whose = np.where(multicast, of_site[row], of_source[row])
    sender = mix(mix(number.astype(np.int64).view(np.uint64)) ^ whose)
    known = (delivery | multicast) & (number >= 0)
    return {
        _KEY: pa.array(key.view(np.int64), mask=~(delivery & bool(key_length))),
        _SENDER: pa.array(sender.view(np.int64), mask=~known),
    }


# ---------------------------------------------------------------------- in a part
def _survey_part(run: Run, sites: Sequence[str], properties: Sequence[str]) -> Find:
    choice = choose(properties)
    place = {site: code for code, site in enumerate(sites)}
    schema = _surveyed(len(sites))

    def survey(part: int, rows: pa.Table) -> pa.Table:
        facts = Facts(run, rows)
        said: list[dict[str, Any]] = []
        if properties:
            for verdict in judge_facts(facts, choice).values():
                said += found_rows(part, verdict)
        rows_of, message = facts.deliveries.rows, facts.deliveries.message
        every = np.arange(facts.columns.length)
        key, sender = (facts.columns.numbers(name, every) for name in (_KEY, _SENDER))
        multicast = facts.messages.row
        sent = _Numbers(sender[0][multicast], sender[1][multicast])
        multicasts = facts.columns.rows("multicast")
        once = len(np.unique(facts.columns.message[multicasts])) == len(multicasts)
        one_key = _is_one(_Numbers(key[0][rows_of], key[1][rows_of]), message, facts.columns.message_count)
        one_sender = once and _is_one(_Numbers(sender[0][rows_of], sender[1][rows_of]), message, len(multicast), sent)
        said.append({"part": part, "one_key": one_key, "one_sender": one_sender})
        found = pa.Table.from_pylist(said, schema=schema)
        return pa.concat_tables([found, _sets(facts, place, schema)])

    return survey


class _Numbers(NamedTuple):
    value: Ints
    present: Bools


def _is_one(numbers: _Numbers, message: Ints, count: int, wanted: _Numbers | None = None) -> bool:
    """Whether deliveries have a number each, and those of one message the same, which is the one wanted."""
    if not numbers.present.all():
        return False
    if wanted is None:
        of_message = np.zeros(count, dtype=np.int64)
        of_message[message] = numbers.value
        return bool((of_message[message] == numbers.value).all())
    return bool(wanted.present[message].all() and (wanted.value[message] == numbers.value).all())


def _sets(facts: Facts, place: dict[str, int], schema: pa.Schema) -> pa.Table:
    """How many messages of which source and address are delivered at which sites."""
    present = facts.deliveries.first_row >= 0
    delivered = np.flatnonzero(present.any(axis=0))
    words = np.zeros((len(place) // BITS + 1, len(delivered)), dtype=np.int64)
    for code, site in enumerate(facts.columns.sites):
        at = place.get(site)
        if at is not None:
            words[at // BITS] |= present[code, delivered].astype(np.int64) << (at % BITS)
    words = words[: len(words_of(len(place)))]
    messages = facts.messages
    kinds = np.vstack([messages.source[delivered], messages.address[delivered], words])
    order = np.lexsort(kinds)
    begins = np.flatnonzero(np.concatenate([[True], (np.diff(kinds[:, order], axis=1) != 0).any(axis=0)])[: len(order)])
    count = np.diff(np.append(begins, len(order)))
    source, address, *of_sites = kinds[:, order[begins]]
    names = [*facts.columns.sites, None]
    addresses = [[EXPLICIT, *sorted(of)] if explicit else sorted(of) for explicit, of in messages.addresses]
    columns: dict[str, Any] = {
        "source": [names[code] for code in source.tolist()],
        "address": [addresses[number] for number in address.tolist()],
        "at": np.bitwise_count(np.array(of_sites, dtype=np.int64)).sum(axis=0).astype(np.int64)
        if len(count)
        else np.zeros(0, dtype=np.int64),
        "count": count,
    }
    columns |= dict(zip(words_of(len(place)), of_sites, strict=True))
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(len(count), field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)
