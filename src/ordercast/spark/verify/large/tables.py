"""What the judging of a large run needs of its deliveries, message by message, as Spark tables.

A message goes by a hash of its name here: a number is grouped and sorted in half the time of a text. Two names with
the same hash would be taken for one message, so a second hash stands guard: where the two do not agree on which names
are equal, other hashes are taken. (That both fail for the same two names among 10^8 has a chance of 10^-23.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.spark.tables import events_schema
from ordercast.trace.schema import Run

BITS: Final = 63
"""Sites in one word of a set of sites: the bits of a long without its sign."""
KEY_LENGTH_MAX: Final = 8
"""Numbers in an order key; keys are one to three long, and each costs two columns."""


class Limits(NamedTuple):
    """How much of a run a worker holds at a time."""

    window_rows: int = 1 << 20
    """Deliveries that the merge looks at together: enough that numpy's fixed costs vanish; about 150 MB at work."""
    knot_rows_max: int = 1 << 22
    """How far that is widened for a knot: about 600 MB at work. A larger knot is reported, but not taken apart."""
    part_rows: int = 1 << 20
    """Rows that the judges get at a time: a file of the project's own writer; about 300 MB at work."""
    whole_rows: int = 1 << 22
    """Up to so many rows a run is judged as a whole where parts would not do: the past of every message takes a number
    for each source, about 1 GB at work."""


@dataclass(frozen=True)
class Tables:
    """The deliveries of one run, and what is known of them before anything is judged."""

    run: Run
    events: DataFrame
    """All events of the run, in all columns of the schema."""
    sites: Sequence[str]
    """Those that deliver anything, by name."""
    rows: Sequence[int]
    """Of each of them, the number of its deliveries."""
    deliveries: DataFrame
    """id, site, code (of the site, its place in `sites`), seq, key (numbers, as many as key_length)."""
    messages: DataFrame
    """By id: rows (deliveries), at (number of sites), the words of the set of these sites, one_key (whether all its
    deliveries have the same), key (the lowest)."""
    key_length: int
    """0 where some delivery has no key, or the lengths differ."""
    salt: int
    limits: Limits
    repeats: bool
    """Whether some site delivers a message more than once."""
    one_key: bool
    """Whether every message has the same key wherever it is delivered."""

    @property
    def words(self) -> list[str]:
        return _words(len(self.sites))

    @property
    def keys(self) -> list[str]:
        """The columns of a key."""
        return _keys(self.key_length)

    def id_of(self, message: Column) -> Column:
        return _hash(message, self.salt)

    def first_deliveries(self) -> DataFrame:
        """id, code, seq: the first delivery of each message at each site."""
        if not self.repeats:
            return self.deliveries.select("id", "code", "seq")
        return self.deliveries.groupBy("id", "code").agg(F.min("seq").alias("seq"))


def complete(events: DataFrame, run: Run) -> DataFrame:
    """The run's events with all columns of the schema; what is absent is null."""
    present = set(events.columns)
    columns = [
        F.col(field.name) if field.name in present else F.lit(None).cast(field.dataType).alias(field.name)
        for field in events_schema()
    ]
    return events.where(F.col("run") == run.run).select(*columns)


@contextmanager
def tabulate(spark: SparkSession, events: DataFrame, run: Run, limits: Limits) -> Iterator[Tables]:
    """Two passes over the events. The table of messages lives, on disk, as long as the block."""
    deliveries = events.where((F.col("kind") == "deliver") & F.col("message").isNotNull())
    size = F.coalesce(F.size("order_key"), F.lit(0))
    per_site = deliveries.groupBy("site").agg(F.count("*"), F.min(size), F.max(size)).collect()
    per_site.sort(key=lambda row: str(row["site"]))
    sites, rows = [row[0] for row in per_site], [row[1] for row in per_site]
    shortest, longest = min((row[2] for row in per_site), default=0), max((row[3] for row in per_site), default=0)
    key_length = shortest if shortest == longest <= KEY_LENGTH_MAX else 0
    codes = F.broadcast(_codes(spark, sites))
    with ExitStack() as stack:
        for salt in count(1):
            coded = deliveries.join(codes, "site").select(
                _hash(F.col("message"), salt).alias("id"),
                _hash(F.col("message"), -salt).alias("guard"),
                "site",
                "seq",
                *[column for column in codes.columns if column != "site"],
                *[F.col("order_key")[place].alias(key) for place, key in enumerate(_keys(key_length))],
            )
            messages = stack.enter_context(kept(_by_message(coded, len(sites), key_length)))
            said = messages.agg(
                F.max(~F.col("guarded")), F.max(F.col("rows") > F.col("at")), F.min("one_key")
            ).collect()[0]
            if not said[0]:
                break
        yield Tables(
            run=run,
            events=events,
            sites=sites,
            rows=rows,
            deliveries=coded.select("id", "site", "code", "seq", *_keys(key_length)),
            messages=messages.drop("guarded"),
            key_length=key_length,
            salt=salt,
            limits=limits,
            repeats=bool(said[1]),
            one_key=key_length > 0 and bool(said[2]),
        )


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Worked out once; on disk, for what a large run needs of memory is for sorting."""
    frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield frame
    finally:
        frame.unpersist()


def _by_message(coded: DataFrame, sites: int, key_length: int) -> DataFrame:
    # Numbers only: Spark groups texts and lists by sorting, numbers by hashing.
    words = [F.bit_or(word).alias(word) for word in _words(sites)]
    keys = [function(key).alias(f"{end}_{key}") for key in _keys(key_length) for function, end in _ENDS]
    one_key = F.lit(True)
    for key in _keys(key_length):
        one_key = one_key & (F.col(f"low_{key}") == F.col(f"high_{key}"))
    grouped = coded.groupBy("id").agg(
        F.count("*").alias("rows"), F.min("guard").alias("first"), F.max("guard").alias("last"), *words, *keys
    )
    at = sum((F.bit_count(word) for word in _words(sites)), F.lit(0))
    return grouped.select(
        "id",
        "rows",
        *_words(sites),
        at.alias("at"),
        (F.col("first") == F.col("last")).alias("guarded"),
        F.coalesce(one_key, F.lit(False)).alias("one_key"),
        *[F.col(f"low_{key}").alias(key) for key in _keys(key_length)],
    )


_ENDS = ((F.min, "low"), (F.max, "high"))


def _codes(spark: SparkSession, sites: Sequence[str]) -> DataFrame:
    """site, code, and the site as a set of sites."""
    words = _words(len(sites))
    rows = [
        (site, code, *(1 << code % BITS if code // BITS == number else 0 for number in range(len(words))))
        for code, site in enumerate(sites)
    ]
    return spark.createDataFrame(rows, ", ".join(["site string", "code int", *(f"{word} long" for word in words)]))


def _keys(length: int) -> list[str]:
    return [f"key_{place}" for place in range(length)]


def _words(sites: int) -> list[str]:
    return [f"word_{number}" for number in range(-(-sites // BITS))]


def _hash(message: Column, salt: int) -> Column:
    return F.xxhash64(F.lit(salt), message)
