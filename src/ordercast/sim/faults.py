"""Faults: rules that can be laid over any network and taken away again, and things that happen to sites.

Each kind is one class; its fields are the keys of a `[[fault]]` table in a scenario. A fault begins at `from`, and
ends at `to` or when the run heals. It counts how often it really did something, so that a campaign can tell an attack
from a decoration.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, ClassVar

from ordercast.core import InstanceId, SiteId, UsageError
from ordercast.sim.fault import Fault, Rule, SiteFault, Verdict, check_not_negative, check_share
from ordercast.sim.forger import Forger
from ordercast.sim.hunting_faults import AtEffect, BareQuorum, HitLeader, OldPackets, Priorities
from ordercast.sim.memory_faults import Drift, LostLog, Rollback
from ordercast.sim.networks import Network, Servers
from ordercast.sim.networks.servers import Ends

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation


# ---------------------------------------------------------------------- faults of the network
class _PacketFault(Fault, frozen=True):
    """A fault that judges packets: those that its sites send or receive."""

    def judge(self, simulation: Simulation, sender: SiteId, receiver: SiteId) -> Verdict | None:
        """What happens to this packet."""
        raise NotImplementedError

    def concerns(self, sender: SiteId, receiver: SiteId) -> bool:
        """Whether the packet is from or to one of the fault's sites."""
        return not self.sites or sender in self.sites or receiver in self.sites

    def begin(self, simulation: Simulation) -> None:
        """Add a rule."""
        simulation.add_rule(self, _PacketRule(self, simulation))

    def end(self, simulation: Simulation) -> None:
        """Remove it."""
        simulation.remove_rule(self)


class _PacketRule(Rule):
    def __init__(self, fault: _PacketFault, simulation: Simulation) -> None:
        self._fault = fault
        self._simulation = simulation

    def judge(self, sender: SiteId, receiver: SiteId) -> Verdict | None:
        if not self._fault.concerns(sender, receiver):
            return None
        verdict = self._fault.judge(self._simulation, sender, receiver)
        if verdict is not None:
            self._simulation.count_fault(self._fault.kind)
        return verdict


class Loss(_PacketFault, tag="loss", frozen=True):
    """Each packet is lost with a probability, independently."""

    kind: ClassVar[str] = "loss"
    rate: float

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        check_share(self.kind, "rate", self.rate)

    def judge(self, simulation: Simulation, sender: SiteId, receiver: SiteId) -> Verdict | None:
        return Verdict(drop="loss") if simulation.fault_random.random() < self.rate else None


class BurstLoss(_PacketFault, tag="burst-loss", frozen=True):
    """Packets are lost in bursts: each begins with probability `rate` and goes on for `length` packets of that link
    on average."""

    kind: ClassVar[str] = "burst-loss"
    rate: float
    length: float = 8.0

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        check_share(self.kind, "rate", self.rate)
        if self.length < 1:
            raise UsageError(f"fault {self.kind!r}: length is 1 or more, not {self.length}")

    def begin(self, simulation: Simulation) -> None:
        """Add a rule that remembers which links are in a burst."""
        simulation.add_rule(self, _BurstRule(self, simulation))

    def judge(self, simulation: Simulation, sender: SiteId, receiver: SiteId) -> Verdict | None:
        return Verdict(drop="loss")


class _BurstRule(_PacketRule):
    def __init__(self, fault: BurstLoss, simulation: Simulation) -> None:
        super().__init__(fault, simulation)
        self._burst = fault
        self._in_burst: set[tuple[SiteId, SiteId]] = set()

    def judge(self, sender: SiteId, receiver: SiteId) -> Verdict | None:
        link = (sender, receiver)
        random = self._simulation.fault_random.random()
        if link in self._in_burst:
            if random < 1 / self._burst.length:
                self._in_burst.discard(link)
        elif random < self._burst.rate:
            self._in_burst.add(link)
        return super().judge(sender, receiver) if link in self._in_burst else None


