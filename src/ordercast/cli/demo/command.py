"""`ordercast demo`: a replicated bank as real processes on this machine, faults and all, then verified on Spark."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ordercast.chaos.bank import ACCOUNTS, BRANCHES, GROUPS, MAIN_COMPUTERS
from ordercast.chaos.harness import Cluster, Outcome
from ordercast.chaos.schedule import Kill, Partition, Plan
from ordercast.cli.chaos.command import KeptFolder, run_cluster
from ordercast.cli.chaos.outcome import describe
from ordercast.cli.demo.simulated import bank_options, simulate_bank
from ordercast.cli.measure.tables import seconds_text
from ordercast.cli.terminal import make_console
from ordercast.cli.verify.summary import show
from ordercast.cli.verify.work import verify_and_report
from ordercast.core import UsageError
from ordercast.measure import Grouping, measure_here
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import SEED_MAX

ORDERS_PER_SECOND = 60.0
"""Of each branch."""
REPORT = "ordercast-demo"
"""Where the page with pictures goes by default."""

KILLED = MAIN_COMPUTERS[0]
"""Orders first, under protocols in which one process does."""

PLAN = Plan(
    seconds=12.0,
    actions=(
        Kill(at=3.0, process=KILLED, seconds=3.0),
        Partition(at=8.0, side=("main-2", "branch-1"), seconds=2.0),
    ),
    loss=0.1,
    duplication=0.02,
    delay_seconds=0.01,
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("demo")(demo)


def demo(
    seed: Annotated[int, typer.Option(min=0, max=SEED_MAX, help="Another day at the bank.")] = 1,
    protocol: Annotated[str, typer.Option(help="How the bank multicasts; see `ordercast protocols`.")] = "three-step",
    report: Annotated[Path, typer.Option(metavar="DIR", help="Where the page with pictures goes.")] = Path(REPORT),
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep traces, logs and configurations in this new folder.")
    ] = None,
    headless: Annotated[bool, typer.Option("--headless", help="No colours and no bars: for logs.")] = False,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="The same bank in simulated time: no processes, no Spark, one second.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """A replicated bank: three main computers and three branches as processes, lost packets, a kill, a partition.

    Do the books agree in the end? Exit code 1 when they do not, or when the protocol breaks a promise.

    Example: ordercast demo --protocol two-phase
    """
    if simulated:
        return simulate_bank(seed, protocol, as_json)
    _check(protocol)
    began = time.monotonic()
    people = Console(stderr=True, highlight=False) if as_json else make_console()
    if headless:
        people = Console(file=sys.stderr if as_json else sys.stdout, highlight=False, no_color=True, width=120)
    _introduce(people, protocol, seed)
    cluster = Cluster(protocol, GROUPS, dict.fromkeys(BRANCHES, ORDERS_PER_SECOND), bank_options(protocol))
    with KeptFolder(keep) as folder:
        outcome = run_cluster(cluster, PLAN, seed, folder, people)
        people.print(Text("the processes have ended; their traces go through Spark", "dim"))
        verified, page = verify_and_report(
            str(outcome.trace), report=str(report), show_progress=not as_json and not headless, spark=True
        )
        speed = measure_here(outcome.trace, Grouping()).rows
        described = describe(cluster, PLAN, outcome, verified)
    document = described | {
        "balances": {
            site: outcome.results[site]["ledger"]["balances"] for site in MAIN_COMPUTERS if site in outcome.results
        },
        "latency": speed["latency"],
        "throughput": speed["throughput"],
        "report": page,
        "demo_seconds": round(time.monotonic() - began, 1),
    }
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        show(people, verified.summary, verified.examples, None)
        _conclude(people, outcome, document)
    return 0 if document["fine"] else 1


def _check(protocol: str) -> None:
    contract = find_protocol(protocol).contract
    if "crash" not in contract.faults or "multiple-group-order" not in contract.guarantees:
        raise UsageError(
            f"the bank needs a protocol that orders across groups and survives a crash, which {protocol} does not "
            f"promise; see what happens without processes: ordercast demo --simulated --protocol {protocol}"
        )


def _introduce(people: Console, protocol: str, seed: int) -> None:
    lines = [
        f"Six processes: {', '.join(MAIN_COMPUTERS)} keep the accounts; {', '.join(BRANCHES)} take orders.",
        "Group accounts: the main computers. Group rates: everyone. What an order does depends on its place.",
        f"One datagram in {round(1 / PLAN.loss)} is lost. {KILLED}, which orders first, is killed; the network splits.",
    ]
    title = Text.assemble(("a replicated bank", "bold"), f" on {protocol}, seed {seed}")
    people.print(Panel(Text("\n".join(lines)), title=title, title_align="left", border_style="dim", padding=(0, 1)))


def _conclude(people: Console, outcome: Outcome, document: dict[str, Any]) -> None:
    people.print()
    people.print(Text("The books in the end", "bold"))
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("account")
    ledgers = {site: outcome.results[site]["ledger"] for site in MAIN_COMPUTERS if site in outcome.results}
    for site in ledgers:
        table.add_column(site, justify="right")
    table.add_column("")
    for account in ACCOUNTS:
        _row(table, account, [f"{ledger['balances'][account] / 100:,.2f}" for ledger in ledgers.values()])
    _row(table, "orders applied", [f"{ledger['applied']:,}" for ledger in ledgers.values()])
    _row(table, "orders refused", [f"{ledger['refused']:,}" for ledger in ledgers.values()])
    people.print(table)
    latency = {row["at"]: row for row in document["latency"]}
    last = latency.get("all", next(iter(latency.values()), None))
    if last is not None:
        half, most = seconds_text(last["p50"]), seconds_text(last["p99"])
        words = f"half of the messages were everywhere within {half}, 99 % within {most}"
        people.print(Text(f"{document['messages_per_second']:,.0f} orders a second; {words}, faults included", "dim"))
    for wait in document["waits"]["kills"] if document["waits"] else ():
        words = f"{wait['killed']}, which orders first, was killed: the other main computers stood still for"
        people.print(Text(f"{words} {wait['seconds']:.2f} s at the most", "dim"))
    people.print(Text(f"the page with pictures: {document['report']}", "dim"))
    for problem in (*document["wrong"], *outcome.problems):
        people.print(Text(problem, "bold red"))
    if document["fine"]:
        people.print(Text("The books agree, and every claim holds.", "bold green"))
    else:
        people.print(Text("The books differ, or a claim is violated: see above.", "bold red"))


def _row(table: Table, name: str, cells: list[str]) -> None:
    equal = len(set(cells)) == 1 and len(cells) > 1
    table.add_row(name, *cells, Text("equal", "green") if equal else Text("differ", "bold red"))
