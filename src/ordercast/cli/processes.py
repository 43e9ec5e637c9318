"""`ordercast processes`: add and remove processes of a configured cluster while it runs."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer

import ordercast
from ordercast.cli.live import ConfigOption, ProcessOption, control_path
from ordercast.core import UsageError
from ordercast.node.addresses import parse_address, show_address
from ordercast.node.configuration import check_name, read_configuration
from ordercast.node.control import ask_once

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

HEADER = "[added]    # while the cluster ran, by `ordercast processes add`; nobody has to agree on these"

_TABLE = re.compile(r"^\[added\][^\n]*\n", re.MULTILINE)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    processes = typer.Typer(
        help="Add and remove processes of a configured cluster while it runs.\n\n"
        "Example: ordercast processes add node-4 127.0.0.1:7004 --config bank.toml --process node-1"
    )
    processes.callback(invoke_without_command=True)(show_help)
    for command in (add, remove):
        processes.command(command.__name__)(command)
    app.add_typer(processes, name="processes")


def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def add(
    name: Annotated[str, typer.Argument(help="Of the new process.")],
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where it will listen.")],
    config: ConfigOption,
    process: ProcessOption,
    as_json: JsonOption = False,
) -> int:
    """Let a running process know a new one, and write that into its configuration.

    Do the same at every other process, each with its own file. Then start the new one with a copy of the file, and let
    it join groups. The table [processes] stays as it is, so that everybody still agrees on it.

    Example: ordercast processes add node-4 127.0.0.1:7004 --config bank.toml --process node-1
    """
    configuration = read_configuration(config, os.environ, {})
    where = show_address(parse_address(address))
    check_name(name)
    known = configuration.addresses.get(name)
    if known is not None and show_address(known) != where:
        raise UsageError(f"{config} has {name} at {show_address(known)}: give the new process another name")
    for other, taken in configuration.addresses.items():
        if other != name and show_address(taken) == where:
            raise UsageError(f"{config} has {other} at {where}: give the new process its own port or address")
    request = {"command": "add-process", "name": name, "address": where}
    answer = ordercast.run(ask_once(control_path(config, process), request))
    line = f'{name} = "{where}"'
    written = known is not None or _rewrite(config, _with_line(config.read_text(encoding="utf-8"), line))
    _tell(
        as_json,
        {"process": process, "added": name, "processes": answer["processes"], "written": written},
        f"{process} knows {name}. Do the same at the other processes, then start it with a copy of the file",
        "" if written else f"{config} cannot be written: add this line to its table [added]: {line}",
    )
    return 0


def remove(
    name: Annotated[str, typer.Argument(help="Of the process that is gone for good.")],
    config: ConfigOption,
    process: ProcessOption,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="Give up after so long; by default, wait.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Take a process that is gone for good out of every group, and let the others go on without it; done when a running
    process has delivered that.

    One that runs leaves by itself: stop it after `ordercast leave`. One whose disk is lost comes back under its name by
    `ordercast repair`, or is removed here and replaced by one with another name.

    Example: ordercast processes remove node-4 --config bank.toml --process node-1
    """
    configuration = read_configuration(config, os.environ, {})
    request = {"command": "remove-process", "name": name, "timeout": timeout}
    answer = ordercast.run(ask_once(control_path(config, process), request))
    written = name not in configuration.added or _rewrite(
        config, _without_line(config.read_text(encoding="utf-8"), name)
    )
    stays = "; its line in [processes] stays, for all agree on that table" if name in configuration.processes else ""
    _tell(
        as_json,
        {"process": process, "removed": name, "processes": answer["processes"], "written": written},
        f"{name} is out of every group{stays}",
        "" if written else f"{config} cannot be written: take {name} out of its table [added]",
    )
    return 0


def _with_line(text: str, line: str) -> str:
    """The file with a line more in its table [added]."""
    found = _TABLE.search(text)
    if found is not None:
        return f"{text[: found.end()]}{line}\n{text[found.end() :]}"
    separator = "" if text.endswith("\n") else "\n"
    return f"{text}{separator}\n{HEADER}\n{line}\n"


def _without_line(text: str, name: str) -> str:
    """The file without a process in its table [added]."""
    found = _TABLE.search(text)
    if found is None:
        return text
    table, bracket, rest = text[found.end() :].partition("\n[")
    return text[: found.end()] + re.sub(rf"(?m)^{re.escape(name)}\s*=.*\n?", "", table, count=1) + bracket + rest


def _rewrite(file: Path, text: str) -> bool:
    """Put another text into the place of a file, whole or not at all; whether that could be done. (A table may be
    written in ways that this does not know.)"""
    if text == file.read_text(encoding="utf-8"):
        return False
    try:
        with NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", delete=False) as new:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
        try:
            read_configuration(Path(new.name), os.environ, {})
            os.chmod(new.name, file.stat().st_mode & 0o777)
            os.replace(new.name, file)
        except BaseException:
            os.unlink(new.name)
            raise
    except (OSError, UsageError):
        return False
    return True


def _tell(as_json: bool, document: dict[str, object], text: str, warning: str) -> None:
    if as_json:
        print(json.dumps(document))
    else:
        print(text)
    if warning:
        print(f"warning: {warning}", file=sys.stderr)
