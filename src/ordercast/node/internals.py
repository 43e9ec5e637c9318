"""A node from the inside: what stands between the application and the protocol. Nothing here is for applications."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
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
    Rollback,
    ServiceUnavailable,
)
from ordercast.node.asking import Asking
from ordercast.node.callbacks import Callbacks
from ordercast.node.configuration import Configuration
from ordercast.node.engine import Engine
from ordercast.node.errors import NodeClosed, NodeFailed
from ordercast.node.history import History
from ordercast.node.inbox import Inbox
from ordercast.node.journal import Attachment
from ordercast.node.key_seeking import KeySeeking
from ordercast.node.membership import Membership
from ordercast.node.obstacles import Obstacles
from ordercast.node.outside import Outside
from ordercast.node.receipts import Receipts
from ordercast.node.receiver import Receiver, keeps_sending_order
from ordercast.node.sender import Sender
from ordercast.node.senders import Senders
from ordercast.node.serving.served import Served
from ordercast.node.state_transfer import StateTransfer
from ordercast.node.views import Views, log_moves

logger = logging.getLogger("ordercast.node")

CLOSE_SECONDS = 5.0
"""How long a process that closes, or leaves a group, waits for its last messages to be accepted, at the most."""
CLOSE_STILL_SECONDS = 0.6
"""And how long while nothing moves: the others may be closing too. So an end takes less than a second."""
CLOSE_BLOCKED_SECONDS = 0.2
"""The same where the log has said that the group cannot go on."""


class Internals:
    """One process from its start to its end; what a live site calls its `Application` (`ordercast.net.application`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, configuration: Configuration, process: SiteId) -> None:
        """Open everything; `UsageError` when something cannot be opened."""
        self._loop = loop
        self.process = process
        self.thread = get_ident()
        """Where everything happens."""
        self.failure: NodeFailed | None = None
        self.over = asyncio.Event()
        """Set when nothing comes or leaves any more."""
        self.engine = engine = Engine(loop, configuration, process, self, self._attachment)
        contract = engine.contract
        self._callbacks = callbacks = Callbacks()
        payload_max = configuration.payload_max
        self.receipts = receipts = Receipts(process, contract, self.told_obstacles)
        """Who waits until a message has its place."""
        self.senders = Senders(
            loop, lambda: Sender(loop, engine.site.request, payload_max, callbacks, not contract.dynamic, receipts.drop)
        )
        """The ways out."""
        self.sender = self.senders.main
        """The way of messages to the last address."""
        self.membership = Membership(loop, engine.site)
        heard = engine.protocol.wants_consumed
        self.views = Views(lambda: engine.groups)
        self.receiver = Receiver(
            [self.views.current(name) for name, members in engine.groups.items() if process in members],
            configuration.payload_max,
            engine.journal.attachment,
            history_bytes=configuration.history_bytes if configuration.is_looked_at(process) else 0,
            on_taken=engine.site.consumed if heard else self._on_taken_unheard,
            callbacks=callbacks,
            in_source_order=keeps_sending_order(engine.contract),
            is_own=lambda bundle: bundle.source == process and bundle.incarnation == engine.journal.incarnation,
            on_ordered=receipts.ordered,
            on_early=receipts.early,
        )
        """The way in."""
        self.deliver: Callable[[InstanceId, Deliver | Replay], None] = (
            self.receiver.deliver if heard else self._deliver_unheard
        )
        """Takes bundles from the protocol."""
        self.transfer = StateTransfer(loop, process, engine.site, engine.transport.buffer_bytes, self.receiver.counters)
        """Beside both."""
        self._key_seeking = KeySeeking(loop, engine, self.transfer, self.receiver)
        self.obstacles = self._make_obstacles(None)
        """What is in the way of everything."""
        self._obstacles_in: dict[GroupId, Obstacles] = {}
        self._unknown: set[SiteId] = set()
        """Members of the last view of whom nobody has told where they are."""
        self._outside = Outside(process, engine.is_configured)
        self._last_address: Address | None = None
        """It was in order, and most messages have the same one as the message before."""
        self._queue_bytes = configuration.queue_bytes
        self._holds_the_network = False
        self._peer_waiters: list[asyncio.Future[None]] = []
        self._is_started = False
        self._take_snapshots: dict[str, Callable[[], bytes | None]] = {}
        self.hand_over: dict[GroupId, Callable[[bool], Coroutine[None, None, None]]] = {}
        """What a group that was joined is not left before: its state is given to others, or (patiently) to those who
        are still to come."""
        self.served: dict[GroupId, Served] = {}  # what clients may call
        self.asking = Asking(self)

    # ------------------------------------------------------------------ the end
    def end(self, settled: bool) -> None:
        """Stop at once; `settled` is what the trace says of the run."""
        if self.over.is_set():
            return
        self.over.set()
        why = self.failure or NodeClosed("the node is closed")
        all_steps: tuple[Callable[[], None], ...] = (
            self.obstacles.stop,
            *(obstacles.stop for obstacles in self._obstacles_in.values()),
            self._key_seeking.end,
            self.transfer.stop,
            partial(self.engine.stop, settled),
            partial(self.senders.fail, why),
            partial(self.receipts.close, why),
            partial(self.membership.end, why),
            partial(self.receiver.close, self.failure),
            partial(self.views.end, self.failure),
            self.peers_changed,
        )
        try:
            # Every step, whatever the others raise: somebody waits for each of them.
            with ExitStack() as steps:
                for step in all_steps:
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
        """The address of a message, whose way out is `sender` then; `UsageError` for one to which the protocol cannot
        multicast.

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
            check_address(engine.contract, engine.groups, engine.sites, address, "process")
            engine.check_groups(address[0])
            self.sender = self.senders.find(address)
            self._last_address = address
        return address

    # ------------------------------------------------------------------ the others
    def peers_changed(self) -> None:
        """Another process is within reach, or somebody has come or gone."""
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

    def rollback(self, instance: InstanceId, effect: Rollback) -> None:
        """A delivery is taken back."""
        self.receiver.take_back(effect.multicast)

    def install_view(self, instance: InstanceId, effect: InstallView) -> None:
        """The members of a group have agreed on who they are; a view may have the senders only."""
        self._last_address = None
        for view in self.views.install(effect):
            log_moves(view, self.engine.contract.view_word, effect)
            self.receiver.install(view)
            if self.process in (*view.members, *self.engine.groups.get(view.group, ())):
                self.membership.installed(view.group)
        unknown = set(self.engine.find_unknown(effect.members))
        for name in sorted(unknown - self._unknown):
            logger.warning(
                "process %s takes part, and %s does not know where it is: ordercast processes add %s HOST:PORT",
                name,
                self.process,
                name,
            )
        self._unknown = unknown
        self.peers_changed()

    def enter_group(self, instance: InstanceId, effect: EnterGroup) -> None:
        """The deliveries of a group begin here, or go on, perhaps behind a gap."""
        self._last_address = None
        group = effect.group
        if self.receiver.find(group) is not None:
            self.receiver.enter(group, effect.offset, elsewhere=group in self._outside)
        elif not self._outside.stays_in(group):
            # (A configured one has an inbox from the start, unless the application has left it.)
            if self.membership.wants(group):
                self.receiver.open(group, effect.offset)
            else:
                with suppress(UsageError):
                    self.membership.give_up(group)
        self._outside.entered(group)

    def exit_group(self, instance: InstanceId, effect: ExitGroup) -> None:
        """This process has left a group, or the others have gone on without it."""
        self._last_address = None
        group = effect.group
        if self.membership.exited(group):
            self._forget(group)
        elif self.receiver.find(group) is not None:
            self._outside.exited(group)

    def _forget(self, group: GroupId) -> None:
        """This process is out of a group, and its application knows it."""
        self.receiver.forget(group)
        self.views.forget(group)
        why = UsageError(f"group {group!r} was left: join it again")
        self.senders.forget(group, why)
        self.receipts.drop((group,), why)
        self._key_seeking.stop(group)
        obstacles = self._obstacles_in.pop(group, None)
        if obstacles is not None:
            obstacles.stop()

    def join_refused(self, instance: InstanceId, effect: JoinRefused) -> None:
        """A join will not come about."""
        self.membership.refused(effect.group, effect.reason)

    def activate(self, instance: InstanceId, effect: Activate) -> None:
        """What is delivered in a group has another service from here on."""
        if self.membership.activated(effect.group, effect.service, effect.source):
            self.receiver.tell_gap(effect.group, effect.source, effect.shared)

    def service_unavailable(self, instance: InstanceId, effect: ServiceUnavailable) -> None:
        """A service cannot be had."""
        if not self.membership.unavailable(effect.group, effect.service, effect.source, effect.reason):
            logger.warning(
                "process %s cannot have service %s in group %s any more: %s",
                self.process,
                effect.service,
                effect.group,
                effect.reason,
            )

    async def join(self, names: tuple[GroupId, ...], role: str, service: str) -> Inbox:
        """Be in the groups, and take their deliveries from here on. Where one cannot be joined, or nobody waits any
        more, those that this has joined are left."""
        entered: list[GroupId] = []
        try:
            for name in names:
                if not self._outside.stays_in(name):
                    await self.wait_started()
                    await self.membership.wait_left(name)
                    # (The protocol may be in it, and what it says of that under way: of a join that was given up.)
                    if self.process not in self.engine.groups.get(name, ()) or self.receiver.find(name) is None:
                        await self.membership.enter(name, role, service)
                        entered.append(name)
                        continue
                if role:
                    self.membership.choose_role(name, role)
                if service:
                    await self.membership.choose_service(name, service, ())
            views = {name: self.views.current(name) for name in names}
            return self.receiver.claim(names, views)
        except BaseException:
            for name in entered:
                with suppress(OrdercastError):
                    self.membership.give_up(name)
            for name in names:
                if not self.membership.wants(name):
                    self.receiver.forget(name)
            raise

    async def was_in(self, name: GroupId) -> bool:
        """Whether this process is in a group since its log began, or as configured. (If it has left one that no file
        names, and joins it again, or another of that name, what it has kept is not that group's.)"""
        if not self.engine.is_configured(name):
            await self.wait_started()
        return self.process in self.engine.groups.get(name, ())

    @property
    def is_dynamic(self) -> bool:
        """Whether there may be groups that no file names."""
        return self.engine.contract.dynamic

    async def leave_for_good(self) -> None:
        """A process that closes and keeps no log never comes back as who it was: the others need not wait for it."""
        if self.engine.journal.stable or not self.is_dynamic:
            return
        mine = [name for name, members in self.engine.groups.items() if self.process in members]
        joined = [name for name in mine if not self._outside.stays_in(name)]
        await self._hand_over(joined, is_patient=False)
        with suppress(OrdercastError, TimeoutError):
            async with asyncio.timeout(CLOSE_STILL_SECONDS):
                await asyncio.gather(*map(self.membership.give_up, joined))

    async def _hand_over(self, names: list[GroupId], is_patient: bool) -> None:
        """Before groups are left."""
        await asyncio.gather(*(self.hand_over[name](is_patient) for name in names if name in self.hand_over))

    async def remove_process(self, name: SiteId) -> None:
        """Take a process out of every group that is gone for good; done when that is delivered here."""
        self.engine.remove_process(name)
        await self._wait_until(lambda: name not in self.engine.sites)
        self.engine.forget_process(name)

    async def leave_named(self, name: GroupId) -> None:
        """The same for a group by its name, whoever has joined it; `UsageError` when there is nothing to leave."""
        inbox = self.receiver.find(name)
        if inbox is None:
            raise UsageError(f"process {self.process} is not in group {name!r}: there is nothing to leave")
        if self._outside.stays_in(name) and name not in self._outside:
            raise UsageError(f"the configuration has process {self.process} in group {name!r}, and there it stays")
        if len(inbox.groups) > 1:
            others = ", ".join(group for group in inbox.groups if group != name)
            raise UsageError(f"the application takes {name!r} together with {others}: let it leave all of them")
        await self.leave((name,), inbox)

    async def leave(self, names: tuple[GroupId, ...], inbox: Inbox) -> None:
        """Take no more deliveries, and be out of those groups that no file puts this process into."""
        joined = [name for name in names if not self._outside.stays_in(name)]
        if inbox.closed:
            return
        exits: list[asyncio.Future[None]] = []
        try:
            if joined:
                await self._hand_over(joined, is_patient=True)
                await self.senders.drain_while_moving(CLOSE_SECONDS, CLOSE_STILL_SECONDS)
        finally:
            # Whoever stops waiting has left all the same.
            if not self.over.is_set():
                exits = [self.membership.give_up(name) for name in joined]
            self.receiver.release(inbox)
            for name in self._outside.part(names):
                self._forget(name)  # whoever was removed is out of it already
        for answer in exits:
            await asyncio.shield(answer)

    # ------------------------------------------------------------------ flow
    def credit(self, instance: InstanceId, available: int, group: GroupId | None, under_way: int | None) -> None:
        """The protocol takes so many more bundles."""
        self.senders.on_credit(available, group, under_way)
        if group is not None:
            self._last_address = None  # it may have its own way out from now on

    def blocked(self, instance: InstanceId, by: str, reason: str, group: GroupId | None) -> None:
        """Something is in the way, or no longer."""
        if group is None:
            self.obstacles.change(by, reason)
            return
        if group not in self._obstacles_in:
            self._obstacles_in[group] = self._make_obstacles(group)
        self._obstacles_in[group].change(by, reason)

    def _make_obstacles(self, group: GroupId | None) -> Obstacles:
        return Obstacles(
            self._loop, self.process, self.receiver.unread, lambda reason: self.senders.on_blocked(reason, group)
        )

    def told_obstacles(self, groups: Sequence[GroupId] = ()) -> str:
        """Why nothing goes on in these groups, or in any when none is named, once that has lasted; empty when it
        does."""
        own = [obstacles for name, obstacles in self._obstacles_in.items() if not groups or name in groups]
        return "; ".join(each.told for each in (self.obstacles, *own) if each.told)

    @property
    def searching(self) -> str:
        """Who is looked for, where no file says who there is."""
        discovery = self.engine.discovery
        looked_for = [] if discovery is None else discovery.status()["looked_for"]
        return f"looking for {', '.join(looked_for)}" if looked_for else ""

    def why_not_in(self, groups: Sequence[GroupId]) -> str:
        """Why a join takes long."""
        return self.told_obstacles(groups) or self.searching or "those who are in it do not answer"

    @property
    def obstacle_reasons(self) -> str:
        """Why there is no progress now, wherever, told or not."""
        return "; ".join(each.reasons for each in (self.obstacles, *self._obstacles_in.values()) if each.reasons)

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
        self.engine.tell_others()
        self.receiver.caught_up()
        self.receiver.resume_seeking()
        self.senders.start()
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
        """The last deliveries of a group, where the configuration has a `control`, or `[clients]`."""
        self.views.members(group)
        if group not in self.receiver.histories:
            join = "; join it first" if self.is_dynamic else ""
            raise UsageError(f"process {self.process} is not in group {group!r} and sees nothing of it{join}")
        return self.receiver.histories[group]

    def keep_snapshot(self, take: Callable[[], bytes | None], name: str) -> bytes | None:
        """From now on ask for a snapshot under this name whenever the log is cut short; the last one that was kept."""
        if name in self._take_snapshots:
            who = f"{name!r}" if name else "the application"
            raise UsageError(f"a snapshot of {who} is kept already: give each its own name")
        self._take_snapshots[name] = take
        return self._kept_snapshots().get(name)

    def take_no_snapshot(self, name: str) -> None:
        """Ask for none under this name any more; what was kept stays."""
        self._take_snapshots.pop(name, None)

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
