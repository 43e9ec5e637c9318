"""The graph of a running cluster, as one of its processes has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import ordercast
from ordercast.cli.live import control_path
from ordercast.core import UsageError
from ordercast.graphs import Graph
from ordercast.node.configuration import read_configuration
from ordercast.node.control import ask_once
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.propagation_graph.rosters import Roster
from ordercast.protocols.propagation_graph.routes import routes_of


class Running(NamedTuple):
    """What a process says."""

    graph: Graph
    number: int
    """Of the last graph in which a group of the process has changed; 0: none has."""
    waits: str
    """Whom it waits for; empty: nobody."""


def read_running(config: Path, process: str) -> Running:
    """Ask a running process."""
    configuration = read_configuration(config, os.environ, {})
    name = PropagationGraph.contract.name
    if configuration.protocol != name:
        raise UsageError(f"{config} runs {configuration.protocol}, which has no graph; --live is for {name}")
    status = ordercast.run(ask_once(control_path(config, process), {"command": "status"}))
    groups: dict[str, dict[str, Any]] = status["groups"]
    if not groups:
        raise UsageError(f"process {process} is in no graph: let it join a group first")
    views = [str(about["view"]) for about in groups.values()]
    number = max((int(view) for view in views if view.isdecimal()), default=0)
    members = tuple(sorted((group, tuple(about["members"])) for group, about in groups.items()))
    sites = tuple(sorted({site for _group, names in members for site in names}))
    roster = Roster(number, sites[0], sites, members)
    options = PropagationGraphOptions(**configuration.options)
    return Running(routes_of(roster, options).graph, number, status["blocked"] or "")
