"""The judges and the naive checkers agree on thousands of random traces, good and mutated.

ORDERCAST_AGREEMENT sets the number of traces per property, 800 unless told otherwise (300 of groups that come and go:
their traces take longer).
"""

from __future__ import annotations

import ast
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from ordercast.check import PROPERTIES, Verdict, Witness, choose, judge
from ordercast.trace import schema

from . import CHECKERS
from .generate import PROFILES, generate
from .order import precedences, transitive_closure
from .terms import HOLDS, VACUOUS, VIOLATED, Row, Run, Terms, Violation

SHARE = 20  # One trace in so many must hold, and as many must be violated, or the comparison says little
SHARE_OF_GROUPS = 10
WITNESSES_CONFIRMED = 10  # per trace and property
PROMISE_NOTHING = {"P0", "Q0", "R0"}

# Of a run that breaks these in several places the judges tell enough places, not all: neighbours in the order of
# delivery, the latest missing message, one cycle of a component, one message of a packet, who differs from the first.
SELECTED_WITNESSES = {
    "source-order",
    "group-source-order",
    "view-agreement",
    "offset-agreement",
    "acyclic-order",
    "genuineness",
    "causal-order",
    "timestamp-order",
    "reliable-source-order",
    "reliable-timestamp-order",
}

PROPERTIES_OF_PROFILE = {
    "deliveries": ("integrity", "no-duplication"),
    "order": (
        "single-source-order",
        "multiple-source-order",
        "multiple-group-order",
        "order-equivalence",
        "source-order",
        "acyclic-order",
    ),
    "failures": (
        "R1",
        "R1-single-source",
        "R1-multiple-source",
        "R2",
        "R2-single-source",
        "R2-multiple-source",
        "R3",
        "R3-single-source",
        "R3-multiple-source",
    ),
    "divergence": ("no-silent-divergence",),
    "liveness": ("uniform-agreement", "atomic-receipt", "termination", "recovery", "selective-information"),
    "bounded": ("P1", "P2", "P3", "P4", "Q1", "Q2", "Q3"),
    "packets": ("genuineness", "message-size"),
    "rest": ("quiescence", "no-leak", "credit-returned"),
    "views": ("self-inclusion", "virtual-synchrony", "R2-logical"),
    "causality": ("causal-order", "timestamp-order", "reliable-source-order", "reliable-timestamp-order"),
    "group-views": ("virtual-synchrony", "self-inclusion", "transitional-set", "view-agreement", "R2-logical"),
    "group-liveness": (
        "integrity",
        "no-duplication",
        "agreement",
        "uniform-agreement",
        "atomic-receipt",
        "termination",
        "view-termination",
        "selective-information",
        "no-silent-divergence",
        "P1",
        "P2",
        "P3",
        "P4",
        "Q1",
        "Q2",
        "Q3",
    ),
    "group-offsets": ("offset-agreement",),
    "group-order": (
        "group-source-order",
        "source-order",
        "causal-order",
        "timestamp-order",
        "reliable-source-order",
        "reliable-timestamp-order",
        "multiple-group-order",
        "acyclic-order",
        "R1",
        "R2",
        "R3",
    ),
}


def traces_of(profile: str) -> int:
    """ORDERCAST_AGREEMENT=2000 pytest tests/naive compares them on more."""
    return int(os.environ.get("ORDERCAST_AGREEMENT", "300" if PROFILES[profile].dynamic else "800"))


@dataclass
class Comparison:
    """What became of one property on the traces of one profile."""

    verdicts: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)


def as_json_lines(run: Run, rows: list[Row]) -> str:
    """The trace as it would stand in runs.jsonl and events.jsonl."""
    ordered = sorted(rows, key=lambda row: (row["time"], row["site"]))
    return "\n".join(["runs.jsonl:", json.dumps(run), "events.jsonl:", *(json.dumps(row) for row in ordered)])


