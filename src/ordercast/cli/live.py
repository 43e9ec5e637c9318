"""What the commands that talk to a running node have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ordercast.core import UsageError
from ordercast.node.configuration import read_configuration

ConfigOption = Annotated[Path, typer.Option("--config", metavar="FILE", help="The cluster's configuration.")]
ProcessOption = Annotated[str, typer.Option("--process", metavar="NAME", help="Which process of it.")]


def control_path(config: Path, process: str) -> Path:
    """Where the running node listens to commands; `UsageError` when the configuration does not say."""
    configuration = read_configuration(config, os.environ, {})
    if process not in configuration.processes:
        known = ", ".join(sorted(configuration.processes))
        raise UsageError(f"there is no process {process!r} in {config}; known: {known}")
    path = configuration.control_path(process)
    if path is None:
        raise UsageError(f'{config} has no `control`: add control = "unix:run/{{process}}.sock" and restart the node')
    return path


def check_group(config: Path, group: str) -> None:
    """`UsageError` when the configuration does not know the group."""
    groups = read_configuration(config, os.environ, {}).groups
    if group not in groups:
        raise UsageError(f"there is no group {group!r} in {config}; known: {', '.join(sorted(groups))}")
