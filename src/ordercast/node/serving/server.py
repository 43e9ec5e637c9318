"""Listens for clients at the address that the configuration names."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter, deque
from functools import partial
from typing import Any

from ordercast.core import GroupId, UsageError
from ordercast.core.forks import disown_in_forks
from ordercast.node.addresses import HostPort, show_address
from ordercast.node.configuration import Configuration
from ordercast.node.control import stop_listening
from ordercast.node.internals import Internals
from ordercast.node.serving.packets import RUN_BYTES_MAX
from ordercast.node.serving.session import LOOK_SECONDS, Session
from ordercast.node.serving.turns import Turn, Turns
from ordercast.wire.keys import ClusterKeys

logger = logging.getLogger("ordercast.node")

CLIENTS_MAX = 10_000
"""Of one member: each may make it hold about 100 kB."""

STRANGERS_MAX = 500
"""Connections of whoever has not proved yet that it holds the key; with more, the oldest is closed."""

STRANGER_SECONDS = 5.0
"""For which it may be one."""

OTHER_FILES = 250
"""Descriptors of a process that are for something else: its sockets, its log, the application."""

SLOTS = 4
"""Clients that may send a record of more than 256 kB at the same time."""

READ_BYTES = 1 << 18
"""That are read at once: as much as a client sends at once when it is answered."""

RECORD_OVERHEAD = 4096
"""Bytes of a record besides the message that it holds, at most."""

BACKLOG = 1024
"""Connections that the kernel holds while the process is busy: a member that is back has all clients of another."""


def find_room() -> tuple[int, int]:
    """How many clients and how many strangers there may be at a time, for each is an open file of the process.

    (Else: 1. the thousandth client connects, where a process may have 1,024 files. 2. The log cannot open its next
    segment. 3. The member fails.)
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CLIENTS_MAX + STRANGERS_MAX + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return CLIENTS_MAX, STRANGERS_MAX
    room = max(2, soft - OTHER_FILES)
    strangers = min(STRANGERS_MAX, room // 4 + 1)
    logger.warning(
        "this process may have %d files open, so it takes %d clients: raise the limit (ulimit -n) for more",
        soft,
        room - strangers,
    )
    return room - strangers, strangers


class ClientServer:
    """All clients of one member."""

    def __init__(self, internals: Internals, configuration: Configuration, address: HostPort) -> None:
        self.internals = internals
        self.configuration = configuration
        self.loop = asyncio.get_running_loop()
        self.record_bytes_max = max(configuration.payload_max, RUN_BYTES_MAX) + RECORD_OVERHEAD
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        """For whoever is read now."""
        self.counters: Counter[str] = Counter()
        """Clients that were cut, and why."""
        self._address = address
        self._listening: asyncio.Server | None = None
        self._sessions: dict[Session, None] = {}
        """Those who hold the key."""
        self._strangers: dict[Session, None] = {}
        """Those who have not proved it; the oldest first."""
        self._clients_max, self._strangers_max = find_room()
        self._slots = SLOTS
        self._waiting_for_slot: deque[Session] = deque()
        self._turns: dict[GroupId, Turns] = {}
        self._timer: asyncio.TimerHandle | None = None
        disown_in_forks(self)

    @property
    def keys(self) -> ClusterKeys | None:
        """Those of the cluster, as the key file was read last."""
        return self.internals.engine.keys

    async def start(self) -> None:
        """Begin to listen; `UsageError` when that cannot be."""
        host, port = self._address
        try:
            self._listening = await self.loop.create_server(lambda: Session(self), host, port, backlog=BACKLOG)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"cannot listen for clients on {show_address(self._address)} ({reason}): correct [clients]"
            ) from None

    def disown(self) -> None:
        """A fork of the process does not listen."""
        stop_listening(self._listening)

    def stop(self) -> None:
        """Tell all clients to go elsewhere."""
        if self._listening is not None:
            self._listening.close()
        if self._timer is not None:
            self._timer.cancel()
        for turns in self._turns.values():
            turns.stop()
        for session in (*self._sessions, *self._strangers):
            session.cut("the member is closing")

    def kill(self) -> None:
        """Be gone at once, as after a crash."""
        self.stop()
        for session in (*self._sessions, *self._strangers):
            session.abort()

    def status(self) -> dict[str, Any]:
        """For `Node.status`."""
        return {"address": show_address(self._address), "connected": len(self._sessions), "cut": dict(self.counters)}

    # ------------------------------------------------------------------ who is there
    def opened(self, session: Session) -> None:
        """Somebody has connected."""
        self._strangers[session] = None
        if len(self._strangers) > self._strangers_max:
            self.counters["strangers"] += 1
            next(iter(self._strangers)).cut("too many connections without a key")
        if self._timer is None:
            self._timer = self.loop.call_later(LOOK_SECONDS, self._look)

    def greeted(self, session: Session) -> None:
        """It holds the key."""
        self._strangers.pop(session, None)
        self._sessions[session] = None
        if len(self._sessions) > self._clients_max:
            session.cut(f"this member has {self._clients_max} clients: go to another one")

    def closed(self, session: Session) -> None:
        """It is gone."""
        self._strangers.pop(session, None)
        self._sessions.pop(session, None)

    def note_cut(self, session: Session, why: str) -> None:
        """A client was cut."""
        if session.client:
            self.counters["cut"] += 1
            logger.info("client %s is cut: %s", session.client, why)

    def _look(self) -> None:
        self._timer = None
        if self.internals.over.is_set():
            self.stop()
            return
        now = self.loop.time()
        for stranger in tuple(self._strangers):
            if now - stranger.came_at > STRANGER_SECONDS:
                stranger.cut("it has not said who it is")
        for session in tuple(self._sessions):
            session.look(now)
        if self._sessions or self._strangers:
            self._timer = self.loop.call_later(LOOK_SECONDS, self._look)

    # ------------------------------------------------------------------ room
    def is_waited_for(self, group: GroupId) -> bool:
        """Whether somebody waits for room in a group."""
        return bool(self._turns.get(group))

    def wait_for_room(self, group: GroupId, turn: Turn) -> None:
        """Somebody waits for room in a group, behind all who do already."""
        if group not in self._turns:
            self._turns[group] = Turns(partial(self._wait_for_room, group))
        self._turns[group].add(turn)

    async def _wait_for_room(self, group: GroupId) -> None:
        self.internals.address((group,))  # its way out is `sender` then
        await self.internals.sender.wait_for_room()

    # ------------------------------------------------------------------ large records
    def take_slot(self, session: Session) -> bool:
        """Whether a client may go on with a large record; if not, it is told when it may."""
        if self._slots:
            self._slots -= 1
            return True
        if session not in self._waiting_for_slot:
            self._waiting_for_slot.append(session)
        return False

    def give_slot_back(self) -> None:
        """One of them is done."""
        if self._waiting_for_slot:
            self._waiting_for_slot.popleft().give_slot()
        else:
            self._slots += 1

    def wait_for_slot_no_more(self, session: Session) -> None:
        """It is gone."""
        if session in self._waiting_for_slot:
            self._waiting_for_slot.remove(session)
