"""Pictures of measures, as SVG."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ordercast.measure.measures import ALL, EACH

SITES_MAX = 40
"""Bars that can still be told apart; the most loaded sites are drawn."""

Row = Mapping[str, Any]

# Text as text and names that do not depend on chance: the same measures give the same bytes.
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ordercast",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def plot_latency(curves: Sequence[Row]) -> str:
    """The distribution of the latencies of each protocol: what part of them is at most so long."""

    def draw(axes: Axes) -> None:
        protocols = sorted({curve["protocol"] for curve in curves})
        for curve in sorted(curves, key=lambda curve: (curve["protocol"], curve["at"])):
            milliseconds = [1000 * latency for latency in curve["latencies"]]
            axes.step(
                milliseconds,
                curve["probabilities"],
                where="post",
                color=f"C{protocols.index(curve['protocol']) % 10}",
                linestyle="-" if curve["at"] == EACH else "--",
                label=_legend(protocols, curve, "all destinations" if curve["at"] == ALL else "each destination"),
            )
        if all(latency > 0 for curve in curves for latency in curve["latencies"]):
            axes.set_xscale("log")
        axes.set_xlabel("latency (ms)")
        axes.set_ylabel("part of the deliveries")
        axes.set_ylim(0, 1.02)

    return _svg(draw, legend=bool(curves))


def plot_throughput(windows: Sequence[Row]) -> str:
    """Deliveries a second in each window, and messages multicast; the mean of the runs."""

    def draw(axes: Axes) -> None:
        protocols = sorted({row["protocol"] for row in windows})
        for number, protocol in enumerate(protocols):
            own = [row for row in windows if row["protocol"] == protocol and row["messages_per_second"] is not None]
            middle = [(row["from"] + row["to"]) / 2 for row in own]
            for name, line in (("deliveries", "-"), ("messages", ":")):
                rates = [row[f"{name}_per_second"] for row in own]
                label = _legend(protocols, {"protocol": protocol}, name)
                axes.plot(middle, rates, line, color=f"C{number % 10}", label=label, linewidth=1.2)
        axes.set_xlabel("time (s)")
        axes.set_ylabel("a second")
        axes.set_ylim(bottom=0)

    return _svg(draw, legend=bool(windows))


def plot_load(rows: Sequence[Row]) -> str:
    """Packets sent and received by each site."""

    def draw(axes: Axes) -> None:
        drawn = sorted(rows, key=lambda row: (-row["load"], row["protocol"], row["site"]))[:SITES_MAX]
        drawn.sort(key=lambda row: (row["protocol"], row["site"]))
        several = len({row["protocol"] for row in drawn}) > 1
        labels = [f"{row['protocol']} {row['site']}" if several else str(row["site"]) for row in drawn]
        places = range(len(drawn))
        sends = [row["sends"] for row in drawn]
        axes.bar(places, sends, label="sends")
        axes.bar(places, [row["receives"] for row in drawn], bottom=sends, label="receives")
        axes.set_xticks(places, labels, rotation=90 if several or len(drawn) > 12 else 0)
        axes.set_ylabel("packets")

    return _svg(draw, legend=bool(rows))


def plot_packets(rows: Sequence[Row]) -> str:
    """Packets per multicast of each protocol, by type; background traffic hatched."""

    def draw(axes: Axes) -> None:
        protocols = sorted({row["protocol"] for row in rows})
        bottom = dict.fromkeys(protocols, 0.0)
        for row in sorted(rows, key=lambda row: (row["background"], row["packet"], row["protocol"])):
            each = row["packets_per_multicast"]
            if each is None:
                continue
            axes.bar(
                protocols.index(row["protocol"]),
                each,
                bottom=bottom[row["protocol"]],
                hatch="///" if row["background"] else None,
                edgecolor="white",
                label=_legend(protocols, row, row["packet"] or "(no type)"),
            )
            bottom[row["protocol"]] += each
        axes.set_xticks(range(len(protocols)), protocols)
        axes.set_ylabel("packets per multicast")

    return _svg(draw, legend=bool(rows))


def _legend(protocols: Sequence[str], row: Row, what: str) -> str:
    return f"{row['protocol']}: {what}" if len(protocols) > 1 else what


def _svg(draw: Any, legend: bool) -> str:
    # Without pyplot, which looks for a display and keeps every figure.
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.grid(axis="y", alpha=0.3)
        if legend:
            axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
