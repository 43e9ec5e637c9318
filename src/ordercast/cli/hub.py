"""`ordercast hub`: the one channel of a cluster, on real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Annotated

import typer

import ordercast
from ordercast.cli.live import ConfigOption
from ordercast.core import UsageError
from ordercast.net.hub import Hub
from ordercast.net.sockets import resolve
from ordercast.node.addresses import HostPort, show_address
from ordercast.node.configuration import Configuration, read_configuration


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("hub")(hub)


def hub(
    config: ConfigOption,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line when it runs, one when it ends.")] = False,
) -> int:
    """Relay what processes say to all of them, in one order: the channel that `selective-total` needs.

    Example: ordercast hub --config cluster.toml
    """
    configuration = read_configuration(config, os.environ, {})
    if configuration.channel is None:
        raise UsageError(f'{config} has no channel: add channel = "HOST:PORT", the address at which this is to listen')
    return ordercast.run(_main(configuration, configuration.channel, as_json))


async def _main(configuration: Configuration, channel: HostPort, as_json: bool) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    processes = {name: resolve(*where) for name, where in configuration.processes.items()}
    relay = Hub(loop, resolve(*channel), processes, configuration.socket_buffer)
    where = show_address(channel)
    if as_json:
        print(json.dumps({"channel": where, "processes": sorted(processes)}), flush=True)
    else:
        print(f"the channel of {configuration.cluster} is at {where}. Ctrl-C ends it.", file=sys.stderr)
    try:
        await stop.wait()
    finally:
        relay.close()
    if as_json:
        print(json.dumps(dict(relay.counters)), flush=True)
    return 0
