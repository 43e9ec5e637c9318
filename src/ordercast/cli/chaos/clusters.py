"""`ordercast chaos --clusters`: processes in clusters that are far from each other, and what crosses between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ordercast.chaos.proxy import FLAT, Terrain
from ordercast.core import OptionValues, Protocol, SiteId, UsageError
from ordercast.trace import read_events

LATELY = 0.5
"""Of the deliveries: those of the second half tell who gets messages from whom, when the first half went into finding
that out."""


def make_terrain(names: Sequence[SiteId], clusters: int, between_seconds: float, one_channel: bool) -> Terrain:
    """As equal as possible, in order of names; one cluster is no terrain."""
    if clusters > 1 and one_channel:
        raise UsageError("on one channel everybody is equally far away: leave out --clusters")
    if clusters > len(names):
        raise UsageError(
            f"{len(names)} processes cannot be in {clusters} clusters: --clusters {len(names)} at the most"
        )
    if clusters == 1:
        return FLAT
    bounds = [index * len(names) // clusters for index in range(clusters + 1)]
    return Terrain(
        tuple(frozenset(names[bounds[index] : bounds[index + 1]]) for index in range(clusters)), between_seconds
    )


def options_for(protocol: type[Protocol], terrain: Terrain) -> OptionValues:
    """What the protocol makes of the clusters; nothing where there are none."""
    return protocol.arrangement.clusters(terrain.between_seconds) if terrain.clusters else {}


def describe_crossings(trace: Path, terrain: Terrain, datagrams: int, seconds: float) -> dict[str, Any]:
    """From the traces: packets from cluster to cluster for each message, who gets messages from whom; from the relay:
    everything else that crossed."""
    home = {site: index for index, cluster in enumerate(terrain.clusters) for site in cluster}
    events = read_events(trace)
    multicasts = events.filter(pc.equal(events["kind"], "multicast"))["message"].to_pylist()
    packets: Counter[str] = Counter(dict.fromkeys(multicasts, 0))
    crossed = 0
    sends = events.filter(pc.and_(pc.equal(events["kind"], "send"), pc.is_valid(events["messages"])))
    for row in sends.select(["site", "peer", "messages"]).to_pylist():
        if row["peer"] is not None and home[row["site"]] != home[row["peer"]]:
            crossed += 1
            packets.update(message for message in row["messages"] if message in packets)
    counts = list(packets.values())
    return {
        "clusters": [sorted(cluster) for cluster in terrain.clusters],
        "between_seconds": terrain.between_seconds,
        "expensive_packets_least": len(terrain.clusters) - 1,
        "expensive_packets_median": median(counts) if counts else None,
        "expensive_packets_mean": round(fmean(counts), 3) if counts else None,
        "other_expensive_datagrams_per_second": round(max(0, datagrams - crossed) / seconds, 1),
        "from_whom": _from_whom(events, home),
    }


def _from_whom(events: Any, home: dict[SiteId, int]) -> dict[SiteId, dict[str, int]]:
    """Process -> how many of its later deliveries of others' messages came from its own cluster, and from others."""
    found = {site: {"inside": 0, "outside": 0} for site in sorted(home)}
    delivered = events.filter(pc.and_(pc.equal(events["kind"], "deliver"), pc.is_valid(events["parent"])))
    rows = delivered.select(["site", "source", "parent", "time"]).sort_by("time").to_pylist()
    for row in rows[int(LATELY * len(rows)) :]:
        if row["source"] != row["site"]:
            found[row["site"]]["inside" if home[row["parent"]] == home[row["site"]] else "outside"] += 1
    return found


def show_crossings(people: Console, crossings: dict[str, Any]) -> None:
    """The same for people."""
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("cluster")
    table.add_column("process")
    table.add_column("deliveries from inside", justify="right")
    table.add_column("from other clusters", justify="right")
    for index, cluster in enumerate(crossings["clusters"], start=1):
        for site in cluster:
            whence = crossings["from_whom"][site]
            table.add_row(str(index), site, f"{whence['inside']:,}", f"{whence['outside']:,}")
    people.print()
    people.print(table)
    if crossings["expensive_packets_median"] is not None:
        people.print(
            Text(
                f"from cluster to cluster, {crossings['between_seconds'] * 1000:g} ms: "
                f"{crossings['expensive_packets_median']:g} packets a message (median; "
                f"{crossings['expensive_packets_mean']:g} on average; "
                f"{crossings['expensive_packets_least']} is the least), "
                f"and {crossings['other_expensive_datagrams_per_second']:g} others a second",
                "dim",
            )
        )
