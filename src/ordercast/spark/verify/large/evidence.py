"""What the tasks have said of a large run, put together: which blocks differ, and over which keys order is in doubt.

One pass over the deliveries and multicasts, from which nothing but evidence comes back (`digesting`); everything here
works on that, and looks at rows only where it must.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from ordercast.spark.verify.large import digesting
from ordercast.spark.verify.large.columns import hash_of, kept, key_names
from ordercast.spark.verify.large.digesting import Digesting, evidence_schema
from ordercast.spark.verify.large.packs import ask_parts
from ordercast.spark.verify.large.spans import Span, unite_spans
from ordercast.spark.verify.large.survey import Survey
from ordercast.trace.schema import Run

ADDRESSES_MAX: Final = 1 << 12
"""Different addresses that are told apart on the driver."""
_SUMS: Final = ("rows", "low", "high")


@dataclass(frozen=True)
class Evidence:
    """What is known of a run's deliveries and multicasts without a row of them."""

    run: Run
    survey: Survey
    numbers: DataFrame
    """The rows themselves, as the numbers of which the evidence was made."""
    said: DataFrame
    part_rows: int

    # ------------------------------------------------------------------ by message
    @cached_property
    def differing(self) -> list[int] | None:
        """The blocks of messages in which not every member has got exactly what was sent; None: nothing is known,
        because members come and go, deliveries are taken back, or names and numbers are not the usual ones."""
        unsteady = ("join", "leave", "activate", "rollback")
        if self.run.services or not self.run.groups or any(kind in self.survey.kinds for kind in unsteady):
            return None
        if any(":" in site for site in self.survey.sites) or self._multicasts_in_doubt():
            return None
        members = self._members()
        if members is None:
            return None
        sent = self._said(digesting.SENT).groupBy("address", "block").agg(*map(_sum, _SUMS))
        owed = sent.join(F.broadcast(members), "address").select("site", "address", "block", *_SUMS)
        got = self._said(digesting.GOT).select(
            "site", "address", "block", *((-F.col(name)).alias(name) for name in _SUMS)
        )
        left = owed.unionByName(got).groupBy("site", "address", "block").agg(*map(_sum, _SUMS))
        wrong = left.where(" or ".join(f"{name} <> 0" for name in _SUMS)).select("block").distinct()
        return sorted(row["block"] for row in wrong.collect())

    def _multicasts_in_doubt(self) -> bool:
        return not _in_disorder(self._said(digesting.SENDING), "rows > 0", "low", ["site"]).isEmpty()

    def _members(self) -> DataFrame | None:
        """address, site: who is owed what is sent there."""
        sent = self.numbers.where("sends").groupBy("address")
        found = sent.agg(F.first("groups").alias("groups"), F.first("destinations").alias("destinations"))
        addresses = found.limit(ADDRESSES_MAX + 1).collect()
        if len(addresses) > ADDRESSES_MAX:
            return None
        rows = []
        for row in addresses:
            groups = row["groups"] or []
            named = row["destinations"] or [site for group in groups for site in self.run.groups.get(group, [])]
            rows += [(row["address"], site) for site in dict.fromkeys(named)]
        frame = self.numbers.sparkSession.createDataFrame(rows, "address long, name string")
        return frame.select("address", F.xxhash64("name").alias("site"))

    # ------------------------------------------------------------------ by source
    @cached_property
    def sending_disorder(self) -> DataFrame:
        """site, source (hashes): where a source's numbers do not ascend at a site, whatever the address."""
        return (
            _in_disorder(self._said(digesting.FROM_SOURCE), "block > 0", "low", ["site", "address"])
            .select("site", F.col("address").alias("source"))
            .distinct()
        )

    @property
    def two_of_a_source(self) -> bool:
        """Whether some site has delivered two messages of a source to one address."""
        return not self._said(digesting.FROM_SOURCE).where("rows > 0").isEmpty()

    @cached_property
    def numbers_are_sound(self) -> bool:
        """Whether each delivery bears the source and the number of its multicast: digests say so, and rows where these
        differ."""
        if self.differing is None or len(self.differing) > self.survey.blocks // 2:
            return False
        if not self.differing:
            return True
        rows = self.numbers.where(self.block_of_message.isin(self.differing)).select("sends", "id", "source", "number")
        sent = rows.where("sends").select("id", F.col("source").alias("by"), F.col("number").alias("as"))
        told = rows.where("not sends").join(sent, "id", "left")
        return told.where("by is null or source <> by or number <> `as`").isEmpty()

    # ------------------------------------------------------------------ by key
    @cached_property
    def spans(self) -> list[Span] | None:
        """Over which keys the keys do not tell the order; None: there are no keys, or far too many spans."""
        if not self.survey.key_length:
            return None
        names = self.keys
        low, high = (F.struct(*(F.col(f"{end}_{name[4:]}").alias(name) for name in names)) for end in ("low", "high"))
        between = self._said(digesting.SPAN).select(low.alias("low"), high.alias("high"))
        stretches = self._said(digesting.STRETCH).select("site", "first", "last", low.alias("low"), high.alias("high"))
        before = Window.partitionBy("site").orderBy("first").rowsBetween(Window.unboundedPreceding, -1)
        steps = stretches.select("low", F.max("high").over(before).alias("high"))
        return unite_spans(between.unionByName(steps.where("low <= high")).unionByName(self._with_several_keys()))

    @property
    def keys(self) -> list[str]:
        return key_names(self.survey.key_length)

    @property
    def turns(self) -> DataFrame:
        """id: messages beside a step back, and at the ends of stretches."""
        return self._said(digesting.TURN).select("id").distinct()

    @cached_property
    def is_sorted(self) -> bool:
        """Whether no site's rows lie in batches that overlap: what a batch says of order is then the order."""
        stretches = self._said(digesting.FROM_SOURCE).unionByName(self._said(digesting.SENDING))
        stretches = stretches.unionByName(self._said(digesting.STRETCH))
        before = Window.partitionBy("what", "site", "address").orderBy("first")
        before = before.rowsBetween(Window.unboundedPreceding, -1)
        return stretches.select("first", F.max("last").over(before).alias("last")).where("first <= last").isEmpty()

    def _with_several_keys(self) -> DataFrame:
        """low, high: of each message with several keys the lowest and the highest.

        Where the addresses that deliveries bear may be wrong, a message can stand in blocks of two addresses, and each
        of them agree; so all rows of such messages are looked at.
        """
        place, low, width = self.survey.key_blocks
        block = F.expr(f"({self.keys[place]} - ({low})) div {width}")
        deliveries = self.numbers.where("not sends").withColumn("block", block)
        if self.differing is None or len(self.differing) > self.survey.blocks // 2:
            doubtful = deliveries
        else:
            by_site = self._said(digesting.KEYED).groupBy("site", "address", "block").agg(*map(_sum, _SUMS))
            ends = [end(name).alias(f"{end.__name__}_{name}") for name in _SUMS for end in (F.min, F.max)]
            unequal = by_site.groupBy("address", "block").agg(*ends)
            unequal = unequal.where(" or ".join(f"min_{name} <> max_{name}" for name in _SUMS))
            doubtful = deliveries.join(F.broadcast(unequal.select("address", "block")), ["address", "block"])
            if self.differing:
                doubtful = doubtful.select(*deliveries.columns).unionByName(
                    deliveries.where(self.block_of_message.isin(self.differing))
                )
        return _differing_keys(doubtful, self.keys, self.part_rows, sum(self.survey.rows))

    @property
    def block_of_message(self) -> Column:
        return F.pmod("id", F.lit(self.survey.blocks))

    def _said(self, what: int) -> DataFrame:
        return self.said.where(F.col("what") == what)


