"""`ordercast send`: multicast from a shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO

import typer

import ordercast
from ordercast.cli.live import ConfigOption, ProcessOption, check_group, control_path
from ordercast.node.control import send as send_through

NOT_ORDERED = 1
"""The exit code when messages were taken and are not ordered yet."""


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
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Sent again with the same key, it is delivered once; line N has KEY/N."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="How long to wait until it is ordered.")
    ] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Multicast standard input through a running node; done when it has its place in the order of the group. What was
    taken and is not ordered in time ends with exit code 1, and may be ordered later.

    Example: echo "deposit 42 100" | ordercast send everyone --config bank.toml --process node-1 --lines
    """
    groups = group.split(",")
    for name in groups:
        check_group(config, name)
    path = control_path(config, process)
    answer = ordercast.run(send_through(path, groups, _messages(sys.stdin.buffer, lines), key, timeout))
    if as_json:
        print(json.dumps(answer | {"groups": groups, "process": process}))
    else:
        print(_describe(answer, ", ".join(groups)), file=sys.stderr)
    return NOT_ORDERED if answer["ordered"] is False else 0


def _describe(answer: dict[str, Any], groups: str) -> str:
    sent = f"{answer['sent']} message{'s' if answer['sent'] != 1 else ''}"
    if answer["ordered"]:
        return f"{sent} sent to {groups}, the last one at offset {answer['offset']}"
    if answer["ordered"] is None:
        return f"{sent} sent to {groups}" + (f"; {answer['why']}" if answer["why"] else "")
    return f"{sent} to {groups} taken, not yet ordered: {answer['why']}"


def _messages(source: BinaryIO, lines: bool) -> Iterator[bytes]:
    if lines:
        for line in source:
            yield line.rstrip(b"\r\n")
    else:
        yield source.read()
