"""A propagation graph as a picture."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ordercast.core import GroupId, SiteId, UsageError
from ordercast.graphs import Graph, measure

SITES_MAX = 2000
"""More are a grey area, and take minutes."""
LABELLED_MAX = 150
"""Sites whose names can still be read."""
GROUPS_MAX = 4
"""Named below a site that orders them."""
_ORDERS, _EXTRA, _MEMBER, _EDGE, _BYPASS = "#0072b2", "#e69f00", "#9aa5b1", "#b8c0c8", "#cc79a7"

Places = dict[SiteId, tuple[float, float]]


def draw(graph: Graph, file: Path, kind: str) -> None:
    """Roots at the top. A site that orders groups is blue, an extra node has an orange ring, bypasses are dashed."""
    if len(graph.parent) > SITES_MAX:
        raise UsageError(f"a picture of {len(graph.parent):,} sites shows nothing; up to {SITES_MAX:,} are drawn")
    places = _places(graph)
    width = 1 + max(x for x, _ in places.values())
    height = 1 + max(-y for _, y in places.values())
    labelled = len(places) <= LABELLED_MAX
    scale = (0.8, 1.0) if labelled else (0.12, 0.35)
    figure = Figure(figsize=(min(40.0, max(5.0, scale[0] * width + 1)), min(40.0, max(3.0, scale[1] * height + 0.8))))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _draw_edges(axes, graph, places)
    _draw_sites(axes, graph, places, labelled)
    _legend(axes, graph)
    axes.set_xlim(-0.8, width - 0.2)
    axes.set_ylim(-height + 0.3, 0.6)
    axes.set_axis_off()
    try:
        figure.savefig(file, format=kind, dpi=130, bbox_inches="tight")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from error


def _places(graph: Graph) -> Places:
    """Leaves side by side, parents in the middle above their children."""
    places: Places = {}
    column = 0.0
    todo: list[tuple[SiteId, bool]] = [(root, False) for root in reversed(graph.roots)]
    while todo:
        site, grown = todo.pop()
        children = graph.children[site]
        y = -float(graph.level[site])
        if not children:
            places[site] = (column, y)
            column += 1
        elif grown:
            places[site] = ((places[children[0]][0] + places[children[-1]][0]) / 2, y)
        else:
            todo.append((site, True))
            todo.extend((child, False) for child in reversed(children))
    return places


def _draw_edges(axes: Axes, graph: Graph, places: Places) -> None:
    carried: dict[SiteId, int] = {}
    for route in graph.routes.values():
        for site, before in route.items():
            if before is not None and before == graph.parent[site]:
                carried[site] = carried.get(site, 0) + 1
    most = max(carried.values(), default=1)
    for site, parent in graph.parent.items():
        if parent is not None:
            (x, y), (above_x, above_y) = places[site], places[parent]
            thick = 0.8 + 3.2 * carried.get(site, 0) / most
            axes.plot([above_x, x], [above_y, y], color=_EDGE, linewidth=thick, zorder=1, solid_capstyle="round")
    bypasses: dict[tuple[SiteId, SiteId], list[GroupId]] = {}
    for (group, site), before in graph.bypass.items():
        bypasses.setdefault((before, site), []).append(group)
    for before, site in bypasses:
        style = {"arrowstyle": "-|>", "linestyle": "--", "color": _BYPASS, "connectionstyle": "arc3,rad=0.25"}
        axes.annotate("", places[site], places[before], arrowprops={**style, "shrinkA": 12, "shrinkB": 12}, zorder=2)


def _draw_sites(axes: Axes, graph: Graph, places: Places, labelled: bool) -> None:
    metrics = measure(graph)
    orders: dict[SiteId, list[GroupId]] = {}
    for group, site in graph.primary.items():
        orders.setdefault(site, []).append(group)
    extra = {site for cost in metrics.groups.values() for site in cost.extra}
    longest = max(len(site) for site in places)
    size = (420 + 70 * max(0, longest - 3)) if labelled else 14
    for site, (x, y) in places.items():
        axes.scatter(
            [x],
            [y],
            s=size,
            color=_ORDERS if site in orders else "white",
            edgecolors=_EXTRA if site in extra else _ORDERS if site in orders else _MEMBER,
            linewidths=3.0 if site in extra and labelled else 1.4,
            zorder=3,
        )
        if not labelled:
            continue
        colour = "white" if site in orders else "#24292f"
        axes.text(x, y, site, ha="center", va="center", fontsize=8, color=colour, zorder=4)
        if site in orders:
            named = orders[site][:GROUPS_MAX]
            more = len(orders[site]) - len(named)
            text = ", ".join(named) + (f" +{more}" if more else "")
            axes.annotate(
                text,
                (x, y),
                (11 + longest, 10),
                textcoords="offset points",
                ha="left",
                va="center",
                fontsize=6.5,
                color=_ORDERS,
                zorder=4,
            )


def _legend(axes: Axes, graph: Graph) -> None:
    handles = [
        _mark(_ORDERS, _ORDERS, 1.4, "orders the groups beside it"),
        _mark("white", _MEMBER, 1.4, "member"),
        _mark("white", _EXTRA, 2.5, "extra node"),
    ]
    if graph.bypass:
        handles.append(Line2D([], [], color=_BYPASS, linestyle="--", label="bypass"))
    axes.legend(handles=handles, frameon=False, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4)


def _mark(fill: str, ring: str, width: float, label: str) -> Line2D:
    mark = Line2D([], [], marker="o", linestyle="", markersize=8, label=label)
    mark.set_markerfacecolor(fill)
    mark.set_markeredgecolor(ring)
    mark.set_markeredgewidth(width)
    return mark
