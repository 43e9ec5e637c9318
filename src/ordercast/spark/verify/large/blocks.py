"""Which rows must be looked at where properties of single messages are asked for: those of the blocks that differ.

Where every member has got exactly what was sent (`evidence`), nothing is missing, doubled, made up or astray, and the
judges would find nothing; whether anything could have been wrong at all, they say of one such block. One question is
left to integrity, whether a delivery is earlier than its multicast: for it the times of both go to one place, packed
as numbers, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check.verdict import Finding
from ordercast.spark.verify.large.columns import hash_of
from ordercast.spark.verify.large.evidence import Evidence
from ordercast.spark.verify.large.packs import Find, ask_parts
from ordercast.spark.verify.large.parts import ABOUT_A_MESSAGE, ABOUT_SITES, judge_by_message
from ordercast.spark.verify.large.tables import Tables

_TIMED: Final = "integrity"
SPARED: Final = frozenset(
    {
        _TIMED,
        "no-duplication",
        "uniform-agreement",
        "agreement",
        "termination",
        "view-termination",
        "selective-information",
    }
)
"""Properties of which nothing is wrong in a block that every member has got as it was sent."""

_BLOCKS: Final = pa.schema([("block", pa.int64())])


def judge_by_block(tables: Tables, properties: Sequence[str]) -> dict[str, Finding]:
    """Properties of single messages, judged of the blocks that differ and of one that does not."""
    few = in_doubt(tables, properties)
    if few is None:
        return judge_by_message(tables.events, tables.run, properties, tables.limits.part_rows)
    findings = judge_by_message(few, tables.run, properties, tables.limits.part_rows)
    # What one block does not oblige to, the others may.
    idle = [name for name, found in findings.items() if found.judged and not found.obliged and not found.witnesses]
    if idle:
        findings |= judge_by_message(tables.events, tables.run, idle, tables.limits.part_rows)
    return findings


def in_doubt(tables: Tables, properties: Sequence[str]) -> DataFrame | None:
    """The events about messages of blocks that differ, and of one that does not, and all about sites; None: digests
    spare no rows worth the trouble."""
    evidence = tables.evidence
    if evidence is None or evidence.differing is None:
        return None
    blocks = {*evidence.differing, *(_early_blocks(evidence) if _TIMED in properties else ())}
    if 2 * len(blocks) > evidence.survey.blocks:
        return None
    sample = next(block for block in range(evidence.survey.blocks) if block not in blocks)
    return _of_blocks(tables, [*sorted(blocks), sample])


def a_block(tables: Tables) -> DataFrame:
    """The events about the messages of one block."""
    return _of_blocks(tables, [0])


def _of_blocks(tables: Tables, blocks: Sequence[int]) -> DataFrame:
    count = tables.survey.blocks

    def chosen(message: Column) -> Column:
        return F.pmod(hash_of(message), F.lit(count)).isin(list(blocks))

    # Kept: few rows are asked for several times, and each time all columns of all rows would be read for them.
    kind = F.col("kind")
    about = kind.isin(*ABOUT_A_MESSAGE) & chosen(F.col("message"))
    serving = (kind == "send") & F.exists("messages", chosen)
    return tables.keep(tables.events.where(kind.isin(*ABOUT_SITES) | about | serving))


def _early_blocks(evidence: Evidence) -> list[int]:
    """The blocks with a delivery that is, by the clock or at its own site by the number of its row, earlier than the
    multicast."""
    rows = sum(evidence.survey.kinds.get(kind, 0) for kind in ("multicast", "deliver"))
    parts = max(1, -(-rows // evidence.part_rows))
    part = F.pmod("id", F.lit(parts)).cast("int").alias("part")
    timed = evidence.numbers.select(part, "sends", "site", "seq", "id", "time")
    found = ask_parts(timed, _early(evidence.survey.blocks), _BLOCKS)
    return sorted(row["block"] for row in found.distinct().collect())


def _early(blocks: int) -> Find:
    """From the times of some messages to the blocks of those that are delivered too early."""

    def find(_: int, rows: pa.Table) -> pa.Table:
        sends, site, seq, message, time = (column.to_numpy() for column in rows.columns)
        sent = np.flatnonzero(sends)
        sent = sent[np.argsort(message[sent], kind="stable")]
        got = np.flatnonzero(~sends)
        place = np.searchsorted(message[sent], message[got])
        known = place < len(sent)
        got, of = got[known], sent[place[known]]
        same = message[of] == message[got]
        got, of = got[same], of[same]
        own = site[of] == site[got]
        early = np.where(own, seq[got] < seq[of], time[got] < time[of])
        return pa.table({"block": np.unique(message[got[early]] % blocks)}, schema=_BLOCKS)

    return find
