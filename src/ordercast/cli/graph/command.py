"""`ordercast graph`: which site will order which groups, and what it costs, before anything is deployed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ordercast.cli.graph.files import read_groups_file
from ordercast.cli.graph.report import as_json, show
from ordercast.core import GroupId, SiteId, UsageError, random_stream
from ordercast.graphs import (
    AT_RANDOM,
    METHODS,
    Dependence,
    Graph,
    Grid,
    Groups,
    Links,
    Ties,
    Topology,
    add_bypasses,
    balance,
    design,
    draw_groups,
    site_names,
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("graph")(graph)


class Designed(NamedTuple):
    """A graph, and what could not be had."""

    graph: Graph
    over_bound: Mapping[SiteId, int]
    """Sites that are above the bound on load all the same."""
    dependent: tuple[Dependence, ...]
    """Extra nodes that cannot be bypassed."""


def graph(
    groups_file: Annotated[
        Path | None, typer.Option("--groups", metavar="FILE", help="A TOML or JSON file with the groups.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="The graph of a running cluster: --config, --process.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The cluster's configuration, with --live.")
    ] = None,
    process: Annotated[str, typer.Option("--process", metavar="NAME", help="Which process to ask, with --live.")] = "",
    random: Annotated[
        str | None, typer.Option("--random", metavar="SITES,GROUPS,SIZE", help="Groups drawn at random instead.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    heuristic: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "most-groups",
    ties: Annotated[str, typer.Option(help="Between equal sites: name or random.")] = "name",
    prefer: Annotated[str, typer.Option(metavar="A,B,…", help="Between equal sites: the first of these.")] = "",
    topology: Annotated[
        str | None, typer.Option(metavar="grid|FILE", help="A square grid, or a file of lines `a b weight`.")
    ] = None,
    bypass: Annotated[bool, typer.Option("--bypass", help="Edges around extra nodes, where order allows.")] = False,
    load_bound: Annotated[
        int | None, typer.Option(metavar="N", help="Trade depth for load: at most so many messages at a site.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it.")] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Build, draw and explain a propagation graph (Spauster 1991, chapter 3).

    Exit code 1 when a site is above --load-bound whatever is done.

    Example: ordercast graph --random 20,8,4 --seed 1
    """
    if live:
        return _show_running(config, process, json_wanted)
    groups, sites = _read_input(groups_file, random, seed)
    where = _read_topology(topology, sites)
    chosen = _read_ties(ties, prefer, heuristic, seed, sites)
    made = _make(design(groups, heuristic, chosen, where), bypass, load_bound)
    if json_wanted:
        sys.stdout.write(as_json(made.graph, where, made.dependent, made.over_bound) + "\n")
    else:
        show(made.graph, where, made.dependent, made.over_bound)
    for file in (svg, png):
        if file is not None:
            from ordercast.cli.graph.picture import draw

            draw(made.graph, file, "svg" if file is svg else "png")
            print(f"ordercast graph: drawn to {file}", file=sys.stderr)
    if made.over_bound:
        worst = max(made.over_bound, key=lambda site: (made.over_bound[site], site))
        print(
            f"ordercast graph: {len(made.over_bound)} sites stay above the bound of {load_bound}; "
            f"{worst} has {made.over_bound[worst]}",
            file=sys.stderr,
        )
        return 1
    return 0


def _show_running(config: Path | None, process: str, json_wanted: bool) -> int:
    if config is None or not process:
        raise UsageError("--live asks a running process: name it with --config FILE --process NAME")
    from ordercast.cli.graph.running import read_running

    running = read_running(config, process)
    if json_wanted:
        about = {"process": process, "graph": running.number, "blocked": running.waits or None}
        about |= {key: running.standing[key] for key in ("manager", "out", "lease") if running.standing}
        sys.stdout.write(as_json(running.graph, None, (), {}, about) + "\n")
        return 0
    print(f"graph {running.number}, as {process} has it")
    for line in running.lines():
        print(line)
    show(running.graph, None, (), {})
    if running.waits:
        print(running.waits)
    return 0


def _make(graph: Graph, bypass: bool, load_bound: int | None) -> Designed:
    over: Mapping[SiteId, int] = {}
    dependent: tuple[Dependence, ...] = ()
    if load_bound is not None:
        balanced = balance(graph, load_bound)
        graph, over = balanced.graph, balanced.over
    if bypass:
        independent = add_bypasses(graph)
        graph, dependent = independent.graph, independent.left
    return Designed(graph, over, dependent)


def _read_input(file: Path | None, random: str | None, seed: int) -> tuple[Groups, list[SiteId]]:
    """The groups, and the sites that there are."""
    if (file is None) == (random is None):
        raise UsageError("give the groups: --groups FILE, or --random SITES,GROUPS,SIZE")
    if file is not None:
        groups: Mapping[GroupId, tuple[SiteId, ...]] = read_groups_file(file)
        return groups, sorted({site for members in groups.values() for site in members})
    words = (random or "").split(",")
    if len(words) != 3 or not all(word.strip().isdecimal() for word in words):
        raise UsageError(f"--random takes three numbers, as in 200,20,5, not {random!r}")
    sites, count, size = (int(word) for word in words)
    return draw_groups(random_stream(seed, "groups"), sites, count, size), site_names(sites)


def _read_topology(topology: str | None, sites: list[SiteId]) -> Topology | None:
    if topology is None:
        return None
    if topology == "grid":
        return Grid(sites)
    from ordercast.sim.network_table import read_links

    return Links(read_links(Path(topology)))


def _read_ties(ties: str, prefer: str, heuristic: str, seed: int, sites: list[SiteId]) -> Ties:
    if ties not in ("name", "random"):
        raise UsageError(f"--ties is name or random, not {ties!r}")
    preferred = tuple(filter(None, (name.strip() for name in prefer.split(","))))
    for name in preferred:
        if name not in sites:
            raise UsageError(f"--prefer names {name!r}, and there is no such site")
    by_chance = ties == "random" or heuristic in AT_RANDOM
    return Ties(preferred, random_stream(seed, "ties") if by_chance else None)
