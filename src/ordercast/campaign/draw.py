"""From a protocol and a seed to a random run: sites, groups, network, workload, options, faults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Literal, cast, get_args

import msgspec

from ordercast.campaign.changes import add_changes
from ordercast.campaign.rare import RARE_KINDS, add_rare_fault
from ordercast.campaign.schedules import SCHEDULES, add_schedule
from ordercast.campaign.services import add_services
from ordercast.campaign.shape import (
    CROWD_SETTLE_FACTOR,
    LARGE,
    USUAL,
    Shape,
    draw_large_groups,
    draw_large_sites,
    draw_repeated_crashes,
    let_everyone_be_heard,
)
from ordercast.campaign.swarm import DELAY_SECONDS_MAX, Arena, draw_deaths, draw_faults, draw_kinds, round_trip
from ordercast.campaign.turns import TURNS_MAX, take_turn
from ordercast.campaign.varied import vary
from ordercast.core import (
    GroupId,
    OptionValues,
    Protocol,
    SiteId,
    Situation,
    Tuning,
    UsageError,
    log_uniform,
    random_stream,
)
from ordercast.protocols import find_protocol
from ordercast.sim.faults import AnyFault, Crash
from ordercast.sim.network_table import (
    BroadcastTable,
    Link,
    NetworkTable,
    OneChannelTable,
    PointToPointTable,
    ServersTable,
    TopologyTable,
    WideAreaTable,
)
from ordercast.sim.random_servers import random_servers
from ordercast.sim.scenario import SEED_MAX, Scenario
from ordercast.sim.simulation import fragment_seconds
from ordercast.sim.workload import Workload

_NETWORK_WEIGHTS = {"point-to-point": 4, "broadcast": 3, "wide-area": 2, "topology": 1}
_HOPS = (1, 2, 4, 8, 15, 16, 24, 32)
"""Between two regions: from one ring of a search to beyond all of them."""
_SHARED_LOSS_MAX = 0.15
"""It does not heal: what was promised has to come true through it."""

Sources = Literal["promised", "several", "outside"]
"""Who multicasts: whoever may according to the contract; several sites in any case; or sites that are in no group."""
SOURCES: tuple[Sources, ...] = get_args(Sources)
LARGE_NAME = "large"
"""What the name of a large run ends with."""
TURNS_NAME = "turns"
"""What the turns of a run follow in its name."""
TURNS_PATTERN = rf"{TURNS_NAME}(-\d{{1,3}}){{1,{TURNS_MAX}}}"
"""How the name of a run with turns ends."""


class Draw(msgspec.Struct, frozen=True):
    """What decides a random run; `str()` of it is what `ordercast simulate --replay` takes."""

    protocol: type[Protocol]
    seed: int
    network: str | None = None
    sources: Sources = "promised"
    schedule: str = ""
    """One that looks for trouble; empty: none."""
    large: bool = False
    """A dozen sites and more, for minutes."""
    turns: tuple[int, ...] = ()
    """That the run of the seed has taken, one after the other, in a campaign that is steered."""

    def __str__(self) -> str:
        name = f"{self.protocol.contract.name}:{self.seed}"
        if self.schedule or self.large:
            return f"{name}:{self.schedule or LARGE_NAME}"
        if self.turns:
            return f"{name}:{TURNS_NAME}-" + "-".join(map(str, self.turns))
        return name if self.network is None else f"{name}:{self.network}:{self.sources}"

    def scenario(self, attempt: int = 0) -> Scenario:
        """The run."""
        scenario = draw_scenario(
            self.protocol,
            self.seed,
            network=self.network,
            sources=self.sources,
            attempt=attempt,
            schedule=self.schedule,
            shape=LARGE if self.large else USUAL,
        )
        for turn in self.turns:
            scenario = take_turn(scenario, turn)
        return scenario

    @property
    def replay(self) -> str:
        """What to type to see the run again."""
        return f"ordercast simulate --replay {self}"


def read_draw(text: str) -> Draw:
    """The draw of which this is the name; `UsageError` when it is none."""
    protocol, _, rest = text.partition(":")
    seed, *kinds = rest.split(":")
    schedule = kinds.pop() if len(kinds) == 1 and kinds[0] in (*SCHEDULES, LARGE_NAME) else ""
    led = len(kinds) == 1 and re.fullmatch(TURNS_PATTERN, kinds[0])
    turns = tuple(int(turn) for turn in kinds.pop().split("-")[1:]) if led else ()
    network, sources = kinds if len(kinds) == 2 else (None, "promised")
    known = network in (None, *_NETWORK_WEIGHTS) and sources in SOURCES and len(kinds) in (0, 2)
    if not known or not seed.isdecimal() or int(seed) > SEED_MAX:
        raise UsageError(f"--replay takes a run as a campaign names it, for example sequencer:17, not {text!r}")
    large = schedule == LARGE_NAME
    return Draw(
        find_protocol(protocol), int(seed), network, cast(Sources, sources), "" if large else schedule, large, turns
    )


def draw_scenario(
    protocol: type[Protocol],
    seed: int,
    *,
    network: str | None = None,
    sources: Sources = "promised",
    calm: bool = False,
    attempt: int = 0,
    schedule: str = "",
    shape: Shape = USUAL,
) -> Scenario:
    """The run of that seed; if that is asked for, on a named kind of network, with certain sources, with a schedule
    that looks for trouble, large, or calm (no faults, a fast disk, default options).

    A subclass of a protocol that keeps its contract gets the same run: this is how mutants are compared with it.
    """
    contract = protocol.contract
    tuning = protocol.arrangement.campaign
    random = random_stream(seed, shape.stream, contract.name, attempt)
    large = shape is LARGE
    mode: OptionValues = {}
    if tuning.modes and not calm and network is None and sources == "promised":
        mode = random_stream(seed, "mode", contract.name, attempt).choice(tuning.modes)
        contract = contract.with_options(contract.options(**mode))
    least = 2 if sources == "promised" else 4
    if large:
        sites = draw_large_sites(random)
    else:
        sites = _draw_sites(random, least, USUAL.sites_max if calm else tuning.sites_max or USUAL.sites_max)
    publishers = sites[: random.randint(1, 2)] if sources == "outside" else ()
    groups = _draw_groups(random, sites[len(publishers) :], shape)
    if tuning.layout is not None and sources == "promised":
        groups = dict(draw_large_groups(random, sites, tuning) if large else tuning.layout(random))
        sites = _with_outsiders(random, groups)
    members = tuple(sorted({site for group in groups.values() for site in group}))
    duration = round(random.uniform(*shape.seconds), 2)
    weights = tuning.networks or _NETWORK_WEIGHTS
    kind = network or random.choices(tuple(weights), tuple(weights.values()))[0]
    table = _draw_far_regions(random, sites) if kind == "wide-area" and tuning.channels else None
    table = table or _draw_network(random, kind, sites)
    delay_max = DELAY_SECONDS_MAX
    if "loss" not in contract.faults:
        # Whoever cannot stand a loss cannot stand a packet that is later than phi_n either: nobody could tell the two
        # apart in time. So phi_n leaves room for what the faults add.
        delay_max = log_uniform(random, 0.01, 1.0)
        table = msgspec.structs.replace(table, phi_n=round(table.make(sites).latency_max() + 1.1 * delay_max, 6))
    if contract.single_source:
        count = 2 if sources == "several" or (len(sites) > 2 and random.random() < 0.3) else 1
        speakers = tuple(sorted(random.sample(sites, count)))
        workloads = tuple(_draw_single_source(random, speakers, groups, duration, shape))
        fragile = tuple(site for site in sites if site not in speakers)
    else:
        speakers = _draw_speakers(random, publishers or sites, tuning)
        workloads = tuple(_draw_workloads(random, protocol, speakers, groups, duration, shape))
        fragile = sites
    links = _links_of(table)
    absent = RARE_KINDS if links else (*RARE_KINDS, "outage")
    kinds = draw_kinds(random, (kind for kind in contract.faults if kind not in absent))
    sync_seconds = 0.0
    if "torn-log" in kinds or random.random() < 0.3:
        sync_seconds = round(log_uniform(random, 0.0005, 0.05), 5)
    dying: tuple[SiteId, ...] = ()
    if contract.minority_may_die:
        parts = None if tuning.majorities is None else tuple(tuning.majorities(groups))
        dying = _draw_dying(random, sites) if parts is None else _draw_dying_of_each(random, sites, parts)
    fragile = tuple(site for site in fragile if site not in dying)
    arena = Arena(random, sites, fragile, duration, delay_max, links, shape.faults_max)
    options: OptionValues = {}
    faults: tuple[AnyFault, ...] = ()
    if not calm:
        made = table.make(sites)
        situation = Situation(
            random,
            sites,
            members,
            round_trip(table, sites),
            bool(dying),
            _sources_of(workloads),
            table.bound(made),
            fragment_seconds(made, sync_seconds),
        )
        options = tuning.options(situation) | mode
        faults = (*draw_faults(arena, kinds), *draw_deaths(arena, dying))
        if large and fragile and "crash" in contract.faults:
            faults += tuple(draw_repeated_crashes(arena))
        if large and tuning.unheard_seconds is not None:
            faults = tuple(let_everyone_be_heard(faults, tuning.unheard_seconds, duration))
        if tuning.deaths is not None and sources == "promised":
            for site, moment, packets in tuning.deaths(random, groups, options, duration):
                faults += (Crash(from_=moment, sites=(site,), forever=True, after_packets=packets),)
                workloads += (_burst_at(random, speakers, tuple(groups), moment - situation.round_trip / 2),)
            fragile = ()
    is_crowd = not large and tuning.sites_max is not None and len(sites) > shape.sites_max
    settle_factor = CROWD_SETTLE_FACTOR if is_crowd else shape.settle_factor
    scenario = Scenario(
        protocol=protocol,
        name=f"campaign-{contract.name}",
        seed=seed,
        groups=groups,
        extra_sites=tuple(site for site in sites if site not in members),
        network=table,
        duration=duration,
        settle=DELAY_SECONDS_MAX + tuning.settle * settle_factor,
        sync_seconds=0.0 if calm else sync_seconds,
        options=options,
        workloads=workloads,
        faults=faults,
    )
    if calm or network is not None or sources != "promised":
        return scenario
    scenario, stay = add_changes(scenario, attempt)
    fragile = tuple(site for site in fragile if site in stay)
    scenario = add_services(scenario, attempt)
    scenario = vary(add_rare_fault(scenario, fragile, attempt), fragile, attempt)
    return add_schedule(scenario, fragile, schedule, attempt) if schedule else scenario


def _draw_sites(random: Random, least: int, most: int) -> tuple[SiteId, ...]:
    """A few; for protocols that are made for many, now and then some dozens."""
    usual = USUAL.sites_max
    if most > usual and random.random() < 1 / 16:
        return tuple(f"h{number:02}" for number in range(random.randint(2 * usual, most)))
    return tuple("abcdef"[: random.randint(least, usual)])


def _draw_speakers(random: Random, sites: tuple[SiteId, ...], tuning: Tuning) -> tuple[SiteId, ...]:
    """The sites that may multicast."""
    if tuning.sources_max is None:
        return sites
    return tuple(sorted(random.sample(sites, min(tuning.sources_max, len(sites)))))


def _links_of(table: NetworkTable) -> tuple[tuple[str, str], ...]:
    """The links between servers, where the network has any."""
    return tuple((a, b) for a, b, _ in (*table.cheap, *table.expensive)) if isinstance(table, ServersTable) else ()


def _draw_dying(random: Random, sites: tuple[SiteId, ...]) -> tuple[SiteId, ...]:
    """In a quarter of the runs, the sites that crash and never come back: fewer than half."""
    minority = (len(sites) - 1) // 2
    if not minority or random.random() >= 0.25:
        return ()
    return tuple(sorted(random.sample(sites, random.randint(1, minority))))


def _draw_dying_of_each(
    random: Random, sites: tuple[SiteId, ...], parts: tuple[tuple[SiteId, ...], ...]
) -> tuple[SiteId, ...]:
    """The same with fewer than half of each part; sites that are in none can die as they like."""
    if random.random() >= 0.25:
        return ()
    outside = [site for site in sites if not any(site in part for part in parts)]
    dying = [site for site in outside if random.random() < 0.3]
    for part in parts:
        dying += random.sample(part, random.randint(0, (len(part) - 1) // 2))
    return tuple(sorted(dying))


def _with_outsiders(random: Random, groups: dict[GroupId, tuple[SiteId, ...]]) -> tuple[SiteId, ...]:
    """The members, and up to two sites that are in no group."""
    members = {site for group in groups.values() for site in group}
    return tuple(sorted(members | set("xy"[: random.randint(0, 2)])))


def _draw_groups(random: Random, sites: tuple[SiteId, ...], shape: Shape) -> dict[GroupId, tuple[SiteId, ...]]:
    """One to three groups of two sites or more, or to eight; mostly they overlap, in two sites where there are
    enough."""
    count = random.randint(1, len(shape.groups))
    common = random.sample(sites, 2) if random.random() < 0.8 else []
    groups = {}
    for group in shape.groups[:count]:
        members = {*common, *random.sample(sites, random.randint(2, len(sites)))}
        groups[group] = tuple(sorted(members))
    return groups


def _draw_network(random: Random, kind: str, sites: tuple[SiteId, ...]) -> NetworkTable:
    processing = round(log_uniform(random, 0.00001, 0.0003), 6)
    latency = round(log_uniform(random, 0.0002, 0.02), 5)
    if kind == "broadcast":
        # All share one medium: with longer frames, the retransmissions of six sites would fill it for good.
        return BroadcastTable(processing=min(processing, 0.0001))
    if kind == "servers":
        return _draw_servers(random, sites)
    if kind == "one-channel":
        return _draw_one_channel(random)
    if kind == "topology":
        if random.random() < 0.5:
            return TopologyTable(processing=processing, latency=latency, shape="grid")
        return TopologyTable(processing=processing, latency=latency, links=tuple(_draw_tree(random, sites)))
    if kind == "wide-area":
        names = ("north", "south", "west")[: random.randint(1, 3)]
        regions = {name: sites[place :: len(names)] for place, name in enumerate(names) if place < len(sites)}
        matrix = {name: {other: latency if name == other else 2 * latency for other in regions} for name in regions}
        return WideAreaTable(regions=regions, latency=matrix, jitter=round(random.uniform(0, 2 * latency), 5))
    return PointToPointTable(processing=processing, latency=latency)


def _draw_far_regions(random: Random, sites: tuple[SiteId, ...]) -> NetworkTable:
    """One to four regions, near each other or far in hops, with lines that lose packets for a whole region."""
    names = ("north", "south", "west", "east")[: random.randint(1, min(4, len(sites)))]
    latency = round(log_uniform(random, 0.0002, 0.02), 5)
    hops = {
        name: {other: 1 if name == other else random.choice(_HOPS) for other in names[place:]}
        for place, name in enumerate(names)
    }
    matrix = {
        name: {
            other: latency if name == other else round(latency * random.uniform(1.0, 4.0), 5) for other in hops[name]
        }
        for name in names
    }
    return WideAreaTable(
        regions={name: sites[place :: len(names)] for place, name in enumerate(names)},
        latency=matrix,
        hops=hops,
        jitter=round(random.choice((0.0, random.uniform(0.0, 2 * latency))), 5),
        shared_loss=round(random.choice((0.0, random.uniform(0.01, _SHARED_LOSS_MAX))), 3),
    )


def _draw_one_channel(random: Random) -> NetworkTable:
    """Receivers from five times as fast as the channel to six times as slow, with few buffers or many."""
    frame = round(log_uniform(random, 0.000005, 0.0001), 7)
    return OneChannelTable(
        frame=frame,
        processing=round(frame * log_uniform(random, 0.2, 6.0), 7),
        buffers=random.randint(6, 40),
        loss=random.choice((0.0, 0.0, 0.01, 0.05)),
    )


def _draw_servers(random: Random, sites: tuple[SiteId, ...]) -> NetworkTable:
    """From one cluster to each host in its own; ways of several expensive links; routing that takes a while to know."""
    table = random_servers(
        random,
        sites,
        random.randint(1, len(sites)),
        cheap_latency=round(log_uniform(random, 0.0001, 0.001), 5),
        expensive_latency=round(log_uniform(random, 0.005, 0.05), 5),
        processing=0.00001,
        bandwidth=random.choice((None, None, 100_000.0)),
    )
    jitter = round(random.choice((0.0, random.uniform(0.0, 0.01))), 5)
    return msgspec.structs.replace(table, jitter=jitter, rerouting=round(random.choice((0.0, random.random())), 3))


def _draw_tree(random: Random, sites: tuple[SiteId, ...]) -> Iterator[Link]:
    """A random tree over the sites."""
    for index in range(1, len(sites)):
        yield sites[random.randrange(index)], sites[index], float(random.randint(1, 3))


def _draw_single_source(
    random: Random,
    sources: tuple[SiteId, ...],
    groups: dict[GroupId, tuple[SiteId, ...]],
    duration: float,
    shape: Shape,
) -> Iterator[Workload]:
    """Every source multicasts to every group until the end: a site that was down counts as recovered when it has heard
    each of them in each of its groups."""
    count = max(4, random.randint(*shape.messages) // (len(sources) * len(groups)))
    for group in groups:
        yield Workload(sources=sources, groups=(group,), count=count, rate=_rate(count, duration), size=_size(random))
        if random.random() < 0.3:
            yield _burst(random, sources, (group,), None, duration)


def _draw_workloads(
    random: Random,
    protocol: type[Protocol],
    sites: tuple[SiteId, ...],
    groups: dict[GroupId, tuple[SiteId, ...]],
    duration: float,
    shape: Shape,
) -> Iterator[Workload]:
    """Several sources multicast all the time; some of them in bursts as well."""
    sources = tuple(sorted(random.sample(sites, random.randint(min(2, len(sites)), len(sites)))))
    count = max(3, random.randint(*shape.messages) // len(sources))
    every = tuple(groups)
    if protocol.contract.members_only:
        yield from _draw_members_workloads(random, groups, duration, shape)
        return
    choose = _choose(random, protocol, every)
    yield Workload(
        sources=sources, groups=every, choose=choose, count=count, rate=_rate(count, duration), size=_size(random)
    )
    some = tuple(sorted(random.sample(sources, random.randint(1, len(sources)))))
    if random.random() < 0.4:
        yield _burst(random, some, every, _choose(random, protocol, every), duration)
    if protocol.contract.explicit_destinations and random.random() < 0.3:
        few = random.randint(1, 8)
        destinations = random.randint(1, 2)
        yield Workload(
            sources=some, destinations=destinations, count=few, rate=_rate(few, duration), size=_size(random)
        )


def _draw_members_workloads(
    random: Random, groups: dict[GroupId, tuple[SiteId, ...]], duration: float, shape: Shape
) -> Iterator[Workload]:
    """The same where only members multicast to a group: some of each group, all the time, and sometimes in bursts."""
    for group, members in groups.items():
        sources = tuple(sorted(random.sample(members, random.randint(1, len(members)))))
        count = max(3, random.randint(*shape.messages) // (len(sources) * len(groups)))
        yield Workload(sources=sources, groups=(group,), count=count, rate=_rate(count, duration), size=_size(random))
        if random.random() < 0.4:
            some = tuple(sorted(random.sample(sources, random.randint(1, len(sources)))))
            yield _burst(random, some, (group,), None, duration)


def _sources_of(workloads: tuple[Workload, ...]) -> tuple[SiteId, ...]:
    """Those who multicast, sorted."""
    return tuple(sorted({source for workload in workloads for source in workload.sources}))


def _choose(random: Random, protocol: type[Protocol], groups: tuple[GroupId, ...]) -> int:
    return random.randint(1, len(groups)) if protocol.contract.several_groups else 1


def _burst(
    random: Random, sources: tuple[SiteId, ...], groups: tuple[GroupId, ...], choose: int | None, duration: float
) -> Workload:
    return Workload(
        sources=sources,
        groups=groups,
        choose=choose,
        count=random.randint(2, 8),
        rate=round(log_uniform(random, 20.0, 1000.0), 1),
        start=round(random.uniform(0.0, 0.8 * duration), 2),
        size=_size(random),
    )


def _burst_at(random: Random, sources: tuple[SiteId, ...], groups: tuple[GroupId, ...], moment: float) -> Workload:
    """Messages that are on their way, or being passed on, at about this moment: a site that crashes then has sent some
    of what it had to send."""
    return Workload(
        sources=(random.choice(sources),),
        groups=groups,
        choose=1,
        count=random.randint(4, 24),
        rate=round(log_uniform(random, 500.0, 10_000.0), 1),
        start=round(max(0.0, moment - random.uniform(0.0, 0.01)), 6),
        size=_size(random),
    )


def _rate(count: int, duration: float) -> float:
    """So that the messages last for the whole run."""
    return round(1.2 * count / duration, 3)


def _size(random: Random) -> int:
    return random.choice((0, 10, 100, 1000))
