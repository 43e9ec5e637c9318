"""Names and hashes that the tables of a large run have in common, and how a table is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it


def hash_of(message: Column, salt: int = 1) -> Column:
    """A number for a name: grouped and sorted in half the time of a text."""
    return F.xxhash64(F.lit(salt), message)


def key_names(length: int) -> list[str]:
    """The columns of an order key."""
    return [f"key_{place}" for place in range(length)]


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Worked out once; on disk, for what a large run needs of memory is for sorting."""
    frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield frame
    finally:
        frame.unpersist()
