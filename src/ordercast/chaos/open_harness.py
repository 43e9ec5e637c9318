"""Runs a plan in which processes come and go: no file names them, they find each other by seeds, and lose datagrams
themselves, for nobody can stand between processes that tell each other where they are."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ordercast.chaos.harness import END_SECONDS, Harness
from ordercast.chaos.schedule import Action, Join, Leave
from ordercast.chaos.worker import cut_path
from ordercast.core import SiteId, UsageError
from ordercast.node.control import ask_once

CHANGE_SECONDS = 60.0
"""Until a process must be in the group, or out of it: with some of the others down, that takes until they are back."""


class OpenHarness(Harness):
    """One run, in a folder of its own."""

    def _more_work(self, process: SiteId) -> dict[str, Any]:
        groups = self._groups_of(process)
        plan, quorum = self._plan, self._cluster.quorum
        return {"groups": groups, "loss": plan.loss, "duplication": plan.duplication, "quorum": quorum}

    def _build(self) -> None:
        late = {action.process for action in self._plan.actions if isinstance(action, Join)}
        self._here: list[SiteId] = [name for name in self._cluster.processes if name not in late]
        self._write_configs()

    def _first(self) -> list[SiteId]:
        return list(self._here)

    async def _wait_for_first(self, first: Sequence[SiteId]) -> None:
        for name in first:
            await self._wait_in(name)

    def _set_weather(self) -> None:
        """Each process makes its own, until its orders end, and is told where nothing is to arrive."""
        for name in self._cluster.processes:
            apart = {
                other
                for side in self._partitions
                for other in self._cluster.processes
                if (other in side) != (name in side)
            }
            path = cut_path(self._folder, name)
            beside = path.with_suffix(".new")
            beside.write_text(json.dumps(sorted(self._real[other][1] for other in apart)))
            beside.replace(path)

    def _calm(self) -> None:
        """The same."""

    def _close_network(self) -> None:
        """There is none."""

    async def _count_network(self) -> Counter[str]:
        counters: Counter[str] = Counter()
        for process in self._living():
            status = await self._processes.status(process)
            dropped: dict[str, int] = {} if status is None else status["dropped"]
            counters["lost"] += dropped.get("disturbance-lost", 0)
            counters["duplicated"] += dropped.get("disturbance-repeated", 0)
        return counters

    def _living(self) -> list[SiteId]:
        return [process for process in self._here if process not in self._dead]

    def _write_configs(self) -> None:
        """Whoever starts next knows where some of those are who run now."""
        for name in self._here:
            host, port = self._real[name]
            others = [f'"{h}:{p}"' for h, p in (self._real[each] for each in self._here if each != name)]
            lines = [
                *self._common_lines(),
                "max_datagram = 1450",
                "[discovery]",
                f'listen = "{host}:{port}"',
                f"seeds = [{', '.join(others)}]",
                *self._option_lines(self._cluster.options),
            ]
            self._processes.configure(name, lines)

    # ------------------------------------------------------------------ changes
    async def _strike(self, action: Action) -> None:
        if isinstance(action, Join):
            async with self._turns[action.process]:
                with self._record.striking("join", action.process):
                    await self._join(action.process)
        elif isinstance(action, Leave):
            async with self._turns[action.process]:
                with self._record.striking("leave", action.process):
                    await self._leave(action.process)
        else:
            await super()._strike(action)

    async def _join(self, process: SiteId) -> None:
        began = time.monotonic()
        self._here.append(process)
        self._write_configs()
        await self._processes.start(process)
        await self._wait_in(process)
        self._record.happened["join"] += 1
        self._record.say(f"{process} has come: it is in after {time.monotonic() - began:.1f} s")

    async def _leave(self, process: SiteId) -> None:
        # One that was killed a moment ago may not be back in its groups, and what it is not in it cannot leave.
        await self._wait_in(process)
        began = time.monotonic()
        for group in self._groups_of(process):
            await self._ask(process, {"command": "leave", "group": group, "timeout": CHANGE_SECONDS})
        taken = time.monotonic() - began
        self._processes.signal(process, signal.SIGUSR1)
        self._processes.signal(process, signal.SIGTERM)
        code = await self._processes.wait_ended(process, END_SECONDS)
        if code != 0:
            self._record.problem(f"{process} has left and did not end well: {self._processes.last_words(process)}")
        self._here.remove(process)
        self._write_configs()
        self._record.happened["leave"] += 1
        self._record.say(f"{process} has left, in {taken:.1f} s")

    async def _ask(self, process: SiteId, request: dict[str, Any]) -> None:
        try:
            await ask_once(self._folder / f"{process}.sock", request)
        except UsageError as error:
            self._record.problem(f"{process} cannot leave: {error}")

    async def _wait_in(self, process: SiteId) -> None:
        """Until a process is in its groups and has the books, also when it is killed and started again meanwhile; that
        it is not, in time, is a problem."""
        deadline, groups = time.monotonic() + CHANGE_SECONDS, self._groups_of(process)
        while process in self._here and not self._processes.has_ended(process):
            status = await self._processes.status(process)
            if status is not None and status["offsets"].keys() >= set(groups) and not _is_taking(status):
                return
            if time.monotonic() > deadline:
                self._record.problem(f"{process} is not in {', '.join(groups)} after {CHANGE_SECONDS:g} s: {status}")
                return
            await asyncio.sleep(0.05)


def _is_taking(status: dict[str, Any]) -> bool:
    """Whether the books are still on their way to this process."""
    return any("from" in transfer for transfer in status["transfers"])
