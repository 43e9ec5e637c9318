"""`ordercast gateway`: run it until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer
import uvicorn

import ordercast
from ordercast.cli.gateway.application import Gateway
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


class _Server(uvicorn.Server):
    """Ends by a signal in good order and with exit code 0, as `ordercast node` does."""

    def __init__(self, application: Gateway) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )
        self._application = application

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Instead of uvicorn's, which raises the signal again in the end."""
        loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come."""
        self._application.close()
        super().handle_exit(sig, frame)


async def _serve(client: ordercast.Client, where: HostPort, as_json: bool) -> int:
    with _listen(where) as listening:
        async with client:
            server = _Server(Gateway(client))
            if as_json:
                print(json.dumps({"listen": show_address(where), "member": client.member}), flush=True)
            else:
                told = f"a gateway to {client.cluster} listens on {show_address(where)}. Ctrl-C ends it."
                print(told, file=sys.stderr)
            await server.serve([listening])
    return 0


def _listen(where: HostPort) -> socket.socket:
    """From now on whoever connects is waited on, a moment later perhaps."""
    try:
        return socket.create_server(where, family=socket.AF_INET6 if ":" in where[0] else socket.AF_INET)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # Python adds the address in its own way
        raise UsageError(
            f"cannot listen on {show_address(where)} ({reason}): choose another address with --listen"
        ) from None
