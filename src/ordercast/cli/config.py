"""`ordercast config`: make, check and show the configuration of a cluster."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ordercast.cli.starter import discovery_text, members_text, starter_text
from ordercast.core import UsageError
from ordercast.node.addresses import show_address
from ordercast.node.advice import find_warnings
from ordercast.node.configuration import (
    CONTROL_SCHEME,
    Configuration,
    check_name,
    read_configuration,
    read_with_origins,
)
from ordercast.node.layers import KEYS, Origin
from ordercast.node.tuning import live_options
from ordercast.protocols import find_protocol
from ordercast.wire.keys import create_key_file, read_keys

FIRST_PORT = 7001
PROCESSES_MAX = 64
"""More than one machine has a use for."""
MAJORITY_PROCESSES_MIN = 3
"""With so many, most are left when one is gone."""

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The cluster's configuration.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    config = typer.Typer(
        help="Make, check and show the configuration of a cluster.\n\nExample: ordercast config new bank.toml"
    )
    config.callback(invoke_without_command=True)(show_help)
    for command in (new, validate, show):
        config.command(command.__name__)(command)
    app.add_typer(config, name="config")


def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


# ---------------------------------------------------------------------- new
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; there must be no such file yet.")],
    processes: Annotated[int, typer.Option(min=1, max=PROCESSES_MAX, help="How many, on this machine.")] = 3,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="See `ordercast protocols`; by default three-step, for one or two processes sequencer, with "
            "--discovery token."
        ),
    ] = None,
    discovery: Annotated[
        bool, typer.Option("--discovery", help="No names in the file: processes find each other, and come and go.")
    ] = False,
    cluster: Annotated[str | None, typer.Option(help="Its name; by default the file's.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Of the first process; the others' follow.")] = FIRST_PORT,
    insecure: Annotated[bool, typer.Option("--insecure", help="Without a key: everything in the clear.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Write a configuration to start from, with comments, and a new cluster key beside it.

    Example: ordercast config new bank.toml --processes 3
    """
    if port + processes - 1 > 65535:
        raise UsageError(f"--port {port}: {processes} processes need ports beyond 65535; begin with a lower one")
    key_file = None if insecure else file.with_suffix(".key")
    if file == key_file:
        raise UsageError(f"{file}: is the name of the key file; name the configuration {file.with_suffix('.toml')}")
    chosen = protocol or _usual_protocol(processes, discovery)
    find_protocol(chosen)
    check_name(cluster or file.stem)
    members = discovery_text() if discovery else members_text(processes, port)
    text = starter_text(cluster or file.stem, chosen, None if key_file is None else key_file.name, members)
    _create(file, text)
    try:
        # Checked like every other: the folder's path may be too long for sockets, say.
        read_configuration(file, {}, {})
        if key_file is not None:
            create_key_file(key_file)
    except BaseException:
        file.unlink()
        raise
    if as_json:
        print(json.dumps({"file": str(file), "key_file": None if key_file is None else str(key_file)}))
    else:
        key = "" if key_file is None else f", with its key in {key_file}"
        if discovery:
            print(f"{file}: a cluster whose processes find each other by multicast{key}")
            start = f"start a process by any name: ordercast node --config {file} --process NAME --group everyone"
        else:
            print(f"{file}: a cluster of {processes} on this machine{key}")
            start = f"start each process: ordercast node --config {file} --process node-1"
        print(start, file=sys.stderr)
    return 0


def _usual_protocol(processes: int, discovery: bool) -> str:
    """What goes on without any one process, where that can be: two processes have no majority without one of them."""
    if discovery:
        return "token"
    return "three-step" if processes >= MAJORITY_PROCESSES_MIN else "sequencer"


