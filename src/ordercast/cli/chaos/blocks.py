"""`ordercast chaos --blocks`: what came of building blocks under faults, judged on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from ordercast.chaos.harness import Outcome
from ordercast.trace.uses import FOLDER

WORKER = "ordercast.chaos.blocks_worker"
"""What a process runs that uses building blocks."""


class Block(StrEnum):
    """What processes can be told to use."""

    LOCK = "lock"
    ELECTION = "election"
    QUEUE = "queue"
    MAP = "map"
    COUNTER = "counter"
    QUESTION = "question"


NEEDED = {
    Block.LOCK: ("grants",),
    Block.ELECTION: ("terms",),
    Block.QUEUE: ("items_done",),
    Block.MAP: ("swaps", "changes_seen"),
    Block.COUNTER: ("additions",),
    Block.QUESTION: ("questions",),
}
"""Without these there was nothing to judge."""


def judge_blocks(outcome: Outcome, blocks: Sequence[Block], show_progress: bool) -> dict[str, Any]:
    """What the processes did with the blocks, by the rules: part of the JSON document."""
    # Imported here: whoever asks for no blocks needs no Spark.
    from ordercast.cli.spark_session import command_session
    from ordercast.spark.uses import judge_uses

    with command_session("chaos", None, show_progress) as spark:
        judged = judge_uses(spark, outcome.folder / FOLDER)
    vacuous = [name for block in blocks for name in NEEDED[block] if not judged.counts[name]]
    return {
        "rules": msgspec.to_builtins(judged.rules),
        "counts": judged.counts,
        "vacuous": vacuous,
        "fine": not judged.broken and not vacuous,
    }


def show_blocks(people: Console, judged: dict[str, Any]) -> None:
    """One line for each rule."""
    people.print()
    for rule in judged["rules"]:
        holds = not rule["broken"]
        people.print(Text(f"{'holds' if holds else 'BROKEN':>8}  {rule['words']}", "green" if holds else "bold red"))
        for example in rule["examples"]:
            people.print(Text(f"          {example}", "red"))
    counts = judged["counts"]
    people.print(
        Text(
            f"{counts['grants']:,} grants of the lock, {counts['terms']:,} terms, {counts['writes_refused']:,} late "
            f"writes refused; {counts['items_done']:,} items done, {counts['items_given_again']:,} given once more; "
            f"{counts['swaps']:,} changes of the map, {counts['swaps_late']:,} that came too late, "
            f"{counts['changes_seen']:,} seen; {counts['additions']:,} additions; {counts['questions']:,} questions",
            "dim",
        )
    )
    for name in judged["vacuous"]:
        people.print(Text(f"vacuous: no {name.replace('_', ' ')}", "bold red"))
