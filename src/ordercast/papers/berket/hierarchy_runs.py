"""Control processes in regions, ten of them to thousands: how they organise themselves, what they hear, and how they
heal."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import fmean
from typing import Protocol, cast

from ordercast.core import Options, SiteId, random_stream
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.faults import Partition
from ordercast.sim.networks import WideArea
from ordercast.sim.traffic import Tally, Traffic
from ordercast.spark.experiments import Point

CONTINENTS = 5
NEAR_SECONDS, CONTINENT_SECONDS, FAR_SECONDS = 0.001, 0.015, 0.08
"""One way: within a region, between two of a continent, between continents."""
CONTINENT_HOPS, FAR_HOPS = 8, 24
"""Below and above BOUNDARY_TTL, which is 16."""
JITTER_SECONDS = 0.001

CONTROL_SECONDS = 5.0
LOCAL_TARGET_SIZE = 40
"""About the root of the largest number of sites: then there are as many coordinators as each of them has children."""

FEW_SITES = 200
"""Up to so many need only a short interval in which to decide one after the other."""

ORGANISED_SECONDS = 120.0
CALM_SECONDS = 300.0
MERGED_SECONDS = 220.0
HEALED_SECONDS = 520.0
QUIET_SECONDS = 60.0
"""So long before the end of a run nothing changes any more."""
CRASH_SHARE = 0.3

MEASURES = (
    "coordinators",
    "low",
    "high",
    "outside",
    "unsettled",
    "unsettled_apart",
    "changes",
    "healed_after",
    "bytes_mean",
    "bytes_child",
    "bytes_coordinator",
    "bytes_max",
    "processor_seconds",
)
"""What a run tells, each where the story has it."""


class _Hierarchy(Protocol):
    changes: int


class _State(Protocol):
    name: str


class _Control(Protocol):
    """What is looked at of a control process."""

    hierarchy: _Hierarchy

    @property
    def state(self) -> _State: ...

    @property
    def coordinator(self) -> SiteId: ...


class _Core(Protocol):
    control: _Control


def options(sites: int, regions: int) -> Options:
    """Thresholds around the number of coordinators that gives each of them LOCAL_TARGET_SIZE children, and each
    continent one of its own; times in proportion to the time between control messages."""
    wanted = max(2, round(sites / LOCAL_TARGET_SIZE), min(regions, sites, CONTINENTS))
    period, few = CONTROL_SECONDS, sites <= FEW_SITES
    return find_protocol("intergroup").contract.options(
        views="fixed",
        control_seconds_min=period,
        local_target_size=LOCAL_TARGET_SIZE,
        coordinators_low=max(1, wanted // 2),
        # What is wanted is the middle of both: whoever starts becomes a coordinator until there are so many. One more
        # where there are several continents: or one too many of five leaves, its children are far from their new
        # coordinator, and one of those takes its place.
        coordinators_high=max(wanted + 2, 3 * wanted // 2 + (regions > 1)),
        check_seconds=period,
        silence_seconds=4 * period,
        stale_seconds=6 * period,
        # The more sites there are, the longer the interval in which they decide one after the other. Few decide within
        # two periods: with three, as many as there are too many at the start leave in forty seconds each, and are not
        # done after the 120 s; with eight, a continent that a partition has left without a coordinator gets one just
        # when the parts meet again.
        state_change_low_seconds=period if few else 2 * period,
        state_change_high_seconds=2 * period if few else 8 * period,
    )


def network(sites: tuple[SiteId, ...], regions: int) -> WideArea:
    """Sites that are dealt out to regions on five continents."""
    placed = {f"r{region:02}": sites[region::regions] for region in range(min(regions, len(sites)))}
    continent = {region: number % CONTINENTS for number, region in enumerate(placed)}

    def between(near: float, inside: float, far: float) -> dict[str, dict[str, float]]:
        return {
            one: {
                other: near if one == other else inside if continent[one] == continent[other] else far
                for other in placed
            }
            for one in placed
        }

    return WideArea(
        placed,
        between(NEAR_SECONDS, CONTINENT_SECONDS, FAR_SECONDS),
        jitter=JITTER_SECONDS,
        hops=between(1, CONTINENT_HOPS, FAR_HOPS),
    )


class Watched:
    """A run that is looked at while it goes on."""

    def __init__(self, sites: int, regions: int, seconds: float, seed: int, faults: tuple[Partition, ...] = ()) -> None:
        names = site_names(sites)
        self.options = options(sites, regions)
        self.simulation = Simulation(
            find_protocol("intergroup"),
            # All but one are control processes and nothing else.
            {"g": names[:1]},
            network(names, regions),
            sites=names,
            seed=seed,
            options=self.options,
            faults=faults,
            duration=seconds,
            settle=0.0,
            stable=False,
            tracing=False,
            counting=True,
            check_invariants=False,
        )

    def at(self, time: float, look: Callable[[], None]) -> None:
        """Look at it then."""
        self.simulation.queue.schedule(time, look)

    def controls(self) -> dict[SiteId, _Control]:
        """Of the sites that are up."""
        return {
            name: cast(_Core, site.instances["main"].core).control
            for name, site in self.simulation.sites.items()
            if site.up
        }

    def coordinators(self) -> tuple[SiteId, ...]:
        """Those who are, and want to stay so."""
        return tuple(name for name, control in self.controls().items() if control.state.name == "COORDINATOR")

    def unsettled(self) -> int:
        """Sites that are neither a coordinator nor the child of one that is up."""
        controls = self.controls()
        coordinators = set(self.coordinators())
        return sum(
            control.state.name not in ("COORDINATOR", "CHILD") or control.coordinator not in coordinators
            for control in controls.values()
        )

    def children_across(self, part: frozenset[SiteId]) -> int:
        """Sites whose coordinator is on the other side of a partition."""
        return sum((name in part) != (control.coordinator in part) for name, control in self.controls().items())

    def places(self) -> dict[str, float]:
        """Coordinators, the thresholds, whether they are outside, and who has no place."""
        low: int = self.options.coordinators_low  # type: ignore[attr-defined]
        high: int = self.options.coordinators_high  # type: ignore[attr-defined]
        count = len(self.coordinators())
        return {
            "coordinators": float(count),
            "low": float(low),
            "high": float(high),
            "outside": float(not low <= count <= high),
            "unsettled": float(self.unsettled()),
        }

    def changes(self) -> int:
        """How often a state has changed."""
        return sum(control.hierarchy.changes for control in self.controls().values())

    def traffic(self) -> Traffic:
        """What has been sent and received so far."""
        return cast(Traffic, self.simulation.traffic).copy()


def site_names(count: int) -> tuple[SiteId, ...]:
    """So many sites."""
    return tuple(f"p{number:04}" for number in range(count))


def run_story(point: Point, seed: int) -> dict[str, float | None]:
    """One run: nothing happens, or coordinators crash, or the network is split for a while."""
    story, sites, regions = str(point["story"]), int(point["sites"]), int(point["regions"])
    begin = time.process_time()
    measured = _STORIES[story](sites, regions, seed)
    return {**dict.fromkeys(MEASURES), **measured, "processor_seconds": time.process_time() - begin}


def _calm(sites: int, regions: int, seed: int) -> dict[str, float | None]:
    """Organised after two minutes, and then nothing but control messages for three."""
    run = Watched(sites, regions, CALM_SECONDS, seed)
    seen: list[tuple[Traffic, int, dict[str, float]]] = []
    run.at(ORGANISED_SECONDS, lambda: seen.append((run.traffic(), run.changes(), run.places())))
    run.simulation.execute()
    traffic, changes, places = seen[0]
    heard = received_since(traffic, run.traffic(), CALM_SECONDS - ORGANISED_SECONDS)
    coordinators = set(run.coordinators())
    children = [each for site, each in heard.items() if site not in coordinators]
    return {
        **places,
        "changes": float(run.changes() - changes),
        "bytes_mean": fmean(heard.values()),
        "bytes_child": fmean(children) if children else None,
        "bytes_coordinator": fmean(heard[site] for site in coordinators),
        "bytes_max": max(heard.values()),
    }


def _crash(sites: int, regions: int, seed: int) -> dict[str, float | None]:
    """A share of the coordinators crashes and stays away."""
    run = Watched(sites, regions, HEALED_SECONDS, seed)

    def strike() -> None:
        coordinators = run.coordinators()
        count = max(1, round(CRASH_SHARE * len(coordinators)))
        for site in random_stream(seed, "crash").sample(coordinators, count):
            run.simulation.at(site).crash()

    run.at(ORGANISED_SECONDS, strike)
    return _healed(run, ORGANISED_SECONDS)


def _partition(sites: int, regions: int, seed: int) -> dict[str, float | None]:
    """Every second site of each region, or every second region, is cut off from the others for a while."""
    names = site_names(sites)
    part = names[::2] if regions == 1 else tuple(name for at, name in enumerate(names) if at % regions % 2)
    fault = Partition(from_=ORGANISED_SECONDS, to=MERGED_SECONDS, parts=(part,))
    run = Watched(sites, regions, HEALED_SECONDS, seed, (fault,))
    apart: list[int] = []
    run.at(MERGED_SECONDS - 1.0, lambda: apart.append(run.unsettled() + run.children_across(frozenset(part))))
    return {**_healed(run, MERGED_SECONDS), "unsettled_apart": float(apart[0])}


def _healed(run: Watched, since: float) -> dict[str, float | None]:
    """How long it takes until everyone has its place again, and whether that stays so."""
    troubled: list[float] = []
    changes: list[int] = []

    def look(moment: float) -> None:
        places = run.places()
        if places["unsettled"] or places["outside"]:
            troubled.append(moment)

    for second in range(1, int(HEALED_SECONDS - since)):
        run.simulation.queue.schedule(since + second, look, since + second)
    run.at(HEALED_SECONDS - QUIET_SECONDS, lambda: changes.append(run.changes()))
    run.simulation.execute()
    return {
        **run.places(),
        "changes": float(run.changes() - changes[0]),
        "healed_after": max(troubled, default=since) - since,
    }


_STORIES: dict[str, Callable[[int, int, int], dict[str, float | None]]] = {
    "calm": _calm,
    "crash": _crash,
    "partition": _partition,
}
STORIES = tuple(_STORIES)


def received_since(before: Traffic, after: Traffic, seconds: float) -> dict[SiteId, float]:
    """Bytes a second that each site has received between two counts."""

    def received(traffic: Traffic, site: SiteId) -> int:
        tallies: dict[str, Tally] = traffic.received.get(site, {})
        return sum(tally.bytes for tally in tallies.values())

    return {site: (received(after, site) - received(before, site)) / seconds for site in after.received}
