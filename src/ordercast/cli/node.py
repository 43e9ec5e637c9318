"""`ordercast node`: run one process of a cluster until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

import ordercast
from ordercast.cli.live import ConfigOption, ProcessOption
from ordercast.core import UsageError
from ordercast.node.logs import log_to

logger = logging.getLogger("ordercast.node")

FAILED = 1
"""The exit code of a node that could not go on."""

SILENCE_SECONDS = 5.0
"""Far more than a handshake takes: from then on it is told who has not been heard of."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("node")(node)


def node(
    config: ConfigOption,
    process: ProcessOption,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Join this group, beside those of the file; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line when it runs, one when it ends.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tell what happens, not only what is wrong.")] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Each line of the log is a JSON object.")] = False,
) -> int:
    """Run a process of the cluster. It takes part in its groups; `ordercast send` and `tail` reach it by its control
    socket.

    Example: ordercast node --config bank.toml --process node-1
    """
    log_to(sys.stderr, verbose, log_json)
    try:
        return ordercast.run(_main(config, process, group or [], as_json))
    except ordercast.NodeFailed:
        return FAILED  # the log has said why
    except ordercast.JoinRefused as error:
        raise UsageError(str(error)) from None


async def _main(config: Path, process: str, groups: list[str], as_json: bool) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with ordercast.open(config, process) as running:
        stopped = asyncio.create_task(stop.wait())
        failed = asyncio.create_task(running.wait_failed())
        told = asyncio.create_task(_tell_of_silence(running))
        joined = asyncio.create_task(_join(running, groups))
        try:
            # Others may have to be found first, and Ctrl-C ends that, too.
            await asyncio.wait((joined, stopped, failed), return_when=asyncio.FIRST_COMPLETED)
            if joined.done():
                joined.result()
                _show(running, as_json)
                joined = asyncio.create_task(_join_kept(running))
                await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
        finally:
            for task in (stopped, failed, told, joined):
                task.cancel()
            await asyncio.gather(stopped, failed, told, joined, return_exceptions=True)
        status = running.status()
    if as_json:
        print(json.dumps(status), flush=True)
    return 0


async def _join(running: ordercast.Node, groups: list[str]) -> None:
    """Be in the groups that the file puts the process into, and in those that are asked for."""
    configured = [name for name, members in running.groups.items() if running.process in members]
    for name in dict.fromkeys((*configured, *groups)):
        await _pass_by(running, name)


async def _join_kept(running: ordercast.Node) -> None:
    """Be in the groups in which the process was before a restart, as its log says."""
    await running.internals.wait_started()
    for name, about in running.status()["groups"].items():
        if running.process in about["members"] and not about["joined"]:
            await _pass_by(running, name)


async def _pass_by(running: ordercast.Node, name: str) -> None:
    group = await running.join(name)
    # It only passes by: `tail` looks into the node's history.
    group.on_batch(lambda batch: None)


def _show(running: ordercast.Node, as_json: bool) -> None:
    status = running.status()
    if as_json:
        print(json.dumps(status), flush=True)
        return
    groups = ", ".join(name for name, about in status["groups"].items() if about["joined"])
    where = status["control"] or "nothing (no `control` in the configuration)"
    print(
        f"{running.process} runs {status['protocol']} on {status['address']}, groups: {groups or 'none'}; "
        f"send and tail reach it by {where}. Ctrl-C ends it.",
        file=sys.stderr,
    )


async def _tell_of_silence(running: ordercast.Node) -> None:
    """Say once who has not been heard of at all. (Whoever is heard and refused has had a line that says why.)"""
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            await running.wait_for_peers()
        return
    except ordercast.OrdercastError:
        return  # it is over, and somebody else says why
    except TimeoutError:
        pass
    status = running.status()
    silent = sorted(set(running.configuration.addresses) - {running.process, *status["peers"], *status["refused"]})
    if silent:
        logger.warning("nothing heard of %s yet; do they run, at these addresses?", ", ".join(silent))