def as_table(rows: list[Row], seed: int) -> pa.Table:
    """The rows as any reader of traces may hand them over: whole, in two chunks, or without the empty columns."""
    table = pa.Table.from_pylist(rows, schema=schema.EVENTS)
    if seed % 3 == 1:
        return pa.concat_tables([table.slice(0, len(rows) // 2), table.slice(len(rows) // 2)])
    if seed % 3 == 2:
        empty = [name for name in schema.COLUMNS if table[name].null_count == len(rows)]
        return table.drop_columns([name for name in empty if name not in schema.REQUIRED])
    return table


def is_confirmed(name: str, witness: Witness, violations: set[Violation], terms: Terms) -> bool:
    """Whether the naive checker, too, sees a violation with these sites and messages."""
    sites, messages = set(witness.sites), set(witness.messages)
    if name == "acyclic-order":
        edges = {(m, o) for site, m, o in precedences(terms) if site in sites and m in messages and o in messages}
        closed = transitive_closure(edges)
        return bool(messages) and all((message, message) in closed for message in messages)
    return any(set(of_sites) <= sites and set(of_messages) <= messages for of_sites, of_messages in violations)


def describe_disagreement(name: str, verdict: Verdict, run: Run, rows: list[Row], terms: Terms) -> str | None:
    """Nothing, or what the judge and the naive checker see differently."""
    expected, violations = CHECKERS[name](run, rows)
    if verdict.verdict != expected:
        return (
            f"the judge says {verdict.verdict} {verdict.first}, the naive checker {expected} {sorted(violations)[:3]}"
        )
    if (verdict.verdict == VIOLATED) != (verdict.witnesses > 0):
        return f"the judge says {verdict.verdict} with {verdict.witnesses} witnesses"
    witnesses = verdict.all_witnesses
    for witness in witnesses[:WITNESSES_CONFIRMED]:
        if not is_confirmed(name, witness, violations, terms):
            return f"both say {expected}, but the naive checker does not confirm {witness}: {sorted(violations)[:10]}"
    if name not in SELECTED_WITNESSES:
        for of_sites, of_messages in violations:
            if not any(set(of_sites) <= set(w.sites) and set(of_messages) <= set(w.messages) for w in witnesses):
                return (
                    f"both say {expected}, but the judge has no witness for {of_sites} {of_messages}: {witnesses[:10]}"
                )
    return None


@cache
def compare(profile: str) -> dict[str, Comparison]:
    """Every trace of the profile is made once and judged for all its properties."""
    names = PROPERTIES_OF_PROFILE[profile]
    comparisons = {name: Comparison() for name in names}
    for seed in range(traces_of(profile)):
        run, rows = generate(profile, seed)
        verdicts = judge(msgspec.convert(run, schema.Run), as_table(rows, seed), choose(names))
        terms = Terms(run, rows)
        for name in names:
            difference = describe_disagreement(name, verdicts[name], run, rows, terms)
            comparisons[name].verdicts[verdicts[name].verdict] += 1
            if difference is not None:
                where = f"property {name}, profile {profile}, seed {seed}: generate({profile!r}, {seed})"
                comparisons[name].disagreements.append(f"{where}\n{difference}\n{as_json_lines(run, rows)}")
    return comparisons


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        pytest.param(profile, name, marks=pytest.mark.xdist_group(f"agreement-{profile}"))
        for profile, names in PROPERTIES_OF_PROFILE.items()
        for name in names
    ],
)
def test_judge_and_naive_checker_agree(profile: str, name: str) -> None:
    comparison, traces = compare(profile)[name], traces_of(profile)
    least = traces // (SHARE_OF_GROUPS if PROFILES[profile].dynamic else SHARE)
    differing = len(comparison.disagreements)
    assert not comparison.disagreements, f"{differing} of {traces} traces; the first:\n{comparison.disagreements[0]}"
    assert comparison.verdicts[HOLDS] >= least, comparison.verdicts
    assert comparison.verdicts[VIOLATED] >= least, comparison.verdicts
    assert comparison.verdicts[VACUOUS] >= 1, comparison.verdicts


def test_every_property_that_promises_something_is_compared() -> None:
    compared = {name for names in PROPERTIES_OF_PROFILE.values() for name in names}
    assert set(PROPERTIES) - PROMISE_NOTHING == set(CHECKERS) == compared
    assert set(PROPERTIES_OF_PROFILE) == set(PROFILES)


def test_properties_that_promise_nothing_hold_always() -> None:
    run, rows = generate("failures", 0)
    table = pa.Table.from_pylist(rows, schema=schema.EVENTS)
    verdicts = judge(msgspec.convert(run, schema.Run), table, choose(sorted(PROMISE_NOTHING)))
    assert {verdict.verdict for verdict in verdicts.values()} == {HOLDS}


def test_naive_checkers_share_no_code_with_the_product() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        if path.name == Path(__file__).name:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                imported = [node.module or ""]
            assert not [name for name in imported if name.split(".")[0] == "ordercast"], path


def test_a_seed_always_gives_the_same_trace() -> None:
    for profile in PROFILES:
        assert generate(profile, 7) == generate(profile, 7)
