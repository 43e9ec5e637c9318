"""`ordercast send`: multicast from a shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import typer

import ordercast
from ordercast.cli.live import ConfigOption, ProcessOption, check_group, control_path
from ordercast.node.control import send as send_through


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("send")(send)


def send(
    group: Annotated[str, typer.Argument(help="The group, or several joined by commas.")],
    config: ConfigOption,
    process: ProcessOption,
    lines: Annotated[
        bool, typer.Option("--lines", help="Every line is a message; else all of the input is one.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Multicast standard input through a running node; done when the protocol has accepted it.

    Example: echo "deposit 42 100" | ordercast send everyone --config bank.toml --process node-1 --lines
    """
    groups = group.split(",")
    for name in groups:
        check_group(config, name)
    path = control_path(config, process)
    sent = ordercast.run(send_through(path, groups, _messages(sys.stdin.buffer, lines)))
    if as_json:
        print(json.dumps({"sent": sent, "groups": groups, "process": process}))
    else:
        print(f"{sent} message{'s' if sent != 1 else ''} sent to {', '.join(groups)}", file=sys.stderr)
    return 0


def _messages(source: BinaryIO, lines: bool) -> Iterator[bytes]:
    if lines:
        for line in source:
            yield line.rstrip(b"\r\n")
    else:
        yield source.read()
