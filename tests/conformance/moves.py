"""Scripts in which processes come and go, played in the simulator, in a configured cluster and in one that no file
describes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec
import pyarrow as pa

import ordercast
from ordercast.net.ports import free_ports
from ordercast.net.sockets import SocketAddress
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.change import Change
from ordercast.sim.faults import Loss
from ordercast.sim.networks import PointToPoint
from ordercast.trace import read_events, read_runs
from ordercast.trace.schema import Run

DEADLINE_SECONDS = 60.0
"""Against hanging; every script is done in a fraction of it."""
MOVE_SECONDS = 3.0
"""In the simulator so much time is left for a join or a leave, and for what was sent before it."""


class Step(msgspec.Struct, frozen=True):
    """One site joins or leaves a group, or multicasts to it. A join or leave has come about before the next step, and
    what was sent before it is delivered."""

    what: Literal["join", "leave", "send"]
    site: str
    group: str
    payload: bytes = b""


class Script(msgspec.Struct, frozen=True):
    """What happens, in every world."""

    groups: Mapping[str, tuple[str, ...]]
    """At the start."""
    steps: Sequence[Step]
    loss: float = 0.0

    @property
    def sites(self) -> list[str]:
        """Everyone who ever has a part in it."""
        members = {site for group in self.groups.values() for site in group}
        return sorted(members | {step.site for step in self.steps})

    def expected(self) -> dict[str, list[set[bytes]]]:
        """Site -> what it is to get, between one move and the next."""
        members = {group: set(sites) for group, sites in self.groups.items()}
        expected: dict[str, list[set[bytes]]] = {site: [set()] for site in self.sites}
        for step in self.steps:
            if step.what == "send":
                for site in members[step.group]:
                    expected[site][-1].add(step.payload)
                continue
            there = members.setdefault(step.group, set())
            if step.what == "join":
                there.add(step.site)
            else:
                there.discard(step.site)
            for parts in expected.values():
                parts.append(set())
        return expected


def everything(parts: Sequence[set[bytes]]) -> set[bytes]:
    """All that a site is to get."""
    return set().union(*parts)


# ---------------------------------------------------------------------- the simulator
def move_in_simulator(protocol: str, script: Script, folder: Path) -> tuple[Run, pa.Table]:
    """The script under the simulator's clock."""
    changes: list[Change] = []
    sends: list[tuple[float, Step]] = []
    time = 0.5
    for step in script.steps:
        if step.what == "send":
            sends.append((time, step))
            time += 0.002
        else:
            time += MOVE_SECONDS
            changes.append(Change(kind=step.what, at=time, sites=(step.site,), group=step.group))
            time += MOVE_SECONDS
    simulation = Simulation(
        find_protocol(protocol),
        script.groups,
        PointToPoint(),
        changes=changes,
        faults=[Loss(from_=0.0, to=time, rate=script.loss)] if script.loss else [],
        duration=time + 1.0,
        settle=20.0,
        sync_seconds=0.001,
    )
    for at, step in sends:
        simulation.queue.schedule(at, _send, simulation, step)
    simulation.execute()
    return simulation.header(), simulation.table()


def _send(simulation: Simulation, step: Step) -> None:
    simulation.at(step.site).multicast(step.payload, (step.group,))


# ---------------------------------------------------------------------- sockets
def move_in_configured_cluster(protocol: str, script: Script, folder: Path) -> tuple[Run, pa.Table]:
    """The script on the loopback, in a cluster whose file names all processes and the groups of the start."""
    ports = dict(zip(script.sites, free_ports(len(script.sites)), strict=True))
    configuration = {
        "processes": {site: f"127.0.0.1:{port}" for site, port in ports.items()},
        "groups": {group: list(members) for group, members in script.groups.items()},
    }
    return _on_sockets(protocol, script, folder, lambda _site: configuration, first=())


