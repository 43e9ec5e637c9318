"""Verdicts that outlive a run, each for as long as it is true."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants.machine.mutants import PROJECT, Module, Mutant

FILE = PROJECT / ".ordercast" / "mutants" / "verdicts.jsonl"
EQUIVALENT_FILE = Path(__file__).with_name("equivalent.toml")
AS_IT_IS = ""
"""The name of the mutant that is none."""


class Verdict(NamedTuple):
    """Of one mutant."""

    module: str
    code: str
    """The hash of the module."""
    mutant: str
    by: str | None
    """What has noticed it; None: it has survived."""
    proof: str
    """The hash of the tests."""
    budget_seconds: float
    seconds: float
    """Of the processor."""


class Kept:
    """A file with a line for each verdict, which is written as they come; the last one about a mutant counts."""

    def __init__(self, path: Path = FILE, told: Callable[[Module, str], Verdict | None] = lambda m, name: None) -> None:
        """`told` is what the repository says of a mutant of which nothing is known here."""
        self._path = path
        self._told = told
        self._verdicts: dict[tuple[str, str], Verdict] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                # A line that an interruption has cut short is one verdict to find again.
                if line.endswith("]"):
                    self._take(Verdict(*json.loads(line)))

    def _take(self, verdict: Verdict) -> None:
        self._verdicts[verdict.module, verdict.mutant] = verdict

    def add(self, verdict: Verdict) -> None:
        """Keep it."""
        self._take(verdict)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(verdict) + "\n")

    def find(self, module: Module, mutant: object, proof: str, budget_seconds: float) -> Verdict | None:
        """What is still true: whoever was noticed is while the module is as it was, whoever has survived has survived
        only the tests and the budget that there were."""
        verdict = self._verdicts.get((module.name, str(mutant)))
        if verdict is None or verdict.code != module.code:
            verdict = self._told(module, str(mutant))
        if verdict is None:
            return None
        is_enough = verdict.proof == proof and verdict.budget_seconds >= budget_seconds
        return verdict if verdict.by is not None or is_enough else None

    def is_sound(self, module: Module, proof: str) -> bool:
        """Whether the module as it is has passed these tests."""
        verdict = self._verdicts.get((module.name, AS_IT_IS))
        return verdict is not None and (verdict.code, verdict.proof) == (module.code, proof)

    def add_sound(self, module: Module, proof: str) -> None:
        """It has."""
        self.add(Verdict(module.name, module.code, AS_IT_IS, None, proof, 0.0, 0.0))

    def hint(self, mutant: Mutant) -> str | None:
        """What noticed a mutant of that name, in whatever module."""
        verdict = self._verdicts.get((mutant.module, str(mutant)))
        return None if verdict is None else verdict.by


class Reason(NamedTuple):
    """Why a mutant is no other program, as somebody has read and agreed."""

    module: str
    function: str
    change: str
    reason: str

    def is_about(self, mutant: Mutant) -> bool:
        """Mutants of one function that read alike share it."""
        return (self.module, self.function, self.change) == (mutant.module, mutant.function, mutant.change)


def read_reasons(path: Path = EQUIVALENT_FILE) -> list[Reason]:
    """The reviewed file."""
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    return [Reason(**entry) for entry in entries]
