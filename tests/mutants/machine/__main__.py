"""`python -m tests.mutants.machine`: change protocols and parts by rule, and tell what nothing notices."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys

from tests.mutants.machine.kept import Kept, Verdict, read_reasons
from tests.mutants.machine.mutants import Module, Mutant, find_modules
from tests.mutants.machine.plan import find_plan, is_core
from tests.mutants.machine.pool import preload, run_each
from tests.mutants.machine.report import Result, as_json, lines
from tests.mutants.machine.sound import run_soundly
from tests.mutants.machine.told import read_told, sum_up, write_told
from tests.mutants.machine.trial import try_mutant

TESTS_SECONDS = 60.0
"""Of the processor, for the fast tests of a module: a mutant with which they take longer takes for ever."""


def main(arguments: list[str]) -> int:
    """0 when no mutant of a core rule has survived."""
    options = _parser().parse_args(arguments)
    modules = find_modules(tuple(options.module))
    if not modules:
        print(f"there is no module {' '.join(options.module)} below src/ordercast/protocols", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no trial is left behind
    preload()
    told = read_told()

    def tell(module: Module, mutant: str) -> Verdict | None:
        known = told.get(module.name)
        return known.verdict(mutant) if known is not None and known.code == module.code else None

    kept, reasons = Kept(told=tell), read_reasons()
    results: dict[str, list[Result]] = {}
    for module in modules:
        if not options.report and not _try_all(module, kept, options.budget_seconds, options.jobs, options.json):
            return 2
        plan = find_plan(module.name)
        results[module.name] = [
            Result(
                mutant,
                kept.find(module, mutant, plan.proof(), 0.0),
                next((reason for reason in reasons if reason.is_about(mutant)), None),
            )
            for mutant in module.mutants
        ]
        summed_up = sum_up(module, results[module.name], plan.proof())
        if options.write and summed_up is not None:
            told[module.name] = summed_up
            write_told(told)
        if not options.json:
            print(*lines(module, results[module.name]), sep="\n", flush=True)
    if options.json:
        print(json.dumps(as_json(results), indent=1))
    return int(
        any(each.word == "survived" and each.is_core for each_module in results.values() for each in each_module)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.machine", description=__doc__)
    parser.add_argument(
        "--module", action="append", default=[], help="parts/consensus, or a folder: parts; default all"
    )
    parser.add_argument(
        "--budget-seconds",
        type=float,
        default=10.0,
        help="processor seconds of each mutant for campaigns, and as many for searches (default 10)",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one each processor)")
    parser.add_argument("--report", action="store_true", help="only tell what is known already")
    parser.add_argument("--write", action="store_true", help="write what has come of whole modules into told.toml")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser


def _try_all(module: Module, kept: Kept, budget_seconds: float, jobs: int, quiet: bool) -> bool:
    """Try those of which nothing is known; False when the module as it is does not pass."""
    plan = find_plan(module.name)
    proof = plan.proof()
    reasons = read_reasons()
    missing = [
        mutant
        for mutant in module.mutants
        if kept.find(module, mutant, proof, budget_seconds) is None
        and not any(reason.is_about(mutant) for reason in reasons)
    ]
    if not missing:
        return True
    # What loses agreement first: a run that is interrupted has done what matters.
    missing.sort(key=lambda mutant: not is_core(module.name, mutant.function))

    def trial(mutant: Mutant | None, left_out: frozenset[str]) -> str | None:
        hint = None if mutant is None else kept.hint(mutant)
        return try_mutant(module, mutant, plan, budget_seconds, hint, left_out)

    limit = TESTS_SECONDS + 3 * budget_seconds
    if not kept.is_sound(module, proof):
        ((_, noticed, _),) = run_each([_NOBODY], lambda _: trial(None, frozenset()), limit, 1)
        if noticed is not None:
            print(f"{module.name} does not pass as it is ({noticed}): mend that first", file=sys.stderr)
            return False
        kept.add_sound(module, proof)
    for done, (mutant, noticed, seconds) in enumerate(run_soundly(missing, trial, limit, jobs), start=1):
        kept.add(Verdict(module.name, module.code, str(mutant), noticed, proof, budget_seconds, round(seconds, 2)))
        if not quiet:
            print(f"{module.name} {done}/{len(missing)} {noticed or 'SURVIVED'}: {mutant}", file=sys.stderr, flush=True)
    return True


_NOBODY = "nobody"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
