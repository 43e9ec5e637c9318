"""The bank of the demonstration in simulated time, with message loss and a crash, then judged."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ordercast.chaos.bank import ACCOUNTS, BRANCHES, GROUPS, MAIN_COMPUTERS, Ledger, make_orders
from ordercast.check import Verdict, judge
from ordercast.cli.diagram import draw_rich
from ordercast.cli.progress import execute_with_progress
from ordercast.cli.run_report import (
    count_kinds,
    named_counts,
    verdict_table,
    verdicts_as_json,
    violated_claims,
    with_legend,
)
from ordercast.cli.terminal import make_console
from ordercast.core import SiteId, UsageError
from ordercast.core.effects import Deliver, Replay
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Loss
from ordercast.sim.network_table import PointToPointTable
from ordercast.sim.scenario import Scenario

DAY_SECONDS = 9.0
SETTLE_SECONDS = 6.0
LOSS_RATE = 0.1
CRASH_SECONDS = 3.0
DOWN_SECONDS = 3.0
RECOVERY_SECONDS = CRASH_SECONDS + DOWN_SECONDS
CRASHES: SiteId = MAIN_COMPUTERS[0]
"""The one that orders, under protocols in which one does."""
BAR_WIDTH = 18


class Outcome(msgspec.Struct):
    """All that came of it."""

    simulation: Simulation
    orders: int
    ledgers: dict[SiteId, Ledger]
    applied_per_second: dict[SiteId, Counter[int]]
    events: pa.Table
    verdicts: dict[str, Verdict]
    seconds: float

    @property
    def books_agree(self) -> bool:
        """Whether all main computers show the same balances."""
        books = [
            (ledger.balances, ledger.applied, ledger.refused)
            for ledger in map(self.ledgers.get, MAIN_COMPUTERS)
            if ledger
        ]
        return all(each == books[0] for each in books)

    @property
    def rates_agree(self) -> bool:
        """Whether all sites have the same rate."""
        return len({ledger.rate for ledger in self.ledgers.values()}) == 1

    @property
    def complete(self) -> bool:
        """Whether every order has reached every ledger that it is for."""
        multicasts = self.events.filter(pc.equal(self.events.column("kind"), "multicast")).column("groups").to_pylist()
        owed = Counter(site for groups in multicasts for site in {site for group in groups for site in GROUPS[group]})
        return all(self.ledgers[site].applied == owed[site] for site in self.ledgers)

    @property
    def fine(self) -> bool:
        """Whether everything agrees and every claim holds."""
        return self.books_agree and self.rates_agree and self.complete and not violated_claims(self.verdicts)


def simulate_bank(seed: int, protocol: str, as_json: bool) -> int:
    """The bank in simulated time; 1 when the books do not agree, or the protocol breaks a promise."""
    console = make_console()
    scenario = bank_scenario(protocol, seed)
    if not as_json:
        _introduce(console, scenario)
    outcome = run_bank(scenario)
    if as_json:
        print(json.dumps(_document(scenario, outcome), indent=2))
    else:
        _show(console, scenario, outcome)
    return 0 if outcome.fine else 1


def bank_options(protocol: str) -> dict[str, Any]:
    """What a protocol has to be told about the bank."""
    fields = find_protocol(protocol).contract.options.__struct_fields__
    options: dict[str, Any] = {}
    if "sequencer" in fields:
        options["sequencer"] = MAIN_COMPUTERS[0]
    if "sources" in fields:
        options["sources"] = list(BRANCHES)
    return options


def bank_scenario(protocol: str, seed: int) -> Scenario:
    """The bank under one protocol."""
    core = find_protocol(protocol)
    scenario = Scenario(
        protocol=core,
        name="bank",
        seed=seed,
        duration=DAY_SECONDS,
        settle=SETTLE_SECONDS,
        groups=GROUPS,
        network=PointToPointTable(processing=0.0002, latency=0.005),
        sync_seconds=0.002,
        faults=(
            Loss(from_=1.0, to=DAY_SECONDS - 1.0, rate=LOSS_RATE),
            Crash(from_=CRASH_SECONDS, to=RECOVERY_SECONDS, sites=(CRASHES,)),
        ),
        options=bank_options(protocol),
    )
    try:
        scenario.check()
    except UsageError as error:
        raise UsageError(f"the bank cannot use {protocol}: {error}") from error
    return scenario


def run_bank(scenario: Scenario) -> Outcome:
    """A day at the bank."""
    ledgers = {site: Ledger() for site in scenario.sites}
    applied: dict[SiteId, Counter[int]] = {site: Counter() for site in scenario.sites}

    def apply(site: SiteId, now: float, effect: Deliver | Replay) -> None:
        ledgers[site].apply(bytes(effect.multicast.payload).decode())
        applied[site][int(now)] += 1

    simulation = scenario.simulation(application=apply)
    orders = list(make_orders(simulation.random("bank"), scenario.duration))
    for order in orders:
        branch = simulation.sites[order.branch]
        simulation.queue.schedule(order.time, branch.multicast, order.text.encode(), order.groups)
    began = time.perf_counter()
    execute_with_progress(simulation, "a day at the bank")
    events = simulation.table()
    verdicts = judge(simulation.header(), events)
    return Outcome(simulation, len(orders), ledgers, applied, events, verdicts, time.perf_counter() - began)


def _document(scenario: Scenario, outcome: Outcome) -> dict[str, Any]:
    return {
        "protocol": scenario.protocol.contract.name,
        "seed": scenario.seed,
        "orders": outcome.orders,
        "events": count_kinds(outcome.events),
        "faults": dict(sorted(outcome.simulation.fault_counts.items())),
        "applied": {site: ledger.applied for site, ledger in outcome.ledgers.items()},
        "balances": {site: outcome.ledgers[site].balances for site in MAIN_COMPUTERS},
        "refused": {site: outcome.ledgers[site].refused for site in MAIN_COMPUTERS},
        "rates": {site: ledger.rate for site, ledger in outcome.ledgers.items()},
        "books_agree": outcome.books_agree,
        "rates_agree": outcome.rates_agree,
        "complete": outcome.complete,
        "verdicts": verdicts_as_json(outcome.verdicts),
        "violated_claims": len(violated_claims(outcome.verdicts)),
        "seconds": round(outcome.seconds, 3),
    }


# ---------------------------------------------------------------------- for people
def _introduce(console: Console, scenario: Scenario) -> None:
    contract = scenario.protocol.contract
    lines = [
        f"{', '.join(MAIN_COMPUTERS)} keep the accounts; {', '.join(BRANCHES)} take orders and multicast them.",
        "Group accounts: the main computers. Group rates: everyone. What an order does depends on its place.",
        f"One packet in {round(1 / LOSS_RATE)} is lost, and {CRASHES} is down for {DOWN_SECONDS:g} seconds.",
    ]
    title = Text.assemble(("a replicated bank", "bold"), f" on {contract.name}, seed {scenario.seed}")
    console.print(Panel(Text("\n".join(lines)), title=title, title_align="left", border_style="dim", padding=(0, 1)))


def _show(console: Console, scenario: Scenario, outcome: Outcome) -> None:
    kinds = count_kinds(outcome.events)
    console.print(
        Text(
            f"{outcome.orders} orders, {kinds.get('deliver', 0):,} deliveries, {kinds.get('send', 0):,} packets, "
            f"{kinds.get('drop', 0):,} of them lost; faults: {named_counts(outcome.simulation.fault_counts)}; "
            f"{outcome.seconds:.1f} s.",
            "dim",
        )
    )
    _heading(console, "Orders applied in each second")
    console.print(_timeline(outcome))
    _heading(console, f"Three orders around the crash of {CRASHES}")
    chosen = _orders_around_the_crash(outcome.events)
    console.print(
        with_legend(draw_rich(outcome.events, chosen, min(console.width, 120), packets=False), outcome.events)
    )
    _heading(console, "The books in the end")
    console.print(_books(outcome))
    _heading(console, f"What {scenario.protocol.contract.name} claims, judged on the trace of this run")
    console.print(verdict_table(outcome.verdicts))
    console.print()
    console.print(_conclusion(scenario, outcome))


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, "bold"))


def _timeline(outcome: Outcome) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("second", justify="right")
    for site in MAIN_COMPUTERS:
        table.add_column(site, width=BAR_WIDTH + 5)
    table.add_column("lost packets", justify="right")
    table.add_column("")
    drops = outcome.events.filter(pc.equal(outcome.events.column("kind"), "drop")).column("time").to_pylist()
    lost = Counter(int(when) for when in drops)
    counters = [outcome.applied_per_second[site] for site in MAIN_COMPUTERS]
    most = max((count for counter in counters for count in counter.values()), default=1)
    notes = _notes(outcome.events)
    last = max((second for counter in counters for second in counter), default=0)
    for second in range(max(last, int(DAY_SECONDS)) + 1):
        bars = [_bar(counter[second], most) for counter in counters]
        table.add_row(str(second), *bars, str(lost[second] or ""), Text(notes.get(second, ""), "yellow"))
    return table


def _bar(count: int, most: int) -> Text:
    return Text.assemble((f"{count or '':>4} ", "dim"), ("█" * round(BAR_WIDTH * count / most), "green"))


def _notes(events: pa.Table) -> dict[int, str]:
    words = {"fail": "crashes", "awake": "is awake", "recover": "takes part again"}
    notes: dict[int, str] = {}
    for row in events.filter(pc.is_in(events.column("kind"), pa.array(list(words)))).sort_by("time").to_pylist():
        second = int(row["time"])
        note = f"{row['site']} {words[row['kind']]}"
        notes[second] = f"{notes[second]}, {words[row['kind']]}" if second in notes else note
    return notes


def _orders_around_the_crash(events: pa.Table) -> set[str]:
    """The last order before the crash, the first during it, the first after the recovery; all of the group accounts."""
    multicasts = events.filter(pc.equal(events.column("kind"), "multicast")).sort_by("time").to_pylist()
    orders = [(row["time"], row["message"]) for row in multicasts if "accounts" in row["groups"]]
    before = [message for when, message in orders if when < CRASH_SECONDS][-1:]
    during = [message for when, message in orders if CRASH_SECONDS < when < RECOVERY_SECONDS][:1]
    after = [message for when, message in orders if when > RECOVERY_SECONDS + 0.5][:1]
    return {*before, *during, *after}


def _books(outcome: Outcome) -> Group:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("account")
    for site in MAIN_COMPUTERS:
        table.add_column(site, justify="right")
    table.add_column("")
    ledgers = [outcome.ledgers[site] for site in MAIN_COMPUTERS]
    for account in ACCOUNTS:
        amounts = [ledger.balances[account] for ledger in ledgers]
        table.add_row(account, *(f"{amount / 100:,.2f}" for amount in amounts), _equal(len(set(amounts)) == 1))
    for name in ("applied", "refused"):
        numbers = [getattr(ledger, name) for ledger in ledgers]
        table.add_row(
            Text(f"orders {name}", "dim"), *(f"{number:,}" for number in numbers), _equal(len(set(numbers)) == 1)
        )
    rates = " ".join(f"{site} {ledger.rate / 100:.2f}%" for site, ledger in outcome.ledgers.items())
    return Group(table, Text.assemble(("rates   ", "dim"), rates, "   ", _equal(outcome.rates_agree)))


def _equal(equal: bool) -> Text:
    return Text("equal", "green") if equal else Text("differ", "bold red")


def _conclusion(scenario: Scenario, outcome: Outcome) -> Text:
    contract = scenario.protocol.contract
    if outcome.fine:
        return Text("The books agree, no order is missing, and every claim holds.", "bold green")
    words = []
    if violated_claims(outcome.verdicts):
        words.append(f"{contract.name} does not keep what it claims")
    if not outcome.complete:
        words.append("orders are missing")
    if not outcome.books_agree or not outcome.rates_agree:
        words.append("the books differ")
    sentence = "; ".join(words)
    if scenario.outside_contract:
        reason = ", ".join(scenario.outside_contract)
    elif violated_claims(outcome.verdicts):
        reason = "that is a bug in ordercast, please report the seed"
    else:
        reason = f"{contract.name} promises no more; a bank needs multiple-group-order and termination"
    return Text(f"{sentence[0].upper()}{sentence[1:]}: {reason}.", "bold red")
