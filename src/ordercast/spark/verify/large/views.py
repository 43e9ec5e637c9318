"""Views in a large run: is a sender in its own view, and have those who go on together delivered the same?

Both are the judges' to say. For the first question a site's multicasts between two changes of its views are one. For
the second a message is in one part with all its deliveries; what a part does not show, which services a site uses in a
group, is told to all parts by `activate` rows before everything else: nobody's view begins before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check.facts import Facts
from ordercast.check.facts.activations import TOLD
from ordercast.check.verdict import Finding
from ordercast.spark.verify.large.columns import kept
from ordercast.spark.verify.large.packs import Find, ask_parts
from ordercast.spark.verify.large.parts import (
    ABOUT_A_MESSAGE,
    ABOUT_SITES,
    cut_by_message,
    cut_by_source,
    judge_parts,
    part_rows_of,
)
from ordercast.trace.schema import Run

SELF_INCLUSION: Final = "self-inclusion"
VIRTUAL_SYNCHRONY: Final = "virtual-synchrony"
VIEWS: Final = frozenset({SELF_INCLUSION, VIRTUAL_SYNCHRONY})

_NO_GROUP: Final = "\x00none"
"""In place of a group: a service that is used for messages that are addressed to none."""
_USES: Final = pa.schema([("site", pa.string()), ("service", pa.string()), ("group", pa.string())])


def judge_views(events: DataFrame, run: Run, properties: Sequence[str], part_rows: int) -> dict[str, Finding]:
    """What is found about these properties, all of them about views."""
    if events.where(F.col("kind") == "view").isEmpty():
        return {name: Finding(obliged=False) for name in properties}
    findings: dict[str, Finding] = {}
    if SELF_INCLUSION in properties:
        rows = _senders(events).withColumn("part", F.lit(0))
        findings |= judge_parts(rows, run, [SELF_INCLUSION])
    if VIRTUAL_SYNCHRONY in properties:
        findings |= _judge_virtual_synchrony(events, run, part_rows)
    return findings


def _senders(events: DataFrame) -> DataFrame:
    """The rows about sites, and of the multicasts of a site from one change of its views to the next one to each set of
    groups, and one that names destinations."""
    about = events.where(F.col("kind").isin(*ABOUT_SITES))
    changes = F.col("kind").isin("view", "leave")
    sent = (F.col("kind") == "multicast") & ~F.coalesce(F.col("service") == "proxy", F.lit(False))
    so_far = F.count(F.when(changes, 1)).over(Window.partitionBy("site").orderBy("seq"))
    named = F.coalesce(F.size("destinations") > 0, F.lit(False))
    multicasts = (
        events.where(changes | sent)
        .withColumn("views", so_far)
        .where(F.col("kind") == "multicast")
        .withColumn("destinations", F.when(named, F.slice("destinations", 1, 1)))
        .withColumn("groups", F.when(~named, F.array_sort(F.array_distinct("groups"))))
        .groupBy("run", "site", "views", "groups", named.alias("named"))
        .agg(F.min("seq").alias("seq"), F.min("time").alias("time"), F.first("destinations").alias("destinations"))
        .withColumn("kind", F.lit("multicast"))
        .drop("views", "named")
    )
    return about.unionByName(multicasts, allowMissingColumns=True)


def _judge_virtual_synchrony(events: DataFrame, run: Run, part_rows: int) -> dict[str, Finding]:
    rows = events.where(F.col("kind").isin(*ABOUT_A_MESSAGE, *ABOUT_SITES))
    activated = not rows.where(F.col("kind") == "activate").isEmpty()
    # Where an activation point lies hangs on what else is delivered of a source.
    cut = (cut_by_source if activated else cut_by_message)(rows, part_rows)
    services = rows.where(F.col("kind").isin("deliver", "activate")).select("service").distinct()
    if services.limit(2).count() < 2:
        # Whoever uses none uses any.
        return judge_parts(cut, run, [VIRTUAL_SYNCHRONY])
    with kept(cut) as parts:
        uses = ask_parts(part_rows_of(parts), _uses(run), _USES).distinct()
        told = uses.select(
            F.lit(run.run).alias("run"),
            "site",
            F.lit(TOLD).cast("long").alias("seq"),
            F.lit(0.0).alias("time"),
            F.lit("activate").alias("kind"),
            F.array("group").alias("groups"),
            "service",
        )
        numbers = parts.select("part").distinct()
        everywhere = told.join(F.broadcast(numbers))
        return judge_parts(parts.unionByName(everywhere, allowMissingColumns=True), run, [VIRTUAL_SYNCHRONY])


def _uses(run: Run) -> Find:
    """The facts, as a function from the rows of a part to which sites use which services in which groups."""

    def find(_: int, rows: pa.Table) -> pa.Table:
        facts = Facts(run, rows)
        deliveries = facts.deliveries
        services = [*facts.columns.coded("service")[1], None]
        codes = facts.activations.service_codes(deliveries.rows)
        address = facts.messages.address[deliveries.message]
        seen = sorted(set(zip(deliveries.site.tolist(), codes.tolist(), address.tolist(), strict=True)))
        found: dict[tuple[str, str | None, str], None] = {}
        for site, service, number in seen:
            explicit, names = facts.messages.addresses[number]
            for group in [_NO_GROUP] if explicit or not names else sorted(names):
                found[facts.columns.sites[site], services[service], group] = None
        columns = zip(*found, strict=True) if found else ((), (), ())
        return pa.table(dict(zip(_USES.names, map(list, columns), strict=True)), schema=_USES)

    return find
