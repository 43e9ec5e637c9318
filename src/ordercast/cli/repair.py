"""`ordercast repair`: let a process that has lost its log get everything back from the others."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from ordercast.cli.live import ProcessOption
from ordercast.core import UsageError
from ordercast.node.configuration import Configuration, check_process, read_configuration
from ordercast.protocols import find_protocol
from ordercast.storage.folder import begin_anew


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("repair")(repair)


def repair(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The cluster's configuration.")],
    process: ProcessOption,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Prepare a stopped process that has lost its log, or some of it, for a start in which the others give it
    everything back.

    The folder that it had is set aside, and nothing is deleted. A majority of the other processes has to run, with
    their logs; repair one process at a time. Where the protocol cannot do it, the command says what to do instead.

    Example: ordercast repair bank.toml --process node-1
    """
    configuration = read_configuration(config, os.environ, {})
    folder = _log_folder(config, configuration, process)
    aside = begin_anew(folder, configuration.cluster, process, int(time.time()))
    if as_json:
        print(json.dumps({"process": process, "log": str(folder), "set_aside": None if aside is None else str(aside)}))
    else:
        before = "it had no log" if aside is None else f"the log that it had is in {aside}"
        print(f"{process} begins anew in {folder}; {before}. Start it: the others give it everything back.")


def _log_folder(config: Path, configuration: Configuration, process: str) -> Path:
    try:
        check_process(configuration, process)
    except UsageError as error:
        raise UsageError(f"{config}: {error}") from None
    if configuration.log_directory is None:
        raise UsageError(f"{config} has no log_directory: there is no log to repair")
    if not find_protocol(configuration.protocol).contract.repairs:
        raise UsageError(
            f"{configuration.protocol} cannot give a process back what it has lost: give {process} the log that it "
            f"had, or stop all processes and begin anew; see docs/log.md"
        )
    return Path(configuration.log_directory) / process
