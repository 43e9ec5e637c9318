"""Starts a cluster of processes, lets a plan happen to it, brings it to rest, and collects what is left."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from ordercast.chaos.books import find_kept
from ordercast.chaos.channel import LossyHub, check_plan
from ordercast.chaos.clock import PlanClock
from ordercast.chaos.floods import Floods, Recording
from ordercast.chaos.histories import Histories
from ordercast.chaos.processes import Processes
from ordercast.chaos.proxy import CALM, FLAT, Proxy, Tap, Terrain, Weather
from ordercast.chaos.record import Absence, Record, Refusal, Strike, Tell
from ordercast.chaos.schedule import (
    Action,
    Away,
    Flood,
    Kill,
    LostLog,
    Partition,
    Pause,
    Plan,
    Rollback,
    Start,
    Stranger,
)
from ordercast.chaos.strangers import Strangers
from ordercast.chaos.worker import receipts_path
from ordercast.core import GroupId, SiteId, UsageError
from ordercast.net.ports import free_ports
from ordercast.net.sockets import resolve
from ordercast.node.addresses import HostPort
from ordercast.node.surroundings import place_of
from ordercast.trace.live import record_rest
from ordercast.wire.keys import create_key_file

SETTLE_SECONDS = 60.0
"""Until everything must have come to rest after the last fault: recovery takes some time-outs, each below ten."""
STILL_SECONDS = 1.0
"""When nothing has changed for so long, and everybody has the same, it is at rest."""
END_SECONDS = 15.0
"""Until a process that was told to end must have ended."""


class Cluster(msgspec.Struct, frozen=True):
    """What runs."""

    protocol: str
    groups: Mapping[GroupId, tuple[SiteId, ...]]
    rates: Mapping[SiteId, float]
    """Orders a second of each process."""
    options: Mapping[str, Any] = {}
    worker: str = "ordercast.chaos.worker"
    """The module that each process runs; see there for what is expected of it."""
    terrain: Terrain = FLAT
    """Who is near whom."""
    one_channel: bool = False
    """Whether processes hear each other through a hub, which shows everybody the same order."""
    recovers: bool = True
    """Whether who is started again gets what it has missed. Else it is a stranger, and its books are its own."""
    repairs: bool = False
    """Whether a process whose log is lost can be repaired from the others."""
    quorum: int | None = None
    """How many replicas a side must have to go on, where sides of a group may go on apart; then each has its own
    offsets."""
    logged: bool = True
    """Whether processes keep a log. Else whoever starts again is another process."""
    blocks: tuple[str, ...] = ()
    """Which building blocks its processes use, if any; none named: all."""
    drift: Mapping[str, Any] = {}
    """Options with which a process must not be let in; none: one with other groups is tried."""

    @property
    def processes(self) -> list[SiteId]:
        """Members and sources."""
        return sorted({site for members in self.groups.values() for site in members} | set(self.rates))


class Outcome(msgspec.Struct):
    """What came of it."""

    folder: Path
    results: dict[SiteId, dict[str, Any]]
    """What each process wrote in the end."""
    happened: Counter[str]
    network: Counter[str]
    deliveries: dict[SiteId, int]
    seconds: float
    settle_seconds: float
    problems: list[str]
    """What went wrong with the processes themselves."""
    strangers: frozenset[SiteId] = frozenset()
    """Who was started again and is not owed what it missed."""
    refusals: list[Refusal] = []
    absences: list[Absence] = []
    flooded: Counter[str] = msgspec.field(default_factory=Counter)
    """Datagrams of floods, by kind."""
    memory_kib: dict[SiteId, int] = {}
    """Process -> the most memory that it took."""
    acknowledged: dict[SiteId, list[str]] = {}
    """Process -> the orders of which it has told whoever gave them that they were applied."""
    strikes: list[Strike] = []
    """When who was killed, stopped or cut off."""
    forgotten: list[SiteId] = []
    """Who has come back with an older log that nobody refused: it delivers once more what it has forgotten."""

    @property
    def trace(self) -> Path:
        """The traces of all processes."""
        return self.folder / "trace"

    def agree(self, groups: Mapping[GroupId, tuple[SiteId, ...]], ordered: bool = True) -> bool:
        """Whether books of the same groups have the same orders, and, where the protocol orders them, in the same
        order."""
        books: dict[tuple[GroupId, ...], set[int]] = {}
        for kept in find_kept(self.results, groups):
            if kept.groups and kept.process not in self.strangers:
                books.setdefault(kept.groups, set()).add(kept.books["digest" if ordered else "gathered"])
        return all(len(digests) == 1 for digests in books.values())


class Harness:
    """One run, in a folder of its own."""

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        seed: int,
        folder: Path,
        tell: Tell | None = None,
        tap: Tap | None = None,
    ) -> None:
        """`tap` sees every datagram that a process sends."""
        self._cluster = cluster
        self._plan = plan
        self._seed = seed
        self._folder = folder
        self._tap = tap
        self._record = Record(tell or (lambda _seconds, _words: None))
        self._processes = Processes(folder, cluster.worker, cluster.rates, seed, self._record, self._more_work)
        self._histories = Histories(self._processes, self._living, self._record, cluster.repairs)
        self._recording = Recording() if any(isinstance(action, Flood) for action in plan.actions) else None
        self._turns = {name: asyncio.Lock() for name in cluster.processes}
        """One kill at a time of each process, until it runs again."""
        self._partitions: list[frozenset[SiteId]] = []
        self._dead: set[SiteId] = set()
        self._strangers: set[SiteId] = set()
        self._hub: LossyHub | None = None
        if cluster.one_channel:
            check_plan(plan)

    def _more_work(self, _process: SiteId) -> dict[str, Any]:
        """What a process is told beside the usual."""
        return {"blocks": self._cluster.blocks}

    async def run(self) -> Outcome:
        """Everything, from the start to the end; nothing is left running, whatever happens."""
        self._folder.mkdir(parents=True, exist_ok=True)
        create_key_file(self._folder / "cluster.key")
        names, processes, record = self._cluster.processes, self._processes, self._record
        self._real = dict(zip(names, (("127.0.0.1", port) for port in free_ports(len(names))), strict=True))
        self._build()
        first = self._first()
        watching = asyncio.create_task(processes.watch_memory())
        try:
            for name in first:
                await processes.start(name)
            await self._wait_for_first(first)
            record.began = time.monotonic()
            self._set_weather()
            await self._happen_all()
            chaos_seconds = record.seconds
            self._calm()
            # Who was started in the last moment does not listen to signals yet, and would die of them.
            await self._wait_for_living()
            record.say("healed: the orders end, and everything comes to rest")
            for name in names:
                processes.signal(name, signal.SIGUSR1)
            deliveries = await self._settle()
            settle_seconds = record.seconds - chaos_seconds
            network = await self._count_network()
            results = await self._end()
        finally:
            watching.cancel()
            await processes.kill_all()
            self._close_network()
        return Outcome(
            self._folder,
            results,
            record.happened,
            network,
            deliveries,
            chaos_seconds,
            settle_seconds,
            record.problems,
            frozenset(self._strangers),
            record.refusals,
            record.absences,
            record.flooded,
            processes.peaks,
            {name: _read_receipts(self._folder, name) for name in names},
            record.strikes,
            record.forgotten,
        )

    # ------------------------------------------------------------------ the network
    def _build(self) -> None:
        """The network, and the configurations that lead through it."""
        random = Random(f"ordercast proxy {self._seed}")
        proxy = self._proxy = Proxy(self._real, random, self._cluster.terrain, self._tap, self._recording)
        if self._cluster.one_channel:
            self._hub = self._open_hub(self._real)
        for name in self._cluster.processes:
            addresses = {**proxy.addresses_for(name), name: self._real[name]}
            path = self._processes.config(name)
            self._write_config(path, addresses, self._cluster.options, self._cluster.groups, True)

    def _first(self) -> list[SiteId]:
        """Who starts at the beginning."""
        late = {action.process for action in self._plan.actions if isinstance(action, Start)}
        return [name for name in self._cluster.processes if name not in late]

    async def _wait_for_first(self, first: Sequence[SiteId]) -> None:
        await self._processes.wait_for(first)

    def _calm(self) -> None:
        self._proxy.weather = CALM
        self._set_loss(0.0)

    async def _count_network(self) -> Counter[str]:
        return self._proxy.counters if self._hub is None else self._hub.counters

    def _close_network(self) -> None:
        self._proxy.close()
        if self._hub is not None:
            self._hub.close()

    def _open_hub(self, real: Mapping[SiteId, tuple[str, int]]) -> LossyHub:
        own = resolve("127.0.0.1", 0)
        processes = {process: resolve(*where) for process, where in real.items()}
        return LossyHub(asyncio.get_running_loop(), own, processes, Random(f"ordercast hub {self._seed}"))

    def _write_config(
        self,
        path: Path,
        addresses: Mapping[SiteId, HostPort],
        options: Mapping[str, Any],
        groups: Mapping[GroupId, tuple[SiteId, ...]],
        traced: bool,
    ) -> None:
        """Everybody's own address is the real one; the others' are the proxy's."""
        lines = [
            *self._common_lines(traced),
            "max_datagram = 1450" if self._hub is None else f'channel = "127.0.0.1:{self._hub.port}"',
            "[processes]",
            *(f'{site} = "{host}:{port}"' for site, (host, port) in sorted(addresses.items())),
            "[groups]",
            *(f"{group} = {json.dumps(members)}" for group, members in groups.items()),
            *self._option_lines(options),
        ]
        path.write_text("\n".join(lines) + "\n")

    def _common_lines(self, traced: bool = True) -> list[str]:
        """With which a configuration begins."""
        return [
            'cluster = "chaos"',
            f'protocol = "{self._cluster.protocol}"',
            'key_file = "cluster.key"',
            *(['log_directory = "log"'] if self._cluster.logged else []),
            *(['trace_directory = "trace"'] if traced else []),
            'control = "unix:{process}.sock"',
        ]

    def _option_lines(self, options: Mapping[str, Any]) -> list[str]:
        """With which it ends."""
        return ["[options]", *(f"{key} = {json.dumps(value)}" for key, value in options.items())]

    def _write_strange_config(
        self, path: Path, name: SiteId, addresses: Mapping[SiteId, HostPort], differs: bool
    ) -> None:
        """A stranger's configuration: without a trace, for that would be in the way of the process' own."""
        options, groups = dict(self._cluster.options), dict(self._cluster.groups)
        if differs and self._cluster.drift:
            options |= self._cluster.drift
        elif differs:
            groups = {group: tuple(site for site in members if site != name) for group, members in groups.items()}
        self._write_config(path, addresses, options, groups, False)

    # ------------------------------------------------------------------ faults
    def _set_weather(self) -> None:
        plan = self._plan
        self._proxy.weather = Weather(plan.loss, plan.duplication, plan.delay_seconds, tuple(self._partitions))
        self._set_loss(plan.loss)

    def _set_loss(self, loss: float) -> None:
        if self._hub is not None:
            self._hub.loss = loss

    async def _happen_all(self) -> None:
        """The whole plan."""
        clock = self._clock = PlanClock()
        group = next(iter(self._cluster.groups))
        self._visits = Strangers(
            self._processes, self._living, self._real, group, self._record, self._write_strange_config
        )
        recording = self._recording or Recording()
        self._floods = Floods(self._folder, self._seed, recording, self._record)
        try:
            async with asyncio.TaskGroup() as tasks:
                for action in self._plan.actions:
                    copying = None
                    if isinstance(action, Rollback):
                        copying = tasks.create_task(self._copy(action))
                    tasks.create_task(self._happen(action, copying))
                tasks.create_task(clock.until(self._plan.seconds))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _copy(self, action: Rollback) -> Path | None:
        await self._clock.until(action.copied)
        return await self._histories.copy(action.process)

    async def _happen(self, action: Action, copying: asyncio.Task[Path | None] | None) -> None:
        await self._clock.until(action.at)
        if not action.alone:
            await self._strike(action)
            return
        self._clock.hold()
        # Those who relied on what is lost must be there to say so.
        await self._wait_for_living()
        if isinstance(action, Rollback) and copying is not None:
            await self._histories.rollback(action, copying)
        elif isinstance(action, LostLog):
            await self._histories.lose(action)
        elif isinstance(action, Stranger):
            await self._visits.visit(action)
        self._clock.release(action.seconds)

    async def _kill(self, process: SiteId, seconds: float) -> None:
        processes, record = self._processes, self._record
        struck = await processes.kill(process)  # apart: meanwhile, others are counted, too
        record.happened["kill"] += struck
        if seconds == inf:
            self._dead.add(process)
            record.say(f"{process} is killed for good")
            return
        record.say(f"{process} is killed")
        await asyncio.sleep(seconds)
        await processes.start(process)
        if not self._cluster.recovers:
            self._strangers.add(process)
        record.say(f"{process} is started again")

    async def _strike(self, action: Action) -> None:
        processes, record = self._processes, self._record
        match action:
            case Kill(process=process):
                # On a busy machine the start after the kill before may not have happened yet; were it overtaken, two
                # processes of that name would run, of which only one is known.
                async with self._turns[process]:
                    with record.striking("kill", process):
                        await self._kill(process, action.seconds)
            case Pause(process=process):
                with record.striking("pause", process):
                    processes.signal(process, signal.SIGSTOP)
                    record.say(f"{process} is stopped for {action.seconds:.1f} s")
                    await asyncio.sleep(action.seconds)
                    processes.signal(process, signal.SIGCONT)
                record.happened["pause"] += processes.is_running(process)
            case Start(process=process):
                await processes.start(process)
                record.happened["start"] += 1
                record.say(f"{process} is started for the first time")
            case Partition(side=side):
                cut = frozenset(side)
                self._partitions.append(cut)
                self._set_weather()
                record.say(f"{', '.join(side)} cut off from the others for {action.seconds:.1f} s")
                with record.striking("partition", *side):
                    await asyncio.sleep(action.seconds)
                self._partitions.remove(cut)
                self._set_weather()
                record.happened["partition"] += 1
            case Away():
                await self._histories.stay_away(action)
            case Flood(process=process):
                await self._floods.flood(action, self._real[process])

    # ------------------------------------------------------------------ the end
    async def _wait_for_living(self) -> None:
        """Until everybody runs and reaches the others. Who has ended by itself, or does not come back, is a problem
        and does not end the run: the others' books are worth a look."""
        while self._processes.down - self._dead:
            await asyncio.sleep(0.05)
        while True:
            self._bury()
            try:
                await self._processes.wait_for(self._living())
                return
            except UsageError as error:
                if not any(self._processes.has_ended(process) for process in self._living()):
                    self._record.problem(str(error))
                    return

    def _bury(self) -> None:
        """Go on without those who have ended by themselves."""
        for process in self._living():
            if self._processes.has_ended(process):
                self._record.problem(f"{process} ended by itself: {self._processes.last_words(process)}")
                self._processes.note_failure(process)
                self._dead.add(process)

    async def _settle(self) -> dict[SiteId, int]:
        """Wait until everybody has what it is owed, and nothing moves."""
        deadline = time.monotonic() + SETTLE_SECONDS
        before: dict[SiteId, int] = {}
        still_since = time.monotonic()
        while True:
            counts: dict[SiteId, int] = {}
            idle = True
            self._bury()
            for process in self._living():
                status = await self._processes.status(process)
                if status is None:
                    idle = False
                    continue
                counts[process] = sum(status["offsets"].values())
                # Who does not reach everybody yet may be owed something that nobody has told it of.
                peers = {process, *map(place_of, status["peers"])}
                idle = idle and status["idle"] and peers >= set(self._living())
            if counts != before or not idle or not self._same(counts):
                before, still_since = counts, time.monotonic()
            if time.monotonic() - still_since > STILL_SECONDS:
                self._note_rest()
                return counts
            if time.monotonic() > deadline:
                self._record.problem(f"not at rest after {SETTLE_SECONDS:g} s: {before}")
                return counts
            await asyncio.sleep(0.1)

    def _note_rest(self) -> None:
        """Whoever is gone for good can no longer say in its trace that all came to rest; nor can an earlier life."""
        for process in self._cluster.processes:
            lives = self._processes.lives(process)
            for name in lives if process in self._dead else lives[:-1]:
                record_rest(self._folder / "trace", name)

    def _living(self) -> list[SiteId]:
        return [process for process in self._cluster.processes if process not in self._dead]

    def _same(self, counts: Mapping[SiteId, int]) -> bool:
        """Whether processes that are in the same groups have delivered the same number of messages."""
        if self._cluster.quorum is not None:
            return True
        of_groups: dict[tuple[GroupId, ...], set[int]] = {}
        for site, count in counts.items():
            if site in self._strangers:
                continue
            of_groups.setdefault(self._groups_of(site), set()).add(count)
        return all(len(numbers) == 1 for numbers in of_groups.values())

    def _groups_of(self, site: SiteId) -> tuple[GroupId, ...]:
        return tuple(sorted(group for group, members in self._cluster.groups.items() if site in members))

    async def _end(self) -> dict[SiteId, dict[str, Any]]:
        processes = self._processes
        for process in self._cluster.processes:
            processes.look(process)
            processes.signal(process, signal.SIGTERM)
        results: dict[SiteId, dict[str, Any]] = {}
        for process in self._living():
            code = await processes.wait_ended(process, END_SECONDS)
            if code is None:
                self._record.problem(f"{process} did not end when it was told to")
            elif code:
                self._record.problem(f"{process} ended with exit code {code}: {processes.last_words(process)}")
            else:
                results[process] = json.loads((self._folder / f"{process}.json").read_bytes())
        return results


def _read_receipts(folder: Path, process: SiteId) -> list[str]:
    """A line that was cut off by a kill was read by nobody."""
    path = receipts_path(folder, process)
    content = path.read_text() if path.exists() else ""
    return [line.rstrip("\n") for line in content.splitlines(keepends=True) if line.endswith("\n")]