class Duplication(_PacketFault, tag="duplication", frozen=True):
    """A packet arrives twice, the second time up to `seconds` later."""

    kind: ClassVar[str] = "duplication"
    rate: float
    seconds: float = 0.1

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        check_share(self.kind, "rate", self.rate)
        check_not_negative(self.kind, "seconds", self.seconds)

    def judge(self, simulation: Simulation, sender: SiteId, receiver: SiteId) -> Verdict | None:
        random = simulation.fault_random
        if random.random() >= self.rate:
            return None
        return Verdict(delays=(0.0, random.random() * self.seconds))


class Delay(_PacketFault, tag="delay", frozen=True):
    """A share of the packets takes up to `seconds` longer; what was sent later overtakes them."""

    kind: ClassVar[str] = "delay"
    seconds: float
    rate: float = 1.0

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        check_share(self.kind, "rate", self.rate)
        check_not_negative(self.kind, "seconds", self.seconds)

    def judge(self, simulation: Simulation, sender: SiteId, receiver: SiteId) -> Verdict | None:
        random = simulation.fault_random
        if random.random() >= self.rate:
            return None
        return Verdict(delays=(random.random() * self.seconds,))


class Cut(_PacketFault, tag="cut", frozen=True):
    """A one-way cut: nothing gets from `sites` to `peers`; the other direction works."""

    kind: ClassVar[str] = "cut"
    peers: tuple[SiteId, ...]

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        if not self.sites or not self.peers:
            raise UsageError("fault 'cut': name the sites from which, and the peers to which, nothing gets through")
        for peer in self.peers:
            if peer not in sites:
                raise UsageError(f"fault 'cut': there is no site {peer!r}; known: {', '.join(sorted(sites))}")

    def judge(self, simulation: Simulation, sender: SiteId, receiver: SiteId) -> Verdict | None:
        return Verdict(drop="cut") if sender in self.sites and receiver in self.peers else None


class Partition(_PacketFault, tag="partition", frozen=True):
    """The network splits: `parts` cannot reach each other; sites that no part names are together in one more."""

    kind: ClassVar[str] = "partition"
    parts: tuple[tuple[SiteId, ...], ...]

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        seen: set[SiteId] = set()
        for part in self.parts:
            for site in part:
                if site not in sites:
                    raise UsageError(f"fault 'partition': there is no site {site!r}; known: {', '.join(sorted(sites))}")
                if site in seen:
                    raise UsageError(f"fault 'partition': site {site!r} is in two parts")
                seen.add(site)
        if not self.parts:
            raise UsageError("fault 'partition': needs at least one part")

    def judge(self, simulation: Simulation, sender: SiteId, receiver: SiteId) -> Verdict | None:
        return Verdict(drop="partition") if self._part(sender) != self._part(receiver) else None

    def _part(self, site: SiteId) -> int:
        return next((index for index, part in enumerate(self.parts) if site in part), -1)


class Outage(Fault, tag="outage", frozen=True):
    """Links of a network of servers fail, singly or with a whole server, and come back; the servers find ways around
    them."""

    kind: ClassVar[str] = "outage"
    links: tuple[tuple[str, str], ...] = ()
    servers: tuple[str, ...] = ()

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        if not self.links and not self.servers:
            raise UsageError("fault 'outage': name the links or the servers that fail")

    def check_network(self, network: Network) -> None:
        """Raise `UsageError` when the network has no such links or servers."""
        self._ends(network)

    def _ends(self, network: Network) -> tuple[Servers, tuple[Ends, ...]]:
        if not isinstance(network, Servers):
            raise UsageError("fault 'outage': only a network of kind = \"servers\" has links and servers that fail")
        try:
            return network, network.links_of(self.links, self.servers)
        except UsageError as error:
            raise UsageError(f"fault 'outage': {error}") from error

    def begin(self, simulation: Simulation) -> None:
        """The links stop working."""
        network, links = self._ends(simulation.network)
        network.fail(links)

    def end(self, simulation: Simulation) -> None:
        """They work again."""
        network, links = self._ends(simulation.network)
        network.repair(links)


