"""A protocol that is nothing but a control process, and runs of it in wide-area networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from ordercast.core import Context, Contract, GroupId, Protocol, SiteId
from ordercast.core.events import Started
from ordercast.protocols.intergroup.control import Control, ControlOptions, GroupReport
from ordercast.protocols.intergroup.control.states import State
from ordercast.sim.fault import Fault
from ordercast.sim.networks.wide_area import WideArea
from ordercast.sim.simulation import Simulation
from ordercast.sim.traffic import total

UNITS = 1_000_000


class ControlHost(Protocol):
    """Everyone takes part in the group `g`, and acknowledges what is older than its clock."""

    parts = (Control,)
    contract = Contract(
        name="control-host",
        title="a control process and nothing else",
        paper="Berket 2000",
        guarantees=(),
        faults=(),
        crash="",
        branches=Control.branches,
        options=ControlOptions,
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.control = self.attach(
            Control(
                self,
                cast(ControlOptions, context.options),
                local_report=self.local_report,
                on_system_report=self.on_system_report,
            )
        )
        self.held_at: int | None = None
        """Where this site's acknowledgement stands still, in a test."""
        self.system: list[tuple[float, GroupReport]] = []
        """When which system report came."""

    def on_started(self, event: Started) -> None:
        self.control.start()

    def local_report(self) -> Mapping[GroupId, GroupReport]:
        timestamp = int(self.now * UNITS) if self.held_at is None else self.held_at
        return {"g": GroupReport(timestamp, self.site, 1)}

    def on_system_report(self, group: GroupId, report: GroupReport) -> None:
        if group == "g":
            self.system.append((self.now, report))


def names(count: int) -> tuple[SiteId, ...]:
    width = len(str(count - 1))
    return tuple(f"s{number:0{width}}" for number in range(count))


def wide_area(
    sites: tuple[SiteId, ...],
    regions: int = 1,
    *,
    hops: int = 16,
    near: float = 0.002,
    far: float = 0.05,
    jitter: float = 0.0,
    loss: float = 0.0,
) -> WideArea:
    """Sites that are dealt out to regions, all as far from each other."""
    placed = {f"r{region}": sites[region::regions] for region in range(regions)}
    latency = {one: {other: near if one == other else far for other in placed} for one in placed}
    count = {one: {other: 1 if one == other else hops for other in placed} for one in placed}
    return WideArea(placed, latency, jitter=jitter, loss=loss, hops=count)


class Run:
    """A run of control processes that can be looked at while it goes on."""

    def __init__(
        self,
        network: WideArea,
        sites: tuple[SiteId, ...],
        options: ControlOptions | None = None,
        *,
        seconds: float,
        seed: int = 0,
        faults: Iterable[Fault] = (),
        protocol: type[Protocol] = ControlHost,
        check_invariants: bool = True,
    ) -> None:
        self.sites = sites
        self.simulation = Simulation(
            protocol,
            {"g": sites},
            network,
            seed=seed,
            options=options or ControlOptions(),
            faults=faults,
            duration=seconds,
            settle=0.0,
            stable=False,
            tracing=False,
            check_invariants=check_invariants,
            counting=True,
        )
        self.branches: Counter[str] = self.simulation.branches

    def at(self, time: float, look: Callable[[], None]) -> Run:
        """Look at the run when it is that far."""
        self.simulation.queue.schedule(time, look)
        return self

    def execute(self) -> Run:
        self.simulation.execute()
        assert not self.simulation.wire_errors, self.simulation.first_wire_error
        return self

    def hosts(self) -> dict[SiteId, ControlHost]:
        """Those that are up."""
        found = {name: site.instances.get("main") for name, site in self.simulation.sites.items() if site.up}
        return {name: cast(ControlHost, each.core) for name, each in found.items() if each is not None}

    def controls(self) -> dict[SiteId, Control]:
        return {name: host.control for name, host in self.hosts().items()}

    def states(self) -> Counter[State]:
        return Counter(control.state for control in self.controls().values())

    def coordinators(self) -> tuple[SiteId, ...]:
        return tuple(name for name, control in self.controls().items() if control.state is State.COORDINATOR)

    def changes(self) -> int:
        """How often a state has changed so far."""
        return sum(control.hierarchy.changes for control in self.controls().values())

    def bytes_received(self) -> int:
        """By all of them, so far."""
        assert self.simulation.traffic is not None
        return total(self.simulation.traffic.received).bytes
