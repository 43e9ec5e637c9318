"""`ordercast config`: make, check and show the configuration of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ordercast.cli.basics import FIRST_PORT, PROCESSES, PROCESSES_MAX, make_config, show_config, validate_config
from ordercast.cli.plain import CONFIG, CONFIG_NEW, CONFIG_SHOW, CONFIG_VALIDATE

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The cluster's configuration.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    config = typer.Typer(help=CONFIG)
    config.callback(invoke_without_command=True)(show_help)
    config.command("new", help=CONFIG_NEW)(new)
    config.command("validate", help=CONFIG_VALIDATE)(validate)
    config.command("show", help=CONFIG_SHOW)(show)
    app.add_typer(config, name="config")


def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; there must be no such file yet.")],
    processes: Annotated[int, typer.Option(min=1, max=PROCESSES_MAX, help="How many, on this machine.")] = PROCESSES,
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
    return make_config(file, processes, protocol, discovery, cluster, port, insecure, as_json)


def validate(file: FileArgument, as_json: JsonOption = False) -> int:
    return validate_config(file, as_json)


def show(file: FileArgument, as_json: JsonOption = False) -> int:
    return show_config(file, as_json)
