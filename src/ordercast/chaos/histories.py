"""What happens to a process that comes back with another history than it had: an older log, or none, or after long."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ordercast.chaos.processes import START_SECONDS, Processes
from ordercast.chaos.record import Absence, Record
from ordercast.chaos.schedule import Away, LostLog, Rollback
from ordercast.core import SiteId

DOWN_SECONDS = 0.3
"""How long a process is down whose log is exchanged."""

LOGGED_SECONDS = 5.0
"""How long a rollback waits until something was logged since the copy."""

HEARD_SECONDS = 0.5
"""How long a process may tell the others of what it has logged since."""
REFUSED_SECONDS = 1.0
"""How long a process that is back and reaches everybody is watched: it may still be refused."""

COPY_ATTEMPTS = 20
"""A segment may vanish while it is copied, because the process needs it no more."""

LOOK_SECONDS = 0.5
"""Between two looks at how the others are while a process is away."""


class Histories:
    """Exchanges the logs of processes."""

    def __init__(self, processes: Processes, living: Callable[[], list[SiteId]], record: Record, repairs: bool) -> None:
        """`repairs`: whether a process whose log is lost can be repaired from the others."""
        self._processes = processes
        self._living = living
        self._record = record
        self._repairs = repairs
        self._number = 0

    def _of(self, process: SiteId) -> tuple[Path, Path]:
        """The log of a process, and what lies beside it and notes where it ends."""
        return self._processes.log / f"_end.{process}", self._processes.log / process

    def _aside(self, what: str, process: SiteId) -> Path:
        self._number += 1
        aside = self._processes.folder / "aside" / f"{self._number}-{process}-{what}"
        aside.mkdir(parents=True)
        return aside

    # ------------------------------------------------------------------ rollback
    async def copy(self, process: SiteId) -> Path | None:
        """A copy of the log of a process that runs, as a backup tool would take it: file by file, in order of their
        names; None when that cannot be."""
        for _ in range(COPY_ATTEMPTS):
            copy = self._aside("copy", process)
            try:
                for folder in self._of(process):
                    shutil.copytree(folder, copy / folder.name)
                return copy
            except (shutil.Error, FileNotFoundError):
                # It was not up yet, or has just cut its log short.
                await asyncio.sleep(0.2)
        return None

    async def rollback(self, action: Rollback, copying: asyncio.Task[Path | None]) -> None:
        """Kill, exchange the log for the copy, start; and what an operator would do then."""
        process, record = action.process, self._record
        copy = await copying
        if copy is None or not await self._has_logged_since(process, copy):
            because = "its log cannot be copied" if copy is None else "nothing was logged since the copy was taken"
            record.say(f"no rollback of {process}: {because}")
            return
        struck = await self._processes.kill(process)
        kept = self._put_aside(process)
        for folder in self._of(process):
            shutil.copytree(copy / folder.name, folder)
        record.happened["rollback"] += struck
        record.say(f"{process} is killed, and its log is that of {action.copied:.1f} s again")
        why = await self._start(process, REFUSED_SECONDS)
        if why is None:
            record.forgotten.append(process)
            record.say(f"{process} is back with its old log, and nobody refuses it: nobody relied on what it lacks")
            return
        record.refused(process, "a rollback", why)
        await self._give_back(process, kept)

    async def _has_logged_since(self, process: SiteId, copy: Path) -> bool:
        """Whether something is in the log that is not in the copy, soon at least."""
        deadline = time.monotonic() + LOGGED_SECONDS
        noted, _ = self._of(process)
        while _ends(copy / noted.name) == _ends(noted):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.1)
        # Were it killed at once, the others could not have heard of what it has logged, and would not miss it.
        await asyncio.sleep(HEARD_SECONDS)
        return True

    # ------------------------------------------------------------------ lost logs
    async def lose(self, action: LostLog) -> None:
        """Kill, remove the log, start; and what an operator would do then."""
        process, record = action.process, self._record
        struck = await self._processes.kill(process)
        record.happened["lost-log"] += struck
        kept = self._put_aside(process)
        record.say(f"{process} is killed, and its log is lost")
        why = await self._start(process, REFUSED_SECONDS)
        if why is None:
            record.problem(f"{process} was started without its log, and nobody refused it")
            return
        record.refused(process, "the loss of its log", why)
        if self._repairs and await self._repair(process):
            await self._come_back(process, "its log was repaired")
        else:
            await self._give_back(process, kept)

    async def _repair(self, process: SiteId) -> bool:
        command = [sys.executable, "-m", "ordercast", "repair", str(self._processes.config(process))]
        command += ["--process", process]
        repair = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await repair.communicate()
        if repair.returncode:
            lines = output.decode(errors="replace").strip().splitlines()
            self._record.problem(f"{process} cannot be repaired: {lines[-1] if lines else 'no reason is given'}")
            return False
        self._record.say(f"{process} is repaired")
        return True

    # ------------------------------------------------------------------ both
    def _put_aside(self, process: SiteId) -> Path:
        kept = self._aside("kept", process)
        for folder in self._of(process):
            if folder.exists():
                shutil.move(folder, kept / folder.name)
        return kept

    async def _start(self, process: SiteId, watched_seconds: float) -> str | None:
        """Start a process; why it is refused, or None when it is back and was not refused for so long."""
        processes = self._processes
        await asyncio.sleep(DOWN_SECONDS)
        await processes.start(process)
        deadline = time.monotonic() + START_SECONDS
        back_since = None
        while processes.is_running(process) and time.monotonic() < deadline:
            if back_since is None and await processes.is_back(process, set(self._living())):
                back_since = time.monotonic()
            if back_since is not None and time.monotonic() - back_since >= watched_seconds:
                return None
            await asyncio.sleep(0.05)
        if not processes.is_running(process):
            return processes.last_words(process)
        return None

    async def _give_back(self, process: SiteId, kept: Path) -> None:
        """The log that it had, as an operator would."""
        for folder in self._of(process):
            shutil.rmtree(folder, ignore_errors=True)
            if (kept / folder.name).exists():
                shutil.move(kept / folder.name, folder)
        await self._come_back(process, "it got its log back")

    async def _come_back(self, process: SiteId, because: str) -> None:
        why = await self._start(process, 0.0)
        if why is not None:
            self._record.problem(f"{process} does not come back although {because}: {why}")
            # So that the rest of the run can show something, too.
            await self._processes.start(process)
        elif not await self._processes.is_back(process, set(self._living())):
            self._record.problem(f"{process} does not reach everybody although {because}")
        else:
            self._record.say(f"{process} is back: {because}")

    # ------------------------------------------------------------------ away
    async def stay_away(self, action: Away) -> None:
        """Kill, and start after long; meanwhile the others go on, or say for whom they wait."""
        process, processes, record = action.process, self._processes, self._record
        struck = await processes.kill(process)
        record.happened["away"] += struck
        record.say(f"{process} is away for {action.seconds:.1f} s")
        began = time.monotonic()
        first: dict[SiteId, int] = {}
        last: dict[SiteId, int] = {}
        blocked: dict[str, None] = {}
        while (left := began + action.seconds - time.monotonic()) > 0:
            await asyncio.sleep(min(left, LOOK_SECONDS))
            for other in sorted(set(self._living()) - {process}):
                status = await processes.status(other)
                if status is not None:
                    last[other] = sum(status["offsets"].values())
                    first.setdefault(other, last[other])
                    if status["blocked"]:
                        blocked[f"{other}: {status['blocked']}"] = None
        await processes.start(process)
        delivered = max((last[other] - first[other] for other in last), default=0)
        named = tuple(line for line in blocked if _names(line.partition(": ")[2], process))
        absence = Absence(process, round(time.monotonic() - began, 2), delivered, named)
        record.absences.append(absence)
        record.say(f"{process} is started again; the others delivered {delivered:,} meanwhile")
        if named:
            record.say(f"and waited for it: {named[0]}")


def _names(words: str, process: SiteId) -> bool:
    """Whether words speak of a process, and not only of one of its messages."""
    return re.search(rf"(?<!\w){re.escape(process)}(?!\w|:\d)", words) is not None


def _ends(folder: Path) -> dict[str, bytes]:
    """Log -> where it ended, as it is noted."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
