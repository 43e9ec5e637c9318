"""`ordercast members`, `join` and `leave`: who is in which group of a running node, and how that changes."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

import ordercast
from ordercast.cli.live import ConfigOption, ProcessOption, check_group, control_path
from ordercast.core import UsageError
from ordercast.node.control import ask_once

GroupArgument = Annotated[str, typer.Argument(help="The group.")]
TimeoutOption = Annotated[
    float | None, typer.Option(min=0.001, metavar="SECONDS", help="Give up after so long; by default, wait.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for command in (members, join, leave):
        app.command(command.__name__)(command)


def members(
    config: ConfigOption,
    process: ProcessOption,
    group: Annotated[str | None, typer.Argument(help="The group; else all that the process knows of.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Print who is in which group, as a running node knows it.

    Example: ordercast members quotes --config prices.toml --process desk-4
    """
    answer = ordercast.run(ask_once(control_path(config, process), {"command": "members"}))
    groups: dict[str, Any] = answer["groups"]
    if group is not None:
        if group not in groups:
            known = ", ".join(sorted(groups)) or "none"
            raise UsageError(f"process {process} knows no group {group!r}; known: {known}")
        groups = {group: groups[group]}
    if as_json:
        print(json.dumps({"process": process, "groups": groups}))
    else:
        for name, about in groups.items():
            print(f"{name}: {', '.join(about['members']) or 'nobody'}")
    return 0


def join(
    group: GroupArgument,
    config: ConfigOption,
    process: ProcessOption,
    role: Annotated[str, typer.Option(help="For protocols that have roles.")] = "",
    service: Annotated[str, typer.Option(help="For protocols that have services.")] = "",
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let a running node join a group; done when it is in. Who finds nobody in a group founds it.

    Example: ordercast join quotes --config prices.toml --process desk-4
    """
    check_group(config, group)
    request = {"command": "join", "group": group, "role": role, "service": service, "timeout": timeout}
    answer = ordercast.run(ask_once(control_path(config, process), request))
    if as_json:
        print(json.dumps({"process": process} | answer))
    else:
        print(f"{process} is in {group}: {', '.join(answer['members'])}")
    return 0


def leave(
    group: GroupArgument,
    config: ConfigOption,
    process: ProcessOption,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let a running node leave a group; done when those who stay have delivered that.

    Example: ordercast leave quotes --config prices.toml --process desk-4
    """
    check_group(config, group)
    request = {"command": "leave", "group": group, "timeout": timeout}
    answer = ordercast.run(ask_once(control_path(config, process), request))
    if as_json:
        print(json.dumps({"process": process} | answer))
    else:
        print(f"{process} has left {group}")
    return 0
