"""The graph of a running cluster, as one of its processes has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import ordercast
from ordercast.cli.live import control_path
from ordercast.core import UsageError
from ordercast.graphs import Graph
from ordercast.graphs.system import present_parents, system_graph
from ordercast.node.configuration import read_configuration
from ordercast.node.control import ask_once

PROTOCOL = "propagation-graph"
"""The one that runs on a graph."""


class Running(NamedTuple):
    """What a process says."""

    graph: Graph
    number: int
    """Of the last graph in which a group of the process has changed; 0: none has."""
    waits: str
    """Whom it waits for; empty: nobody."""
    standing: dict[str, Any]
    """Where delivery goes on without whoever fails: the manager, who is out, and whose lease lasts."""

    def lines(self) -> list[str]:
        """The same for people."""
        if not self.standing:
            return []
        about = self.standing
        lease = f"its lease lasts {about['lease_seconds']:.1f} s" if about["lease"] else "nobody has a lease"
        out = [f"{site} is out for {each['seconds']:.1f} s ({each['why']})" for site, each in about["out"].items()]
        return [f"manager {about['manager']}; {lease}", *out]


def read_running(config: Path, process: str) -> Running:
    """Ask a running process."""
    configuration = read_configuration(config, os.environ, {})
    if configuration.protocol != PROTOCOL:
        raise UsageError(f"{config} runs {configuration.protocol}, which has no graph; --live is for {PROTOCOL}")
    status = ordercast.run(ask_once(control_path(config, process), {"command": "status"}))
    groups: dict[str, dict[str, Any]] = status["groups"]
    if not groups:
        raise UsageError(f"process {process} is in no graph: let it join a group first")
    standing = status.get("graph") or {}
    views = [str(about["view"]) for about in groups.values()]
    number = max((int(view) for view in views if view.isdecimal()), default=0)
    members = {group: tuple(groups[group]["members"]) for group in sorted(groups)}
    if standing:
        number = standing["number"]
        members = {group: tuple(names) for group, names in sorted(standing["groups"].items())}
    sites = sorted({site for names in members.values() for site in names})
    options = configuration.options
    parents = options.get("parents")
    graph = system_graph(
        members,
        tuple(options.get("prefer", ())),
        present_parents(parents, sites) if parents else None,
        options.get("load_bound", 0),
        options.get("bypass", False),
    )
    return Running(graph, number, status["blocked"] or "", standing)