def _create(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists: name another file, or remove it") from None
    except OSError as error:
        raise UsageError(f"cannot write {file} ({error.strerror}): name a file in a folder of yours") from None


# ---------------------------------------------------------------------- validate
def validate(file: FileArgument, as_json: JsonOption = False) -> int:
    """Check a configuration, the environment's part included, and the key file; warn of what costs guarantees.

    Example: ordercast config validate bank.toml
    """
    configuration = read_configuration(file, os.environ, {})
    if configuration.key_file is not None:
        try:
            read_keys(configuration.key_file)
        except UsageError as error:
            raise UsageError(f"{file}: key_file: {error}") from error
    warnings = find_warnings(configuration)
    if as_json:
        print(json.dumps({"file": str(file), "valid": True, "warnings": warnings}))
        return 0
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    who = (
        "processes that find each other"
        if configuration.discovery
        else f"processes {', '.join(configuration.addresses)}"
    )
    print(f"{file}: ok: {configuration.protocol}, {who}")
    return 0


# ---------------------------------------------------------------------- show
def show(file: FileArgument, as_json: JsonOption = False) -> int:
    """Show every value that counts, and where it came from: the file, the environment, or a default.

    Example: ORDERCAST_MAX_DATAGRAM=1450 ordercast config show bank.toml
    """
    configuration, origins = read_with_origins(file, os.environ, {})
    values = plain_values(configuration)
    sources = {key: _source(key, origins) for key in KEYS}
    given = configuration.options
    option_sources = {name: sources["options"] if name in given else "default" for name in values["options"]}
    if as_json:
        sources_of_all: dict[str, Any] = sources | {"options": option_sources}
        print(json.dumps({"file": str(file), "values": values, "sources": sources_of_all}, indent=2))
        return 0
    from rich.table import Table
    from rich.text import Text

    from ordercast.cli.terminal import make_console

    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("key", "value", "from"):
        table.add_column(heading, overflow="fold")
    for key, value in values.items():
        if isinstance(value, dict):
            for name, inner in value.items():
                source = option_sources[name] if key == "options" else sources[key]
                table.add_row(Text(f"{key}.{name}"), _shown(inner), Text(source, "dim"))
        else:
            table.add_row(Text(key), _shown(value), Text(sources[key], "dim"))
    make_console().print(table)
    return 0


def plain_values(configuration: Configuration) -> dict[str, Any]:
    """Key -> the value that counts, as it could stand in a file; the protocol's options with those that are chosen."""
    options = live_options(
        find_protocol(configuration.protocol),
        dict(configuration.options),
        configuration.socket_buffer,
        configuration.queue_bytes,
        len(configuration.processes),
    )
    values = {key: getattr(configuration, key) for key in KEYS}
    for key in ("key_file", "log_directory", "trace_directory"):
        values[key] = None if values[key] is None else str(values[key])
    if configuration.control is not None:
        values["control"] = f"{CONTROL_SCHEME}{configuration.control}"
    if configuration.multicast is not None:
        values["multicast"] = show_address(configuration.multicast)
    if configuration.channel is not None:
        values["channel"] = show_address(configuration.channel)
    search = configuration.discovery
    if search is not None:
        values["discovery"] = {
            "multicast": None if search.multicast is None else show_address(search.multicast),
            "seeds": list(map(show_address, search.seeds)),
            "listen": None if search.listen is None else show_address(search.listen),
        }
    values["processes"] = {name: show_address(address) for name, address in configuration.processes.items()}
    values["added"] = {name: show_address(address) for name, address in configuration.added.items()}
    values["groups"] = {name: list(members) for name, members in configuration.groups.items()}
    values["options"] = msgspec.to_builtins(options)
    return values


def _source(key: str, origins: dict[str, Origin]) -> str:
    if key not in origins:
        return "default"
    origin = origins[key]
    return origin.where.removeprefix("environment: ") if origin.kind == "environment" else origin.kind


def _shown(value: Any) -> Any:
    from rich.text import Text

    return Text("not set", "dim") if value is None else Text(json.dumps(value, ensure_ascii=False))
