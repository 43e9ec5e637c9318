"""Source order in a large run: each site's deliveries beside the numbers of their multicasts, by Spark's SQL."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness
from ordercast.spark.verify.large.obligations import first_multicasts
from ordercast.spark.verify.large.tables import Tables

SOURCE_ORDER: Final = "source-order"


def find_source_disorder(tables: Tables) -> dict[str, Finding]:
    """What is wrong where a site does not deliver the messages of a source in the order in which it multicast them."""
    if not tables.sites:
        return {}
    multicasts = first_multicasts(tables)
    sent = tables.first_deliveries().join(multicasts.select("id", "source", "sent"), "id")
    stream = Window.partitionBy("code", "source").orderBy("seq")
    neighbours = sent.select(
        "code",
        "source",
        "seq",
        "sent",
        "id",
        F.lag("sent").over(stream).alias("sent_before"),
        F.lag("id").over(stream).alias("id_before"),
    )
    wrong = neighbours.where("sent < sent_before").orderBy("code", "source", "seq").limit(WITNESSES_MAX).toArrow()
    if not len(wrong):
        return {}
    rows = wrong.to_pylist()
    name = _names(tables, {row["id"] for row in rows} | {row["id_before"] for row in rows})
    return {SOURCE_ORDER: Finding(True, [_witness(tables, row, name) for row in rows])}


def _witness(tables: Tables, row: dict[str, int], name: dict[int, str]) -> Witness:
    site, source = tables.sites[row["code"]], str(row["source"])
    first, second = name[row["id_before"]], name[row["id"]]
    why = f"{site} delivers {first} before {second}, but {source} multicast {second} first"
    return Witness((site, source), (first, second), why)


def _names(tables: Tables, wanted: set[int]) -> dict[int, str]:
    rows = tables.events.where(F.col("kind") == "multicast").select(
        tables.id_of(F.col("message")).alias("id"), "message"
    )
    found = rows.where(F.col("id").isin(sorted(wanted))).distinct().collect()
    return {row["id"]: row["message"] for row in found}
