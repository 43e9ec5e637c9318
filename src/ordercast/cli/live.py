"""What the commands that talk to a running node have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import ordercast
from ordercast.cli.basics import control_path
from ordercast.core import UsageError
from ordercast.node.addresses import show_address
from ordercast.node.configuration import check_group_name, read_configuration

ConfigOption = Annotated[Path, typer.Option("--config", metavar="FILE", help="The cluster's configuration.")]
ProcessOption = Annotated[str, typer.Option("--process", metavar="NAME", help="Which process of it.")]


AnyProcessOption = Annotated[
    str | None,
    typer.Option("--process", metavar="NAME", help="Through this process; else through any that listens for clients."),
]


def find_way(config: Path, process: str | None) -> ordercast.Client | Path:
    """How a command reaches the cluster: as a client where the configuration has an address for clients, which works
    from every machine; else by the control socket of a process on this one."""
    configuration = read_configuration(config, os.environ, {})
    addresses = configuration.client_addresses
    if process is not None and process not in addresses:
        return control_path(config, process)
    chosen = [where for name, where in addresses.items() if process in (None, name)]
    if not chosen:
        raise UsageError(
            f"{config} has no [clients], so the command has to know which process it talks to: add --process NAME on "
            f'that one\'s machine, or a table [clients] with lines NAME = "HOST:PORT"'
        )
    key, insecure = configuration.key_file, configuration.insecure
    return ordercast.connect(list(map(show_address, chosen)), key, insecure=insecure)


def check_group(config: Path, group: str) -> None:
    """`UsageError` when there can be no such group. Where groups come and go, the running node knows which there
    are."""
    configuration = read_configuration(config, os.environ, {})
    check_group_name(group)
    groups = configuration.groups
    if group not in groups and not configuration.contract.dynamic:
        raise UsageError(f"there is no group {group!r} in {config}; known: {', '.join(sorted(groups))}")
