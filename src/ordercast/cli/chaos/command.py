"""`ordercast chaos`: real processes, killed and stopped and cut off on a bad network, then verified on Spark."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import ordercast
from ordercast.chaos.changes import FOUNDERS, draw_changes
from ordercast.chaos.harness import Cluster, Harness, Outcome
from ordercast.chaos.open_harness import OpenHarness
from ordercast.chaos.schedule import Join, Plan, draw_plan
from ordercast.cli.chaos.blocks import WORKER as BLOCKS
from ordercast.cli.chaos.blocks import Block, judge_blocks, show_blocks
from ordercast.cli.chaos.casting import Groups, make_groups, processes_of
from ordercast.cli.chaos.clusters import make_terrain, options_for, show_crossings
from ordercast.cli.chaos.outcome import describe, show_outcome, show_plan
from ordercast.cli.terminal import make_console
from ordercast.cli.verify.summary import show
from ordercast.cli.verify.work import verify_and_report
from ordercast.core import Contract, Protocol, UsageError
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import SEED_MAX

OUTPUT = ("keep", "report", "as_json")
"""Options that do not change what happens."""

REPLICA = "ordercast.chaos.replica"
"""What a process runs whose books are a replicated state."""
BRANCH = "ordercast.chaos.worker"
"""What a process runs where that cannot be."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("chaos")(chaos)


