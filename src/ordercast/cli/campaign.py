"""`ordercast simulate --campaign N` and `--replay RUN`: random runs by the thousand, and one of them again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.table import Table
from rich.text import Text

from ordercast import campaign
from ordercast.campaign import Outcome, Profile, Report, Trial
from ordercast.campaign.keep import keep_failures
from ordercast.campaign.matrix import ORDERS
from ordercast.campaign.shrink import shrink
from ordercast.campaign.state import Job, default_path
from ordercast.check import CLAIMED, choose
from ordercast.cli.progress import late_bar
from ordercast.cli.protocols import known_protocols
from ordercast.cli.run_report import counts_table, named_counts, verdict_table, verdicts_as_json, witness_diagram
from ordercast.cli.terminal import make_console
from ordercast.core import UsageError
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import SEED_MAX, dump_scenario

FAILURES_SHOWN = 20
"""A broken protocol fails thousands of times; the first twenty say all of it."""


def run_campaign(
    number: int,
    protocol: str | None,
    seed: int | None,
    as_json: bool,
    state: Path | None = None,
    workers: int | None = None,
    master: str | None = None,
    keep: Path | None = None,
    profile: Profile = "usual",
    steered: bool = False,
) -> int:
    """So many seeds for each protocol, or for one; the exit code is 1 when a claim was violated."""
    protocols = tuple(known_protocols()) if protocol is None else (find_protocol(protocol).contract.name,)
    first = seed or 0
    if first + number - 1 > SEED_MAX:
        raise UsageError(f"--seed: the last seed of the campaign would be above {SEED_MAX}")
    began = time.monotonic()
    seeds = range(first, first + number)
    with late_bar("campaign") as on_progress, _runner(master, profile) as run:
        if steered:
            report = campaign.run_steered(protocols, seeds, workers=workers, on_progress=on_progress)
        else:
            report = campaign.run_campaign(
                protocols,
                seeds,
                profile=profile,
                workers=workers,
                run=run,
                state=state or default_path(protocols, profile),
                on_progress=on_progress,
            )
    seconds = time.monotonic() - began
    kept = None if keep is None else keep_failures(report, keep)
    if as_json:
        print(json.dumps({**report.as_json(seconds), **({} if kept is None else {"kept": kept})}, indent=2))
    else:
        _show(report, seconds)
        if kept:
            make_console().print(Text(f"the traces of {kept} failing runs are in {keep}", "dim"))
    return 1 if report.failing else 0


@contextmanager
def _runner(master: str | None, profile: Profile) -> Iterator[Callable[[Sequence[Job]], Iterator[Outcome]] | None]:
    """What runs the seeds: a Spark session's workers where a master is named, else processes of this machine."""
    if master is None:
        yield None
        return
    from ordercast.spark.experiments.campaign import SparkCampaign
    from ordercast.spark.session import BRIEF, open_session

    with open_session("campaign", master, BRIEF) as spark:
        yield SparkCampaign(spark, profile).run


def _show(report: Report, seconds: float) -> None:
    console = make_console()
    unreached = report.unreached()
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    numbers = ("runs", "violations", "vacuous", "refused")
    for heading in ("protocol", *numbers, "never reached"):
        table.add_column(heading, justify="right" if heading in numbers else "left")
    for protocol in report.protocols():
        failing = sum(outcome.protocol == protocol for outcome in report.failing)
        vacuous = sum(outcome.protocol == protocol for outcome in report.vacuous)
        table.add_row(
            Text(protocol, "bold"),
            f"{sum(outcome.protocol == protocol for outcome in report.outcomes):,}",
            Text(f"{failing:,}", "bold red" if failing else "green"),
            Text(f"{vacuous:,}", "yellow" if vacuous else "green"),
            f"{sum(outcome.refused for outcome in report.outcomes if outcome.protocol == protocol):,}",
            Text(", ".join(unreached.get(protocol, ())) or "-", "yellow" if protocol in unreached else "dim"),
        )
    console.print(table)
    console.print()
    rows = {"faults": named_counts(report.faults())}
    if report.changes():
        rows["changes"] = named_counts(report.changes())
    if report.excused():
        rows["excused in runs"] = named_counts(report.excused())
    rows |= {protocol: named_counts(branches) for protocol, branches in report.branches().items()}
    console.print(counts_table(rows))
    simulated = f"{report.simulated_seconds / 86400:,.1f} days of simulated time"
    console.print(Text(f"{len(report.outcomes):,} runs, {simulated}, in {seconds:.1f} s", "dim"))
    for outcome in report.failing[:FAILURES_SHOWN]:
        console.print()
        for violation in outcome.violations:
            console.print(
                Text(f"{outcome.protocol}, seed {outcome.seed}: {violation.property}: {violation.why}", "red")
            )
        console.print(Text(f"  {outcome.replay}", "bold"))
    if len(report.failing) > FAILURES_SHOWN:
        console.print(Text(f"… and {len(report.failing) - FAILURES_SHOWN:,} more failing seeds", "red"))


