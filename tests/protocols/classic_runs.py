"""What the tests of the classic protocols share: random runs, and single cores to be led by hand.

Random runs differ in networks, overlapping groups, and mixtures of faults; everything heals in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from ordercast.campaign.rare import RARE_KINDS
from ordercast.check import choose, judge
from ordercast.core import Context, MessageId, Multicast, Options, Packet, Protocol, random_stream
from ordercast.core.effects import Append, Deliver, Effect, Send
from ordercast.core.events import Event, MulticastRequested, Received
from ordercast.sim import Simulation
from ordercast.sim.faults import (
    BurstLoss,
    Crash,
    Cut,
    Delay,
    Duplication,
    Fault,
    Loss,
    Partition,
    Pause,
    Skew,
    SlowReader,
    TornLog,
)
from ordercast.sim.networks import BroadcastMedium, Network, PointToPoint, WideArea
from ordercast.sim.workload import Workload

DURATION = 8.0
SETTLE = 20.0


def random_run(protocol: type[Protocol], seed: int, options: Options | None = None) -> Simulation:
    """A run that has not begun; which one depends on the seed alone."""
    random = random_stream(seed, "classic-run", protocol.contract.name)
    sites = tuple("abcdef"[: random.randint(3, 6)])
    groups = {
        group: tuple(random.sample(sites, random.randint(1 if random.random() < 0.1 else 2, len(sites))))
        for group in ("g", "h", "i")[: random.randint(1, 3)]
    }
    sources = tuple(random.sample(sites, random.randint(1, len(sites))))
    names = tuple(groups)
    count = random.randint(3, 12)
    workloads = [
        Workload(
            sources=sources,
            groups=names,
            choose=random.randint(1, len(names)),
            rate=count / DURATION * 1.3,
            count=count,
        ),
        Workload(sources=sources[:2], groups=names[:1], rate=random.choice((50.0, 500.0)), count=random.randint(0, 15)),
    ]
    if protocol.contract.explicit_destinations and random.random() < 0.5:
        workloads.append(Workload(sources=sources[-1:], destinations=random.randint(1, len(sites)), rate=2.0, count=8))
    faults = [_random_fault(random, kind, sites) for kind in _ordinary(protocol) for _ in _times(random)]
    return Simulation(
        protocol,
        groups,
        _random_network(random, sites),
        sites=sites,
        seed=seed,
        options=options,
        faults=faults,
        workloads=workloads,
        duration=DURATION,
        settle=SETTLE,
        sync_seconds=random.choice((0.0, 0.0, 0.001, 0.01, 0.05)),
    )


def broken_claims(simulation: Simulation) -> dict[str, str]:
    """Run it; the claims that do not hold, with the first witness of each."""
    simulation.execute()
    assert simulation.wire_errors == 0
    run = simulation.header()
    verdicts = judge(run, simulation.table(), choose(run.guarantees))
    return {name: str(verdict.first) for name, verdict in verdicts.items() if verdict.verdict == "violated"}


def branches_never_taken(protocol: type[Protocol], taken: Counter[str]) -> set[str]:
    """The branches of note that no run has taken."""
    return {branch for branch in protocol.contract.branches if not taken[branch]}


class Hand:
    """One core without a runtime: events in, and what it then wants done."""

    def __init__(
        self,
        protocol: type[Protocol],
        site: str,
        groups: Mapping[str, tuple[str, ...]],
        sites: tuple[str, ...],
        options: Options | None = None,
        incarnation: int = 0,
    ) -> None:
        self.core = protocol(
            Context(site, groups, sites, options or protocol.contract.options(), Random(0), incarnation=incarnation)
        )
        self.log: list[Append] = []
        self.now = 0.0
        self._number = 0

    def step(self, event: Event) -> list[Effect]:
        """The effects of one event."""
        self.core.step(self.now, event)
        self.core.check_invariants()
        effects, self.core.outbox = self.core.outbox, []
        self.log += [effect for effect in effects if isinstance(effect, Append)]
        return effects

    def multicast(self, *groups: str) -> MessageId:
        """The application multicasts; whatever that leads to, `sends` does not see it."""
        self._number += 1
        message = MessageId(self.core.site, self.core.context.incarnation, self._number)
        self.step(MulticastRequested(Multicast(message, groups)))
        return message

    def receive(self, sender: str, packet: Packet) -> list[Effect]:
        """A message comes."""
        return self.step(Received(sender, packet))


def sent(effects: Sequence[Effect]) -> list[tuple[tuple[str, ...], Packet]]:
    """What is sent, to whom."""
    return [(effect.to, effect.packet) for effect in effects if isinstance(effect, Send)]


def delivered(effects: Sequence[Effect]) -> list[MessageId]:
    """What is delivered, in order."""
    return [effect.multicast.id for effect in effects if isinstance(effect, Deliver)]


def _times(random: Random) -> range:
    return range(random.choice((0, 0, 1, 2)))


def _random_network(random: Random, sites: tuple[str, ...]) -> Network:
    kind = random.randrange(3)
    if kind == 0:
        return PointToPoint(processing=0.0001, latency=random.choice((0.0005, 0.005, 0.05)))
    if kind == 1:
        return BroadcastMedium(frame=0.0002)
    latency = {"north": {"north": 0.001, "south": 0.05}, "south": {"south": 0.001}}
    return WideArea({"north": sites[:2], "south": sites[2:]}, latency, jitter=0.02, loss=0.02)


def _ordinary(protocol: type[Protocol]) -> tuple[str, ...]:
    """What campaigns draw in every run; the rest has scenarios of its own."""
    return tuple(kind for kind in protocol.contract.faults if kind not in RARE_KINDS)


def _random_fault(random: Random, kind: str, sites: tuple[str, ...]) -> Fault:
    begin = random.uniform(0.0, 0.7 * DURATION)
    end = None if random.random() < 0.1 else begin + random.uniform(0.02, 0.4) * DURATION
    some = tuple(random.sample(sites, random.randint(1, len(sites) - 1)))
    rest = tuple(site for site in sites if site not in some)
    one = some[: 1 if random.random() < 0.7 else len(some)]
    match kind:
        case "loss":
            return Loss(from_=begin, to=end, rate=random.uniform(0.02, 0.3))
        case "burst-loss":
            return BurstLoss(from_=begin, to=end, rate=random.uniform(0.02, 0.15), length=random.uniform(2, 20))
        case "duplication":
            return Duplication(from_=begin, to=end, rate=random.uniform(0.1, 0.5), seconds=random.choice((0.1, 5.0)))
        case "delay":
            return Delay(from_=begin, to=end, rate=random.uniform(0.1, 1), seconds=random.choice((0.01, 0.3, 5.0)))
        case "cut":
            return Cut(from_=begin, to=end, sites=some, peers=rest)
        case "partition":
            return Partition(from_=begin, to=end, parts=(some,))
        case "crash":
            return Crash(from_=begin, to=end, sites=one)
        case "torn-log":
            return TornLog(from_=begin, to=end, sites=one)
        case "pause":
            return Pause(from_=begin, to=end, sites=one)
        case "skew":
            return Skew(from_=begin, to=end, sites=one, drift=random.uniform(-0.3, 0.3), jump=random.uniform(-10, 10))
        case "slow-reader":
            return SlowReader(from_=begin, to=end, sites=one, seconds=random.choice((0.05, 0.5)))
    raise ValueError(f"no fault of the kind {kind}")
