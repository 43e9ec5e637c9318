"""`ordercast explore`: every run of a small world, searched; what goes wrong is written as a scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from ordercast.check import judge
from ordercast.cli.run_report import count_kinds, counts_table, diagram_if_small, verdict_table, verdicts_as_json
from ordercast.cli.terminal import make_console
from ordercast.core import UsageError
from ordercast.explore.counterexample import explain, read_counterexample, write_counterexample
from ordercast.explore.quorums import check_quorums
from ordercast.explore.replay import Replay
from ordercast.explore.search import Found, Search
from ordercast.explore.worlds import find_world


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("explore")(explore)


def explore(
    what: Annotated[str, typer.Argument(metavar="PROTOCOL", help="A protocol, or a part: consensus, link, lease, …")],
    sites: Annotated[int, typer.Option(min=2, max=4, help="How many sites there are.")] = 3,
    messages: Annotated[int, typer.Option(min=1, max=3, help="How many messages are multicast.")] = 2,
    crashes: Annotated[int | None, typer.Option(min=0, max=4, help="How many crashes there may be in a run.")] = None,
    timers: Annotated[int | None, typer.Option(min=0, max=64, help="How many timers may fire in a run.")] = None,
    duplicates: Annotated[int | None, typer.Option(min=0, max=4, help="How many packets may arrive twice.")] = None,
    checkpoint: Annotated[
        int, typer.Option(metavar="RECORDS", min=0, help="Sum up logs after so many records; 0: never.")
    ] = 0,
    states: Annotated[int, typer.Option(min=1, help="Stop after so many states.")] = 5_000_000,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Stop after so many seconds of processor time.")
    ] = 120.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order in which deep runs are looked at.")] = 1,
    write: Annotated[Path | None, typer.Option(metavar="FILE", help="Where a counterexample is written.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Search every order of packets, timers, requests and crashes of a few sites, with the protocol's own code.

    Exit code 1 when something is wrong: then `ordercast simulate FILE` runs it again.

    Example: ordercast explore consensus --sites 3 --messages 2 --crashes 1
    """
    if what == "quorum":
        return _quorums(sites, as_json)
    world = find_world(what, sites, messages, checkpoint)
    given = {"crashes": crashes, "timers": timers, "duplicates": duplicates, "states": states, "seconds": seconds}
    chosen = {key: value for key, value in given.items() if value is not None}
    search = Search(world, msgspec.structs.replace(world.limits, **chosen), seed)
    found = search.run()
    written = None
    if found.problem is not None:
        example = explain(world, search.sites, found, messages, checkpoint)
        found.problem = example.problem
        written = write or Path(f"explored-{what}.toml")
        written.write_text(write_counterexample(example), encoding="utf-8")
    if as_json:
        print(json.dumps(_document(what, search, found, written), indent=2))
    else:
        _show(what, search, found, written)
    return 0 if found.problem is None else 1


def _quorums(sites: int, as_json: bool) -> int:
    """All divisions of the sites into groups, and all subsets of them."""
    checked, problem = check_quorums(sites)
    if as_json:
        print(json.dumps({"explored": "quorum", "states": checked, "whole": True, "problem": problem}, indent=2))
    else:
        make_console().print(f"quorum: {checked:,} pairs of quorums: {problem or 'any two share a site in each group'}")
    return 0 if problem is None else 1


def _document(what: str, search: Search, found: Found, written: Path | None) -> dict[str, Any]:
    return {
        "explored": what,
        "states": found.states,
        "depth": found.depth,
        "deepest": found.deepest,
        "whole": found.whole,
        "seconds": round(found.seconds, 3),
        "states_per_second": round(found.states / max(found.seconds, 1e-9)),
        "site_states": len(search.sites.locals),
        "left_alone": found.settled,
        "branches": dict(sorted(search.sites.cores.branches.items())),
        "problem": found.problem,
        "counterexample": None if written is None else str(written),
    }


def _show(what: str, search: Search, found: Found, written: Path | None) -> None:
    console = make_console()
    rate = found.states / max(found.seconds, 1e-9)
    rows = {
        "states": f"{found.states:,} in {found.seconds:.1f} s of processor time, {rate:,.0f} a second; "
        f"of one site {len(search.sites.locals):,}",
        "depth": "everything within the limits"
        if found.whole
        else f"everything that takes fewer than {found.depth} actions; of deeper runs, down to {found.deepest}, a part",
        "left alone": f"{found.settled:,} states, to see whether everything comes to an end",
    }
    console.print(Text(what, "bold"))
    console.print(counts_table(rows))
    if found.problem is None:
        console.print(Text("nothing is wrong", "green"))
    else:
        console.print(Text(found.problem, "bold red"))
        console.print(Text(f"ordercast simulate {written}", "bold"))


def replay_counterexample(document: dict[str, Any], trace: str | None, as_json: bool) -> int:
    """Run a counterexample again. The exit code is 1 when it goes wrong again."""
    if trace is not None:
        raise UsageError("a counterexample of ordercast explore has no trace to write; leave out --trace")
    example = read_counterexample(document)
    replay = Replay(find_world(example.world, example.sites, example.messages, example.checkpoint), example)
    problem = replay.run()
    run, events = replay.trace()
    verdicts = judge(run, events)
    if as_json:
        result = {
            "explored": example.world,
            "steps": len(example.step),
            "problem": problem,
            "verdicts": verdicts_as_json(verdicts),
        }
        print(json.dumps(result, indent=2))
        return 1 if problem else 0
    console = make_console()
    kinds = count_kinds(events)
    console.print(Text(f"{example.world}: {len(example.step)} steps, {kinds.get('deliver', 0)} deliveries", "bold"))
    for number, doing in enumerate(example.step):
        packet = f" {doing.kind} of {doing.sender} (packet {doing.packet})" if doing.packet >= 0 else ""
        timer = f" {' '.join(map(str, doing.timer))}" if doing.timer else ""
        during = f" in the middle of {doing.during}" if doing.during else ""
        console.print(f"{number + 1:>4}  {doing.site}: {doing.does}{during}{packet}{timer}")
    drawing = diagram_if_small(events, console.width, forced=False)
    if drawing is not None:
        console.print(drawing)
    console.print(verdict_table(verdicts))
    console.print(Text(problem, "bold red") if problem else Text("it does not go wrong any more", "green"))
    return 1 if problem else 0
