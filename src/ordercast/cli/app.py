"""The typer application. A command's module is imported when that command runs: `ordercast --help` starts fast."""

import difflib
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, TextIO

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import ordercast
from ordercast.cli.commands import COMMANDS
from ordercast.core.errors import RenamedOption, UsageError

PIPE_CLOSED = 141  # what a shell reports for a program that died of a closed pipe


class LazyGroup(TyperGroup):
    """Commands by the table: known by name and help line, imported on use."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if self._listing:
            return TyperCommand(name=cmd_name, help=entry.help_line)
        # A command may have subcommands: then its module registers a group of that name.
        app = typer.Typer(add_completion=False)
        importlib.import_module(entry.module).register(app)
        command = get_command(app)
        if isinstance(command, TyperGroup):
            command = command.commands[cmd_name]
        command.name = cmd_name
        tidy(command)
        return command

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        # The names alone: importing every command takes seconds, and some may lack their extras.
        self._listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else "see ordercast --help"
            raise UsageError(f"no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # `ordercast … | head`: nobody reads on, and the interpreter must not complain about it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from None
        return result


def tidy(command: Any) -> None:
    """One spelling of what stands for a value in a help page: capitals, and nothing for what has no value. [groups], a
    table of a configuration, is no markup."""
    command.help = escape(command.help or "")
    for param in (*command.params, command.get_help_option(typer.Context(command))):
        if param is None:
            continue
        param.help = escape(getattr(param, "help", None) or "")
        if param.param_type_name == "argument":
            param.metavar = param.metavar or param.name.upper()
            # Its name says what it is; a second column would say `<str>`.
            param.__dict__["display_type_rich"] = lambda ctx: None
            # In the usage line it is written as in the core installation: FILE, and not {FILE}.
            shown = (param.metavar if param.required else f"[{param.metavar}]") + ("..." if param.nargs != 1 else "")
            param.__dict__["get_usage_pieces"] = partial(_show, shown)
        elif getattr(param, "is_flag", False):
            param.metavar = ""
        elif param.metavar is None and not param.type_descriptor.is_choice:
            param.metavar = METAVARIABLES.get(param.bare_type(), "NAME")
    for each in getattr(command, "commands", {}).values():
        tidy(each)


def _show(shown: str, _: typer.Context) -> list[str]:
    return [shown]


METAVARIABLES = {"int": "N", "float": "X", "Path": "FILE"}

app = typer.Typer(cls=LazyGroup, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Ordered, reliable multicast for Python, with a Spark laboratory that proves it.

    Example: ordercast doctor
    """
    if version:
        typer.echo(f"ordercast {ordercast.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """What a user is to change in a file, in one line; anything else as Python shows it."""
    if issubclass(category, RenamedOption):
        print(f"ordercast: {message}", file=sys.stderr)
    else:
        _show_any_warning(message, category, filename, lineno, file, line)


_show_any_warning = warnings.showwarning


def run(words: Sequence[str]) -> int:
    """Run one command; its exit code is what it returned or what it exited with, 0 if neither."""
    warnings.showwarning = _show_warning
    try:
        command = get_command(app)
        tidy(command)
        result = command.main(args=list(words), prog_name="ordercast", standalone_mode=False)
    except typer.TyperException as error:
        # By default typer draws a box of six lines, which neither a log nor a script can use.
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "ordercast"
        raise UsageError(f"{error.format_message().strip().rstrip('.')}; see {path} --help") from None
    except typer.Abort:  # the end of input, where an answer was asked for
        return 130
    return result if isinstance(result, int) else 0