@contextmanager
def collect_evidence(events: DataFrame, run: Run, survey: Survey, part_rows: int) -> Iterator[Evidence]:
    """One pass over the rows as they lie; where a site's rows are scattered over files, a second one over them sorted.
    The evidence lives, on disk, as long as the block."""
    numbers = as_numbers(events, survey.key_length)
    for rows in (numbers, numbers.repartition("site").sortWithinPartitions("site", "seq")):
        digest = Digesting(survey.key_length, survey.key_blocks, survey.blocks)
        columns = [*digesting.NUMBERS, *key_names(survey.key_length)]
        said = rows.select(*columns).mapInArrow(digest, from_arrow_schema(evidence_schema(survey.key_length)))
        with kept(said) as known:
            evidence = Evidence(run, survey, numbers, known, part_rows)
            if rows is not numbers or evidence.is_sorted:
                yield evidence
                return


def as_numbers(events: DataFrame, key_length: int) -> DataFrame:
    """Deliveries and multicasts: the numbers of `digesting.NUMBERS` and of the keys; time, groups and destinations."""
    rows = events.where(F.col("kind").isin("multicast", "deliver") & F.col("message").isNotNull())
    sends = F.col("kind") == "multicast"
    own_name = F.col("message").startswith(F.concat("site", F.lit(":"))) & F.col("message").endswith(
        F.concat(F.lit(":"), F.col("source_seq").cast("string"))
    )
    return rows.select(
        sends.alias("sends"),
        F.xxhash64("site").alias("site"),
        "seq",
        hash_of(F.col("message")).alias("id"),
        F.xxhash64("groups", "destinations").alias("address"),
        F.xxhash64(F.when(sends, F.col("site")).otherwise(F.col("source"))).alias("source"),
        F.coalesce("source_seq", F.lit(-1).cast("long")).alias("number"),
        (sends & ~F.coalesce(own_name, F.lit(False))).alias("odd"),
        *[F.get("order_key", F.lit(place)).alias(key) for place, key in enumerate(key_names(key_length))],
        "time",
        "groups",
        "destinations",
    )


