"""The page of `ordercast verify --report`: verdicts, counterexamples as pictures, deliveries over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ordercast.check import Verdict
from ordercast.cli.pictures import delivery_figure, space_time_figure
from ordercast.cli.report import Cell, Page
from ordercast.cli.verify.summary import claimed_words, shown_events, shown_sites
from ordercast.verify.folder import Verified
from ordercast.verify.summary import Summary

RUNS_MAX = 200
"""Lines of the list of runs with violated claims; --json has all."""

_MEANINGS = {"holds": "good", "violated": "bad", "vacuous": "doubt", "not-judged": "note"}


class VerifyPage:
    """The page in the making."""

    def __init__(self, folder: str, trace: str) -> None:
        self._page = Page(folder, f"Verification of {Path(trace).name or trace}")

    @property
    def file(self) -> Path:
        return self._page.file

    def write(self, verified: Verified) -> None:
        """Everything that is on it."""
        page, summary = self._page, verified.summary
        page.text(f"{summary.runs:,} run{'s' if summary.runs != 1 else ''}, {summary.events:,} events", "note")
        for note in summary.notes:
            page.text(note, "doubt")
        count = summary.violated_claims
        page.text(
            f"{count:,} claim{'s' if count != 1 else ''} violated" if count else "No claim is violated.",
            "bad" if count else "good",
        )
        page.table(*_verdict_table(summary))
        for example in verified.examples:
            witness = example.witness
            page.heading(f"Counterexample: {example.property}, run {example.run}")
            page.text(witness.why, "bad")
            page.picture(
                space_time_figure(shown_events(example), set(witness.messages), shown_sites(example)),
                "Only what concerns these messages: "
                + (", ".join(witness.messages) or "none")
                + ". M multicast, D delivery, · receipt, x lost packet, F fails, A awake, R recovered.",
            )
        curves = verified.curves
        if curves is not None and len(curves.table):
            page.heading(f"Deliveries over time, run {curves.run}")
            page.picture(delivery_figure(curves.table), "Messages delivered at each site so far; ✕ fails, ▲ recovers.")
        self._add_violated_runs(verified.verdicts)
        page.write()

    def _add_violated_runs(self, verdicts: Mapping[str, Mapping[str, Verdict]]) -> None:
        violated = [
            [run, verdict.property, f"{verdict.witnesses:,}", "" if verdict.first is None else verdict.first.why]
            for run, of_run in verdicts.items()
            for verdict in of_run.values()
            if verdict.claimed and verdict.verdict == "violated"
        ]
        if violated:
            self._page.heading("Violated claims, run by run")
            self._page.table(["run", "property", "witnesses", "first witness"], violated[:RUNS_MAX])
            if len(violated) > RUNS_MAX:
                self._page.text(f"and {len(violated) - RUNS_MAX:,} more", "note")


def _verdict_table(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: of one run nothing is counted, and where nothing is violated there are no witnesses."""
    several = summary.runs > 1
    violated = any(each.first for each in summary.properties)
    headings = ["property", "claimed", "verdict", *(["runs"] if several else [])]
    headings += ["witnesses", "first witness"] if violated else []
    rows = []
    for each in summary.properties:
        first = each.first[1].first if each.first is not None else None
        row = [each.name, claimed_words(each, summary.runs), Cell(each.verdict, _MEANINGS[each.verdict])]
        row += [each.runs] if several else []
        row += [f"{each.witnesses:,}" if each.witnesses else "", "" if first is None else first.why] if violated else []
        rows.append(row)
    return headings, rows
