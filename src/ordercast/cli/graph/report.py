"""A propagation graph for people and for machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ordercast.cli.terminal import make_console
from ordercast.core import GroupId, SiteId
from ordercast.graphs import (
    Dependence,
    Graph,
    Metrics,
    Topology,
    centralised_load,
    measure,
    price_options,
    two_phase_load,
)

SITES_MAX = 120
"""Of the forest, in the terminal: what people can take in."""
GROUPS_MAX = 40
NAMES_MAX = 6
"""Groups named behind a site."""
LEVELS_MAX = 24
"""Deeper sites are not indented any further."""


# ---------------------------------------------------------------------- for machines
def as_json(
    graph: Graph,
    topology: Topology | None,
    dependent: Sequence[Dependence],
    over_bound: Mapping[SiteId, int],
    running: Mapping[str, Any] | None = None,
) -> str:
    """The document of `--json`. The trees are written by hand: they can be deeper than Python likes to recurse."""
    metrics = measure(graph, topology)
    rest: dict[str, Any] = {
        "primary": dict(graph.primary),
        "extra": {group: list(cost.extra) for group, cost in metrics.groups.items()},
        "depth": {group: cost.depth for group, cost in metrics.groups.items()},
        "messages": {group: cost.messages for group, cost in metrics.groups.items()},
        "load": dict(metrics.load),
        "bypass": [[before, site, group] for (group, site), before in sorted(graph.bypass.items())],
        "mean_depth": metrics.mean_depth,
        "mean_extra": metrics.mean_extra,
        "max_load": metrics.max_load,
    }
    if prices := price_options(graph):
        rest["options"] = {
            option: {
                "mean_messages": _mean_messages(priced),
                "mean_depth": priced.mean_depth,
                "mean_extra": priced.mean_extra,
                "max_load": priced.max_load,
            }
            for option, priced in prices.items()
        }
    if topology is not None:
        rest["path"] = {group: cost.path for group, cost in metrics.groups.items()}
        rest["mean_path"] = metrics.mean_path
    if dependent:
        rest["dependent"] = [{"site": each.site, "group": each.group, "why": each.why} for each in dependent]
    rest |= running or {}
    if over_bound:
        rest["over_bound"] = dict(over_bound)
    return f'{{"trees": [{_trees(graph)}], {json.dumps(rest, ensure_ascii=False)[1:]}'


def _trees(graph: Graph) -> str:
    parts: list[str] = []
    todo: list[tuple[SiteId | None, bool]] = []
    todo.extend([(root, number > 0) for number, root in enumerate(graph.roots)][::-1])
    while todo:
        site, follows = todo.pop()
        if site is None:
            parts.append("]}")
            continue
        name = json.dumps(site, ensure_ascii=False)
        parts.append(f'{", " if follows else ""}{{"site": {name}, "children": [')
        todo.append((None, False))
        todo.extend([(child, number > 0) for number, child in enumerate(graph.children[site])][::-1])
    return "".join(parts)


# ---------------------------------------------------------------------- for people
def show(
    graph: Graph, topology: Topology | None, dependent: Sequence[Dependence], over_bound: Mapping[SiteId, int]
) -> None:
    """The forest, its groups, and what it costs beside the other two solutions."""
    console = make_console()
    metrics = measure(graph, topology)
    for line in _forest(graph, metrics, over_bound):
        console.print(line, soft_wrap=True)
    console.print()
    console.print(_group_table(graph, metrics, topology))
    _summary(console, graph, metrics, topology)
    _show_options(console, graph, metrics)
    for each in dependent[:GROUPS_MAX]:
        console.print(
            Text.assemble(("  stays ", "dim"), (each.site, "yellow"), f" for {each.group}: {each.why}"), soft_wrap=True
        )
    if len(dependent) > GROUPS_MAX:
        console.print(
            Text(f"  … and {len(dependent) - GROUPS_MAX:,} more extra nodes that stay; --json has all", "dim")
        )


def _mean_messages(metrics: Metrics) -> float:
    return sum(cost.messages for cost in metrics.groups.values()) / len(metrics.groups)


def _show_options(console: Console, graph: Graph, metrics: Metrics) -> None:
    """What `entry` and `bypass` would cost, and what they give and take."""
    prices = price_options(graph)
    if not prices:
        return
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("option", "messages, mean", "depth, mean", "extra, mean", "busiest site", "order"):
        table.add_column(heading, justify="left" if heading in ("option", "order") else "right")
    orders = {
        "default": "all sites share one order",
        "entry = root": "and each source's, and causal order, across groups",
        "bypass": "any two sites agree; a message goes to one group",
    }
    for option, priced in {"default": metrics, **prices}.items():
        numbers = (f"{_mean_messages(priced):.2f}", f"{priced.mean_depth:.2f}", f"{priced.mean_extra:.2f}")
        table.add_row(option, *numbers, str(priced.max_load), orders[option])
    console.print()
    console.print(table)


def _forest(graph: Graph, metrics: Metrics, over_bound: Mapping[SiteId, int]) -> Iterator[Text]:
    orders: dict[SiteId, list[GroupId]] = {}
    for group, site in graph.primary.items():
        orders.setdefault(site, []).append(group)
    extra: dict[SiteId, list[GroupId]] = {}
    for group, cost in metrics.groups.items():
        for site in cost.extra:
            extra.setdefault(site, []).append(group)
    bypassed: dict[SiteId, list[str]] = {}
    for (group, site), before in sorted(graph.bypass.items()):
        bypassed.setdefault(site, []).append(f"{group} from {before}")
    todo: list[tuple[SiteId, str, str]] = [(root, "", "") for root in reversed(graph.roots)]
    shown = 0
    while todo:
        if shown == SITES_MAX:
            yield Text(f"… and {len(graph.parent) - shown:,} more sites; --json has all", "dim")
            return
        shown += 1
        site, branch, below = todo.pop()
        line = Text.assemble((branch, "dim"), (site, "bold cyan" if site in orders else "bold"))
        if site in orders:
            line.append(f"  orders {_some(orders[site])}", "green")
        if site in extra:
            line.append(f"  extra for {_some(extra[site])}", "yellow")
        if site in bypassed:
            line.append(f"  gets {_some(bypassed[site])}", "magenta")
        line.append(f"  load {metrics.load[site]}", "bold red" if site in over_bound else "dim")
        yield line
        children = graph.children[site]
        deep = graph.level[site] >= LEVELS_MAX
        for number, child in reversed(list(enumerate(children))):
            last = number == len(children) - 1
            if deep:
                todo.append((child, f"{below}… ", below))
            else:
                todo.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:NAMES_MAX])} and {more} more"


def _group_table(graph: Graph, metrics: Metrics, topology: Topology | None) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("group", "enters at", "members", "depth", "extra", "messages", "delay at most"):
        table.add_column(heading, justify="left" if heading in ("group", "enters at", "delay at most") else "right")
    if topology is not None:
        table.add_column("path", justify="right")
    for group, cost in list(metrics.groups.items())[:GROUPS_MAX]:
        row = [
            Text(group, "bold"),
            Text(graph.primary[group], "cyan"),
            Text(str(cost.members)),
            Text(str(cost.depth)),
            Text(str(len(cost.extra)), "yellow" if cost.extra else ""),
            Text(str(cost.messages)),
            Text(f"{cost.depth + 1}L + {cost.messages}P"),
        ]
        if topology is not None:
            row.append(Text(f"{cost.path:g}"))
        table.add_row(*row)
    if len(metrics.groups) > GROUPS_MAX:
        table.add_row(Text(f"… {len(metrics.groups) - GROUPS_MAX:,} more", "dim"))
    return table


def _summary(console: Console, graph: Graph, metrics: Metrics, topology: Topology | None) -> None:
    sizes = [cost.members for cost in metrics.groups.values()]
    frequency = Counter(site for members in graph.groups.values() for site in members)
    centre = min(frequency, key=lambda site: (-frequency[site], site))
    messages = sum(cost.messages for cost in metrics.groups.values())
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("", "propagation graph", "centralised", "two-phase"):
        table.add_column(heading, justify="right" if heading else "left")
    mean = 1 / len(sizes)
    centralised = sum(len(members) + (centre not in members) for members in graph.groups.values())
    table.add_row(
        "messages, mean", f"{messages * mean:.2f}", f"{centralised * mean:.2f}", f"{3 * sum(sizes) * mean:.2f}"
    )
    table.add_row(
        "load of the busiest site",
        str(metrics.max_load),
        str(centralised_load(graph.groups, centre)),
        str(two_phase_load(graph.groups)),
    )
    console.print()
    console.print(table)
    told = (
        f"{len(graph.parent):,} sites in {len(graph.roots):,} {'tree' if len(graph.roots) == 1 else 'trees'}; "
        f"mean depth {metrics.mean_depth:.2f}, mean extra nodes {metrics.mean_extra:.2f}"
    )
    if topology is not None:
        told += f", mean path {metrics.mean_path:.2f}"
    console.print(Text(told, "dim"))
