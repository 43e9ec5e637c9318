"""One script, two worlds: the simulator, and real sockets on the loopback. What comes back is a trace, to be judged."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa

import ordercast
from ordercast.net.disturbance import LOST, REPEATED
from ordercast.net.ports import free_ports
from ordercast.net.sockets import SocketAddress
from ordercast.net.transport import Transport
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.change import Change
from ordercast.sim.faults import Crash, Duplication, Loss
from ordercast.sim.networks import OneChannel, PointToPoint
from ordercast.trace import read_events, read_runs
from ordercast.trace.schema import Run
from tests.node.cluster import start_hub

DEADLINE_SECONDS = 60.0
"""Against hanging; every script is done in a fraction of it."""

CHOICE_SECONDS = 3.0
"""In the simulator a choice has become active by then."""

RELIABLE = ("", "reliable-source", "group-timestamp")
"""Services with which everything comes in the end; none is chosen where a protocol has no services, or the strongest is
the default."""


class NothingHappened(Exception):
    """What a script asks of the network was not done."""


class Choice(msgspec.Struct, frozen=True):
    """A site wants another service in a group, of some sources or of all."""

    site: str
    group: str
    service: str
    sources: tuple[str, ...] = ()


class Script(msgspec.Struct, frozen=True):
    """What happens, in either world."""

    groups: Mapping[str, tuple[str, ...]]
    sends: Sequence[tuple[str, tuple[str, ...], bytes]]
    """Who multicasts to which groups, in this order."""
    loss: float = 0.0
    duplication: float = 0.0
    crash: str | None = None
    """This site crashes when half of the messages are under way, and comes back."""
    complete: bool = True
    """Whether everything that is expected comes in the end; what is lost stays lost under some protocols."""
    choices: Mapping[int, tuple[Choice, ...]] = {}
    """Before the message of that place in `sends`: who chooses what. On sockets it is active then."""

    @property
    def sites(self) -> list[str]:
        """Everyone who has a part in it."""
        members = {site for group in self.groups.values() for site in group}
        return sorted(members | {source for source, _, _ in self.sends})

    def expected(self) -> dict[str, set[bytes]]:
        """What each site is to get; what a site multicast right before it crashed may be lost with it."""
        expected: dict[str, set[bytes]] = {site: set() for site in self.sites}
        chosen: dict[tuple[str, str], Choice] = {}
        for index, (source, groups, payload) in enumerate(self.sends):
            chosen |= {(choice.site, choice.group): choice for choice in self.choices.get(index, ())}
            if source != self.crash or index >= self.half:
                for group in groups:
                    for site in self.groups[group]:
                        choice = chosen.get((site, group), Choice(site, group, ""))
                        if choice.service in RELIABLE and (not choice.sources or source in choice.sources):
                            expected[site].add(payload)
        return expected

    @property
    def half(self) -> int:
        """The crash comes before this message."""
        return len(self.sends) // 2


def play_in_simulator(protocol: str, script: Script, folder: Path) -> tuple[Run, pa.Table]:
    """The script under the simulator's clock: a message every 2 milliseconds."""
    faults: list[Any] = []

    def moment(index: int) -> float:
        """Choices have some seconds to become active."""
        return 0.01 + 0.002 * index + CHOICE_SECONDS * sum(place <= index for place in script.choices)

    end = moment(len(script.sends)) + 1.0
    if script.loss:
        faults.append(Loss(from_=0.0, to=end, rate=script.loss))
    if script.duplication:
        faults.append(Duplication(from_=0.0, to=end, rate=script.duplication))
    if script.crash:
        faults.append(Crash(from_=end / 4, to=end / 2, sites=(script.crash,)))
    found = find_protocol(protocol)
    contract = found.contract
    simulation = Simulation(
        found,
        script.groups,
        OneChannel() if contract.one_channel else PointToPoint(),
        sites=script.sites,
        faults=faults,
        duration=end,
        settle=20.0,
        sync_seconds=0.001,
        changes=[
            Change(
                kind="service",
                at=moment(index - 1),
                sites=(choice.site,),
                group=choice.group,
                service=choice.service,
                sources=choice.sources,
            )
            for index, choices in script.choices.items()
            for choice in choices
        ],
    )
    for index, (source, groups, payload) in enumerate(script.sends):
        simulation.queue.schedule(moment(index), simulation.sites[source].multicast, payload, groups)
    simulation.execute()
    return simulation.header(), simulation.table()


def play_on_sockets(protocol: str, script: Script, folder: Path) -> tuple[Run, pa.Table]:
    """The script on the loopback, every site a node with a log and a trace."""
    asyncio.run(asyncio.wait_for(_play(protocol, script, folder), DEADLINE_SECONDS))
    trace = folder / "trace"
    (run,) = read_runs(trace)
    return run, read_events(trace)


