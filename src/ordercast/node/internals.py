"""A node from the inside: what stands between the application and the protocol. Nothing here is for applications."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from threading import get_ident

from ordercast.core import Address, GroupId, InstanceId, OrdercastError, SiteId, UsageError
from ordercast.core.address import check_address
from ordercast.core.effects import (
    Activate,
    Deliver,
    EnterGroup,
    ExitGroup,
    InstallView,
    JoinRefused,
    Replay,
    ServiceUnavailable,
)
from ordercast.node.callbacks import Callbacks
from ordercast.node.configuration import Configuration
from ordercast.node.engine import Engine
from ordercast.node.errors import NodeClosed, NodeFailed
from ordercast.node.history import History
from ordercast.node.journal import Attachment
from ordercast.node.obstacles import Obstacles
from ordercast.node.receiver import Receiver
from ordercast.node.sender import Sender
from ordercast.node.views import Views

logger = logging.getLogger("ordercast.node")


class Internals:
    """One process from its start to its end. It is what a live site calls its application (see
    `ordercast.net.site.Application`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, configuration: Configuration, process: SiteId) -> None:
        """Open everything; `UsageError` when something cannot be opened."""
        self.process = process
        self.thread = get_ident()
        """Where everything happens."""
        self.failure: NodeFailed | None = None
        self.over = asyncio.Event()
        """Set when nothing comes or leaves any more."""
        self.engine = engine = Engine(loop, configuration, process, self, self._attachment)
        self._callbacks = callbacks = Callbacks()
        self.sender = Sender(loop, engine.site.request, configuration.payload_max, callbacks)
        """The way out."""
        heard = engine.protocol.wants_consumed
        self.views = Views(engine.groups)
        self.receiver = Receiver(
            [self.views.current(name) for name, members in engine.groups.items() if process in members],
            configuration.payload_max,
            engine.journal.attachment,
            with_history=configuration.control is not None,
            on_taken=engine.site.consumed if heard else self._on_taken_unheard,
            callbacks=callbacks,
        )
        """The way in."""
        self.deliver: Callable[[InstanceId, Deliver | Replay], None] = (
            self.receiver.deliver if heard else self._deliver_unheard
        )
        """Takes bundles from the protocol."""
        self.obstacles = Obstacles(loop, process, self.receiver.unread, self.sender.on_blocked)
        self._last_address: Address | None = None
        """It was in order, and most messages have the same one as the message before."""
        self._loop = loop
        self._queue_bytes = configuration.queue_bytes
        self._holds_the_network = False
        self._peer_waiters: list[asyncio.Future[None]] = []
        self._is_started = False
        self._take_snapshots: dict[str, Callable[[], bytes | None]] = {}

    # ------------------------------------------------------------------ the end
    def end(self, settled: bool) -> None:
        """Stop at once; `settled` is what the trace says of the run."""
        if self.over.is_set():
            return
        self.over.set()
        try:
            # Every step, whatever the others raise: somebody waits for each of them.
            with ExitStack() as steps:
                for step in (
                    self.obstacles.stop,
                    partial(self.engine.stop, settled),
                    partial(self.sender.fail, self.failure or NodeClosed("the node is closed")),
                    partial(self.receiver.close, self.failure),
                    partial(self.views.end, self.failure),
                    self.peers_changed,
                ):
                    steps.callback(step)
        except Exception as error:
            foreseen = isinstance(error, OrdercastError | OSError)
            logger.error(
                "process %s did not end in good order: %s", self.process, error, exc_info=None if foreseen else error
            )

    def failed(self, error: BaseException) -> None:
        """The process cannot go on."""
        if not self.over.is_set():
            self.failure = error if isinstance(error, NodeFailed) else NodeFailed(str(error) or type(error).__name__)
            if self.failure is not error:
                self.failure.__cause__ = error
            # One line says what is wrong where that was foreseen; else it is a bug, here or in the application.
            foreseen = isinstance(error, OrdercastError | OSError)
            logger.error("process %s stops: %s", self.process, self.failure, exc_info=None if foreseen else error)
            self.end(settled=False)

    # ------------------------------------------------------------------ addresses
    def address(self, groups: Sequence[GroupId], destinations: Sequence[SiteId] | None = None) -> Address:
        """The address of a message; `UsageError` for one to which the protocol cannot multicast.

        Asked by the caller and not when the bundle leaves: the mistake is this caller's, and others' messages are in
        the bundle.
        """
        address: Address
        if type(groups) is str:
            raise UsageError(f"groups is a list of names: [{groups!r}], not {groups!r}")
        if destinations is None:
            address = (tuple(groups), None)
        elif type(destinations) is str:
            raise UsageError(f"destinations is a list of names: [{destinations!r}], not {destinations!r}")
        elif groups:
            raise UsageError("a message goes to groups or to destinations, not to both: send two")
        else:
            address = ((), tuple(sorted(set(destinations))))
        if address != self._last_address:
            engine = self.engine
            check_address(engine.protocol.contract, engine.groups, engine.sites, address, "process")
            self._last_address = address
        return address

    # ------------------------------------------------------------------ the others
    def peers_changed(self) -> None:
        """Another process is within reach."""
        waiting, self._peer_waiters = self._peer_waiters, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_peers(self, wanted: set[SiteId]) -> None:
        """Wait until these processes talk with this one."""
        await self._wait_until(lambda: wanted <= self.engine.endpoint.established)

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self.over.is_set():
                raise self.failure or NodeClosed("the node is closed")
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._peer_waiters.append(waiter)
            await waiter

    def install_view(self, instance: InstanceId, effect: InstallView) -> None:
        """The members of a group have agreed on who they are."""
        for view in self.views.install(effect):
            self.receiver.install(view)

    def enter_group(self, instance: InstanceId, effect: EnterGroup) -> None:
        """The deliveries of a group go on here, perhaps behind a gap."""
        self.receiver.enter(effect.group, effect.offset)

    def exit_group(self, instance: InstanceId, effect: ExitGroup) -> None:
        """The others have gone on without this process."""
        logger.warning(
            "process %s was away for longer than the others keep what group %s orders: it goes on where they are",
            self.process,
            effect.group,
        )

    def join_refused(self, instance: InstanceId, effect: JoinRefused) -> None:
        """A join will not come about."""
        logger.warning("process %s cannot join group %s: %s", self.process, effect.group, effect.reason)

    def activate(self, instance: InstanceId, effect: Activate) -> None:
        """What is delivered in a group has another service from here on."""

    def service_unavailable(self, instance: InstanceId, effect: ServiceUnavailable) -> None:
        """A service cannot be had."""
        logger.warning(
            "process %s cannot have service %s in group %s: %s",
            self.process,
            effect.service,
            effect.group,
            effect.reason,
        )

    # ------------------------------------------------------------------ flow
    def credit(self, instance: InstanceId, available: int, group: GroupId | None) -> None:
        """The protocol takes so many more bundles."""
        self.sender.on_credit(available)

    def blocked(self, instance: InstanceId, by: str, reason: str, group: GroupId | None) -> None:
        """Something is in the way, or no longer."""
        self.obstacles.change(by, reason)

    def started(self, silent: Sequence[SiteId]) -> None:
        """The others were asked whether they know of a later history, and the protocol has begun."""
        if silent:
            first = self.engine.journal.incarnation == 0
            logger.log(
                logging.INFO if first else logging.WARNING,
                "process %s starts without an answer from %s: should its log have lost something that they relied on, "
                "it ends when they are heard",
                self.process,
                ", ".join(silent),
            )
        self.sender.start()
        self._is_started = True
        self.peers_changed()

    async def wait_started(self) -> None:
        """Wait until the protocol runs, and has handed over what the log holds for the application."""
        await self._wait_until(lambda: self._is_started)

    def recovered(self, instance: InstanceId) -> None:
        """The instance takes part fully again after a crash."""
        self.engine.journal.settle()
        logger.info("process %s has recovered as incarnation %d", self.process, self.engine.journal.incarnation)

    def _deliver_unheard(self, instance: InstanceId, effect: Deliver | Replay) -> None:
        self.receiver.deliver(instance, effect)
        if not self._holds_the_network and self.receiver.waiting_bytes >= self._queue_bytes:
            # The protocol does not care whether anybody reads: the only way to hold its senders is the network's.
            logger.warning("the application of %s is too slow: the network has to wait", self.process)
            self._holds_the_network = True
            self.engine.transport.pause()

    def _on_taken_unheard(self) -> None:
        if self._holds_the_network and self.receiver.waiting_bytes <= self._queue_bytes // 2:
            self._holds_the_network = False
            self.engine.transport.resume()

    # ------------------------------------------------------------------ what was delivered before
    def history(self, group: GroupId) -> History:
        """The last deliveries of a group, where the configuration has a `control`."""
        self.views.members(group)
        if group not in self.receiver.histories:
            raise UsageError(f"process {self.process} is not in group {group!r} and sees nothing of it")
        return self.receiver.histories[group]

    def keep_snapshot(self, take: Callable[[], bytes | None], name: str) -> bytes | None:
        """From now on ask for a snapshot under this name whenever the log is cut short; the last one that was kept."""
        if name in self._take_snapshots:
            who = f"{name!r}" if name else "the application"
            raise UsageError(f"a snapshot of {who} is kept already: give each its own name")
        self._take_snapshots[name] = take
        return self._kept_snapshots().get(name)

    def _kept_snapshots(self) -> dict[str, bytes]:
        attachment = self.engine.journal.attachment
        return attachment.named if attachment.snapshot is None else {**attachment.named, "": attachment.snapshot}

    def _attachment(self) -> Attachment:
        # The log is about to forget what it has delivered: what has not reached us yet would be lost.
        self.engine.site.hand_over()
        # Whoever has not come yet to ask for its own must find it next time.
        snapshots: dict[str, bytes | None] = {**self._kept_snapshots()}
        self._callbacks.running += 1
        snapshots |= {name: take() for name, take in self._take_snapshots.items()}
        self._callbacks.running -= 1
        kept = {name: snapshot for name, snapshot in snapshots.items() if snapshot is not None}
        return self.receiver.attachment(kept)
