"""Those who have the key and do not belong: none of them may be heard, and nothing of theirs may be applied."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ordercast.chaos.processes import START_SECONDS, Processes, ask_status, last_line
from ordercast.chaos.record import Record
from ordercast.chaos.schedule import Stranger
from ordercast.chaos.worker import Work
from ordercast.core import GroupId, SiteId, UsageError
from ordercast.net.ports import free_ports
from ordercast.node.addresses import HostPort
from ordercast.node.control import send

UNKNOWN = "stranger"
"""What a process is called that nobody knows."""

FIRST_START = 1_000_000
"""The orders of strangers are named as if they came from a start with such a number: no process is started as often."""

RATE = 50.0
"""Orders a second that a stranger tries to give."""

VISIT_SECONDS = 2.0
"""How long a stranger stays that does not end by itself."""

FOREIGN = (b"\x00\xff no replica wrote this", b"deposit ada 100 | nobody", b"")
"""What no replica writes."""

WriteConfig = Callable[[Path, SiteId, Mapping[SiteId, HostPort], bool], None]
"""Writes a configuration for a process, with these addresses, into a file; a differing one when asked."""


class Strangers:
    """Lets them in front of the door, one at a time."""

    def __init__(
        self,
        processes: Processes,
        living: Callable[[], list[SiteId]],
        real: Mapping[SiteId, HostPort],
        group: GroupId,
        record: Record,
        write: WriteConfig,
    ) -> None:
        self._processes = processes
        self._living = living
        self._real = real
        self._group = group
        self._record = record
        self._write = write
        self._number = 0

    async def visit(self, action: Stranger) -> None:
        """One of them comes, and goes again."""
        self._number += 1
        if action.kind == "foreign":
            await self._send_foreign(action.process)
            return
        name = UNKNOWN if action.kind == "unknown" else action.process
        if action.kind == "differing":
            await self._processes.kill(action.process)
        (port,) = free_ports(1)
        where = self._real[name] if action.kind == "differing" else ("127.0.0.1", port)
        folder = self._processes.folder / f"stranger{self._number}"
        folder.mkdir()
        shutil.copy(self._processes.folder / "cluster.key", folder)
        config = folder / "config.toml"
        self._write(config, name, {**self._real, name: where}, action.kind == "differing")
        await self._run(action, Work(str(config), name, str(folder), 0, RATE, FIRST_START + self._number))
        if action.kind == "differing":
            await self._processes.start(action.process)
            await self._processes.wait_for(self._living())

    async def _run(self, action: Stranger, work: Work) -> None:
        folder = Path(work.folder)
        errors = folder / "err"
        with errors.open("wb") as file:
            running = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ordercast.chaos.worker",
                msgspec.json.encode(work).decode(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
            )
        who = f"a stranger ({action.kind}) named {work.process}"
        before = await self._count_refused()
        self._record.say(f"{who} comes")
        try:
            peers = await self._watch(running, folder / f"{work.process}.sock")
            if peers:
                self._record.happened["stranger"] += 1
                self._record.problem(f"{who} is heard by {', '.join(peers)}")
                return
            why = last_line(errors) if running.returncode else await self._refused_by(action, work.process, before)
            if why:
                self._record.happened["stranger"] += 1
                self._record.refused(who, "its arrival", why)
        finally:
            if running.returncode is None:
                os.killpg(running.pid, signal.SIGKILL)
                await running.wait()

    async def _watch(self, running: asyncio.subprocess.Process, socket: Path) -> list[SiteId]:
        """Those with whom the stranger came to talk."""
        deadline = time.monotonic() + START_SECONDS
        stays_until = None
        while running.returncode is None and time.monotonic() < deadline:
            status = await ask_status(socket)
            if status is not None:
                if status["peers"]:
                    return list(status["peers"])
                stays_until = stays_until or time.monotonic() + VISIT_SECONDS
                if time.monotonic() > stays_until:
                    break
            await asyncio.sleep(0.1)
        return []

    async def _refused_by(self, action: Stranger, name: SiteId, before: int) -> str:
        """What one of the processes says of why it does not hear the stranger; empty when none has heard it."""
        for process in sorted(self._real):
            status = await self._processes.status(process) if process != action.process else None
            if status is not None and name in status["refused"]:
                return str(status["refused"][name])
        # Whoever cannot be asked whether it is there now, because it is not where it should be, gets no line.
        refused = await self._count_refused() - before
        return f"{refused} of its greetings were refused" if refused > 0 else ""

    async def _count_refused(self) -> int:
        """How many greetings all processes have refused so far."""
        answers = [await self._processes.status(process) for process in sorted(self._real)]
        return sum(status["dropped"].get("peer-refused", 0) for status in answers if status is not None)

    async def _send_foreign(self, process: SiteId) -> None:
        try:
            sent = await send(self._processes.folder / f"{process}.sock", [self._group], iter(FOREIGN))
        except UsageError as error:
            self._record.refused("foreign bytes", f"being sent through {process}", str(error))
        else:
            self._record.say(f"{sent['sent']} messages that no replica wrote are sent through {process}")
        self._record.happened["stranger"] += 1