# ---------------------------------------------------------------------- one run again
def replay_run(name: str, shrinks: bool, write: Path | None, as_json: bool) -> int:
    """Run a seed again; show what it violates, smaller if that is asked for. The exit code is 1 when it does."""
    draw = campaign.read_draw(name)
    # A run with other sources than the contract speaks of is one of the matrix of orders.
    trial = campaign.run_draw(draw, CLAIMED if draw.sources == "promised" else choose(ORDERS))
    original = trial.outcome
    if shrinks and original.violations:
        with late_bar("shrinking") as on_progress:
            trial = shrink(trial, on_progress=on_progress)
    if write is not None:
        write.write_text(dump_scenario(trial.scenario), encoding="utf-8")
    if as_json:
        print(json.dumps(_document(trial, original, write), indent=2))
    else:
        _show_trial(trial, original, write)
        if original.violations and not shrinks:
            make_console().print(Text(f"\n{draw.replay} --shrink --write FILE.toml", "bold"))
    return 1 if original.violations else 0


def _document(trial: Trial, original: Outcome, write: Path | None) -> dict[str, object]:
    return {
        "protocol": original.protocol,
        "seed": original.seed,
        "violations": [{"property": each.property, "why": each.why} for each in trial.outcome.violations],
        "vacuous": trial.outcome.vacuous,
        "events": trial.outcome.events,
        "events_before_shrinking": original.events,
        "faults": trial.outcome.faults,
        "changes": trial.outcome.changes,
        "branches": trial.outcome.branches,
        "verdicts": verdicts_as_json(trial.verdicts),
        "scenario": dump_scenario(trial.scenario),
        "written": None if write is None else str(write),
    }


def _show_trial(trial: Trial, original: Outcome, write: Path | None) -> None:
    console = make_console()
    outcome = trial.outcome
    scenario = trial.scenario
    rows = {
        "protocol": outcome.protocol,
        "seed": str(original.seed),
        "run": f"{len(scenario.sites)} sites, {len(scenario.groups)} groups, {scenario.network.kind}, "
        f"{len(scenario.faults)} faults, {scenario.duration:g} s and {scenario.settle:g} s to settle",
        "events": f"{outcome.events:,}"
        + (f" (shrunk from {original.events:,})" if outcome.events != original.events else ""),
        "faults": named_counts(outcome.faults),
        **({"changes": named_counts(outcome.changes)} if outcome.changes else {}),
        "branches": named_counts(outcome.branches),
    }
    console.print(counts_table(rows))
    console.print()
    if any(verdict.claimed for verdict in trial.verdicts.values()):
        console.print(verdict_table(trial.verdicts))
    for violation in outcome.violations:
        console.print()
        verdict = trial.verdicts.get(violation.property)
        drawing = None if verdict is None else witness_diagram(trial.table, verdict, console.width)
        console.print(drawing or Text(f"{violation.property}: {violation.why}", "red"))
    if outcome.vacuous:
        console.print(Text(f"vacuous: {outcome.vacuous}", "yellow"))
    if write is not None:
        console.print(Text(f"written to {write}; ordercast simulate {write} runs it", "dim"))
