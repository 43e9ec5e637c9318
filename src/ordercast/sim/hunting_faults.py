"""Faults that look for trouble: they follow what happens in the run, instead of striking at a time of the clock.

Few schedules break a protocol, and most of them have few turns: one slow link, one crash between two effects of a step,
a quorum that is no larger than it must be. Each kind brings about one such turn on purpose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ordercast.core import SiteId, UsageError
from ordercast.core.effects import Append, Checkpoint, Deliver, Effect, Send
from ordercast.sim.fault import Fault, Rule, SiteFault, Verdict, check_not_negative, check_share

if TYPE_CHECKING:
    from ordercast.runtime import Instance
    from ordercast.sim.simulation import Simulation

EffectName = Literal["append", "send", "checkpoint", "deliver"]
_EFFECTS: dict[EffectName, type[Effect]] = {
    "append": Append,
    "send": Send,
    "checkpoint": Checkpoint,
    "deliver": Deliver,
}
PACKETS_MAX = 2000
"""The packets of a run, roughly: changes of priority are spread over so many."""


class Priorities(Fault, tag="priorities", frozen=True):
    """Every link has a priority, and what it carries takes the longer the lower that is, up to `seconds`. So many times
    the link that is just used gets the lowest one of all.

    (Probabilistic concurrency testing, Burckhardt, Kothari, Musuvathi, Nagarakatte 2010: a bug that takes d turns is
    found by d - 1 changes of priority at the right packets.)
    """

    kind: ClassVar[str] = "priorities"
    made_of: ClassVar[tuple[str, ...]] = ("delay", "loss")
    seconds: float
    changes: int = 2

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        check_not_negative(self.kind, "seconds", self.seconds)
        check_not_negative(self.kind, "changes", self.changes)

    def begin(self, simulation: Simulation) -> None:
        """Draw the first priorities."""
        simulation.add_rule(self, _PriorityRule(self, simulation))

    def end(self, simulation: Simulation) -> None:
        """All links are alike again."""
        simulation.remove_rule(self)


class _PriorityRule(Rule):
    def __init__(self, fault: Priorities, simulation: Simulation) -> None:
        self._fault = fault
        self._simulation = simulation
        self._random = simulation.random("priorities", fault.from_)
        self._turns = {self._random.randrange(PACKETS_MAX) for _ in range(fault.changes)}
        self._slowness: dict[tuple[SiteId, SiteId], float] = {}
        """Link -> from 0, which takes no longer than the network does, to 1."""
        self._packets = 0

    def judge(self, sender: SiteId, receiver: SiteId) -> Verdict | None:
        link = (sender, receiver)
        if link not in self._slowness:
            # Half of the links are as fast as ever: else everything is late alike, and nothing overtakes.
            self._slowness[link] = max(0.0, self._random.uniform(-1.0, 1.0))
        if self._packets in self._turns:
            self._slowness[link] = 1.0
        self._packets += 1
        if not self._slowness[link]:
            return None
        self._simulation.count_fault(self._fault.kind)
        return Verdict(delays=(self._fault.seconds * self._slowness[link],))


class BareQuorum(Fault, tag="bare-quorum", frozen=True):
    """For `seconds` at a time a bare majority of the sites hears itself, and what anybody else sends or is sent is held
    back; then it is the turn of another majority, which shares one site with this one if the numbers are odd. With
    `parts`, it is a bare majority of each of them."""

    kind: ClassVar[str] = "bare-quorum"
    made_of: ClassVar[tuple[str, ...]] = ("delay", "loss", "partition")
    seconds: float
    parts: tuple[tuple[SiteId, ...], ...] = ()
    """Sets of sites, for protocols that need a majority of each; whoever is in none is always heard."""

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        if self.seconds <= 0:
            raise UsageError(f"fault {self.kind!r}: seconds are more than 0, not {self.seconds}")
        strange = [site for part in self.parts for site in part if site not in sites]
        if strange:
            raise UsageError(f"fault {self.kind!r}: there is no site {strange[0]!r}")

    def begin(self, simulation: Simulation) -> None:
        """The first majority has its turn."""
        simulation.add_rule(self, _QuorumRule(self, simulation))

    def end(self, simulation: Simulation) -> None:
        """Everyone hears everyone."""
        simulation.remove_rule(self)


class _QuorumRule(Rule):
    def __init__(self, fault: BareQuorum, simulation: Simulation) -> None:
        self._fault = fault
        self._simulation = simulation
        self._random = simulation.random("bare-quorum", fault.from_)
        self._parts = [sorted(part) for part in fault.parts]
        self._free: frozenset[SiteId] = frozenset()
        places = {site.place for site in simulation.sites.values()}
        if self._parts:
            self._free = frozenset(places.difference(*self._parts))
        else:
            self._parts = [sorted(places)]
        self._turn = -1
        self._quorum: frozenset[SiteId] = frozenset()

    def judge(self, sender: SiteId, receiver: SiteId) -> Verdict | None:
        passed = self._simulation.queue.now - self._fault.from_
        turn = int(passed / self._fault.seconds)
        if turn != self._turn:
            self._turn = turn
            self._quorum = self._free.union(*(self._draw(part) for part in self._parts))
        if sender in self._quorum and receiver in self._quorum:
            return None
        self._simulation.count_fault(self._fault.kind)
        return Verdict(delays=((turn + 1) * self._fault.seconds - passed,))

    def _draw(self, part: list[SiteId]) -> frozenset[SiteId]:
        """All that were left out the last time, and of the others as few as make a majority."""
        before = [place for place in part if place in self._quorum]
        left_out = [place for place in part if place not in self._quorum]
        needed = len(part) // 2 + 1 - len(left_out)
        if before and needed > 0:
            return frozenset((*left_out, *self._random.sample(before, needed)))
        return frozenset(self._random.sample(part, len(part) // 2 + 1))


class OldPackets(Fault, tag="old-packets", frozen=True):
    """A share of what `sites` send, and of what they are sent, arrives a second time, at `release` or up to `spread`
    seconds later: when they have crashed and come back, it is of an earlier incarnation, or for one."""

    kind: ClassVar[str] = "old-packets"
    made_of: ClassVar[tuple[str, ...]] = ("delay", "loss", "duplication")
    release: float
    rate: float = 0.2
    spread: float = 0.5

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        check_share(self.kind, "rate", self.rate)
        check_not_negative(self.kind, "spread", self.spread)
        if self.to is None or self.release < self.to:
            raise UsageError(f"fault {self.kind!r}: release = {self.release} is not before to = {self.to}")

    def begin(self, simulation: Simulation) -> None:
        """Copies are kept."""
        simulation.add_rule(self, _KeepingRule(self, simulation))

    def end(self, simulation: Simulation) -> None:
        """No more are."""
        simulation.remove_rule(self)


class _KeepingRule(Rule):
    def __init__(self, fault: OldPackets, simulation: Simulation) -> None:
        self._fault = fault
        self._simulation = simulation
        self._random = simulation.random("old-packets", fault.from_)

    def judge(self, sender: SiteId, receiver: SiteId) -> Verdict | None:
        fault = self._fault
        concerned = not fault.sites or sender in fault.sites or receiver in fault.sites
        if not concerned or self._random.random() >= fault.rate:
            return None
        self._simulation.count_fault(fault.kind)
        late = fault.release - self._simulation.queue.now + self._random.random() * fault.spread
        return Verdict(delays=(0.0, max(0.0, late)))


class AtEffect(SiteFault, tag="at-effect", frozen=True):
    """A site crashes at an effect: at the `number`th append, send, checkpoint or delivery from the beginning of the
    fault on, right before it or right after it, and nothing that the step wanted besides is done. With `of` only
    records or packets of that name count: what a site seldom writes or says is met as often as what it always does. It
    is down for `seconds`."""

    kind: ClassVar[str] = "at-effect"
    made_of: ClassVar[tuple[str, ...]] = ("crash",)
    effect: EffectName
    of: str = ""
    number: int = 1
    after: bool = True
    seconds: float = 0.5

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        check_not_negative(self.kind, "seconds", self.seconds)
        if self.number < 1:
            raise UsageError(f"fault {self.kind!r}: number is 1 or more, not {self.number}")
        if self.of and self.effect not in ("append", "send"):
            raise UsageError(f"fault {self.kind!r}: of goes with append and send, not with {self.effect}")

    def begin(self, simulation: Simulation) -> None:
        """Lie in wait at each site; it counts when it strikes."""
        for site in sorted(self.sites):
            self.begin_at(simulation, site)

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        for instance in simulation.at(site).instances.values():
            _Trap(self, simulation, site, instance)

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).recover()


class _Trap:
    """Waits at one instance, until that crashes by it or by something else."""

    def __init__(self, fault: AtEffect, simulation: Simulation, site: SiteId, instance: Instance) -> None:
        self._fault = fault
        self._simulation = simulation
        self._site = site
        self._instance = instance
        self._left = fault.number
        instance.intercept(_EFFECTS[fault.effect], self._meet)

    def _meet(self, perform: Callable[[Any], None], effect: Any) -> None:
        self._left -= self._counts(effect)
        strikes = self._left == 0 and self._simulation.is_in_force(self._fault)
        if not strikes or self._fault.after:
            perform(effect)
        if strikes:
            self._instance.halt()
            queue = self._simulation.queue
            self._simulation.count_fault(self._fault.kind)
            queue.schedule(queue.now, self._simulation.at(self._site).crash)
            queue.schedule(queue.now + self._fault.seconds, self._come_back)

    def _counts(self, effect: Any) -> bool:
        wanted = self._fault.of
        if not wanted:
            return True
        return type(effect.record if self._fault.effect == "append" else effect.packet).__name__ == wanted

    def _come_back(self) -> None:
        self._simulation.at(self._site).recover()


class HitLeader(SiteFault, tag="hit-leader", frozen=True):
    """Whoever orders, as most sites see it, crashes every so many seconds (`every`, and up to half as many more) and is
    down for `seconds`, if it is one of `sites`."""

    kind: ClassVar[str] = "hit-leader"
    made_of: ClassVar[tuple[str, ...]] = ("crash",)
    every: float = 1.0
    seconds: float = 0.5

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        check_not_negative(self.kind, "seconds", self.seconds)
        if self.every <= 0:
            raise UsageError(f"fault {self.kind!r}: every is more than 0, not {self.every}")

    def begin(self, simulation: Simulation) -> None:
        """The first one is hit after a while."""
        self._wait(simulation, simulation.random("hit-leader", self.from_))

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        """It happens to none before its turn."""

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).recover()

    def _wait(self, simulation: Simulation, random: Random) -> None:
        moment = simulation.queue.now + self.every * random.uniform(1.0, 1.5)
        simulation.queue.schedule(moment, self._hit, simulation, random)

    def _hit(self, simulation: Simulation, random: Random) -> None:
        if not simulation.is_in_force(self):
            return
        seen = Counter(
            leader
            for site in simulation.sites.values()
            if site.up
            for instance in site.instances.values()
            if (leader := instance.core.ordering_site) is not None
        )
        for leader, _ in seen.most_common(1):
            place = simulation.sites[leader].place if leader in simulation.sites else leader
            if place in self.sites and simulation.at(place).up:
                simulation.count_fault(self.kind)
                simulation.at(place).crash()
                simulation.queue.schedule(simulation.queue.now + self.seconds, self.end_at, simulation, place)
        self._wait(simulation, random)
