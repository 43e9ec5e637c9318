"""Starts a cluster of processes, lets a plan happen to it, brings it to rest, and collects what is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from ordercast.chaos.channel import LossyHub, check_plan
from ordercast.chaos.proxy import CALM, FLAT, Proxy, Tap, Terrain, Weather
from ordercast.chaos.schedule import Action, Kill, Partition, Pause, Plan, Start
from ordercast.chaos.worker import Work
from ordercast.core import GroupId, SiteId, UsageError
from ordercast.net.ports import free_ports
from ordercast.net.sockets import resolve
from ordercast.node.control import ask, read
from ordercast.trace.live import record_failure, record_rest
from ordercast.wire.keys import create_key_file

START_SECONDS = 30.0
"""Until every process must answer."""
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

    @property
    def trace(self) -> Path:
        """The traces of all processes."""
        return self.folder / "trace"

    def agree(self, groups: Mapping[GroupId, tuple[SiteId, ...]], ordered: bool = True) -> bool:
        """Whether processes that are in the same groups have applied the same orders, and, where the protocol orders
        them, in the same order."""
        books: dict[tuple[GroupId, ...], set[int]] = {}
        for site, result in self.results.items():
            own = tuple(sorted(group for group, members in groups.items() if site in members))
            if own and site not in self.strangers:
                books.setdefault(own, set()).add(result["digest" if ordered else "gathered"])
        return all(len(digests) == 1 for digests in books.values())


Tell = Callable[[float, str], None]
"""Called with the seconds since the start and one line for people."""


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
        self._tell = tell or (lambda _seconds, _words: None)
        self._tap = tap
        self._running: dict[SiteId, asyncio.subprocess.Process] = {}
        self._happened: Counter[str] = Counter()
        self._problems: list[str] = []
        self._partitions: list[frozenset[SiteId]] = []
        self._began = 0.0
        self._dead: set[SiteId] = set()
        self._strangers: set[SiteId] = set()
        self._hub: LossyHub | None = None
        if cluster.one_channel:
            check_plan(plan)

    async def run(self) -> Outcome:
        """Everything, from the start to the end; nothing is left running, whatever happens."""
        self._folder.mkdir(parents=True, exist_ok=True)
        create_key_file(self._folder / "cluster.key")
        processes = self._cluster.processes
        real = dict(zip(processes, (("127.0.0.1", port) for port in free_ports(len(processes))), strict=True))
        proxy = Proxy(real, Random(f"ordercast proxy {self._seed}"), self._cluster.terrain, self._tap)
        self._proxy = proxy
        if self._cluster.one_channel:
            self._hub = self._open_hub(real)
        late = {action.process for action in self._plan.actions if isinstance(action, Start)}
        first = [process for process in processes if process not in late]
        try:
            for process in processes:
                self._write_config(process, real)
            for process in first:
                await self._start(process)
            await self._wait_for(first)
            self._began = time.monotonic()
            self._set_weather()
            await asyncio.gather(*(self._happen(action) for action in self._plan.actions), self._sleep_until_end())
            chaos_seconds = time.monotonic() - self._began
            proxy.weather = CALM
            self._set_loss(0.0)
            # Who was started in the last moment does not listen to signals yet, and would die of them.
            await self._wait_for(self._living())
            self._say("healed: the orders end, and everything comes to rest")
            for process in processes:
                self._signal(process, signal.SIGUSR1)
            deliveries = await self._settle()
            settle_seconds = time.monotonic() - self._began - chaos_seconds
            results = await self._end()
        finally:
            await self._kill_all()
            proxy.close()
            if self._hub is not None:
                self._hub.close()
        return Outcome(
            self._folder,
            results,
            self._happened,
            proxy.counters if self._hub is None else self._hub.counters,
            deliveries,
            chaos_seconds,
            settle_seconds,
            self._problems,
            frozenset(self._strangers),
        )

    def _open_hub(self, real: Mapping[SiteId, tuple[str, int]]) -> LossyHub:
        own = resolve("127.0.0.1", 0)
        processes = {process: resolve(*where) for process, where in real.items()}
        return LossyHub(asyncio.get_running_loop(), own, processes, Random(f"ordercast hub {self._seed}"))

    # ------------------------------------------------------------------ processes
    def _write_config(self, process: SiteId, real: Mapping[SiteId, tuple[str, int]]) -> None:
        """Everybody's own address is the real one; the others' are the proxy's."""
        addresses = {**self._proxy.addresses_for(process), process: real[process]}
        lines = [
            'cluster = "chaos"',
            f'protocol = "{self._cluster.protocol}"',
            'key_file = "cluster.key"',
            'log_directory = "log"',
            'trace_directory = "trace"',
            'control = "unix:{process}.sock"',
            "max_datagram = 1450" if self._hub is None else f'channel = "127.0.0.1:{self._hub.port}"',
            "[processes]",
            *(f'{site} = "{host}:{port}"' for site, (host, port) in sorted(addresses.items())),
            "[groups]",
            *(f"{group} = {json.dumps(members)}" for group, members in self._cluster.groups.items()),
            "[options]",
            *(f"{key} = {json.dumps(value)}" for key, value in self._cluster.options.items()),
        ]
        self._config(process).write_text("\n".join(lines) + "\n")

    def _config(self, process: SiteId) -> Path:
        return self._folder / f"{process}.toml"

    async def _start(self, process: SiteId) -> None:
        work = Work(
            str(self._config(process)),
            process,
            str(self._folder),
            self._seed,
            self._cluster.rates.get(process, 0.0),
        )
        with (self._folder / f"{process}.err").open("ab") as errors:
            self._running[process] = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self._cluster.worker,
                msgspec.json.encode(work).decode(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def _signal(self, process: SiteId, number: int) -> None:
        running = self._running.get(process)
        if running is not None and running.returncode is None:
            running.send_signal(number)

    async def _status(self, process: SiteId) -> dict[str, Any] | None:
        """What a process says of itself; None while it does not answer."""
        try:
            reader, writer = await ask(self._folder / f"{process}.sock", {"command": "status"})
            try:
                return await asyncio.wait_for(read(reader), 5.0)
            finally:
                writer.close()
        except (UsageError, OSError, TimeoutError):
            return None

    async def _wait_for(self, processes: list[SiteId]) -> None:
        """Until all of them run and reach each other."""
        deadline = time.monotonic() + START_SECONDS
        wanted = len(processes) - 1
        for process in processes:
            while True:
                status = await self._status(process)
                if status is not None and len(status["peers"]) >= wanted:
                    break
                self._check_alive(process)
                if time.monotonic() > deadline:
                    raise UsageError(f"process {process} does not start within {START_SECONDS:g} s; see {self._folder}")
                await asyncio.sleep(0.05)

    def _check_alive(self, process: SiteId) -> None:
        running = self._running[process]
        if running.returncode is not None:
            words = (self._folder / f"{process}.err").read_text(errors="replace").strip().splitlines()
            last = words[-1] if words else f"exit code {running.returncode}"
            raise UsageError(f"process {process} ended by itself: {last}")

    # ------------------------------------------------------------------ faults
    def _set_weather(self) -> None:
        plan = self._plan
        self._proxy.weather = Weather(plan.loss, plan.duplication, plan.delay_seconds, tuple(self._partitions))
        self._set_loss(plan.loss)

    def _set_loss(self, loss: float) -> None:
        if self._hub is not None:
            self._hub.loss = loss

    def _say(self, words: str) -> None:
        self._tell(time.monotonic() - self._began, words)

    async def _sleep_until_end(self) -> None:
        await asyncio.sleep(self._plan.seconds)

    async def _happen(self, action: Action) -> None:
        await asyncio.sleep(action.at)
        match action:
            case Kill(process=process):
                await self._kill(process)
                self._happened["kill"] += 1
                if action.seconds == inf:
                    self._dead.add(process)
                    self._say(f"{process} is killed for good")
                    return
                self._say(f"{process} is killed")
                await asyncio.sleep(action.seconds)
                await self._start(process)
                if not self._cluster.recovers:
                    self._strangers.add(process)
                self._say(f"{process} is started again")
            case Pause(process=process):
                self._signal(process, signal.SIGSTOP)
                self._say(f"{process} is stopped for {action.seconds:.1f} s")
                await asyncio.sleep(action.seconds)
                self._signal(process, signal.SIGCONT)
                self._happened["pause"] += 1
            case Start(process=process):
                await self._start(process)
                self._happened["late start"] += 1
                self._say(f"{process} is started for the first time")
            case Partition(side=side):
                cut = frozenset(side)
                self._partitions.append(cut)
                self._set_weather()
                self._say(f"{', '.join(side)} cut off from the others for {action.seconds:.1f} s")
                await asyncio.sleep(action.seconds)
                self._partitions.remove(cut)
                self._set_weather()
                self._happened["partition"] += 1

    async def _kill(self, process: SiteId) -> None:
        running = self._running[process]
        if running.returncode is None:
            os.killpg(running.pid, signal.SIGKILL)
            await running.wait()
            record_failure(self._folder / "trace", process)
        else:
            self._problems.append(f"{process} had ended by itself with exit code {running.returncode}")

    # ------------------------------------------------------------------ the end
    async def _settle(self) -> dict[SiteId, int]:
        """Wait until everybody has what it is owed, and nothing moves."""
        deadline = time.monotonic() + SETTLE_SECONDS
        before: dict[SiteId, int] = {}
        still_since = time.monotonic()
        while True:
            counts: dict[SiteId, int] = {}
            idle = True
            for process in self._living():
                self._check_alive(process)
                status = await self._status(process)
                if status is None:
                    idle = False
                    continue
                counts[process] = sum(status["offsets"].values())
                # Who does not reach everybody yet may be owed something that nobody has told it of.
                idle = idle and status["idle"] and {process, *status["peers"]} >= set(self._living())
            if counts != before or not idle or not self._same(counts):
                before, still_since = counts, time.monotonic()
            if time.monotonic() - still_since > STILL_SECONDS:
                for process in self._dead:
                    record_rest(self._folder / "trace", process)
                return counts
            if time.monotonic() > deadline:
                self._problems.append(f"not at rest after {SETTLE_SECONDS:g} s: {before}")
                return counts
            await asyncio.sleep(0.1)

    def _living(self) -> list[SiteId]:
        return [process for process in self._cluster.processes if process not in self._dead]

    def _same(self, counts: Mapping[SiteId, int]) -> bool:
        """Whether processes that are in the same groups have delivered the same number of messages."""
        of_groups: dict[tuple[GroupId, ...], set[int]] = {}
        for site, count in counts.items():
            if site in self._strangers:
                continue
            of_groups.setdefault(self._groups_of(site), set()).add(count)
        return all(len(numbers) == 1 for numbers in of_groups.values())

    def _groups_of(self, site: SiteId) -> tuple[GroupId, ...]:
        return tuple(sorted(group for group, members in self._cluster.groups.items() if site in members))

    async def _end(self) -> dict[SiteId, dict[str, Any]]:
        for process in self._cluster.processes:
            self._signal(process, signal.SIGTERM)
        results: dict[SiteId, dict[str, Any]] = {}
        for process in self._living():
            running = self._running[process]
            try:
                code = await asyncio.wait_for(running.wait(), END_SECONDS)
            except TimeoutError:
                self._problems.append(f"{process} did not end when it was told to")
                continue
            if code:
                self._problems.append(f"{process} ended with exit code {code}")
            else:
                results[process] = json.loads((self._folder / f"{process}.json").read_bytes())
        return results

    async def _kill_all(self) -> None:
        for running in self._running.values():
            if running.returncode is None:
                os.killpg(running.pid, signal.SIGKILL)
                await running.wait()
