"""The processes of a run: started, signalled, asked how they are, killed; and how much memory they took."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ordercast.chaos.record import Record
from ordercast.chaos.worker import Work
from ordercast.core import SiteId, UsageError
from ordercast.node.control import ask, read
from ordercast.node.surroundings import place_of
from ordercast.trace.live import record_failure

START_SECONDS = 30.0
"""Until every process must answer."""

STATUS_SECONDS = 5.0
"""Until a process must have said how it is."""

MEMORY_SECONDS = 0.5
"""Between two looks at how much memory the processes take. The system keeps the highest: none is missed in between."""


class Processes:
    """Those of one run, in its folder."""

    def __init__(
        self,
        folder: Path,
        worker: str,
        rates: Mapping[SiteId, float],
        seed: int,
        record: Record,
        more: Callable[[SiteId], Mapping[str, Any]],
    ) -> None:
        """`more` is what else a worker is told."""
        self.folder = folder
        self.peaks: dict[SiteId, int] = {}
        """Process -> the most memory that it ever took in any of its starts, in KiB."""
        self.down: set[SiteId] = set()
        """Who was killed and not started again."""
        self._worker = worker
        self._rates = rates
        self._seed = seed
        self._record = record
        self._more = more
        self._running: dict[SiteId, asyncio.subprocess.Process] = {}
        self._starts: Counter[SiteId] = Counter()

    def config(self, process: SiteId) -> Path:
        """The configuration file of a process."""
        return self.folder / f"{process}.toml"

    def configure(self, process: SiteId, lines: Iterable[str]) -> None:
        """Write that file, beside it and renamed. (Else: a process that starts at this moment, while another one comes,
        reads half of it.)"""
        file = self.config(process)
        beside = file.with_name(f".{file.name}.new")
        beside.write_text("\n".join(lines) + "\n")
        beside.replace(file)

    @property
    def log(self) -> Path:
        """Where all logs are."""
        return self.folder / "log"

    async def start(self, process: SiteId) -> None:
        """A new start, which has a number of its own."""
        rate = self._rates.get(process, 0.0)
        start = self._starts[process]
        self._starts[process] += 1
        work = Work(
            str(self.config(process)), process, str(self.folder), self._seed, rate, start, **self._more(process)
        )
        with (self.folder / f"{process}.err").open("ab") as errors:
            self._running[process] = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self._worker,
                msgspec.json.encode(work).decode(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        self.down.discard(process)

    def signal(self, process: SiteId, number: int) -> None:
        """Send a signal, if it runs."""
        if self.is_running(process):
            self._running[process].send_signal(number)

    def is_running(self, process: SiteId) -> bool:
        """Whether it was started and has not ended."""
        running = self._running.get(process)
        return running is not None and running.returncode is None

    def has_ended(self, process: SiteId) -> bool:
        """Whether it has ended by itself."""
        return process in self._running and process not in self.down and not self.is_running(process)

    async def kill(self, process: SiteId) -> bool:
        """SIGKILL. That it had ended by itself is a problem; then nobody was killed."""
        running = self._running[process]
        self.down.add(process)
        if running.returncode is not None:
            self._record.problem(f"{process} had ended by itself: {self.last_words(process)}")
            return False
        self.look(process)
        os.killpg(running.pid, signal.SIGKILL)
        await running.wait()
        self.note_failure(process)
        return True

    def lives(self, process: SiteId) -> list[SiteId]:
        """The names under which a process has begun a trace, the last one last: one for each start, where whoever
        starts again is another process."""
        found = [each.name for each in (self.folder / "trace").glob("*") if place_of(each.name) == process]
        return sorted(found, key=lambda name: (len(name), name))

    def note_failure(self, process: SiteId) -> None:
        """It has ended, and can no longer say so in its trace."""
        for name in self.lives(process)[-1:]:
            record_failure(self.folder / "trace", name)

    async def wait_ended(self, process: SiteId, seconds: float) -> int | None:
        """The exit code of a process that ends within this time; None when it does not."""
        try:
            return await asyncio.wait_for(self._running[process].wait(), seconds)
        except TimeoutError:
            return None

    async def kill_all(self) -> None:
        """Leave nothing running."""
        for running in self._running.values():
            if running.returncode is None:
                os.killpg(running.pid, signal.SIGKILL)
                await running.wait()

    # ------------------------------------------------------------------ how they are
    async def status(self, process: SiteId) -> dict[str, Any] | None:
        """What a process says of itself; None while it does not answer."""
        return await ask_status(self.folder / f"{process}.sock")

    async def wait_for(self, processes: Iterable[SiteId]) -> None:
        """Until all of them run and reach each other; `UsageError` when one does not."""
        wanted = set(processes)
        deadline = time.monotonic() + START_SECONDS
        for process in sorted(wanted):
            while not await self.is_back(process, wanted):
                self.check_alive(process)
                if time.monotonic() > deadline:
                    raise UsageError(f"process {process} does not start within {START_SECONDS:g} s; see {self.folder}")
                await asyncio.sleep(0.05)

    async def is_back(self, process: SiteId, others: set[SiteId]) -> bool:
        """Whether it answers, and reaches these others."""
        status = await self.status(process)
        return status is not None and {process, *map(place_of, status["peers"])} >= others

    def check_alive(self, process: SiteId) -> None:
        """`UsageError` when it has ended by itself."""
        if not self.is_running(process):
            raise UsageError(f"process {process} ended by itself: {self.last_words(process)}")

    def last_words(self, process: SiteId) -> str:
        """The last line that it wrote, or its exit code."""
        return last_line(self.folder / f"{process}.err") or f"exit code {self._running[process].returncode}"

    # ------------------------------------------------------------------ memory
    async def watch_memory(self) -> None:
        """Look at all of them until cancelled."""
        while True:
            for process in self._running:
                self.look(process)
            await asyncio.sleep(MEMORY_SECONDS)

    def look(self, process: SiteId) -> None:
        """How much memory it took at the most, where the system tells."""
        if self.is_running(process):
            peak = peak_kib(self._running[process].pid)
            if peak is not None:
                self.peaks[process] = max(peak, self.peaks.get(process, 0))


async def ask_status(socket: Path) -> dict[str, Any] | None:
    """What the process behind a control socket says of itself; None while nobody answers."""
    try:
        reader, writer = await ask(socket, {"command": "status"})
        try:
            return await asyncio.wait_for(read(reader), STATUS_SECONDS)
        finally:
            writer.close()
    except (UsageError, OSError, TimeoutError):
        return None


def last_line(errors: Path) -> str:
    """The last line of what a process wrote when it ended, without the name of the exception; empty for none."""
    try:
        lines = errors.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    kind, colon, words = (lines[-1] if lines else "").partition(": ")
    return words if colon and "." in kind and " " not in kind else f"{kind}{colon}{words}"


def peak_kib(pid: int) -> int | None:
    """The most memory that a process ever had, in KiB; None where the system does not tell, or it has just ended."""
    try:
        content = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in content.splitlines():
        name, _, rest = line.partition(":")
        if name == "VmHWM":
            return int(rest.split()[0])
    return None