# ---------------------------------------------------------------------- faults of sites
class Crash(SiteFault, tag="crash", frozen=True):
    """A site crashes, loses what it had not synced, and comes back at `to` or at the heal; with `forever` it does
    not."""

    kind: ClassVar[str] = "crash"
    forever: bool = False
    instance: InstanceId = ""
    """Only this protocol instance crashes, and the rest of the site goes on."""
    after_packets: int = 0
    """The crash comes when the site has sent so many more packets, in the middle of what it is doing: what it had to
    send besides, it never sends."""

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        if self.instance:
            simulation.at(site).crash_instance(self.instance)
        elif self.after_packets:
            simulation.at(site).crash_after(self.after_packets)
        else:
            simulation.at(site).crash()

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        if self.forever:
            return
        if self.instance:
            simulation.at(site).recover_instance(self.instance)
        else:
            simulation.at(site).recover()


class Away(SiteFault, tag="away", frozen=True):
    """A site is down for so long that the others cannot keep all that it misses: a crash like any other to the
    simulator, and to protocols the end of their buffers."""

    kind: ClassVar[str] = "away"

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).crash()

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).recover()


class TornLog(SiteFault, tag="torn-log", frozen=True):
    """A crash in which part of what was not synced survives, the last record perhaps torn in the middle."""

    kind: ClassVar[str] = "torn-log"

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).crash(torn=True)

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).recover()


class Pause(SiteFault, tag="pause", frozen=True):
    """A site stands still, keeps its memory, and goes on as if nothing had been."""

    kind: ClassVar[str] = "pause"

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).pause()

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).resume()


class Skew(SiteFault, tag="skew", frozen=True):
    """A site's clock jumps and then runs `drift` too fast (0.01: a hundredth; negative: too slow)."""

    kind: ClassVar[str] = "skew"
    drift: float = 0.0
    jump: float = 0.0

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        if self.drift <= -1:
            raise UsageError(f"fault 'skew': a drift of {self.drift} would stop the clock or turn it back")

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).clock.change(1.0 + self.drift, self.jump)

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).clock.change(1.0, 0.0)


class SlowReader(SiteFault, tag="slow-reader", frozen=True):
    """A site's application takes `seconds` for each delivery."""

    kind: ClassVar[str] = "slow-reader"
    seconds: float = 0.1

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        check_not_negative(self.kind, "seconds", self.seconds)

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).reader.seconds = self.seconds

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        simulation.at(site).reader.seconds = 0.0


class Foreign(SiteFault, tag="foreign", frozen=True):
    """Packets reach a site that no site of the run has sent, `rate` a second: random bytes, packets that were cut short
    or changed on the way, and whole ones of somebody who is not one of the sites.

    Never a whole one in the name of another site: that is what a live network's seal is for.
    """

    kind: ClassVar[str] = "foreign"
    rate: float = 20.0

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        if self.rate <= 0:
            raise UsageError(f"fault 'foreign': the rate is positive, not {self.rate}")

    def begin(self, simulation: Simulation) -> None:
        """The first packet to each site is on its way."""
        for site in sorted(self.sites):
            self.begin_at(simulation, site)

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        random = simulation.random("foreign", site, self.from_)
        forger = Forger(random, simulation, simulation.at(site))
        self._wait(simulation, forger, random)

    def _wait(self, simulation: Simulation, forger: Forger, random: Random) -> None:
        wait = random.expovariate(self.rate)
        simulation.queue.schedule(simulation.queue.now + wait, self._send, simulation, forger, random)

    def _send(self, simulation: Simulation, forger: Forger, random: Random) -> None:
        if simulation.is_in_force(self):
            if forger.send():
                simulation.count_fault(self.kind)
            self._wait(simulation, forger, random)

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        """What is not in force sends nothing more."""


AnyFault = (
    Loss
    | BurstLoss
    | Duplication
    | Delay
    | Cut
    | Partition
    | Crash
    | TornLog
    | Pause
    | Skew
    | SlowReader
    | Outage
    | Away
    | Rollback
    | LostLog
    | Drift
    | Foreign
    | Priorities
    | BareQuorum
    | OldPackets
    | AtEffect
    | HitLeader
)

FAULT_KINDS: tuple[str, ...] = tuple(fault.kind for fault in AnyFault.__args__)
