"""The session as large tables have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

USUAL: Final = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Plans are compiled, and changed while they run: what the session of the tests, which is for little, is spared."""
    before = {name: str(spark.conf.get(name)) for name in USUAL}
    for name, value in USUAL.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