async def _play(protocol: str, script: Script, folder: Path) -> None:
    ports = free_ports(len(script.sites))
    configuration: dict[str, Any] = {
        "cluster": "conformance",
        "protocol": protocol,
        "insecure": True,
        "processes": {site: f"127.0.0.1:{port}" for site, port in zip(script.sites, ports, strict=True)},
        "groups": {group: list(members) for group, members in script.groups.items()},
        "log_directory": str(folder / "log"),
        "trace_directory": str(folder / "trace"),
    }
    hub = None
    contract = find_protocol(protocol).contract
    if "blocked_seconds" in contract.options.__struct_fields__:
        # On a busy machine, where datagrams are lost besides, a second without progress is no news.
        configuration["options"] = {"blocked_seconds": DEADLINE_SECONDS}
    if contract.one_channel:
        configuration["channel"] = f"127.0.0.1:{free_ports(1)[0]}"
        hub = start_hub(configuration)
    world = _Sockets(configuration, script)
    try:
        await world.play()
    finally:
        await world.close()
        if hub is not None:
            hub.close()


class _Sockets:
    """The nodes of a script."""

    def __init__(self, configuration: dict[str, Any], script: Script) -> None:
        self._configuration = configuration
        self._script = script
        self._nodes: dict[str, ordercast.Node] = {}
        self._groups: dict[tuple[str, str], ordercast.Group] = {}
        self._seen: dict[str, set[bytes]] = {site: set() for site in script.sites}
        self._random = Random(1)
        self._transports: list[Transport] = []
        self._changed = asyncio.Event()

    async def play(self) -> None:
        script = self._script
        for site in script.sites:
            await self._start(site)
        for node in self._nodes.values():
            await node.wait_for_peers()
        before, after = range(script.half), range(script.half, len(script.sends))
        await self._send(before)
        if script.crash:
            self._nodes.pop(script.crash).kill()
        await self._send([index for index in after if script.sends[index][0] != script.crash])
        if script.crash:
            await self._start(script.crash)
            await self._send([index for index in after if script.sends[index][0] == script.crash])
        expected = script.expected()
        # What a site sends to itself is never lost: so much comes in any case.
        own = {site: {payload for source, _, payload in script.sends if source == site} for site in script.sites}
        wanted = {site: expected[site] if script.complete else expected[site] & own[site] for site in script.sites}
        while any(wanted[site] - self._seen[site] for site in script.sites):
            self._changed.clear()
            await self._changed.wait()
        for node in self._nodes.values():
            await node.flush()
        self._check_disturbances()

    def _check_disturbances(self) -> None:
        """A script that loses nothing proves nothing about losses."""
        happened = sum((transport.counters for transport in self._transports), Counter[str]())
        if self._script.loss:
            print(f"{self._configuration['protocol']}: {happened[LOST]} datagrams lost, {happened[REPEATED]} repeated")
        if self._script.loss and not happened[LOST]:
            raise NothingHappened("no datagram was lost")
        if self._script.duplication and not happened[REPEATED]:
            raise NothingHappened("no datagram was repeated")

    async def _start(self, site: str) -> None:
        node = self._nodes[site] = ordercast.open(self._configuration, site)
        await node.__aenter__()
        self._transports.append(node.internals.engine.transport)
        _disturb(node.internals.engine.transport, self._script, self._random)
        for group, members in self._script.groups.items():
            if site in members:
                joined = self._groups[site, group] = await node.join(group)
                joined.on_delivery(partial(self._see, site))

    def _see(self, site: str, delivery: ordercast.Delivery) -> None:
        # A set: a restarted node shows its history again.
        self._seen[site].add(delivery.payload)
        self._changed.set()

    async def _send(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            for choice in self._script.choices.get(index, ()):
                await self._groups[choice.site, choice.group].choose(choice.service, choice.sources)
            source, groups, payload = self._script.sends[index]
            await self._nodes[source].multicast(payload, groups)
            # A bundle of its own for each, so that there are many to be ordered.
            await asyncio.sleep(0)

    async def close(self) -> None:
        for node in self._nodes.values():
            await node.__aexit__(None, None, None)


def _disturb(transport: Transport, script: Script, random: Random) -> None:
    """Lose and repeat some of what a node sends."""

    def draw_copies(_datagram: memoryview, _address: SocketAddress) -> int:
        return 0 if random.random() < script.loss else 1 + (random.random() < script.duplication)

    if script.loss or script.duplication:
        transport.disturb(draw_copies)
