"""The node: one process of a cluster, as its application sees it."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from ordercast.core import GroupId, SiteId, UsageError
from ordercast.node.addresses import show_address
from ordercast.node.configuration import Configuration, check_group_name, check_process, read_configuration
from ordercast.node.control import ControlServer
from ordercast.node.errors import check_thread
from ordercast.node.group import Group
from ordercast.node.internals import CLOSE_BLOCKED_SECONDS, CLOSE_SECONDS, CLOSE_STILL_SECONDS, Internals
from ordercast.node.metrics import MetricsServer
from ordercast.node.receipts import Confirm, Receipt
from ordercast.node.receiver import DIRECT
from ordercast.node.serving.server import ClientServer
from ordercast.node.standing import count_retransmissions, describe_members, describe_sending
from ordercast.node.surroundings import name_of_life
from ordercast.node.typed import TypedGroup
from ordercast.node.typed_schema import TypeSchema

logger = logging.getLogger("ordercast.node")

Value = TypeVar("Value")


class Node:
    """One process. Made by `ordercast.open`; everything happens in the event loop that enters it."""

    def __init__(self, configuration: Configuration, process: SiteId) -> None:
        check_process(configuration, process)
        self.configuration = configuration
        self.place = process
        """What this process was opened as. Where a process that starts again is another one, `process` says besides
        which start this is."""
        self.process = name_of_life(configuration, process)
        self._entered: Internals | None = None
        self._control: ControlServer | None = None
        self._clients: ClientServer | None = None
        self._metrics: MetricsServer | None = None
        self._began = time.monotonic()

    @property
    def internals(self) -> Internals:
        """What other parts of this package work with. Nothing in there is for applications, and all of it may
        change."""
        if self._entered is None:
            raise UsageError("enter the node first: async with ordercast.open(…) as node")
        return self._entered

    # ------------------------------------------------------------------ life
    async def __aenter__(self) -> Node:
        if self._entered is not None:
            raise UsageError("a node is entered once; open another")
        try:
            internals = self._entered = Internals(asyncio.get_running_loop(), self.configuration, self.process)
        except UsageError as error:
            raise error.with_traceback(None) from None  # whose mistake it is has no use for our insides
        control = self.configuration.control_path(self.place)
        try:
            if control is not None:
                self._control = ControlServer(self, control)
                await self._control.start()
            if self.place in self.configuration.clients:
                where = self.configuration.clients[self.place]
                self._clients = ClientServer(internals, self.configuration, where)
                await self._clients.start()
            if self.place in self.configuration.metrics:
                self._metrics = MetricsServer(self.configuration.metrics[self.place], self.status, self._failure)
                await self._metrics.start()
            internals.engine.start()
        except BaseException:
            internals.end(settled=False)
            await self._stop_serving()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        internals = self.internals
        senders, settled = internals.senders, internals.senders.is_idle
        try:
            if not internals.over.is_set():
                # A group that is known to stand still takes nothing, however long one waits.
                still = CLOSE_BLOCKED_SECONDS if internals.told_obstacles() else CLOSE_STILL_SECONDS
                if not await senders.drain_while_moving(CLOSE_SECONDS, still):
                    self._tell_unfinished(internals)
                await internals.leave_for_good()
            await self._stop_serving()
        finally:
            internals.end(settled)

    async def _stop_serving(self) -> None:
        if self._clients is not None:
            self._clients.stop()
        if self._metrics is not None:
            self._metrics.stop()
        if self._control is not None:
            await self._control.stop()

    def _tell_unfinished(self, internals: Internals) -> None:
        """The last messages were not accepted in time."""
        unmet = sorted(set(internals.engine.sites) - {self.process} - set(internals.engine.endpoint.established))
        reason = internals.obstacle_reasons or (f"{', '.join(unmet)} never answered" if unmet else "")
        if reason or internals.senders.holds_messages:
            logger.warning("closed before everyone had everything: %s", reason or "some messages have not left")
        else:
            # They have left, and nobody is known to be late: as a rule, those who would answer have closed too.
            logger.info("process %s closed before its last messages were acknowledged", self.process)

    def kill(self) -> None:
        """Stop at once, as a crash would: nothing is flushed, and what the log has not is gone."""
        self.internals.end(settled=False)
        if self._clients is not None:
            self._clients.kill()
        if self._metrics is not None:
            self._metrics.stop()

    def _failure(self) -> str:
        internals = self.internals
        return str(internals.failure or "the node is closed") if internals.over.is_set() else ""

    async def wait_failed(self) -> None:
        """Wait until the node is over; raises when that is because it failed."""
        internals = self.internals
        await internals.over.wait()
        if internals.failure is not None:
            raise internals.failure

    # ------------------------------------------------------------------ what there is to know
    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        """The groups that there are and their members, as far as this process knows."""
        return self.internals.engine.groups

    def members(self, group: GroupId) -> tuple[SiteId, ...]:
        """Who is in a group, as far as this process knows."""
        return self.internals.views.members(group)

    @property
    def incarnation(self) -> int:
        """How many times this process was started before with its log."""
        return self.internals.engine.journal.incarnation

    def status(self) -> dict[str, Any]:
        """What there is to know about the node, for people and machines."""
        configuration, internals = self.configuration, self.internals
        engine, receiver = internals.engine, internals.receiver
        control = configuration.control_path(self.place)
        dropped = engine.endpoint.counters + engine.transport.counters + receiver.counters
        return {
            "process": self.process,
            "cluster": configuration.cluster,
            "protocol": configuration.protocol,
            "address": show_address(engine.address),
            "control": None if control is None else str(control),
            "incarnation": engine.journal.incarnation,
            "sealed": configuration.key_file is not None,
            "stable": engine.journal.stable,
            "peers": engine.endpoint.present,
            "members": describe_members(engine),
            "orders": engine.core.ordering_site,
            "graph": engine.core.standing(asyncio.get_running_loop().time()) or None,
            "refused": dict(engine.endpoint.refusals),
            "blocked": internals.told_obstacles() or None,
            "up_seconds": time.monotonic() - self._began,
            "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "log": engine.journal.status(),
            "sending": describe_sending(internals.senders.main),
            "retransmissions": count_retransmissions(engine.core.branches + engine.endpoint.counters),
            "waiting": receiver.waiting(),
            "idle": internals.senders.is_idle,
            "offsets": receiver.offsets(),
            "now": time.time(),
            "groups": internals.views.describe(receiver.claimed),
            "discovery": None if engine.discovery is None else engine.discovery.status(),
            "transfers": internals.transfer.progress(),
            "clients": None if self._clients is None else self._clients.status(),
            "dropped": dict(dropped),
            "branches": dict(engine.core.branches),
        }

    async def wait_for_peers(self, *processes: SiteId) -> None:
        """Wait until these processes (by default all) run and talk with this one.

        Nobody has to: messages wait for those that come later, wherever the protocol does not give them up.
        """
        engine = self.internals.engine
        sites = engine.known
        wanted = set(processes or sites) - {self.process}
        for process in sorted(wanted - sites):
            if not engine.is_open:
                raise UsageError(f"there is no process {process!r}; known: {', '.join(sorted(sites))}")
        await self.internals.wait_for_peers(wanted)

    # ------------------------------------------------------------------ in
    @overload
    async def join(self, *names: GroupId, role: str = "", service: str = "", timeout: float | None = None) -> Group: ...

    @overload
    async def join(
        self,
        *names: GroupId,
        type: type[Value],
        version: str = "",
        encode: Callable[[Value], bytes] | None = None,
        decode: Callable[[bytes], Value] | None = None,
        role: str = "",
        service: str = "",
        timeout: float | None = None,
    ) -> TypedGroup[Value]: ...

    async def join(
        self,
        *names: GroupId,
        type: type[Value] | None = None,  # noqa: A002
        version: str = "",
        encode: Callable[[Value], bytes] | None = None,
        decode: Callable[[bytes], Value] | None = None,
        role: str = "",
        service: str = "",
        timeout: float | None = None,
    ) -> Group | TypedGroup[Value]:
        """Be in a group and take its deliveries; of several, in one order. Done when the process is in, with the first
        view; `JoinRefused` when the group does not take it, `TimeoutError` after so many seconds.

        A member that the configuration names is in from the start: its deliveries wait for it, so it misses nothing.
        Groups that no file names come into being when somebody joins them, where the protocol is dynamic; `role` and
        `service` are for protocols that have them.

        With a `type` (a msgspec struct, a dataclass, a TypedDict, or anything that `encode` and `decode` make bytes of)
        messages are values of it. A process that comes with another type is refused: `version` is what decides, or,
        without it, the fields.
        """
        schema = None if type is None else TypeSchema(type, version, encode, decode)
        if schema is None and (version or encode or decode):
            raise UsageError("version=, encode= and decode= belong to a type=: name the type of the messages")
        if not names:
            raise UsageError("join which group?")
        if timeout is not None and not timeout > 0:
            raise UsageError(f"timeout={timeout}: to join takes some time; None is as long as it takes")
        internals = self.internals
        check_thread(internals.thread)
        for name in names:
            check_group_name(name)
            if names.count(name) > 1:
                raise UsageError(f"group {name!r} is named twice: name it once")
            if name in internals.receiver.claimed:
                raise UsageError(f"group {name!r} is joined already: leave it before you join it again")
            # A view may have the senders only: who is in a group that a file names, the file says.
            if not internals.is_dynamic and self.process not in (*self.members(name), *self.groups.get(name, ())):
                raise UsageError(
                    f"process {self.process} is not in group {name!r}: name it among the members in [groups]"
                )
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                inbox = await internals.join(names, role, service)
                group = Group(internals, names, inbox)
                return group if schema is None else TypedGroup(internals, group, inbox, schema)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(
                f"process {self.process} is not in {', '.join(names)} after {timeout} s: {internals.why_not_in(names)}"
            ) from None

    def direct(self) -> Group:
        """Messages that are addressed to this process, not to a group."""
        return Group(self.internals, (), self.internals.receiver.claim((DIRECT,), {}))

    def keep_snapshot(self, take: Callable[[], bytes | None], name: str = "") -> bytes | None:
        """From now on ask for a snapshot of the application whenever the log is cut short; the last one that was kept.
        An application that keeps several gives each a name.

        A snapshot stands for everything that was delivered before it was taken. Deliveries that the log still has come
        again after a restart, with their offsets.
        """
        return self.internals.keep_snapshot(take, name)

    # ------------------------------------------------------------------ out
    @overload
    async def multicast(
        self,
        payload: bytes,
        groups: Sequence[GroupId] = (),
        destinations: Sequence[SiteId] | None = None,
        *,
        key: str | None = None,
    ) -> None: ...

    @overload
    async def multicast(
        self,
        payload: bytes,
        groups: Sequence[GroupId] = (),
        *,
        confirm: Literal[True, "majority"],
        key: str | None = None,
    ) -> Receipt: ...

    @overload
    async def multicast(
        self, payload: bytes, groups: Sequence[GroupId] = (), *, confirm: Confirm, key: str | None = None
    ) -> Receipt | None: ...

    async def multicast(
        self,
        payload: bytes,
        groups: Sequence[GroupId] = (),
        destinations: Sequence[SiteId] | None = None,
        *,
        confirm: Confirm = False,
        key: str | None = None,
    ) -> Receipt | None:
        """Send a message to one or several groups, joined or not; to single processes where the protocol can. `confirm`
        and `key` are as in `Group.multicast`; for a receipt this process has to be in one of the groups."""
        internals = self._entered or self.internals  # a property's call is paid for every message
        address = internals.address(groups, destinations)
        sender = internals.sender
        if confirm or key is not None:
            return await internals.receipts.send(internals.receiver, sender, address, payload, confirm, key)
        while not sender.add(address, payload):
            await sender.wait_for_room()
        return None

    def try_multicast(self, payload: bytes, groups: Sequence[GroupId]) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        internals = self._entered or self.internals
        address = internals.address(groups)
        if not internals.sender.add(address, payload):
            internals.sender.refuse()

    async def multicast_many(self, payloads: Sequence[bytes], groups: Sequence[GroupId]) -> None:
        """Send messages to the same groups, in this order. Cancelled in the middle, it has sent the first ones."""
        internals = self.internals
        address = internals.address(groups)
        await internals.sender.add_all(address, payloads)

    async def flush(self) -> None:
        """Wait until everything that this process has sent is accepted."""
        await self.internals.senders.drain()


def open(  # noqa: A001
    configuration: str | Path | Mapping[str, Any], process: SiteId, **overrides: Any
) -> Node:
    """A process of the cluster: `async with ordercast.open("bank.toml", process="branch-7") as node: …`."""
    if not isinstance(configuration, str | Path | Mapping):
        raise TypeError(f"configuration is the path of a file or a mapping, not {type(configuration).__name__}")
    try:
        return Node(read_configuration(configuration, os.environ, overrides), process)
    except UsageError as error:
        raise error.with_traceback(None) from None  # whose mistake it is has no use for our insides
