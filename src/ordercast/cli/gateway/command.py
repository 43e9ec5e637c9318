"""`ordercast gateway`: run it until it is told to stop."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
import uvicorn

import ordercast
from ordercast.cli.gateway.application import make_application
from ordercast.cli.live import ConfigOption, find_way
from ordercast.core import UsageError
from ordercast.node.addresses import HostPort, parse_listen, show_address
from ordercast.node.logs import log_to

STOP_SECONDS = 1
"""Then followers are cut."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("gateway")(gateway)


def gateway(
    config: ConfigOption,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where it listens; whoever reaches it may publish.")
    ] = "127.0.0.1:8080",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line when it runs.")] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Each line of the log is a JSON object.")] = False,
) -> int:
    """Serve a cluster by HTTP, as a client of it: POST a message, GET deliveries as server-sent events, ask for health.
    It asks nobody who they are: put it behind something that does.

    Example: ordercast gateway --config bank.toml --listen 127.0.0.1:8080
    """
    log_to(sys.stderr, verbose=False, as_json=log_json)
    way = find_way(config, None)
    if not isinstance(way, ordercast.Client):
        raise UsageError(f"{config} has no [clients]: a gateway is a client, and needs their addresses")
    try:
        return ordercast.run(_serve(way, parse_listen(listen), as_json))
    except ordercast.NoMember as error:
        raise UsageError(str(error)) from None


async def _serve(client: ordercast.Client, where: HostPort, as_json: bool) -> int:
    async with client:
        host, port = where
        server = uvicorn.Server(
            uvicorn.Config(
                make_application(client),
                host,
                port,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )
        if as_json:
            print(json.dumps({"listen": show_address(where), "member": client.member}), flush=True)
        else:
            told = f"a gateway to {client.cluster} listens on {show_address(where)}. Ctrl-C ends it."
            print(told, file=sys.stderr)
        await server.serve()
    return 0
