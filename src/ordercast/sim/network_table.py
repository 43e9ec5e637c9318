"""The `[network]` table of a scenario, one class a kind, and the network that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec
import networkx as nx

from ordercast.core import SiteId, UsageError
from ordercast.core.tables import expect_table, nearest, read_text, to_struct
from ordercast.sim.networks import (
    BroadcastMedium,
    Network,
    OneChannel,
    PointToPoint,
    Servers,
    Topology,
    WideArea,
    square_grid,
)

Link = tuple[SiteId, SiteId, float]


class NetworkTable(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of the kinds."""

    phi_n: float | None = None
    """Seconds within which the network promises to bring a packet; None: what the model itself takes at most."""

    kind: ClassVar[str]
    one_order: ClassVar[bool] = False
    """Whether everyone hears all broadcasts in the same order (gaps allowed): a one-channel service."""

    def make(self, sites: tuple[SiteId, ...]) -> Network:
        """The network for these sites; `UsageError` when it makes no sense for them."""
        raise NotImplementedError

    def bound(self, network: Network) -> float:
        """phi_n of the run."""
        return network.latency_max() if self.phi_n is None else self.phi_n


class PointToPointTable(NetworkTable, frozen=True, kw_only=True, tag="point-to-point"):
    """P for each send, L on the way."""

    kind: ClassVar[str] = "point-to-point"
    processing: float = 0.0001
    latency: float = 0.001

    def make(self, sites: tuple[SiteId, ...]) -> Network:
        return PointToPoint(self.processing, self.latency)


class BroadcastTable(NetworkTable, frozen=True, kw_only=True, tag="broadcast"):
    """One frame at a time for everyone; `processing` is the frame time T."""

    kind: ClassVar[str] = "broadcast"
    one_order: ClassVar[bool] = True
    processing: float = 0.0001

    def make(self, sites: tuple[SiteId, ...]) -> Network:
        return BroadcastMedium(self.processing)


class TopologyTable(NetworkTable, frozen=True, kw_only=True, tag="topology"):
    """A square grid, or links given here or in a file."""

    kind: ClassVar[str] = "topology"
    processing: float = 0.0001
    latency: float = 0.001
    """Seconds for each unit of weight."""
    shape: str | None = None
    links: tuple[Link, ...] | None = None
    file: str | None = None
    """Lines `a b weight`; `read_network_table` reads it, so that a scenario in memory has links and no file."""

    def make(self, sites: tuple[SiteId, ...]) -> Network:
        given = [key for key in ("shape", "links", "file") if getattr(self, key) is not None]
        if len(given) != 1:
            raise UsageError('a topology needs exactly one of shape = "grid", links = [["a", "b", 1.0], …], file')
        if self.shape is not None and self.shape != "grid":
            raise UsageError(f"there is no shape {self.shape!r}; it is 'grid', or give links")
        return Topology(square_grid(sites) if self.shape else self._graph(sites), self.processing, self.latency)

    def _graph(self, sites: tuple[SiteId, ...]) -> nx.Graph:
        graph = nx.Graph()
        for first, second, weight in self.links or ():
            if first == second:
                raise UsageError(f"there is a link from {first!r} to itself")
            graph.add_edge(first, second, weight=weight)
        for site in sites:
            if site not in graph:
                raise UsageError(f"site {site!r} has no link; add one")
        return graph


class WideAreaTable(NetworkTable, frozen=True, kw_only=True, tag="wide-area"):
    """Regions, and the latency and the hops between each two of them."""

    kind: ClassVar[str] = "wide-area"
    regions: dict[str, tuple[SiteId, ...]]
    latency: dict[str, dict[str, float]]
    hops: dict[str, dict[str, int]] | None = None
    """None: 1 within each region, 16 between two."""
    jitter: float = 0.0
    loss: float = 0.0
    shared_loss: float = 0.0
    """The share of packets that a region loses as a whole."""
    processing: float = 0.00002

    def make(self, sites: tuple[SiteId, ...]) -> Network:
        for key, matrix in (("latency", self.latency), ("hops", self.hops or {})):
            for name in (name for region, others in matrix.items() for name in (region, *others)):
                if name not in self.regions:
                    raise UsageError(f"{key} names the region {name!r}; {nearest(name, self.regions)}")
        placed = {site for members in self.regions.values() for site in members}
        for site in sites:
            if site not in placed:
                raise UsageError(f"site {site!r} is in no region; add it to one")
        return WideArea(
            self.regions,
            self.latency,
            jitter=self.jitter,
            loss=self.loss,
            processing=self.processing,
            hops=self.hops,
            shared_loss=self.shared_loss,
        )


