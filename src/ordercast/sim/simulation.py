"""One deterministic run: sites, a network, faults, a workload, a seed."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

import msgspec
import pyarrow as pa

from ordercast.core import (
    MAIN_INSTANCE,
    Bounds,
    Context,
    GroupId,
    InstanceId,
    Options,
    Protocol,
    SiteId,
    UsageError,
    is_liveness,
    random_stream,
)
from ordercast.core.effects import Deliver, Replay
from ordercast.core.memory import Memory
from ordercast.runtime import Instance
from ordercast.sim.change import Change, late_sites
from ordercast.sim.fault import Fault, Rule
from ordercast.sim.faults import Crash
from ordercast.sim.flight import Flight
from ordercast.sim.kernel import EventQueue
from ordercast.sim.memory_faults import MemoryFault
from ordercast.sim.networks import Network
from ordercast.sim.site import SimulatedSite
from ordercast.sim.traffic import Traffic
from ordercast.sim.workload import Workload
from ordercast.trace.recorder import Recorder
from ordercast.trace.schema import Run

_OPERATIONS_IN_A_FRAGMENT = 512


def fragment_seconds(network: Network, sync_seconds: float) -> float:
    """phi_p of a run: it covers so many sends and two log syncs, the largest burst of retransmissions, and a queue of
    work in front of it."""
    return _OPERATIONS_IN_A_FRAGMENT * network.processing_seconds() + 2 * sync_seconds


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A run makes millions of small objects and no cycles; looking for cycles among them takes a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


Application = Callable[[SiteId, float, Deliver | Replay], None]


class Simulation:
    """A run in the making. Everything random comes from the seed, everything ordered from the event queue."""

    def __init__(
        self,
        protocol: type[Protocol],
        groups: Mapping[GroupId, Iterable[SiteId]],
        network: Network,
        *,
        sites: Iterable[SiteId] = (),
        companions: Mapping[InstanceId, type[Protocol]] | None = None,
        seed: int = 0,
        options: Options | None = None,
        faults: Iterable[Fault] = (),
        changes: Iterable[Change] = (),
        workloads: Iterable[Workload] = (),
        duration: float = 10.0,
        settle: float = 10.0,
        sync_seconds: float = 0.0,
        stable: bool = True,
        checkpoint_records: int | None = None,
        phi_n: float | None = None,
        run: str = "run",
        parameters: Mapping[str, Any] | None = None,
        tracing: bool = True,
        counting: bool = False,
        check_invariants: bool = True,
        application: Application | None = None,
    ) -> None:
        self.protocol = protocol
        chosen = protocol if checkpoint_records is None else protocol.with_checkpoints(checkpoint_records)
        self.protocols: dict[InstanceId, type[Protocol]] = {MAIN_INSTANCE: chosen, **(companions or {})}
        """What runs at each site: the protocol, and instances of others beside it."""
        self.groups = {group: tuple(sorted(set(members))) for group, members in sorted(groups.items())}
        self.network = network
        self.seed = seed
        self.options = protocol.contract.options() if options is None else options
        self.contract = protocol.contract.with_options(self.options)
        """What the protocol promises with them."""
        self.faults = tuple(faults)
        for fault in self.faults:
            if isinstance(fault, Crash) and fault.instance and fault.instance not in self.protocols:
                raise UsageError(f"fault 'crash': no instance {fault.instance!r} runs; {', '.join(self.protocols)} do")
        self.changes = tuple(changes)
        self.workloads = tuple(workloads)
        self.duration = duration
        self.ended_at = duration + settle
        self.ended_early = False
        self.quiet_seconds = 0.0
        """Of a run that has ended early: for so long nothing had come about."""
        """Whether a part of `settle` was left out."""
        self.sync_seconds = sync_seconds
        self.stable = stable
        self._phi_n = phi_n
        self.run_name = run
        self.parameters = dict(parameters or {})
        self.check_invariants = check_invariants
        self.application = application
        self.queue = EventQueue()
        self.rules: list[Rule] = []
        self.fault_counts: Counter[str] = Counter()
        self.change_counts: Counter[str] = Counter()
        """Kind of change -> how often one came about."""
        self.refused_requests: list[str] = []
        """What sites asked for and were told at once that it makes no sense: who, and why."""
        self.multicasts = 0
        self.multicast_bytes = 0
        """Messages that sites have multicast, and the bytes of their payloads."""
        self.refused_messages = 0
        """Messages to groups that were not there, or in which their source was not."""
        self.refusals: dict[SiteId, str] = {}
        """Site -> why it was told that it must not take part, the last time."""
        self.calls_the_roll = any(isinstance(fault, MemoryFault) for fault in self.faults)
        """Whether sites greet each other when they start. In all other runs every greeting would be accepted."""
        self.branches: Counter[str] = Counter()
        self.wire_errors = 0
        self.first_wire_error = ""
        """A packet that a core took for malformed, and why. What is foreign never reaches a core: a site sent it."""
        self.fault_random = self.random("faults")
        self.recorder = Recorder(run) if tracing else None
        self.traffic = Traffic() if counting else None
        """Packets and bytes by site and type, where they are counted."""
        self._rules_of: dict[int, Rule] = {}
        self._in_force: dict[int, Fault] = {}
        names = {site for members in self.groups.values() for site in members} | set(sites)
        for workload in self.workloads:
            names.update(workload.sources)
        late = late_sites(self.changes, self.groups.values())
        self.sites: dict[SiteId, SimulatedSite] = {}
        """Every one that there ever is, by its own name."""
        for name in sorted(names | late):
            recorder = self.recorder.site(name, self._groups_of(name)) if self.recorder else None
            self.sites[name] = SimulatedSite(self, name, recorder, self.random("site", name), late=name in late)
        self._present = dict(self.sites)
        """Place -> the site that is there now."""
        self._site_names = tuple(name for name in self.sites if name not in late)
        network.attach(self)

    # ------------------------------------------------------------------ for the parts of the simulation
    def at(self, place: SiteId) -> SimulatedSite:
        """The site of that name, or the one that has succeeded it."""
        return self._present[place]

    def succeed(self, before: SimulatedSite) -> None:
        """Where a site has crashed, another process starts."""
        place = before.place
        name = next(name for number in count(1) if (name := f"{place}#{number}") not in self.sites)
        recorder = self.recorder.site(name) if self.recorder else None
        site = SimulatedSite(self, name, recorder, self.random("site", name), place, late=True)
        if not before.clock.untouched:
            site.clock.change(before.clock.rate, before.clock.read(self.queue.now) - self.queue.now)
        site.reader.seconds = before.reader.seconds
        site.membership.inherit(before.membership, self._groups_of(before.name))
        self.sites[name] = self._present[place] = site
        site.begin()

    def announce(self, newcomer: SimulatedSite) -> None:
        """A site of a dynamic protocol has started: it finds the others, and they find it."""
        others = [site for site in self.sites.values() if site.up and site is not newcomer]
        newcomer.membership.start({site.name for site in others}, settled=not newcomer.late)
        for site in others:
            site.membership.find(newcomer.name)

    def nobody_is_missing(self, site: SimulatedSite, found: Collection[SiteId]) -> bool:
        """Whether a site has found every other one that has begun and is not gone for good."""
        dead = {name for fault in self.faults if isinstance(fault, Crash) and fault.forever for name in fault.sites}
        others = (other for other in self.sites.values() if other is not site and other.begun)
        return all(other.name in found or (not other.up and (other.place in dead or other.refused)) for other in others)

    def _groups_of(self, site: SiteId) -> tuple[GroupId, ...]:
        """The groups in which a site is at the start."""
        return tuple(group for group, members in self.groups.items() if site in members)

    def random(self, *names: object) -> Random:
        """The random stream of a part."""
        return random_stream(self.seed, *names)

    def make_core(self, site: SimulatedSite, instance: InstanceId) -> Protocol:
        """A protocol instance that starts at a site."""
        protocol = self.protocols[instance]
        context = Context(
            site=site.name,
            groups={} if site.late else self.groups,
            sites=(site.name,) if site.late else self._site_names,
            options=site.options if instance == MAIN_INSTANCE else protocol.contract.options(),
            random=self.random("instance", site.name, instance, site.incarnation),
            instance=instance,
            incarnation=site.incarnation,
            stable=self.stable,
        )
        return protocol(context)

    def add_rule(self, fault: Fault, rule: Rule) -> None:
        """Lay a rule over the network."""
        self._rules_of[id(fault)] = rule
        self.rules.append(rule)

    def remove_rule(self, fault: Fault) -> None:
        """Take it away."""
        self.rules.remove(self._rules_of.pop(id(fault)))

    def is_in_force(self, fault: Fault) -> bool:
        """Whether a fault has begun and not ended."""
        return id(fault) in self._in_force

    def count_fault(self, kind: str) -> None:
        """A fault has really done something."""
        self.fault_counts[kind] += 1

    def heard_of(self, site: SiteId) -> int:
        """The highest position of a site's log that another site, one that is up, will always remember."""
        memory = Memory()
        for name, other in self.sites.items():
            if name != site and other.up:
                memory.restore(other.disk.memory())
        return memory.heard.get(site, 0)

    def drifted_options(self, changes: Mapping[str, Any]) -> Options:
        """The run's options with some of them changed."""
        return msgspec.convert({**msgspec.to_builtins(self.options), **changes}, type(self.options))

    def collect(self, instance: Instance) -> None:
        """Keep what an instance has counted; it is about to end."""
        self.branches.update(instance.core.branches)
        self.wire_errors += instance.wire_errors
        self.first_wire_error = self.first_wire_error or instance.first_wire_error

    # ------------------------------------------------------------------ the run
    def execute(self, quiet_seconds: float | None = None) -> Simulation:
        """Faults and workload for `duration`, then heal, then `settle`; of that, the rest is left out when nothing but
        packets and timers has come about for `quiet_seconds`."""
        with _without_garbage_collection():
            self._execute(quiet_seconds)
        return self

    def _execute(self, quiet_seconds: float | None) -> None:
        for site in tuple(self.sites.values()):
            if site.begun:
                site.start()
        for fault in self.faults:
            self.queue.schedule(fault.from_, self._begin, fault)
            if fault.to is not None:
                self.queue.schedule(fault.to, self._end, fault)
        for change in self.changes:
            self.queue.schedule(change.at, change.begin, self)
        for index, workload in enumerate(self.workloads):
            workload.begin(self, index)
        self.queue.run(self.duration)
        self.heal()
        if quiet_seconds is not None and self.recorder is not None:
            self._run_until_quiet(quiet_seconds, self.recorder)
        else:
            self.queue.run(self.ended_at)
        # The send of a network multicast names no receivers; these rows tell for whom it was still under way.
        for flight in self.queue.waiting(Flight):
            flight.drop("under way")
        for site in self.sites.values():
            for instance in site.instances.values():
                self.collect(instance)

    def _run_until_quiet(self, seconds: float, recorder: Recorder) -> None:
        """To the end, or until nothing that a judge looks for has been recorded for so long and nobody waits."""
        happenings, since = recorder.happenings(), self.queue.now
        while self.queue.now < self.ended_at:
            self.queue.run(min(self.ended_at, self.queue.now + seconds / 8))
            before, happenings = happenings, recorder.happenings()
            if happenings != before or self._somebody_waits():
                since = self.queue.now
            elif self.queue.now - since >= seconds:
                self.ended_early, self.ended_at = True, self.queue.now
                self.quiet_seconds = seconds

    def _somebody_waits(self) -> bool:
        return any(
            site.membership.unanswered or (site.waiting_messages and not site.membership.is_outside)
            for site in self.sites.values()
            if site.up
        )

    def heal(self) -> None:
        """End every fault that is in force."""
        for fault in list(self._in_force.values()):
            self._end(fault)

    def _begin(self, fault: Fault) -> None:
        self._in_force[id(fault)] = fault
        fault.begin(self)

    def _end(self, fault: Fault) -> None:
        if self._in_force.pop(id(fault), None) is not None:
            fault.end(self)

    # ------------------------------------------------------------------ what came of it
    @property
    def handler_calls(self) -> int:
        """Protocol events handled."""
        return sum(site.processor.steps for site in self.sites.values())

    def bounds(self) -> Bounds:
        """What the run promised to the protocol."""
        return Bounds(
            phi_p=fragment_seconds(self.network, self.sync_seconds),
            phi_n=self.network.latency_max() if self._phi_n is None else self._phi_n,
            messages=self.multicasts,
            payload_bytes=self.multicast_bytes,
            changes=bool(self.changes),
            sites=max(map(len, self.groups.values()), default=0),
        )

    def header(self) -> Run:
        """The run's line in `runs.jsonl`."""
        contract = self.contract
        bounds = self.bounds()
        described: dict[str, Any] = {"phi_p": bounds.phi_p, "phi_n": bounds.phi_n}
        if contract.message_size is not None:
            described["message_size"] = dict(contract.message_size)
        # A site that was slower than phi_p has failed in the sense of the model, unseen: times are not judged then. Nor
        # where a medium was so full that a site's own packets took longer than phi_n: others are not reached then, but
        # a site always reaches itself.
        in_time = all(site.processor.slowest_seconds <= bounds.phi_p for site in self.sites.values())
        in_time = in_time and self.network.slowest_own_seconds <= bounds.phi_n
        under = contract.promised_under
        if in_time and (under is None or all(fault.kind in under for fault in self.faults)):
            described["promised"] = dict(contract.promised(bounds, self.options))
        return Run(
            run=self.run_name,
            protocol=contract.name,
            seed=self.seed,
            parameters=self.parameters,
            groups={group: list(members) for group, members in self.groups.items()},
            guarantees=list(self._claims()),
            ended_at=self.ended_at,
            settled=True,
            bounds=described,
            services={service: list(names) for service, names in contract.services.items()},
        )

    def _claims(self) -> tuple[str, ...]:
        """What the protocol claims; only what is safe, where a fault strikes that it survives by a refusal."""
        contract = self.contract
        claimed = contract.guarantees
        if "crash" not in contract.faults and any(isinstance(each, Crash) and not each.forever for each in self.faults):
            # Whoever comes back is a stranger to the others, and never gets what it has missed.
            claimed = tuple(name for name in claimed if name != "no-silent-divergence")
        lost = [fault for fault in self.faults if isinstance(fault, MemoryFault) and not fault.is_survived(contract)]
        return tuple(name for name in claimed if not is_liveness(name)) if lost else claimed

    def table(self) -> pa.Table:
        """The trace's events."""
        if self.recorder is None:
            raise ValueError("this run was not traced")
        with _without_garbage_collection():
            return self.recorder.table()
