"""What has come of every mutant of a module, in a file of the repository, so that no clone has to try them again.

It is short, for nearly all of them are killed by tests: only the others are named.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ordercast.core.tables import toml_text
from tests.mutants.machine.kept import Verdict
from tests.mutants.machine.mutants import Module
from tests.mutants.machine.report import Result

FILE = Path(__file__).with_name("told.toml")
HEAD = """\
# What has come of every mutant of these modules, as long as their code has this hash: `by_tests` of them were killed by
# tests, the others are named. Written by `python -m tests.mutants.machine --module … --write`.

"""
OTHERS = {"campaign": "by_campaigns", "search": "by_searches", "limit": "by_limits"}
"""Stage -> where those that it has noticed are named."""


class Told(msgspec.Struct, frozen=True):
    """Of one module."""

    name: str
    code: str
    """The hash of the module."""
    proof: str
    """The hash of its tests."""
    budget_seconds: float
    """The least that any survivor had."""
    by_tests: int
    by_campaigns: tuple[str, ...] = ()
    by_searches: tuple[str, ...] = ()
    by_limits: tuple[str, ...] = ()
    survived: tuple[str, ...] = ()

    def verdict(self, mutant: str) -> Verdict:
        """Of one of its mutants."""
        stage = next((stage for stage, field in OTHERS.items() if mutant in getattr(self, field)), "test")
        by = None if mutant in self.survived else f"{stage}: told"
        return Verdict(self.name, self.code, mutant, by, self.proof, self.budget_seconds, 0.0)


def sum_up(module: Module, results: Iterable[Result], proof: str) -> Told | None:
    """A module in short; None while any of its mutants was not tried."""
    tried = [result for result in results if result.reason is None]
    verdicts = {str(result.mutant): result.verdict for result in tried if result.verdict is not None}
    if len(verdicts) < len(tried):
        return None
    noticed: dict[str, list[str]] = {stage: [] for stage in ("test", *OTHERS, "")}
    for name, verdict in verdicts.items():
        noticed[(verdict.by or "").partition(":")[0]].append(name)
    survivors = [verdicts[name].budget_seconds for name in noticed[""]]
    others = {field: tuple(noticed[stage]) for stage, field in OTHERS.items()}
    budget_seconds = min(survivors, default=0.0)
    return Told(
        module.name,
        module.code,
        proof,
        budget_seconds,
        len(noticed["test"]),
        **others,
        survived=tuple(noticed[""]),
    )


def read_told(path: Path = FILE) -> dict[str, Told]:
    """Module -> what is told of it."""
    if not path.is_file():
        return {}
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("module", [])
    told = msgspec.convert(entries, list[Told])
    return {each.name: each for each in told}


def write_told(told: Mapping[str, Told], path: Path = FILE) -> None:
    """All of it, by name."""
    entries = [
        {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in msgspec.structs.asdict(told[name]).items()
        }
        for name in sorted(told)
    ]
    path.write_text(HEAD + toml_text({"module": entries}), encoding="utf-8")