class ServersTable(NetworkTable, frozen=True, kw_only=True, tag="servers"):
    """Hosts behind servers, cheap and expensive links between servers."""

    kind: ClassVar[str] = "servers"
    hosts: dict[SiteId, str]
    """Host -> its server."""
    cheap: tuple[Link, ...] = ()
    expensive: tuple[Link, ...] = ()
    processing: float = 0.0001
    cheap_latency: float = 0.0005
    """Seconds for each unit of weight; a host's line to its server has weight 1."""
    expensive_latency: float = 0.05
    jitter: float = 0.0
    bandwidth: float | None = None
    """Bytes a second over an expensive link, in each direction; None: no limit."""
    rerouting: float = 0.0
    """Seconds until the servers know that a link has failed or works again."""

    def make(self, sites: tuple[SiteId, ...]) -> Servers:
        for site in sites:
            if site not in self.hosts:
                raise UsageError(f"site {site!r} is at no server; add it to hosts")
        return Servers(
            self.hosts,
            self.cheap,
            self.expensive,
            processing=self.processing,
            cheap_latency=self.cheap_latency,
            expensive_latency=self.expensive_latency,
            jitter=self.jitter,
            bandwidth=self.bandwidth,
            rerouting=self.rerouting,
        )


class OneChannelTable(NetworkTable, frozen=True, kw_only=True, tag="one-channel"):
    """One channel for all; receivers with buffers and a speed of their own, which overrun."""

    kind: ClassVar[str] = "one-channel"
    one_order: ClassVar[bool] = True
    frame: float = 0.00002
    """Seconds that a frame occupies the channel."""
    processing: float = 0.00005
    """Seconds that a receiver takes for each frame."""
    buffers: int = 64
    """Frames that a receiver can hold; more are lost there."""
    loss: float = 0.0
    latency: float = 0.0

    def make(self, sites: tuple[SiteId, ...]) -> Network:
        return OneChannel(self.frame, self.processing, self.buffers, self.loss, self.latency)


_TABLES: dict[str, type[NetworkTable]] = {
    table.kind: table
    for table in (PointToPointTable, BroadcastTable, TopologyTable, WideAreaTable, ServersTable, OneChannelTable)
}
NETWORK_KINDS: tuple[str, ...] = tuple(_TABLES)


def read_network_table(value: Any, folder: Path, where: str) -> NetworkTable:
    """The `[network]` table; a file that it names is looked for in `folder`."""
    table = expect_table(value, where)
    kind = table.get("kind", PointToPointTable.kind)
    if not isinstance(kind, str) or kind not in _TABLES:
        raise UsageError(f"{where}: there is no kind {kind!r}; {nearest(str(kind), NETWORK_KINDS)}")
    network = to_struct({"kind": kind, **table}, _TABLES[kind], where)
    if network.phi_n is not None and network.phi_n < 0:
        raise UsageError(f"{where}: phi_n is 0 or more, not {network.phi_n}")
    if isinstance(network, TopologyTable) and network.file is not None and network.links is None:
        return msgspec.structs.replace(network, file=None, links=read_links(folder / network.file))
    return network


def read_links(path: Path) -> tuple[Link, ...]:
    """A topology file: a line `a b weight` for each link, the weight 1 where there is none; `#` begins a comment."""
    links = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            try:
                first, second, weight = words if len(words) == 3 else (*words, "1.0")
                links.append((first, second, float(weight)))
            except ValueError:
                raise UsageError(f"{path}, line {number}: expected 'site site weight', got {line.strip()!r}") from None
    return tuple(links)
