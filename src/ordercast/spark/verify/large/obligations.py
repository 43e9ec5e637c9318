"""Did a large run oblige the protocol to any order at all? (Where it did not, a property is vacuous.)

An order property is about two messages that are related somehow (any two, two to one address, two of one source) and
meet at one site or at two. Messages are put together by source, address and the set of sites that deliver them. There
are few such sets in most runs; and where there are more of them than sites, or pairs of sites, two have one in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.spark.verify.large.blocks import a_block
from ordercast.spark.verify.large.columns import kept
from ordercast.spark.verify.large.tables import BITS, Tables, tabulate

EXPLICIT: Final = "\x00destinations"
"""What an address begins with that names destinations instead of groups."""


class _Relation(NamedTuple):
    """Which two messages a property is about."""

    related_by: tuple[str, ...] = ()
    """What they have in common: `source`, `address`."""
    meet_at: int = 2
    """At how many sites they must meet."""
    unknown: bool = True
    """Whether messages that nobody has multicast count; their address is empty."""


_RELATIONS: Final = {
    "acyclic-order": _Relation(meet_at=1),
    "single-source-order": _Relation(("source", "address"), unknown=False),
    "multiple-source-order": _Relation(("address",)),
    "multiple-group-order": _Relation(),
    "order-equivalence": _Relation(),
    "R2-logical": _Relation(),
    **{
        f"{name}{of}": relation
        for name in ("R1", "R2")
        for of, relation in (
            ("", _Relation()),
            ("-multiple-source", _Relation(("address",))),
            ("-single-source", _Relation(("source", "address"), unknown=False)),
        )
    },
}


def obliged(tables: Tables, names: Iterable[str]) -> frozenset[str]:
    """Those of these order properties that something in the run could have violated. Two passes at the most."""
    wanted = {name: _RELATIONS[name] for name in names}
    if not tables.sites or not wanted:
        return frozenset()
    if tables.evidence is not None and tables.evidence.survey.blocks > 1:
        # Two messages of one block oblige as well as any others; most runs need no more.
        with tabulate(a_block(tables), tables.run, tables.limits, digests=False) as some:
            found = obliged(some, wanted)
        return found | _obliged(tables, {name: each for name, each in wanted.items() if name not in found})
    return _obliged(tables, wanted)


def _obliged(tables: Tables, wanted: Mapping[str, _Relation]) -> frozenset[str]:
    if not wanted:
        return frozenset()
    relations = list(dict.fromkeys(wanted.values()))
    with kept(_sets(tables, relations)) as sets:
        found = _by_number_of_sets(tables, sets, relations)
        found |= _by_sites_in_common(tables, sets, [each for each in relations if each not in found])
    return frozenset(name for name, relation in wanted.items() if relation in found)


def first_multicasts(tables: Tables) -> DataFrame:
    """id, source, sent (seq at the source), address: of each message the first multicast row by time, site, seq."""
    rows = tables.events.where((F.col("kind") == "multicast") & F.col("message").isNotNull())
    first = F.min(F.struct("time", "site", "seq", "groups", "destinations")).alias("first")
    firsts = rows.groupBy(tables.id_of(F.col("message")).alias("id")).agg(first)
    return firsts.select("id", F.col("first.site").alias("source"), F.col("first.seq").alias("sent"), _address())


def _address() -> Column:
    """Groups and destinations of the same name are not the same address; an empty list is as good as none."""

    def names(column: str) -> Column:
        given = F.coalesce(F.col(column), F.array().cast("array<string>"))
        return F.array_sort(F.array_distinct(F.filter(given, lambda name: name.isNotNull())))

    groups, destinations = names("first.groups"), names("first.destinations")
    explicit = F.concat(F.array(F.lit(EXPLICIT)), destinations)
    return F.when(F.size(destinations) > 0, explicit).otherwise(groups).alias("address")


def _sets(tables: Tables, relations: Sequence[_Relation]) -> DataFrame:
    """source, address, the words of a set of sites, at (how many sites), count (of messages)."""
    messages = tables.messages
    if any(relation.related_by for relation in relations):
        messages = messages.join(first_multicasts(tables).drop("sent"), "id", "left")
    else:
        messages = messages.withColumns({"source": F.lit(None), "address": F.lit(None)})
    messages = messages.withColumns(
        {
            "source": F.col("source").cast("string"),
            "address": F.coalesce(F.col("address").cast("array<string>"), F.array().cast("array<string>")),
        }
    )
    return messages.groupBy("source", "address", *tables.words, "at").agg(F.count("*").alias("count"))


def _of_relations(sets: DataFrame, relations: Sequence[_Relation]) -> DataFrame:
    """The sets that count, once for each relation: its number, meet_at, and null for what is not asked for."""

    def of(number: int, relation: _Relation) -> DataFrame:
        counting = sets.where(F.col("at") >= relation.meet_at)
        if not relation.unknown:
            counting = counting.where(F.col("source").isNotNull())
        forgotten = [name for name in ("source", "address") if name not in relation.related_by]
        return counting.withColumns(
            {
                "relation": F.lit(number),
                "meet_at": F.lit(relation.meet_at),
                **{name: F.lit(None).cast(sets.schema[name].dataType) for name in forgotten},
            }
        )

    return reduce(DataFrame.unionByName, (of(number, relation) for number, relation in enumerate(relations)))


_KEYS: Final = ("relation", "meet_at", "source", "address")


def _by_number_of_sets(tables: Tables, sets: DataFrame, relations: Sequence[_Relation]) -> set[_Relation]:
    """Where a set has two messages, or there are more sets than there are sites, or pairs of sites, to tell them."""
    sites = len(tables.sites)
    counted = _of_relations(sets, relations).groupBy(*_KEYS, *tables.words).agg(F.sum("count").alias("count"))
    summary = counted.groupBy(*_KEYS).agg(F.max("count").alias("most"), F.count("*").alias("sets"))
    places = F.when(F.col("meet_at") == 1, sites).otherwise(sites * (sites - 1) // 2)
    return _collect(summary.where((F.col("most") > 1) | (F.col("sets") > places)), relations)


def _by_sites_in_common(tables: Tables, sets: DataFrame, relations: Sequence[_Relation]) -> set[_Relation]:
    """Now every set has one message, and there are no more sets of a kind than there are sites, or pairs of them."""
    if not relations:
        return set()
    of_relations = _of_relations(sets, relations)
    pairs = of_relations.withColumn("x", F.explode(sites_of(tables))).withColumn("y", F.explode(sites_of(tables)))
    meeting = pairs.where("if(meet_at = 1, x = y, x < y)")
    common = meeting.groupBy(*_KEYS, "x", "y").agg(F.sum("count").alias("count"))
    return _collect(common.where("count > 1"), relations)


def _collect(found: DataFrame, relations: Sequence[_Relation]) -> set[_Relation]:
    return {relations[row["relation"]] for row in found.select("relation").distinct().collect()}


def sites_of(tables: Tables) -> Column:
    """The codes of the sites in the words of a message."""
    words = F.array(*tables.words)
    codes = F.array(*(F.lit(code) for code in range(len(tables.sites))))

    def contains(code: Column) -> Column:
        word = F.element_at(words, (F.floor(code / F.lit(BITS)) + 1).cast("int"))
        return F.bit_get(word, F.pmod(code, F.lit(BITS))) == 1

    return F.filter(codes, contains)
