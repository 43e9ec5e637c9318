"""`ordercast chaos`: real processes, killed and stopped and cut off on a bad network, then verified on Spark."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import ordercast
from ordercast.chaos.harness import Cluster, Harness, Outcome
from ordercast.chaos.schedule import Plan, draw_plan
from ordercast.cli.chaos.clusters import describe_crossings, make_terrain, options_for, show_crossings
from ordercast.cli.terminal import make_console
from ordercast.cli.verify.summary import show
from ordercast.cli.verify.work import verify_and_report
from ordercast.core import Contract, UsageError
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import SEED_MAX
from ordercast.spark.verify.folder import Verified

GROUP = "accounts"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("chaos")(chaos)


def chaos(
    protocol: Annotated[str, typer.Option(help="See `ordercast protocols`.")] = "sequencer",
    processes: Annotated[int, typer.Option(min=2, max=16, help="Members of the group, all of them sources.")] = 5,
    seconds: Annotated[float, typer.Option(min=1.0, help="Of faults; then everything heals and comes to rest.")] = 30.0,
    kills: Annotated[int, typer.Option(min=0, help="SIGKILL, and a new start some seconds later.")] = 4,
    pauses: Annotated[int, typer.Option(min=0, help="SIGSTOP, for longer than any time-out.")] = 1,
    partitions: Annotated[
        int | None, typer.Option(min=0, help="Times that some are cut off from the others.", show_default="2")
    ] = None,
    loss: Annotated[float, typer.Option(min=0.0, max=0.9, help="Share of the datagrams.")] = 0.1,
    duplication: Annotated[
        float | None, typer.Option(min=0.0, max=0.9, help="Share of the datagrams.", show_default="0.05")
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(min=0.0, max=5.0, help="Seconds, at the most, for each datagram.", show_default="0.01"),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Multicasts a second of each process.")] = 100.0,
    clusters: Annotated[int, typer.Option(min=1, help="Processes are in so many clusters, far from each other.")] = 1,
    between: Annotated[
        float, typer.Option(min=0.001, max=5.0, help="Seconds from cluster to cluster, with --clusters.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(min=0, max=SEED_MAX, help="Draws the faults and the orders.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep traces, logs and configurations in this new folder.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write a page with pictures to this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Run a cluster on this machine, hurt it, heal it, and verify what its processes recorded.

    Exit code 1 when a promise is broken or replicas disagree.

    Example: ordercast chaos --protocol token --seconds 60 --kills 6 --loss 0.2 --seed 7
    """
    names = [f"p{index}" for index in range(1, processes + 1)]
    core = find_protocol(protocol)
    contract = core.contract
    plan = draw_plan(
        seed,
        names,
        seconds,
        kills,
        pauses,
        int(_asked(partitions, 2, contract)),
        loss,
        _asked(duplication, 0.05, contract),
        _asked(delay, 0.01, contract),
    )
    terrain = make_terrain(names, clusters, between, contract.one_channel)
    cluster = Cluster(
        protocol,
        {GROUP: tuple(names)},
        dict.fromkeys(names, rate),
        options=options_for(core, terrain),
        terrain=terrain,
        one_channel=contract.one_channel,
        recovers="crash" in contract.faults,
    )
    people = Console(stderr=True, highlight=False) if as_json else make_console()
    with KeptFolder(keep) as folder:
        outcome = run_cluster(cluster, plan, seed, folder, people)
        verified, page = verify_and_report(str(outcome.trace), report=report, show_progress=not as_json)
        document = describe(cluster, outcome, verified)
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        show(people, verified.summary, verified.examples, page)
        if "crossings" in document:
            show_crossings(people, document["crossings"])
        show_outcome(people, outcome, document)
        if keep is not None:
            people.print(Text(f"kept in {keep}: verify it again with: ordercast verify {keep}/trace", "dim"))
    return 0 if document["fine"] else 1


def _asked(given: float | None, usual: float, contract: Contract) -> float:
    """What the user wants; if nothing is said, the usual. Nothing is cut off, repeated or late on one channel."""
    if given is not None:
        return given
    return 0 if contract.one_channel else usual


class KeptFolder:
    """A folder for a run: the user's, which must be new, or one that is gone afterwards."""

    def __init__(self, keep: Path | None) -> None:
        self._keep = keep

    def __enter__(self) -> Path:
        if self._keep is not None:
            if self._keep.exists():
                raise UsageError(f"{self._keep} exists: name a new folder")
            self._keep.mkdir(parents=True)
            return self._keep.absolute()
        # In the system's own folder for such things: the path of a Unix socket must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="ordercast-"))
        return self._folder

    def __exit__(self, *_: object) -> None:
        if self._keep is None:
            shutil.rmtree(self._folder, ignore_errors=True)


def run_cluster(cluster: Cluster, plan: Plan, seed: int, folder: Path, people: Console) -> Outcome:
    """Run it and tell people what happens."""

    def tell(seconds: float, words: str) -> None:
        people.print(Text.assemble((f"{seconds:6.1f} s  ", "dim"), words))

    return ordercast.run(Harness(cluster, plan, seed, folder, tell).run())


def describe(cluster: Cluster, outcome: Outcome, verified: Verified) -> dict[str, Any]:
    """The JSON document."""
    # Books depend on the order of orders; without one, that all have the same orders is all there is to ask.
    ordered = "multiple-source-order" in find_protocol(cluster.protocol).contract.guarantees
    agree = outcome.agree(cluster.groups, ordered)
    document: dict[str, Any] = {
        "protocol": cluster.protocol,
        "processes": cluster.processes,
        "faults": dict(sorted(outcome.happened.items())),
        "datagrams": dict(sorted(outcome.network.items())),
        "deliveries": outcome.deliveries,
        "messages_per_second": round(max(outcome.deliveries.values(), default=0) / outcome.seconds, 1),
        "seconds": round(outcome.seconds, 2),
        "settle_seconds": round(outcome.settle_seconds, 2),
        "ordered": ordered,
        "agree": agree,
        "problems": outcome.problems,
        "verdicts": {each.name: each.verdict for each in verified.summary.properties},
        "violated_claims": verified.summary.violated_claims,
        "fine": agree and not outcome.problems and not verified.summary.violated_claims,
    }
    if cluster.terrain.clusters:
        document["crossings"] = describe_crossings(
            outcome.trace,
            cluster.terrain,
            outcome.network["between clusters"],
            outcome.seconds + outcome.settle_seconds,
        )
    return document


def show_outcome(people: Console, outcome: Outcome, document: dict[str, Any]) -> None:
    """What people want to know besides the verdicts."""
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("process")
    table.add_column("orders applied", justify="right")
    table.add_column("refused", justify="right")
    table.add_column("books", justify="right")
    books = "digest" if document["ordered"] else "gathered"
    for process, result in sorted(outcome.results.items()):
        ledger = result["ledger"]
        table.add_row(process, f"{ledger['applied']:,}", f"{ledger['refused']:,}", f"{result[books]:x}"[-8:])
    people.print()
    people.print(table)
    network = ", ".join(f"{count:,} {words}" for words, count in sorted(outcome.network.items()))
    faults = ", ".join(f"{count} × {kind}" for kind, count in sorted(outcome.happened.items())) or "none"
    people.print(Text(f"faults: {faults}; datagrams: {network}", "dim"))
    for problem in outcome.problems:
        people.print(Text(problem, "bold red"))
    if document["fine"]:
        people.print(Text("Every promise was kept, and all replicas agree.", "bold green"))
    else:
        people.print(Text("Something is wrong: see above.", "bold red"))
