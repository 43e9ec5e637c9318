"""The first look at a large run: which rows there are, and what its order keys are like. One pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

KEY_LENGTH_MAX: Final = 8
"""Numbers in an order key; keys are one to three long, and each costs two columns."""
_COMPARED: Final = 3
"""Numbers of a key whose range is looked at, to cut keys into blocks."""
BLOCKS_MAX: Final = 1 << 12
"""Blocks of a run: so many numbers may reach the driver, and each site has a digest of each block for each of its
groups. At 10^10 deliveries a block has 2.4 million, which three workers look through if it differs."""


class KeyBlocks(NamedTuple):
    """How order keys are cut into blocks: by one of their numbers, into ranges of one width."""

    place: int
    low: int
    width: int


@dataclass(frozen=True)
class Survey:
    """What is known of a run before anything is judged."""

    sites: Sequence[str]
    """Those that deliver anything, by name."""
    rows: Sequence[int]
    """Of each of them, the number of its deliveries."""
    kinds: Mapping[str, int]
    """The number of rows of each kind."""
    key_length: int
    """0 where some delivery has no key, or the lengths differ."""
    key_blocks: KeyBlocks
    blocks: int
    """Into how many blocks the messages are cut, and about as many the keys."""


def take_survey(events: DataFrame, block_rows: int) -> Survey:
    """The run, with blocks of about so many deliveries."""
    size = F.coalesce(F.size("order_key"), F.lit(0))
    ends = [end(F.get("order_key", F.lit(place))) for place in range(_COMPARED) for end in (F.min, F.max)]
    named = events.where(~F.col("kind").isin("deliver", "multicast") | F.col("message").isNotNull())
    found = named.groupBy("site", "kind").agg(F.count("*"), F.min(size), F.max(size), *ends).collect()
    kinds: dict[str, int] = {}
    for row in found:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + row[2]
    delivering = sorted((row for row in found if row["kind"] == "deliver"), key=lambda row: str(row["site"]))
    shortest = min((row[3] for row in delivering), default=0)
    longest = max((row[4] for row in delivering), default=0)
    key_length = shortest if shortest == longest <= KEY_LENGTH_MAX else 0
    blocks = max(1, min(BLOCKS_MAX, kinds.get("deliver", 0) // block_rows))
    ranges = [
        (min(row[5 + 2 * place] for row in delivering), max(row[6 + 2 * place] for row in delivering))
        for place in range(min(key_length, _COMPARED))
    ]
    return Survey(
        sites=[row["site"] for row in delivering],
        rows=[row[2] for row in delivering],
        kinds=kinds,
        key_length=key_length,
        key_blocks=_key_blocks(ranges, blocks),
        blocks=blocks,
    )


def _key_blocks(ranges: Sequence[tuple[int, int]], blocks: int) -> KeyBlocks:
    """By the number with the widest range. (Of two that have an epoch and a number, that is the number: blocks with the
    same numbers of two epochs are one block, which does no harm.)"""
    if not ranges:
        return KeyBlocks(0, 0, 1)
    place = max(range(len(ranges)), key=lambda place: ranges[place][1] - ranges[place][0])
    low, high = ranges[place]
    return KeyBlocks(place, low, max(1, -(-(high - low + 1) // blocks)))