def chaos(
    protocol: Annotated[str, typer.Option(help="See `ordercast protocols`.")] = "three-step",
    processes: Annotated[
        int | None,
        typer.Option(min=2, max=16, help="Members of the group, all of them sources.", show_default="5"),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Several groups, as in the [groups] of a configuration, instead of one."),
    ] = None,
    changes: Annotated[
        int, typer.Option(min=0, help="Processes that come and go: two become as many as --processes, and two again.")
    ] = 0,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="Use all building blocks instead of a bank; judged on Spark.")
    ] = False,
    block: Annotated[
        list[Block] | None,
        typer.Option(metavar="NAME", help=f"The same with one of {', '.join(Block)}; may be repeated."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="Of faults; then everything heals and comes to rest.")
    ] = 30.0,
    kills: Annotated[int, typer.Option(min=0, help="SIGKILL, and a new start some seconds later.")] = 4,
    deaths: Annotated[int, typer.Option(min=0, help="SIGKILL, and no new start, where fewer than half may die.")] = 0,
    pauses: Annotated[int, typer.Option(min=0, help="SIGSTOP, for longer than any time-out.")] = 1,
    pause_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, max=60.0, help="How long each lasts; 0: a few seconds, drawn.")
    ] = 0.0,
    rollbacks: Annotated[
        int, typer.Option(min=0, help="SIGKILL, and a start with an older copy of the log: refused, or harmless.")
    ] = 0,
    lost_logs: Annotated[int, typer.Option(min=0, help="SIGKILL, and a start without the log: refused.")] = 0,
    away: Annotated[
        int, typer.Option(min=0, help="SIGKILL, and no start for a third of the time: it comes back by itself.")
    ] = 0,
    floods: Annotated[
        int, typer.Option(min=0, help="50,000 datagrams a second at one process: junk, forged, replayed in turn.")
    ] = 0,
    strangers: Annotated[
        int, typer.Option(min=0, help="Processes that have the key and do not belong, or messages of no replica.")
    ] = 0,
    partitions: Annotated[
        int | None, typer.Option(min=0, help="Times that some are cut off from the others.", show_default="2")
    ] = None,
    loss: Annotated[float, typer.Option(min=0.0, max=0.9, help="Share of the datagrams.")] = 0.1,
    duplication: Annotated[
        float | None, typer.Option(min=0.0, max=0.9, help="Share of the datagrams.", show_default="0.05")
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.0, max=5.0, help="At the most, for each datagram.", show_default="0.01"),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Multicasts a second of each process.")] = 100.0,
    clusters: Annotated[int, typer.Option(min=1, help="Processes are in so many clusters, far from each other.")] = 1,
    between: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, max=5.0, help="From cluster to cluster, with --clusters.")
    ] = 0.05,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the protocol, as in a configuration; may be repeated."),
    ] = None,
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

    Exit code 1 when a promise is broken, replicas disagree, a process takes too much memory, or a fault that was
    asked for did not strike.

    Example: ordercast chaos --protocol token --seconds 60 --kills 6 --loss 0.2 --seed 7
    """
    command = repeat_command(locals())
    used = list(Block) if blocks else block or []
    core = find_protocol(protocol)
    arranged = core.arrangement.unlisted if changes else core.arrangement.listed
    chosen = read_options(option or (), core)
    contract = core.contract.with_options(core.contract.options(**(arranged | chosen)))
    members: Groups = make_groups(groups, processes)
    # No two sides have more than half of those who can be there at a time; and one more, so that one may be down.
    quorum = len(processes_of(members)) // 2 + 1 if contract.partitionable else None
    if deaths and (changes or not contract.minority_may_die or 2 * deaths >= len(processes_of(members))):
        raise UsageError("--deaths: of processes that stay, fewer than half may die, and only where the others go on")
    if used:
        _check_blocks(contract, groups, changes)
    if changes:
        _check_changes(locals(), contract)
        founders = FOUNDERS if quorum is None else quorum + 1
        drawn = draw_changes(
            seed,
            seconds,
            changes,
            members,
            kills,
            pauses,
            loss,
            duplication or 0.05,
            founders,
            partitions=partitions or 0,
            pause_seconds=pause_seconds,
            in_memory=contract.another_process,
        )
        plan, members = drawn.plan, drawn.groups
        names = processes_of(members)
    else:
        names = processes_of(members)
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
            rollbacks=rollbacks,
            lost_logs=lost_logs,
            away=away,
            floods=floods,
            strangers=strangers,
            deaths=deaths,
            majority_suffices=contract.minority_may_die,
            pause_seconds=pause_seconds,
        )
    terrain = make_terrain(names, clusters, between, contract.one_channel)
    cluster = Cluster(
        protocol,
        members,
        dict.fromkeys(names, rate),
        options=options_for(core, terrain) | chosen,
        terrain=terrain,
        one_channel=contract.one_channel,
        recovers="crash" in contract.faults,
        repairs=contract.repairs,
        quorum=quorum,
        logged=not contract.another_process,
        drift={"sequencer": names[-1]} if "sequencer" in contract.options.shared else {},
        blocks=tuple(used),
        worker=BLOCKS if used else choose_worker(contract, bool(changes) or len(members) == 1),
    )
    people = Console(stderr=True, highlight=False) if as_json else make_console()
    show_plan(people, plan, seed)
    with KeptFolder(keep) as folder:
        outcome = run_cluster(cluster, plan, seed, folder, people)
        verified, page = verify_and_report(str(outcome.trace), report=report, show_progress=not as_json)
        document = describe(cluster, plan, outcome, verified) | {"command": command}
        if used:
            document["blocks"] = judge_blocks(outcome, used, show_progress=not as_json)
            document["fine"] = document["fine"] and document["blocks"]["fine"]
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        show(people, verified.summary, verified.examples, page)
        if "crossings" in document:
            show_crossings(people, document["crossings"])
        if used:
            show_blocks(people, document["blocks"])
        show_outcome(people, cluster, outcome, document)
        if not document["fine"]:
            people.print(Text(f"the same plan again: {command}", "bold"))
        if keep is not None:
            people.print(Text(f"kept in {keep}: verify it again with: ordercast verify {keep}/trace", "dim"))
    return 0 if document["fine"] else 1


def _check_changes(options: Mapping[str, Any], contract: Contract) -> None:
    """Nobody stands between processes that find each other, and nobody expects those that come and go."""
    if not contract.dynamic or not _keeps_replicas(contract):
        raise UsageError(f"--changes: the processes of {contract.name} cannot come and go; --protocol token can")
    if options["partitions"] and not contract.partitionable:
        raise UsageError(
            f"--partitions cannot happen with --changes under {contract.name}, whose sides do not go on apart: leave "
            "one of them out"
        )
    for name in ("delay", "rollbacks", "lost_logs", "away", "floods", "strangers"):
        if options[name]:
            raise UsageError(f"--{name.replace('_', '-')} cannot happen with --changes: leave one of them out")
    if options["clusters"] > 1:
        raise UsageError("--clusters cannot be with --changes: leave one of them out")


def _check_blocks(contract: Contract, groups: Path | None, changes: int) -> None:
    """Blocks are one replicated state of one group, whose members stay."""
    if not _keeps_replicas(contract):
        raise UsageError(f"--blocks: {contract.name} holds no replicated state; --protocol three-step does")
    for name, given in (("groups", groups), ("changes", changes)):
        if given:
            raise UsageError(f"--{name} cannot be with --blocks: leave one of them out")


def _asked(given: float | None, usual: float, contract: Contract) -> float:
    """What the user wants; if nothing is said, the usual. Nothing is cut off, repeated or late on one channel."""
    if given is not None:
        return given
    return 0 if contract.one_channel else usual


def choose_worker(contract: Contract, one_or_changing: bool) -> str:
    """In several groups that stay as they are, orders go to some of them at a time, and the books are of all; unless
    the others go on without whoever fails, which then needs their books, group by group."""
    if _keeps_replicas(contract) and (one_or_changing or not _has_one_order(contract)):
        return REPLICA
    return BRANCH


def _has_one_order(contract: Contract) -> bool:
    return "multiple-source-order" in contract.guarantees


def _keeps_replicas(contract: Contract) -> bool:
    """Whether the books can be a replicated state: all have one order, or whoever has had another one, which stands or
    is taken back, gets the state of the others; and who comes back has its place in it."""
    has_a_tail = "R2" in contract.guarantees or "R3" in contract.guarantees
    return (_has_one_order(contract) or has_a_tail) and "crash" in contract.faults


def repeat_command(options: Mapping[str, Any]) -> str:
    """The command that draws the same plan again: everything but where it leaves what it finds."""
    words = ["ordercast chaos"]
    for name, value in options.items():
        if name not in OUTPUT and value is True:
            words.append(f"--{name.replace('_', '-')}")
        elif name not in OUTPUT and value is not None and value is not False:
            several = value if isinstance(value, list) else [value]
            words += [f"--{name.replace('_', '-')} {shlex.quote(str(each))}" for each in several]
    return " ".join(words)


def read_options(lines: Iterable[str], core: type[Protocol]) -> dict[str, Any]:
    """Options of the protocol, each as a line of a configuration."""
    name = core.contract.name
    try:
        given = {key: value for line in lines for key, value in _read_option(line).items()}
        core.contract.options(**given)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise UsageError(f"--option is NAME=VALUE with an option of {name}, as in its configuration: {error}") from None
    return given


def _read_option(line: str) -> dict[str, Any]:
    """As in a configuration; a word may be without its quotes, which a shell takes away."""
    try:
        return tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        key, _, value = line.partition("=")
        if not value[:1].isalpha() or not value.replace("-", "").isalnum():
            raise
        return tomllib.loads(f'{key}="{value}"')


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

    comes = any(isinstance(action, Join) for action in plan.actions)
    harness = OpenHarness if comes else Harness
    return ordercast.run(harness(cluster, plan, seed, folder, tell).run())
