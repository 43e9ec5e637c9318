"""The node: one process of a cluster, as its application sees it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ordercast.core import GroupId, InstanceId, SiteId, UsageError
from ordercast.core.effects import Deliver, InstallView, Replay
from ordercast.node.addresses import show_address
from ordercast.node.configuration import Configuration, read_configuration
from ordercast.node.control import ControlServer
from ordercast.node.deliveries import View
from ordercast.node.engine import Engine
from ordercast.node.errors import NodeClosed, NodeFailed
from ordercast.node.group import Group
from ordercast.node.history import History
from ordercast.node.journal import Attachment
from ordercast.node.receiver import DIRECT, Receiver
from ordercast.node.sender import Address, Sender

logger = logging.getLogger("ordercast.node")

CLOSE_SECONDS = 5.0
"""How long a node that is closed waits for its last messages to be accepted, at the most."""
CLOSE_STILL_SECONDS = 1.0
"""And how long while nothing moves: the others may be closing too, and never answer."""

BLOCKED_SECONDS = 2.0
"""How long a group may stand still until the application hears of it: longer than a restart of a small process."""


class Node:
    """One process. Made by `ordercast.open`; everything happens in the event loop that enters it."""

    def __init__(self, configuration: Configuration, process: SiteId) -> None:
        if process not in configuration.processes:
            raise UsageError(
                f"there is no process {process!r} in [processes]; known: {', '.join(sorted(configuration.processes))}"
            )
        self.configuration = configuration
        self.process = process
        self.sender: Sender
        """The way out."""
        self.deliver: Callable[[InstanceId, Deliver | Replay], None]
        """Takes bundles from the protocol."""
        self._running: Engine | None = None
        self._claimed: set[GroupId] = set()
        self._views: dict[GroupId, View] = {}
        self._view_watchers: list[asyncio.Queue[View | None]] = []
        self._peer_waiters: list[asyncio.Future[None]] = []
        self._control: ControlServer | None = None
        self._failure: NodeFailed | None = None
        self._over = asyncio.Event()
        self._obstacles: dict[str, str] = {}
        self._blocked = ""
        self._patience: asyncio.TimerHandle | None = None
        self._holds_the_network = False
        self._last_groups: tuple[GroupId, ...] | None = None
        """They were in order, and most messages go where the one before went."""
        self._take_snapshot: Callable[[], bytes | None] | None = None

    # ------------------------------------------------------------------ life
    async def __aenter__(self) -> Node:
        if self._running is not None:
            raise UsageError("a node is entered once; open another")
        engine = Engine(asyncio.get_running_loop(), self.configuration, self.process, self, self._attachment)
        self._running = engine
        self.sender = engine.sender
        control = self.configuration.control_path(self.process)
        for name, members in engine.groups.items():
            self._views[name] = View("initial", name, members)
        self._receiver = Receiver(
            [name for name, members in engine.groups.items() if self.process in members],
            self.configuration.payload_max,
            engine.journal.attachment,
            with_history=control is not None,
            on_taken=engine.site.consumed if engine.protocol.wants_consumed else self._on_taken_unheard,
        )
        self.deliver = self._receiver.deliver if engine.protocol.wants_consumed else self._deliver_unheard
        try:
            if control is not None:
                self._control = ControlServer(self, control)
                await self._control.start()
            engine.start()
        except BaseException:
            self._end(None, settled=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        settled = self.sender.is_idle
        try:
            if not self._over.is_set() and not await self.sender.drain_while_moving(CLOSE_SECONDS, CLOSE_STILL_SECONDS):
                logger.warning("closed before everyone had everything: %s", self._blocked or "some do not answer")
            if self._control is not None:
                await self._control.stop()
        finally:
            self._end(None, settled)

    def kill(self) -> None:
        """Stop at once, as a crash would: nothing is flushed, and what the log has not is gone."""
        self._end(None, settled=False)

    def failed(self, error: BaseException) -> None:
        """The process cannot go on."""
        if not self._over.is_set():
            self._failure = error if isinstance(error, NodeFailed) else NodeFailed(str(error) or type(error).__name__)
            if self._failure is not error:
                self._failure.__cause__ = error
            logger.error("process %s stops: %s", self.process, error)
            self._end(self._failure, settled=False)

    def _end(self, error: NodeFailed | None, settled: bool) -> None:
        if self._over.is_set():
            return
        self._over.set()
        if self._patience is not None:
            self._patience.cancel()
        self._engine.stop(settled)
        self.sender.fail(error or NodeClosed("the node is closed"))
        self._receiver.close(error)
        for watcher in self._view_watchers:
            watcher.put_nowait(None)
        self.peers_changed()

    async def wait_failed(self) -> None:
        """Wait until the node is over; raises when that is because it failed."""
        await self._over.wait()
        if self._failure is not None:
            raise self._failure

    # ------------------------------------------------------------------ what there is to know
    @property
    def _engine(self) -> Engine:
        if self._running is None:
            raise UsageError("enter the node first: async with ordercast.open(…) as node")
        return self._running

    @property
    def engine(self) -> Engine:
        """What runs below."""
        return self._engine

    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        """Group -> members, as configured."""
        return self._engine.groups

    def members(self, group: GroupId) -> tuple[SiteId, ...]:
        """Who is in a group, as far as this process knows."""
        if group not in self._views:
            raise UsageError(f"there is no group {group!r}; known: {', '.join(self._engine.groups)}")
        return self._views[group].members

    def status(self) -> dict[str, Any]:
        """What there is to know about the node, for people and machines."""
        configuration, engine = self.configuration, self._engine
        control = configuration.control_path(self.process)
        dropped = engine.endpoint.counters + engine.transport.counters + self._receiver.counters
        return {
            "process": self.process,
            "cluster": configuration.cluster,
            "protocol": configuration.protocol,
            "address": show_address(configuration.processes[self.process]),
            "control": None if control is None else str(control),
            "incarnation": engine.journal.incarnation,
            "sealed": configuration.key_file is not None,
            "stable": engine.journal.stable,
            "peers": sorted(engine.endpoint.established),
            "blocked": self._blocked or None,
            "idle": engine.sender.is_idle,
            "offsets": self._receiver.offsets(),
            "dropped": dict(dropped),
            "branches": dict(engine.core.branches),
        }

    def history(self, group: GroupId) -> History:
        """The last deliveries of a group, where the configuration has a `control`."""
        self.members(group)
        if group not in self._receiver.histories:
            raise UsageError(f"process {self.process} is not in group {group!r} and sees nothing of it")
        return self._receiver.histories[group]

    async def wait_for_peers(self, *processes: SiteId) -> None:
        """Wait until these processes (by default all) run and talk with this one.

        Nobody has to: messages wait for those that come later, wherever the protocol does not give them up.
        """
        engine = self._engine
        wanted = set(processes or engine.sites) - {self.process}
        for process in sorted(wanted - set(engine.sites)):
            raise UsageError(f"there is no process {process!r}; known: {', '.join(engine.sites)}")
        while not wanted <= engine.endpoint.established:
            if self._over.is_set():
                raise self._failure or NodeClosed("the node is closed")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._peer_waiters.append(waiter)
            await waiter

    # ------------------------------------------------------------------ groups
    async def join(self, *names: GroupId) -> Group:
        """Take the deliveries of a group; of several, in one order.

        Where groups are static, a member's deliveries wait for it from the start, so it misses nothing.
        """
        if not names:
            raise UsageError("join which group?")
        for name in names:
            members = self.members(name)
            if name in self._claimed:
                raise UsageError(f"group {name!r} is joined already")
            if self.process not in members:
                raise UsageError(
                    f"process {self.process} is not in group {name!r}: name it among the members in [groups]"
                )
        self._claimed.update(names)
        return Group(self, names, self._receiver.claim(names))

    def direct(self) -> Group:
        """Messages that are addressed to this process, not to a group."""
        return Group(self, (), self._receiver.claim((DIRECT,)))

    async def leave(self, group: Group) -> None:
        """Take no more deliveries of a group; what waits is dropped."""
        self._receiver.release(group.inbox)
        self._claimed.difference_update(group.names)

    async def views(self, names: tuple[GroupId, ...]) -> AsyncIterator[View]:
        """Who is in the groups: now, and whenever that changes."""
        watcher: asyncio.Queue[View | None] = asyncio.Queue()
        self._view_watchers.append(watcher)
        try:
            for name in names:
                self.members(name)
                yield self._views[name]
            while (view := await watcher.get()) is not None:
                if view.group in names:
                    yield view
            if self._failure is not None:
                raise self._failure
        finally:
            self._view_watchers.remove(watcher)

    # ------------------------------------------------------------------ out
    async def multicast(
        self, payload: bytes, groups: Sequence[GroupId] = (), destinations: Sequence[SiteId] | None = None
    ) -> None:
        """Send a message to one or several groups, joined or not; to single processes where the protocol can."""
        address = self._address(tuple(groups), None if destinations is None else tuple(destinations))
        while not self.sender.add(address, payload):
            await self.sender.wait_for_room()

    def try_multicast(self, payload: bytes, groups: Sequence[GroupId]) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        address = self._address(tuple(groups), None)
        if not self.sender.add(address, payload):
            self.sender.refuse()

    async def multicast_many(self, payloads: Sequence[bytes], groups: Sequence[GroupId]) -> None:
        """Send messages to the same groups, in this order."""
        address = self._address(tuple(groups), None)
        sender, taken = self.sender, 0
        while taken < len(payloads):
            if not sender.has_room:
                await sender.wait_for_room()
            taken = sender.add_many(address, payloads, taken)

    async def flush(self) -> None:
        """Wait until everything that this process has sent is accepted."""
        await self._engine.sender.drain()

    def _address(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> Address:
        if destinations is None and groups == self._last_groups:
            return groups, None
        # Here and not when the bundle leaves: the mistake is this caller's, and others' messages are in the bundle.
        contract = self._engine.protocol.contract
        if destinations is not None:
            if not contract.explicit_destinations:
                raise UsageError(f"{contract.name} addresses groups, not single processes")
            unknown = [site for site in destinations if site not in self._engine.sites]
            if unknown or not destinations:
                what = f"there is no process {unknown[0]!r}" if unknown else "a multicast needs a destination"
                raise UsageError(what)
            return (), tuple(sorted(set(destinations)))
        if not groups:
            raise UsageError("a multicast needs at least one group")
        if len(groups) > 1 and not contract.several_groups:
            raise UsageError(f"{contract.name} multicasts to one group at a time, not to {', '.join(groups)}")
        for group in groups:
            self.members(group)
        self._last_groups = groups
        return groups, None

    # ------------------------------------------------------------------ in (see `ordercast.net.site.Application`)
    def _deliver_unheard(self, instance: InstanceId, effect: Deliver | Replay) -> None:
        self._receiver.deliver(instance, effect)
        if not self._holds_the_network and self._receiver.waiting_bytes >= self.configuration.queue_bytes:
            # The protocol does not care whether anybody reads: the only way to hold its senders is the network's.
            logger.warning("the application of %s is too slow: the network has to wait", self.process)
            self._holds_the_network = True
            self._engine.transport.pause()

    def _on_taken_unheard(self) -> None:
        if self._holds_the_network and self._receiver.waiting_bytes <= self.configuration.queue_bytes // 2:
            self._holds_the_network = False
            self._engine.transport.resume()

    def install_view(self, instance: InstanceId, effect: InstallView) -> None:
        """The members of a group have agreed on who they are."""
        for group in effect.groups or tuple(self._views):
            configured = self._engine.groups.get(group, effect.members)
            members = tuple(site for site in effect.members if site in configured)
            view = self._views[group] = View(effect.view, group, members)
            for watcher in self._view_watchers:
                watcher.put_nowait(view)

    def credit(self, instance: InstanceId, available: int) -> None:
        """The protocol takes so many more bundles."""
        self.sender.on_credit(available)

    def blocked(self, instance: InstanceId, by: str, reason: str) -> None:
        """Something is in the way, or no longer. A short wait is how fast senders are held back, and no news."""
        before = bool(self._obstacles)
        if reason:
            self._obstacles[by] = reason
        else:
            self._obstacles.pop(by, None)
        if self._obstacles and not before:
            self._patience = asyncio.get_running_loop().call_later(BLOCKED_SECONDS, self._tell_blocked)
        elif before and not self._obstacles:
            if self._patience is not None:
                self._patience.cancel()
            if self._blocked:
                logger.info("process %s goes on", self.process)
                self._blocked = ""
                self.sender.on_blocked("")
        elif self._blocked:
            self._tell_blocked()

    def _tell_blocked(self) -> None:
        own = [name for name in self._receiver.waiting() if name not in self._claimed]
        hint = f"; process {self.process} has not joined {own[0]}, where its deliveries wait" if own else ""
        self._blocked = "; ".join(self._obstacles.values()) + hint
        logger.warning("process %s is blocked: %s", self.process, self._blocked)
        self.sender.on_blocked(self._blocked)

    def recovered(self, instance: InstanceId) -> None:
        """The instance takes part fully again after a crash."""
        logger.info("process %s has recovered as incarnation %d", self.process, self._engine.journal.incarnation)

    def peers_changed(self) -> None:
        """Another process is within reach."""
        waiting, self._peer_waiters = self._peer_waiters, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    # ------------------------------------------------------------------ what the application keeps in the log
    @property
    def incarnation(self) -> int:
        """How many times this process was started before with its log."""
        return self._engine.journal.incarnation

    def keep_snapshot(self, take: Callable[[], bytes | None]) -> bytes | None:
        """From now on ask for a snapshot of the application whenever the log is cut short; the last one that was kept.

        A snapshot stands for everything that was delivered before it was taken. Deliveries that the log still has come
        again after a restart, with their offsets.
        """
        self._take_snapshot = take
        return self._engine.journal.attachment.snapshot

    def _attachment(self) -> Attachment:
        # The log is about to forget what it has delivered: what has not reached us yet would be lost.
        self._engine.site.hand_over()
        snapshot = self._engine.journal.attachment.snapshot if self._take_snapshot is None else self._take_snapshot()
        return self._receiver.attachment(snapshot)


def open(  # noqa: A001
    configuration: str | Path | Mapping[str, Any], process: SiteId, **overrides: Any
) -> Node:
    """A process of the cluster: `async with ordercast.open("bank.toml", process="branch-7") as node: …`."""
    return Node(read_configuration(configuration, os.environ, overrides), process)
