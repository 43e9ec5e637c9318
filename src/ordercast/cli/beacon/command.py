"""`ordercast beacon`: the wide-area test bed (Berket 2000, 6.2.4)."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

import ordercast
from ordercast.cli.beacon.matrix import matrix
from ordercast.cli.beacon.talk import Report, Talk
from ordercast.cli.live import ConfigOption, ProcessOption
from ordercast.cli.terminal import make_console
from ordercast.core import UsageError

FAILED = 1
"""The exit code of a node that could not go on."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("beacon")(beacon)


def beacon(
    config: ConfigOption,
    process: ProcessOption,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="In this group; else in the only one.")] = None,
    service: Annotated[str, typer.Option(metavar="NAME", help="For protocols that have services.")] = "",
    interval: Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="Between two beacons.")] = 1.0,
    every: Annotated[float, typer.Option(min=0.01, metavar="SECONDS", help="Between two reports.")] = 30.0,
    reports: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many; else by Ctrl-C.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON line for each report.")] = False,
) -> int:
    """Measure how well the processes of a cluster reach each other, without a protocol and with that of the file.

    Run it for each process, instead of the node, with a group of its own: everyone in the group hears the beacons. Each
    process says that it is there, and tells the others what it has heard: who is reached, the latency (half of the way
    there and back, so clocks need not agree), the jitter, what was lost and what came late. With `trace_directory` in
    the file every beacon is a row of the trace.

    Example: ordercast beacon --config prices.toml --process desk-4 --every 30
    """
    if every < interval:
        raise UsageError(f"--every {every:g} is below --interval {interval:g}: there would be nothing to report")
    try:
        return ordercast.run(_main(config, process, group, service, interval, every, reports, as_json))
    except ordercast.NodeFailed:
        return FAILED  # the log has said why
    except (ordercast.JoinRefused, ordercast.ServiceUnavailable) as error:
        raise UsageError(str(error)) from None


async def _main(
    config: Path,
    process: str,
    group: str | None,
    service: str,
    interval: float,
    every: float,
    reports: int | None,
    as_json: bool,
) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async with ordercast.open(config, process) as node:

        def show(number: int, found: dict[str, Report]) -> None:
            own = node.process
            if as_json:
                told = {name: msgspec.to_builtins(report) for name, report in found.items()}
                print(json.dumps({"process": own, "report": number, "reports": told}), flush=True)
                return
            console = make_console()
            console.print(Text(f"report {number} of {own}, {found[own].seconds:.0f} s", "bold"))
            for way in found[own].ways:
                console.print(matrix(way, found))

        joined = await node.join(_choose_group(node, group), service=service)
        tasks = [
            asyncio.create_task(task)
            for task in (Talk(node, joined, show).run(interval, every, reports), stop.wait(), node.wait_failed())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return 0


def _choose_group(node: ordercast.Node, group: str | None) -> str:
    if group is not None:
        return group
    own = [name for name, members in node.groups.items() if node.process in members]
    if len(own) != 1:
        raise UsageError(f"which group? name one with --group; known: {', '.join(own) or 'none'}")
    return own[0]