def move_by_seed(protocol: str, script: Script, folder: Path) -> tuple[Run, pa.Table]:
    """The script on the loopback, in a cluster of which no file says who is in it: everyone knows one address, and
    joins what it is in at the start."""
    ports = dict(zip(script.sites, free_ports(len(script.sites)), strict=True))
    seed = f"127.0.0.1:{ports[script.sites[0]]}"
    joins = [Step("join", site, group) for group, members in script.groups.items() for site in sorted(members)]
    return _on_sockets(
        protocol,
        script,
        folder,
        lambda site: {"discovery": {"seeds": [seed], "listen": f"127.0.0.1:{ports[site]}"}},
        first=joins,
    )


def _on_sockets(
    protocol: str,
    script: Script,
    folder: Path,
    configure: Callable[[str], dict[str, Any]],
    first: Sequence[Step],
) -> tuple[Run, pa.Table]:
    everywhere = {
        "cluster": "conformance",
        "protocol": protocol,
        "insecure": True,
        "log_directory": str(folder / "log"),
        "trace_directory": str(folder / "trace"),
    }
    cluster = _Cluster(script, lambda site: everywhere | configure(site))
    asyncio.run(asyncio.wait_for(cluster.play(first), DEADLINE_SECONDS))
    (run,) = read_runs(folder / "trace")
    return run, read_events(folder / "trace")


class _Cluster:
    """The nodes of a script."""

    def __init__(self, script: Script, configure: Callable[[str], dict[str, Any]]) -> None:
        self._script = script
        self._configure = configure
        self._nodes: dict[str, ordercast.Node] = {}
        self._groups: dict[tuple[str, str], ordercast.Group] = {}
        self._seen: dict[str, dict[bytes, int]] = {site: {} for site in script.sites}
        self._changed = asyncio.Event()
        self._random = Random(1)

    async def play(self, first: Sequence[Step]) -> None:
        script, moves = self._script, 0
        expected = script.expected()
        try:
            if first:
                for step in first:
                    await self._join(step.site, step.group)
            else:
                await self._start_members()
            for step in script.steps:
                if step.what == "send":
                    await self._nodes[step.site].multicast(step.payload, [step.group])
                    # A bundle of its own for each, so that there are many to be ordered.
                    await asyncio.sleep(0)
                    continue
                moves += 1
                await self._wait({site: everything(parts[:moves]) for site, parts in expected.items()})
                if step.what == "join":
                    await self._join(step.site, step.group)
                else:
                    await self._groups.pop((step.site, step.group)).leave()
            await self._wait({site: everything(parts) for site, parts in expected.items()})
            for node in self._nodes.values():
                await node.flush()
            self._check_offsets()
        finally:
            for node in self._nodes.values():
                await node.__aexit__(None, None, None)

    async def _start_members(self) -> None:
        # All whom the file names: they are the system, in a group or not.
        for site in self._script.sites:
            await self._start(site)
        for group, sites in self._script.groups.items():
            for site in sites:
                await self._join(site, group)

    async def _start(self, site: str) -> None:
        if site not in self._nodes:
            node = self._nodes[site] = await ordercast.open(self._configure(site), site).__aenter__()
            if self._script.loss:
                node.internals.engine.transport.disturb(self._draw_copies)

    def _draw_copies(self, _datagram: memoryview, _address: SocketAddress) -> int:
        return 0 if self._random.random() < self._script.loss else 1

    async def _join(self, site: str, group: str) -> None:
        await self._start(site)
        joined = self._groups[site, group] = await self._nodes[site].join(group)
        joined.on_delivery(partial(self._see, site))

    def _see(self, site: str, delivery: ordercast.Delivery) -> None:
        self._seen[site][delivery.payload] = delivery.offset
        self._changed.set()

    async def _wait(self, wanted: Mapping[str, set[bytes]]) -> None:
        while any(wanted[site] - set(self._seen[site]) for site in wanted):
            self._changed.clear()
            await self._changed.wait()

    def _check_offsets(self) -> None:
        """A message has the same offset at everyone who gets it."""
        offsets: dict[bytes, set[int]] = {}
        for seen in self._seen.values():
            for payload, offset in seen.items():
                offsets.setdefault(payload, set()).add(offset)
        wrong = {payload: found for payload, found in offsets.items() if len(found) > 1}
        if wrong:
            raise AssertionError(f"messages have several offsets: {wrong}")
