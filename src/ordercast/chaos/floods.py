"""Floods: somebody without the key sends one process as many datagrams as one sender can."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from pathlib import Path

from ordercast.chaos.flooder import record as record_datagram
from ordercast.chaos.record import Record
from ordercast.chaos.schedule import Flood
from ordercast.core import SiteId
from ordercast.node.addresses import HostPort, show_address

RATE = 50_000
"""Datagrams a second."""

FIRST_MAX, LAST_MAX = 500, 1500
"""Datagrams that are kept for each receiver. (The first ones have handshakes, the last ones are of sessions that
live.)"""


class Recording:
    """What went to each process, for those who forge it or send it again."""

    def __init__(self) -> None:
        self._first: dict[SiteId, list[bytes]] = {}
        self._last: dict[SiteId, deque[bytes]] = {}

    def add(self, receiver: SiteId, datagram: bytes | memoryview) -> None:
        """A datagram passes by."""
        first = self._first.setdefault(receiver, [])
        if len(first) < FIRST_MAX:
            first.append(bytes(datagram))
        else:
            self._last.setdefault(receiver, deque(maxlen=LAST_MAX)).append(bytes(datagram))

    def write(self, receiver: SiteId, path: Path) -> None:
        """What went to one process, on a file."""
        with path.open("wb") as file:
            for datagram in (*self._first.get(receiver, ()), *self._last.get(receiver, ())):
                record_datagram(file, datagram)


class Floods:
    """Starts flooders, each as a process of its own."""

    def __init__(self, folder: Path, seed: int, recording: Recording, record: Record) -> None:
        self._folder = folder
        self._seed = seed
        self._recording = recording
        self._record = record
        self._number = 0

    async def flood(self, action: Flood, where: HostPort) -> None:
        """One flood, from its beginning to its end."""
        self._number += 1
        path = self._folder / f"flood{self._number}"
        self._recording.write(action.process, path)
        command = [sys.executable, "-m", "ordercast.chaos.flooder", show_address(where), "--kind", action.kind]
        command += ["--rate", str(RATE), "--seconds", f"{action.seconds:.3f}", "--recording", str(path)]
        flooder = await asyncio.create_subprocess_exec(
            *command,
            "--seed",
            str(self._seed + self._number),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._record.say(f"{action.process} is flooded ({action.kind}) for {action.seconds:.1f} s")
        try:
            output, errors = await flooder.communicate()
        except BaseException:
            if flooder.returncode is None:
                flooder.kill()
            raise
        if flooder.returncode:
            lines = errors.decode(errors="replace").strip().splitlines()
            self._record.problem(f"the flood did not happen: {lines[-1] if lines else 'no reason is given'}")
            return
        sent = json.loads(output)["sent"]
        if sent:
            self._record.happened["flood"] += 1
            self._record.flooded[action.kind] += sent
