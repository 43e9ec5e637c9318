"""`python -m tests.mutants.machine.fresh`: faults of one line that somebody has written without knowing the tests.

They are in `fresh.toml`. Each meets a campaign first, then searches of small worlds, then the fast tests: what has
noticed it says which of the three would have, had nobody thought of it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from tests.mutants.machine.kept import Kept, Verdict
from tests.mutants.machine.mutants import Module, find_files
from tests.mutants.machine.plan import Plan, find_plan
from tests.mutants.machine.pool import preload
from tests.mutants.machine.sound import run_soundly
from tests.mutants.machine.trial import give, guarded, run_campaigns, run_tests, search

FILE = Path(__file__).with_name("fresh.toml")
TESTS_SECONDS = 300.0
"""Of the processor, for all fast tests of a module."""


class Fault(NamedTuple):
    """One line, or a piece of it, that is another one."""

    name: str
    module: str
    was: str
    becomes: str
    breaks: str
    expects: str
    """What was expected to see it, when it was written."""
    void: str = ""
    """Why it is no fault after all."""

    def __str__(self) -> str:
        return f"fresh: {self.name}"

    def compile(self, path: Path) -> CodeType:
        """The module with it."""
        text = path.read_text(encoding="utf-8")
        if text.count(self.was) != 1:
            raise ValueError(f"{self.name}: {self.module} has {text.count(self.was)} places that read like that")
        return compile(text.replace(self.was, self.becomes), str(path), "exec")


def read_faults() -> list[Fault]:
    """All of them."""
    return [Fault(**entry) for entry in tomllib.loads(FILE.read_text(encoding="utf-8"))["fault"]]


def try_fault(fault: Fault, budget_seconds: float, left_out: frozenset[str]) -> str | None:
    """What has noticed it; None: nothing has. Runs that are left out say nothing."""
    module, plan = Module(find_files()[fault.module]), find_plan(fault.module)
    give(module, fault.compile(module.path))
    return next((noticed for noticed in _stages(plan, budget_seconds, left_out) if noticed), None)


def _stages(plan: Plan, budget_seconds: float, left_out: frozenset[str]) -> Iterator[str | None]:
    yield from guarded("campaign", run_campaigns(plan.campaigns, budget_seconds, left_out))
    yield from guarded("search", search(plan.worlds, budget_seconds / 2, left_out))
    for file in plan.test_files():
        yield run_tests((file,))


def main(arguments: list[str]) -> int:
    """0 when all have been tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.machine.fresh", description=__doc__)
    parser.add_argument("names", nargs="*", help="faults, modules, or folders of them; default all")
    parser.add_argument(
        "--budget-seconds",
        type=float,
        default=200.0,
        help="processor seconds of each for campaigns, enough for a thousand seeds of most, and half as many for "
        "searches (default 200)",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one each processor)")
    parser.add_argument("--report", action="store_true", help="only tell what is known already")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no trial is left behind
    preload()
    kept, paths = Kept(), find_files()
    faults = [
        fault
        for fault in read_faults()
        if not options.names
        or any(each == fault.name or f"{fault.module}/".startswith(f"{each}/") for each in options.names)
    ]
    modules = {fault.module: Module(paths[fault.module]) for fault in faults}

    def find(fault: Fault) -> Verdict | None:
        proof = find_plan(fault.module).proof()
        return kept.find(modules[fault.module], fault, proof, options.budget_seconds)

    if not options.report:
        missing = [fault for fault in faults if not fault.void and find(fault) is None]
        limit = TESTS_SECONDS + 3 * options.budget_seconds

        def trial(fault: Fault, left_out: frozenset[str]) -> str | None:
            return try_fault(fault, options.budget_seconds, left_out)

        for fault, noticed, seconds in run_soundly(missing, trial, limit, options.jobs):
            module, proof = modules[fault.module], find_plan(fault.module).proof()
            kept.add(
                Verdict(module.name, module.code, str(fault), noticed, proof, options.budget_seconds, round(seconds, 2))
            )
            print(f"{fault.name}: {noticed or 'SURVIVED'}", file=sys.stderr, flush=True)
    words: Counter[str] = Counter()
    for fault in faults:
        verdict = find(fault)
        word = "void" if fault.void else "untried" if verdict is None else (verdict.by or "SURVIVED").partition(":")[0]
        words[word] += 1
        told = verdict.by or f"SURVIVED {verdict.budget_seconds:g} s" if verdict else word
        print(f"{fault.module} {fault.name}: {told}; expected {fault.expects}")
    print(f"{len(faults)} faults:", ", ".join(f"{count} {word}" for word, count in words.most_common()))
    return int(words["untried"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