def _sum(name: str) -> Column:
    return F.sum(name).alias(name)


def _in_disorder(stretches: DataFrame, within: str, number: str, of: Sequence[str]) -> DataFrame:
    """The stretches in which, or before which, numbers do not ascend."""
    before = Window.partitionBy(*of).orderBy("first").rowsBetween(Window.unboundedPreceding, -1)
    after = stretches.withColumn("so_far", F.max("high").over(before))
    return after.where(f"{within} or {number} <= so_far")


# ---------------------------------------------------------------------- rows that must be looked at
def _differing_keys(deliveries: DataFrame, keys: Sequence[str], part_rows: int, rows: int) -> DataFrame:
    parts = max(1, -(-rows // part_rows))
    own = deliveries.select(F.pmod("id", F.lit(parts)).cast("int").alias("part"), "id", *keys)
    ends = [f"{end}_{place}" for end in ("low", "high") for place in range(len(keys))]
    found = ask_parts(own, _several_keys, pa.schema([(name, pa.int64()) for name in ends]))
    low, high = (F.struct(*(F.col(f"{end}_{name[4:]}").alias(name) for name in keys)) for end in ("low", "high"))
    return found.select(low.alias("low"), high.alias("high"))


def _several_keys(_: int, rows: pa.Table) -> pa.Table:
    """Of each message with several keys the lowest and the highest."""
    message, *keys = (column.to_numpy() for column in rows.columns)
    rank, with_rank = digesting.ranked(keys)
    order = np.argsort(message, kind="stable")
    starts = np.flatnonzero(np.diff(message[order], prepend=~message[order[:1]]))
    low, high = (end.reduceat(rank[order], starts) for end in (np.minimum, np.maximum))
    several = low < high
    columns: Mapping[str, object] = {
        f"{end}_{place}": column
        for end, ranks in (("low", low), ("high", high))
        for place, column in enumerate(with_rank(ranks[several]))
    }
    return pa.table(columns)
