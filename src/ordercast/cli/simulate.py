"""`ordercast simulate`: one deterministic run of a scenario, judged; or, with --campaign, many with random faults."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ordercast.check import Verdict, judge
from ordercast.cli.progress import execute_with_progress
from ordercast.cli.run_report import (
    count_kinds,
    count_services,
    counts_table,
    diagram_if_small,
    named_counts,
    services_table,
    verdict_table,
    verdicts_as_json,
    violated_claims,
    witness_diagram,
)
from ordercast.cli.terminal import make_console
from ordercast.core import UsageError
from ordercast.core.tables import read_toml
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.scenario import SEED_MAX, Scenario, iterate_shipped, load_scenario
from ordercast.trace.write import TraceWriter

if TYPE_CHECKING:
    from ordercast.campaign import Profile

LIST_WIDTH = 160
"""Holds the longest name, the longest protocol and the longest description."""

BRANCHES_NAMED_MAX = 8
"""More names than that hide the numbers before them; --json has them all."""


class TraceFormat(StrEnum):
    """How a trace is written."""

    parquet = "parquet"
    jsonl = "jsonl"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("simulate")(simulate)


def simulate(
    scenario: Annotated[str | None, typer.Argument(help="A .toml file, or the name of a shipped scenario.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=SEED_MAX, help="Instead of the scenario's own.")] = None,
    trace: Annotated[str | None, typer.Option(metavar="DIR", help="Write the trace to this new folder.")] = None,
    trace_format: Annotated[TraceFormat, typer.Option("--format", help="Of the trace.")] = TraceFormat.parquet,
    diagram: Annotated[
        bool | None, typer.Option("--diagram/--no-diagram", help="Draw the run; by default when it is small.")
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the shipped scenarios.")] = False,
    campaign: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Instead: N seeds of random faults for each protocol.")
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="With --campaign: this protocol only.")] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --campaign: where to go on after an interruption.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="With --campaign: on this Spark master, e.g. spark://HOST:7077.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --campaign: write the traces of failing runs there.")
    ] = None,
    schedules: Annotated[
        bool, typer.Option("--schedules", help="With --campaign: schedules that look for trouble.")
    ] = False,
    large: Annotated[
        bool, typer.Option("--large", help="With --campaign: 12 to 20 sites, eight groups, minutes under faults.")
    ] = False,
    nightly: Annotated[
        bool, typer.Option("--nightly", help="With --campaign: some large runs, some with schedules, some as usual.")
    ] = False,
    steered: Annotated[
        bool, typer.Option("--steered", help="With --campaign: towards branches not yet taken together.")
    ] = False,
    replay: Annotated[
        str | None, typer.Option(metavar="PROTOCOL:SEED", help="Instead: a run of a campaign again.")
    ] = None,
    shrink: Annotated[bool, typer.Option("--shrink", help="With --replay: look for a smaller run that fails.")] = False,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --replay: write the run there, as a scenario.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Run a scenario from a seed in simulated time, with its faults, and judge what its protocol claims.

    The same scenario and seed give the same trace, byte for byte. Exit code 1 when a claimed property is violated.

    Example: ordercast simulate sequencer-crash --seed 7 --trace crash-7
    """
    if campaign is not None:
        if scenario is not None:
            raise UsageError(f"--campaign makes its own scenarios; leave out {scenario!r}")
        from ordercast.cli.campaign import run_campaign

        profile = _profile(schedules, large, nightly)
        if steered and (profile != "usual" or state is not None or master is not None):
            raise UsageError(
                "--steered runs follow from each other: leave out --state, --master and other kinds of runs"
            )
        return run_campaign(
            campaign, protocol, seed, as_json, state, master=master, keep=keep, profile=profile, steered=steered
        )
    if replay is not None:
        from ordercast.cli.campaign import replay_run

        return replay_run(replay, shrink, write, as_json)
    if protocol is not None:
        raise UsageError("--protocol goes with --campaign; a scenario names its own protocol")
    if master is not None or keep is not None or schedules or large or nightly or steered:
        raise UsageError("--master, --keep, --schedules, --large, --nightly and --steered go with --campaign")
    if list_all:
        return _list(as_json)
    if scenario is None:
        raise UsageError("name a scenario: a .toml file, or one of `ordercast simulate --list`")
    explored = _explored(scenario)
    if explored is not None:
        from ordercast.cli.explore import replay_counterexample

        return replay_counterexample(explored, trace, as_json)
    return _run(load_scenario(scenario, find_protocol), seed, trace, trace_format, diagram, as_json)


def _profile(schedules: bool, large: bool, nightly: bool) -> Profile:
    """What the options say; one of them at the most."""
    if schedules + large + nightly > 1:
        raise UsageError("--schedules, --large and --nightly are different runs; --nightly has some of each")
    return "nightly" if nightly else "large" if large else "schedules" if schedules else "usual"


def _explored(scenario: str) -> dict[str, Any] | None:
    """The tables of a file that `ordercast explore` has written; None for any other scenario."""
    path = Path(scenario)
    if path.suffix != ".toml" or not path.is_file():
        return None
    document = read_toml(path)
    return document if "explored" in document else None


