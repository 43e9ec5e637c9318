"""What comes of a run under chaos: the document for machines, and the lines for people."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ordercast.chaos.books import find_kept
from ordercast.chaos.harness import Cluster, Outcome
from ordercast.chaos.schedule import Plan, describe_action
from ordercast.chaos.verdict import MEMORY_MAX_MIB, judge_run
from ordercast.cli.chaos.clusters import describe_crossings
from ordercast.cli.chaos.waits import (
    delivery_times,
    describe_views,
    describe_waits,
    find_views,
    find_waits,
    read_views,
    views_text,
    waits_text,
)
from ordercast.protocols import find_protocol
from ordercast.verify.folder import Verified

ONCE_ONLY = ("no-duplication", "R1")
"""What a trace cannot show of a process that came back with an older log on which nobody relied: it delivers again what
it has forgotten, to an application that has forgotten it, too. That the books count nothing twice is judged all the
same."""


def show_plan(people: Console, plan: Plan, seed: int) -> None:
    """What is going to happen."""
    people.print(Text(f"the plan of seed {seed}, in {plan.seconds:.1f} s", "bold"))
    for action in plan.actions:
        people.print(Text(f"{action.at:6.1f} s  {describe_action(action)}", "dim"))
    people.print()


def describe(cluster: Cluster, plan: Plan, outcome: Outcome, verified: Verified) -> dict[str, Any]:
    """The JSON document."""
    # Books depend on the order of orders; without one, that all have the same orders is all there is to ask.
    contract = find_protocol(cluster.protocol).contract
    promised = contract.with_options(contract.options(**cluster.options)).guarantees
    # Whoever has delivered a tail in another order gets the books of the others.
    ordered = not {"multiple-source-order", "R2", "R3"}.isdisjoint(promised)
    verdict = judge_run(
        cluster,
        plan,
        outcome,
        ordered=ordered,
        kept="uniform-agreement" in promised,
        once="no-duplication" in promised,
    )
    excused = ONCE_ONLY if outcome.forgotten else ()
    violated_claims = sum(each.violated_claims for each in verified.summary.properties if each.name not in excused)
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
        "agree": not verdict.divergence,
        "problems": outcome.problems,
        "plan": msgspec.to_builtins(plan.actions),
        "asked": dict(sorted(plan.asked().items())),
        "refused": msgspec.to_builtins(outcome.refusals),
        "forgotten": outcome.forgotten,
        "away": msgspec.to_builtins(outcome.absences),
        "flooded": dict(outcome.flooded),
        "acknowledged": sum(map(len, outcome.acknowledged.values())),
        "memory_mib": {process: round(kib / 1024, 1) for process, kib in sorted(outcome.memory_kib.items())},
        "memory_max_mib": MEMORY_MAX_MIB,
        "waits": describe_waits(find_waits(cluster.groups, outcome.strikes, delivery_times(outcome.trace))),
        # Where each life has a name of its own, for else nobody can tell when the one that was killed was given up.
        "views": describe_views(find_views(outcome.strikes, read_views(outcome.trace)))
        if contract.another_process
        else None,
        "verdict": msgspec.to_builtins(verdict),
        "wrong": verdict.lines(),
        "verdicts": {each.name: each.verdict for each in verified.summary.properties},
        "violated_claims": violated_claims,
        "fine": verdict.fine and not outcome.problems and not violated_claims,
    }
    if cluster.terrain.clusters:
        document["crossings"] = describe_crossings(
            outcome.trace,
            cluster.terrain,
            outcome.network["between clusters"],
            outcome.seconds + outcome.settle_seconds,
        )
    return document


def show_outcome(people: Console, cluster: Cluster, outcome: Outcome, document: dict[str, Any]) -> None:
    """What people want to know besides the verdicts."""
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("process")
    table.add_column("orders applied", justify="right")
    table.add_column("refused", justify="right")
    table.add_column("books", justify="right")
    table.add_column("memory, MiB", justify="right")
    books = "digest" if document["ordered"] else "gathered"
    for kept in sorted(find_kept(outcome.results, cluster.groups), key=lambda kept: kept.name):
        ledger = kept.books["ledger"]
        memory = document["memory_mib"].get(kept.process)
        table.add_row(
            kept.name,
            f"{ledger['applied']:,}",
            f"{ledger['refused']:,}",
            f"{kept.books[books]:x}"[-8:],
            "?" if memory is None else f"{memory:.1f}",
        )
    people.print()
    people.print(table)
    network = ", ".join(f"{count:,} {words}" for words, count in sorted(outcome.network.items()))
    faults = ", ".join(f"{count} × {kind}" for kind, count in sorted(outcome.happened.items())) or "none"
    people.print(Text(f"faults: {faults}; datagrams: {network}", "dim"))
    people.print(Text(f"{document['acknowledged']:,} orders were acknowledged", "dim"))
    if document["waits"] is not None:
        people.print(Text(waits_text(document["waits"]), "dim"))
    if document["views"] is not None:
        people.print(Text(views_text(document["views"]), "dim"))
    for refusal in outcome.refusals:
        people.print(Text(f"refused at {refusal.at:.1f} s, after {refusal.after}: {refusal.who}: {refusal.why}", "dim"))
    for process in outcome.forgotten:
        words = f"{process} came back with an older log on which nobody relied: not judged: {', '.join(ONCE_ONLY)}"
        people.print(Text(words, "dim"))
    for absence in outcome.absences:
        waited = f"; {absence.blocked[0]}" if absence.blocked else ""
        went_on = f"the others delivered {absence.delivered:,} meanwhile{waited}"
        people.print(Text(f"{absence.process} was away for {absence.seconds:.1f} s; {went_on}", "dim"))
    for problem in (*document["wrong"], *outcome.problems):
        people.print(Text(problem, "bold red"))
    if document["fine"]:
        people.print(
            Text("Every promise was kept, all replicas agree, and nothing acknowledged is lost.", "bold green")
        )
    else:
        people.print(Text("Something is wrong: see above.", "bold red"))
