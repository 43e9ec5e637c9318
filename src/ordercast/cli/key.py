"""`ordercast key`: the key that the processes of a cluster share."""

from pathlib import Path
from typing import Annotated

import typer

from ordercast.cli.basics import make_key, reload_key
from ordercast.cli.live import ConfigOption, ProcessOption
from ordercast.cli.plain import KEY, KEY_NEW, KEY_RELOAD

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    keys = typer.Typer(help=KEY)
    keys.callback(invoke_without_command=True)(show_help)
    keys.command("new", help=KEY_NEW)(new)
    keys.command("reload", help=KEY_RELOAD)(reload)
    app.add_typer(keys, name="key")


def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; there must be no such file yet.")],
    as_json: JsonOption = False,
) -> int:
    return make_key(file, as_json)


def reload(config: ConfigOption, process: ProcessOption, as_json: JsonOption = False) -> int:
    return reload_key(config, process, as_json)