def _list(as_json: bool) -> int:
    scenarios = list(iterate_shipped(find_protocol))
    if as_json:
        listed = [
            {"name": known.name, "protocol": known.protocol.contract.name, "description": known.description}
            for known in scenarios
        ]
        print(json.dumps({"scenarios": listed}, indent=2))
        return 0
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("scenario", "protocol", "what happens"):
        table.add_column(heading, no_wrap=True)
    for known in scenarios:
        table.add_row(Text(known.name, "bold"), Text(known.protocol.contract.name), Text(known.description))
    # One line each, however narrow the terminal: scripts cut the first column out.
    Console(width=LIST_WIDTH, highlight=False).print(table, crop=False)
    return 0


def _run(
    scenario: Scenario,
    seed: int | None,
    trace: str | None,
    trace_format: TraceFormat,
    diagram: bool | None,
    as_json: bool,
) -> int:
    simulation = scenario.simulation(seed=seed)
    # Opened first: a folder that exists is complained about before the work, not after.
    with nullcontext() if trace is None else TraceWriter(trace, trace_format.value) as writer:
        began = time.perf_counter()
        execute_with_progress(simulation, scenario.name)
        seconds = time.perf_counter() - began
        run, events = simulation.header(), simulation.table()
        if writer is not None:
            writer.write(run, events)
    verdicts = judge(run, events)
    kinds = count_kinds(events)
    if as_json:
        print(json.dumps(_document(scenario, simulation, kinds, verdicts, trace, seconds), indent=2))
    else:
        _show(scenario, simulation, kinds, verdicts, seconds, diagram)
        if trace is not None:
            make_console().print(Text(f"trace written to {trace}", "dim"))
    return 1 if violated_claims(verdicts) else 0


def _document(
    scenario: Scenario,
    simulation: Simulation,
    kinds: dict[str, int],
    verdicts: dict[str, Verdict],
    trace: str | None,
    seconds: float,
) -> dict[str, Any]:
    contract = scenario.protocol.contract
    return {
        "scenario": scenario.name,
        "protocol": contract.name,
        "seed": simulation.seed,
        "run": simulation.run_name,
        "sites": list(simulation.sites),
        "simulated_seconds": scenario.duration + scenario.settle,
        "seconds": round(seconds, 3),
        "events": kinds,
        "faults": dict(sorted(simulation.fault_counts.items())),
        "changes": dict(sorted(simulation.change_counts.items())),
        "refused": dict(sorted(simulation.refusals.items())),
        "refused_requests": simulation.refused_requests,
        "branches": {name: simulation.branches[name] for name in contract.branches},
        "outside_contract": list(scenario.outside_contract),
        **({"services": count_services(simulation.table())} if contract.services else {}),
        "verdicts": verdicts_as_json(verdicts),
        "violated_claims": len(violated_claims(verdicts)),
        "trace": trace,
    }


def _show(
    scenario: Scenario,
    simulation: Simulation,
    kinds: dict[str, int],
    verdicts: dict[str, Verdict],
    seconds: float,
    diagram: bool | None,
) -> None:
    console = make_console()
    contract = scenario.protocol.contract
    console.print(Text.assemble((scenario.name, "bold"), f": {scenario.description}" if scenario.description else ""))
    taken = {name: simulation.branches[name] for name in contract.branches if simulation.branches[name]}
    untaken = [name for name in contract.branches if not simulation.branches[name]]
    rows = {
        "protocol": f"{contract.name} ({contract.title})",
        "run": f"seed {simulation.seed}, {len(simulation.sites)} sites, {len(scenario.all_groups)} groups, "
        f"{scenario.network.kind}, {scenario.duration:g} s and {scenario.settle:g} s to settle, in {seconds:.2f} s",
        "messages": f"{kinds.get('multicast', 0):,} multicast, {kinds.get('deliver', 0):,} deliveries",
        "packets": f"{kinds.get('send', 0):,} sent, {kinds.get('receive', 0):,} received, "
        f"{kinds.get('drop', 0):,} lost",
        "faults": named_counts(simulation.fault_counts),
        **({"changes": named_counts(simulation.change_counts)} if scenario.changes else {}),
        "branches": named_counts(taken) + _not_taken(untaken),
    }
    console.print(counts_table(rows))
    console.print()
    events = simulation.table()
    if contract.services:
        console.print(services_table(count_services(events)))
        console.print()
    drawing = None if diagram is False else diagram_if_small(events, console.width, forced=diagram is True)
    if drawing is not None:
        console.print(drawing)
        console.print()
    console.print(verdict_table(verdicts))
    for why in simulation.refusals.values():
        console.print(Text(f"note: {why}", "yellow"))
    for why in simulation.refused_requests:
        console.print(Text(f"note: refused: {why}", "yellow"))
    for words in scenario.outside_contract:
        console.print(Text(f"note: {words}; its claims may fail in this run", "yellow"))
    for verdict in violated_claims(verdicts):
        console.print()
        console.print(witness_diagram(events, verdict, console.width) or "")


def _not_taken(branches: list[str]) -> str:
    if len(branches) > BRANCHES_NAMED_MAX:
        return f"; {len(branches)} others not taken"
    return f"; not taken: {', '.join(branches)}" if branches else ""
