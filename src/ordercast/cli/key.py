"""`ordercast key`: the key that the processes of a cluster share."""

import json
from pathlib import Path
from typing import Annotated

import typer

import ordercast
from ordercast.cli.live import ConfigOption, ProcessOption, control_path
from ordercast.node.control import ask_once
from ordercast.wire.keys import create_key_file, fingerprint


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    keys = typer.Typer(help="The key that the processes of a cluster share.\n\nExample: ordercast key new bank.key")
    keys.callback(invoke_without_command=True)(show_help)
    keys.command("new")(new)
    keys.command("reload")(reload)
    app.add_typer(keys, name="key")


def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; there must be no such file yet.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Make a new cluster key, in a file that only you can read.

    Copy the file to every process of the cluster, over a channel that you trust, and name it as key_file in the
    configuration. To rotate a key: put the new one on a second line of every process' file; then make it the first line
    everywhere; then remove the old one. After each step let every process read its file, by `ordercast key reload` or a
    restart, one at a time.

    Example: ordercast key new bank.key
    """
    key = create_key_file(file)
    if as_json:
        print(json.dumps({"key_file": str(file), "fingerprint": fingerprint(key)}))
    else:
        print(f"{file}: a new cluster key, for your eyes only (fingerprint {fingerprint(key)})")


def reload(
    config: ConfigOption,
    process: ProcessOption,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Let a running node read its key file again: it takes both lines from then on, and seals with the first.

    Example: ordercast key reload --config bank.toml --process node-1
    """
    keys = ordercast.run(ask_once(control_path(config, process), {"command": "reload-keys"}))
    if as_json:
        print(json.dumps({"process": process} | keys))
    else:
        also = f", and also takes {keys['also_accepted']}" if keys["also_accepted"] else ""
        print(f"{process} seals with the key {keys['used']}{also}")
