"""What came of the mutants, module by module."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from tests.mutants.machine.kept import Reason, Verdict
from tests.mutants.machine.mutants import Module, Mutant
from tests.mutants.machine.plan import is_core


class Result(NamedTuple):
    """One mutant and what came of it: a verdict, a reason why it is none, or neither, when it was not tried yet."""

    mutant: Mutant
    verdict: Verdict | None
    reason: Reason | None

    @property
    def word(self) -> str:
        """killed, survived, equivalent or untried."""
        if self.reason is not None:
            return "equivalent"
        if self.verdict is None:
            return "untried"
        return "survived" if self.verdict.by is None else "killed"

    @property
    def is_core(self) -> bool:
        """Whether it breaks a rule whose breach loses agreement."""
        return is_core(self.mutant.module, self.mutant.function)


def lines(module: Module, results: list[Result]) -> list[str]:
    """A module in a line, and its survivors."""
    words = Counter(result.word for result in results)
    stages = Counter(
        (result.verdict.by or "").partition(":")[0] for result in results if result.word == "killed" and result.verdict
    )
    by = ", ".join(f"{count} by {stage}" for stage, count in sorted(stages.items()))
    survivors = [result for result in results if result.word == "survived"]
    core = sum(result.is_core for result in survivors)
    tried = words["killed"] + words["survived"]
    share = f" ({100 * words['survived'] / tried:.0f} %)" if tried else ""
    killed = f"{words['killed']} killed ({by})" if by else "none killed"
    survived = f"{words['survived']} survived{share}, {core} of them of core rules"
    head = f"{module.name}: {len(results)} mutants, {killed}, {survived}, {words['equivalent']} equivalent"
    if words["untried"]:
        head += f", {words['untried']} not tried yet"
    return [head, *(f"  survived{' (core)' if each.is_core else ''} {_where(each.mutant)}" for each in survivors)]


def as_json(results: dict[str, list[Result]]) -> dict[str, Any]:
    """The document of `--json`."""
    return {
        module: {
            "mutants": len(mutants),
            **{
                word: sum(each.word == word for each in mutants)
                for word in ("killed", "survived", "equivalent", "untried")
            },
            "core_survivors": sum(each.word == "survived" and each.is_core for each in mutants),
            "results": [
                {
                    "function": each.mutant.function,
                    "line": each.mutant.line,
                    "rule": each.mutant.rule,
                    "change": each.mutant.change,
                    "verdict": each.word,
                    "by": each.verdict.by if each.verdict else None,
                    "reason": each.reason.reason if each.reason else None,
                }
                for each in mutants
            ],
        }
        for module, mutants in results.items()
    }


def _where(mutant: Mutant) -> str:
    return f"{mutant.module}.py:{mutant.line} {mutant}"
