"""Did a large run oblige the protocol to any order at all? (Where it did not, a property is vacuous.)

Messages are put together by the set of sites that deliver them. There are few such sets in most runs; and where there
are more than pairs of sites, two of them have a pair in common.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.spark.verify.large_tables import BITS, Tables


def oblige(tables: Tables, name: str) -> bool:
    """Whether anything in the run could have violated the order property of that name."""
    if not tables.sites:
        return False
    if name == "acyclic-order":
        return _two_messages_at_a_site(tables)
    if name == "single-source-order":
        return _two_messages_at_two_sites(tables, with_address(tables), ["source", "address"])
    if name == "multiple-source-order":
        known = with_address(tables, unknown=True)
        return _two_messages_at_two_sites(tables, known, ["address"])
    return _two_messages_at_two_sites(tables, tables.messages, [])


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
    explicit = F.concat(F.array(F.lit("\x00destinations")), destinations)
    return F.when(F.size(destinations) > 0, explicit).otherwise(groups).alias("address")


def with_address(tables: Tables, unknown: bool = False) -> DataFrame:
    """The messages with source and address; those that nobody has multicast, if wanted, with the empty address."""
    joined = tables.messages.join(first_multicasts(tables), "id", "left" if unknown else "inner")
    return joined.withColumn("address", F.coalesce("address", F.array().cast("array<string>")))


def sites_of(tables: Tables) -> Column:
    """The codes of the sites in the words of a message."""
    words = F.array(*tables.words)
    codes = F.array(*(F.lit(code) for code in range(len(tables.sites))))

    def contains(code: Column) -> Column:
        word = F.element_at(words, (F.floor(code / F.lit(BITS)) + 1).cast("int"))
        return F.bit_get(word, F.pmod(code, F.lit(BITS))) == 1

    return F.filter(codes, contains)


def _two_messages_at_a_site(tables: Tables) -> bool:
    sets = tables.messages.groupBy(*tables.words).agg(F.count("*").alias("count"))
    sites = sets.select(F.explode(sites_of(tables)).alias("site"), "count")
    return not sites.groupBy("site").agg(F.sum("count").alias("count")).where("count > 1").isEmpty()


def _two_messages_at_two_sites(tables: Tables, messages: DataFrame, related_by: list[str]) -> bool:
    sets = messages.where("at > 1").groupBy(*related_by, *tables.words).agg(F.count("*").alias("count"))
    summary = sets.groupBy(*related_by).agg(F.max("count").alias("most"), F.count("*").alias("sets"))
    pairs = len(tables.sites) * (len(tables.sites) - 1) // 2
    if not summary.where((F.col("most") > 1) | (F.col("sets") > pairs)).isEmpty():
        return True
    # Now every set has one message, and there are no more sets of a kind than pairs of sites.
    sites = sets.withColumn("x", F.explode(sites_of(tables))).withColumn("y", F.explode(sites_of(tables)))
    common = sites.where("x < y").groupBy(*related_by, "x", "y").agg(F.sum("count").alias("count"))
    return not common.where("count > 1").isEmpty()
