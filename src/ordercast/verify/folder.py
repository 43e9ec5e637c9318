"""A trace folder in; its verdicts, counterexamples and whatever else a report shows out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ordercast.check import CLAIMED, Choice, Verdict, Witness
from ordercast.trace.pieces import Trace, find_trace
from ordercast.verify.extract import delivery_curves, events_about
from ordercast.verify.place import Place
from ordercast.verify.quarantine import ROWS_NAME, sift
from ordercast.verify.summary import Summary, choose_counterexamples, summarize


@dataclass
class Counterexample:
    """A violated property, its first witness, and the rows about the messages that the witness names."""

    run: str
    property: str
    witness: Witness
    events: pa.Table


@dataclass
class Curves:
    """How the deliveries of one run went over time."""

    run: str
    table: pa.Table


@dataclass
class Verified:
    """What came of a verification."""

    trace: Trace
    summary: Summary
    verdicts: dict[str, dict[str, Verdict]]
    examples: list[Counterexample]
    curves: Curves | None
    """Where they were asked for."""


def verify_folder(
    place: Place,
    folder: str,
    choice: Choice = CLAIMED,
    *,
    quarantine: str | None = None,
    examples: int = 0,
    curves: bool = False,
) -> Verified:
    """Verify a trace, with so many counterexamples at the most. Those of properties that a run does not claim are
    taken only where somebody named them."""
    with _opened(place, folder, quarantine) as (trace, notes):
        judged = place.judge(trace, choice)
        summary = summarize(trace, judged.verdicts, choice.unclaimed_too, [*notes, *judged.notes])
        return Verified(
            trace,
            summary,
            judged.verdicts,
            _examples(place, trace, summary, choice.named is not None, examples),
            _curves(place, trace, summary) if curves else None,
        )


@contextlib.contextmanager
def _opened(place: Place, folder: str, quarantine: str | None) -> Iterator[tuple[Trace, list[str]]]:
    if quarantine is None:
        yield find_trace(place.gather, folder), []
        return
    with sift(place.gather, folder, quarantine) as sifted:
        notes = []
        if sifted.rows or sifted.files:
            files = f" and {sifted.files} whole files" if sifted.files else ""
            notes.append(
                f"{sifted.rows} rows{files} set aside in {Path(quarantine) / ROWS_NAME}; verdicts are without them"
            )
        yield sifted.trace, notes


def _examples(place: Place, trace: Trace, summary: Summary, unclaimed_too: bool, most: int) -> list[Counterexample]:
    return [
        Counterexample(run, verdict.property, witness, events_about(place.gather, trace, run, witness.messages))
        for run, verdict, witness in choose_counterexamples(summary, unclaimed_too, most)
    ]


def _curves(place: Place, trace: Trace, summary: Summary) -> Curves:
    """Of the first run with a counterexample, or else of the first run."""
    run = next((run for run, _, _ in choose_counterexamples(summary, True, 1)), min(trace.runs))
    return Curves(run, delivery_curves(place.gather, trace, run))
