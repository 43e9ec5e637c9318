"""What the judging of a large run needs of its deliveries, message by message, as Spark tables.

A message goes by a hash of its name here: a number is grouped and sorted in half the time of a text. Two names with
the same hash would be taken for one message, so a second hash stands guard: where the two do not agree on which names
are equal, other hashes are taken. (That both fail for the same two names among 10^8 has a chance of 10^-23.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import count
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.spark.tables import events_schema
from ordercast.spark.verify.large.columns import hash_of, kept, key_names
from ordercast.spark.verify.large.evidence import Evidence, collect_evidence
from ordercast.spark.verify.large.survey import Survey, take_survey
from ordercast.trace.schema import Run

BITS: Final = 63
"""Sites in one word of a set of sites: the bits of a long without its sign."""

_hash = hash_of


class Limits(NamedTuple):
    """How much of a run a worker holds at a time."""

    window_rows: int = 1 << 20
    """Deliveries that the merge looks at together: enough that numpy's fixed costs vanish; about 150 MB at work."""
    knot_rows_max: int = 1 << 22
    """How far that is widened for a knot: about 600 MB at work. A larger knot is reported, but not taken apart."""
    part_rows: int = 1 << 20
    """Rows that the judges get at a time: a file of the project's own writer; about 300 MB at work."""
    block_rows: int = 1 << 16
    """Deliveries of a block that has a digest: what differs is looked at by blocks, so they should be few rows, and the
    digests fewer than the rows."""
    whole_rows: int = 1 << 22
    """Up to so many rows a run is judged as a whole where parts would not do: the past of every message takes a number
    for each source, about 1 GB at work."""


class Tables:
    """The deliveries of one run, and what is known of them before anything is judged. What takes a shuffle of all of
    them, the table of messages, is made when it is first asked for."""

    def __init__(
        self, run: Run, events: DataFrame, survey: Survey, evidence: Evidence | None, limits: Limits, stack: ExitStack
    ) -> None:
        self.run = run
        self.events = events
        """All events of the run, in all columns of the schema."""
        self.survey = survey
        self.evidence = evidence
        """None: nobody has looked for any, for the rows are few."""
        self.limits = limits
        self._stack = stack

    @property
    def sites(self) -> Sequence[str]:
        """Those that deliver anything, by name."""
        return self.survey.sites

    @property
    def rows(self) -> Sequence[int]:
        """Of each of them, the number of its deliveries."""
        return self.survey.rows

    @property
    def words(self) -> list[str]:
        return _words(len(self.sites))

    @property
    def keys(self) -> list[str]:
        """The columns of a key; none where some delivery has no key, or the lengths differ."""
        return key_names(self.survey.key_length)

    @property
    def deliveries(self) -> DataFrame:
        """id, site, code (of the site, its place in `sites`), seq, key."""
        return self._coded(self.salt).select("id", "site", "code", "seq", *self.keys)

    @property
    def messages(self) -> DataFrame:
        """By id: rows (deliveries), at (number of sites), the words of the set of these sites, one_key (whether all its
        deliveries have the same), key (the lowest)."""
        return self._by_message.messages

    @property
    def salt(self) -> int:
        return self._by_message.salt

    @property
    def repeats(self) -> bool:
        """Whether some site delivers a message more than once."""
        return self._by_message.repeats

    @property
    def one_key(self) -> bool:
        """Whether every message has the same key wherever it is delivered."""
        return self._by_message.one_key

    def id_of(self, message: Column) -> Column:
        return _hash(message, self.salt)

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows, worked out once and kept as long as the tables are."""
        return self._stack.enter_context(kept(frame))

    def first_deliveries(self) -> DataFrame:
        """id, code, seq: the first delivery of each message at each site."""
        if not self.repeats:
            return self.deliveries.select("id", "code", "seq")
        return self.deliveries.groupBy("id", "code").agg(F.min("seq").alias("seq"))

    @cached_property
    def _by_message(self) -> _ByMessage:
        for salt in count(1):
            grouped = _by_message(self._coded(salt), len(self.sites), self.survey.key_length)
            messages = self._stack.enter_context(kept(grouped))
            confused, repeats, one_key = messages.agg(
                F.max(~F.col("guarded")), F.max(F.col("rows") > F.col("at")), F.min("one_key")
            ).collect()[0]
            if not confused:
                break
        has_keys = self.survey.key_length > 0
        return _ByMessage(messages.drop("guarded"), salt, bool(repeats), has_keys and bool(one_key))

    def _coded(self, salt: int) -> DataFrame:
        codes = F.broadcast(_codes(self.events.sparkSession, self.sites))
        deliveries = self.events.where((F.col("kind") == "deliver") & F.col("message").isNotNull())
        return deliveries.join(codes, "site").select(
            _hash(F.col("message"), salt).alias("id"),
            _hash(F.col("message"), -salt).alias("guard"),
            "site",
            "seq",
            *[column for column in codes.columns if column != "site"],
            *[F.col("order_key")[place].alias(key) for place, key in enumerate(self.keys)],
        )


class _ByMessage(NamedTuple):
    messages: DataFrame
    salt: int
    repeats: bool
    one_key: bool


def complete(events: DataFrame, run: Run) -> DataFrame:
    """The run's events with all columns of the schema; what is absent is null."""
    present = set(events.columns)
    columns = [
        F.col(field.name) if field.name in present else F.lit(None).cast(field.dataType).alias(field.name)
        for field in events_schema()
    ]
    return events.where(F.col("run") == run.run).select(*columns)


@contextmanager
def tabulate(events: DataFrame, run: Run, limits: Limits, digests: bool = True) -> Iterator[Tables]:
    """Two passes over the events; of those that are known to be few no digests need be made. What is made of them
    lives, on disk, as long as the block."""
    survey = take_survey(events, limits.block_rows)
    with ExitStack() as stack:
        evidence = None
        if digests and survey.sites:
            evidence = stack.enter_context(collect_evidence(events, run, survey, limits.part_rows))
        yield Tables(run, events, survey, evidence, limits, stack)


def _by_message(coded: DataFrame, sites: int, key_length: int) -> DataFrame:
    # Numbers only: Spark groups texts and lists by sorting, numbers by hashing.
    words = [F.bit_or(word).alias(word) for word in _words(sites)]
    keys = [function(key).alias(f"{end}_{key}") for key in key_names(key_length) for function, end in _ENDS]
    one_key = F.lit(True)
    for key in key_names(key_length):
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
        *[F.col(f"low_{key}").alias(key) for key in key_names(key_length)],
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


def _words(sites: int) -> list[str]:
    return [f"word_{number}" for number in range(-(-sites // BITS))]
