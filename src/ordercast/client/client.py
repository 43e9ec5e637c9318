"""A client: a process that is no member of the cluster, connected with one of its members at a time.

async with ordercast.connect("10.0.0.1:7101,10.0.0.2:7101", "bank.key") as client:
    receipt = await client.group("accounts").multicast(b"deposit 42 100", confirm=True)
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from ordercast.client.connection import Connection
from ordercast.client.group import ClientGroup
from ordercast.client.outgoing import Outgoing
from ordercast.client.replica import ClientReplica
from ordercast.client.subscription import ClientSubscription
from ordercast.core import GroupId, SiteId, UsageError, WireError
from ordercast.node.addresses import HostPort, parse_address, show_address
from ordercast.node.configuration import check_group_name
from ordercast.node.deliveries import Delivery
from ordercast.node.errors import ClientCut, GroupBlocked, NodeClosed, NoMember
from ordercast.node.serving.packets import (
    Answer,
    Blocked,
    Deliveries,
    Ended,
    Ordered,
    Refused,
    Request,
    Result,
    Several,
    Started,
    Unsubscribe,
)
from ordercast.wire.keys import ClusterKeys, read_keys
from ordercast.wire.stream import WrongKey

logger = logging.getLogger("ordercast.client")

State = TypeVar("State")

RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 1.0
"""Between two rounds through all members, of which none answers: the first pause, and the longest."""

ROUND_SECONDS = 10.0
"""Between two rounds through all members of a client whose group goes on at none of them."""

CLOSE_SECONDS = 5.0
"""How long a client that closes waits until its last messages are ordered."""


class Client:
    """Made by `ordercast.connect`; everything happens in the event loop that enters it."""

    def __init__(self, addresses: Sequence[HostPort], keys: ClusterKeys | None, timeout: float) -> None:
        self._addresses = list(addresses)
        random.shuffle(self._addresses)  # a thousand clients of the same file are not all at its first member
        self._keys = keys
        self._timeout = timeout
        self.name = secrets.token_hex(8)
        """Random: under this name the members know which of its messages they have."""
        self._connection: Connection | None = None
        self._outgoing: Outgoing | None = None
        self._subscriptions: dict[int, ClientSubscription] = {}
        self._subscribed = 0
        self._blocked: set[SiteId] = set()
        """Members at which a group did not go on, since it last went on somewhere."""
        self._next_round_at = 0.0
        """When they are tried again, if a group goes on at none of them."""
        self._lost_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._met: asyncio.Future[None] | None = None
        """Done when there is a first member, or when there will be none."""
        self.member: SiteId = ""
        """The process with which it is connected; empty while there is none."""
        self.cluster = ""
        self.connections = 0
        """How many times it was connected."""

    # ------------------------------------------------------------------ life
    async def __aenter__(self) -> Client:
        if self._task is not None:
            raise UsageError("a client is entered once; connect again")
        loop = asyncio.get_running_loop()
        self._outgoing = Outgoing(self._say)
        self._met = loop.create_future()
        self._lost_at = loop.time()
        self._task = loop.create_task(self._stay_connected())
        try:
            await self._met
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        outgoing = self._out
        try:
            if kind is None:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await outgoing.wait_idle()
        except (GroupBlocked, NoMember, TimeoutError):
            logger.warning("client %s closed before all of its messages were known to be ordered", self.name)
        finally:
            await self._stop()

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            self._connection.close("the client is closed")
        why = NodeClosed("the client is closed")
        self._out.end(why)
        for subscription in self._subscriptions.values():
            subscription.end(why)

    @property
    def _out(self) -> Outgoing:
        if self._outgoing is None:
            raise UsageError("enter the client first: async with ordercast.connect(…) as client")
        return self._outgoing

    # ------------------------------------------------------------------ what applications do
    def group(self, name: GroupId) -> ClientGroup:
        """A group of the cluster, to send to and to follow."""
        check_group_name(name)
        return ClientGroup(self._out, self._follow, name)

    def replicated(self, state: type[State], group: GroupId, *, version: str = "") -> ClientReplica[State]:
        """The replicated object of a group, whose class and `version` are those of the members'."""
        check_group_name(group)
        return ClientReplica(self._out, state, group, version)

    async def flush(self) -> None:
        """Wait until everything that this client has sent is ordered. `GroupBlocked` when a group does not go on,
        `NoMember` when no member answers; what was sent stays on its way. `UsageError` when a message was refused and
        nobody waited for its receipt."""
        await self._out.wait_idle()

    # ------------------------------------------------------------------ members
    async def _stay_connected(self) -> None:
        loop, pause = asyncio.get_running_loop(), RETRY_SECONDS
        while True:
            reasons: dict[HostPort, Exception] = {}
            for where in tuple(self._addresses):
                try:
                    connection = await Connection.open(where, self._keys, self.name, self._on_answer)
                except (NoMember, WireError) as error:
                    reasons[where] = error
                    self._addresses.append(self._addresses.pop(0))
                    continue
                reasons = {}
                self._use(connection)
                began, why = loop.time(), await connection.lost
                logger.info("client %s has lost %s: %s", self.name, self.member, why)
                self._lost_at, self._connection, self.member = loop.time(), None, ""
                self._addresses.append(self._addresses.pop(0))
                if loop.time() - began > RETRY_SECONDS_MAX:
                    pause = RETRY_SECONDS
                else:
                    # It does not want this client.
                    pause = await _rest(pause)
            if reasons:
                self._tell_unreachable(reasons)
                pause = await _rest(pause)

    def _tell_unreachable(self, reasons: dict[HostPort, Exception]) -> None:
        why = "; ".join(f"{show_address(where)}: {error}" for where, error in reasons.items())
        if self._met is not None and not self._met.done() and all(isinstance(e, WrongKey) for e in reasons.values()):
            self._met.set_exception(UsageError(f"no member takes this key ({why}): use the cluster's key file"))
        elif self._lost_at is not None and asyncio.get_running_loop().time() - self._lost_at >= self._timeout:
            error = NoMember(f"no member answers ({why})")
            if self._met is not None and not self._met.done():
                self._met.set_exception(error)
            self._out.fail_waiting(error)
            for subscription in self._subscriptions.values():
                subscription.end(error)
            self._subscriptions.clear()

    def _use(self, connection: Connection) -> None:
        self._connection, self._lost_at = connection, None
        welcome = connection.welcome.result()
        self.member, self.cluster = welcome.process, welcome.cluster
        self.connections += 1
        self._out.send_again(welcome.payload_max)
        for subscription in tuple(self._subscriptions.values()):
            self._subscribe(subscription)
        if self._met is not None and not self._met.done():
            self._met.set_result(None)

    def _say(self, request: Request) -> bool:
        if self._connection is None:
            return False
        self._connection.say(request)
        return True

    # ------------------------------------------------------------------ answers
    def _on_answer(self, answer: Answer) -> None:
        match answer:
            case Ordered():
                self._blocked.clear()
                self._out.on_ordered(answer)
            case Several(those):
                self._blocked.clear()
                for ordered in those:
                    self._out.on_ordered(ordered)
            case Deliveries(subscription=number):
                if number in self._subscriptions:
                    self._subscriptions[number].on_deliveries(answer)
            case Result():
                # (A call that waits in a blocked group is under way until there is nowhere else to go.)
                if answer.error != GroupBlocked.__name__ or not self._go_elsewhere(answer.why):
                    self._out.on_result(answer)
            case Refused():
                self._out.on_refused(answer)
            case Blocked(group, why):
                if not self._go_elsewhere(why):
                    self._out.fail_waiting(GroupBlocked(why), group)
            case Started(number):
                if number in self._subscriptions:
                    self._subscriptions[number].on_started(answer)
            case Ended():
                self._on_ended(answer)
            case _:
                pass

    def _go_elsewhere(self, why: str) -> bool:
        """Whether the client leaves this member, at which a group does not go on: perhaps it does at another one."""
        is_last = self.member in self._blocked or len(self._blocked) + 1 >= len(self._addresses)
        if not is_last:
            self._blocked.add(self.member)
            self._next_round_at = 0.0
            self._leave_member(why)
            return True
        now = asyncio.get_running_loop().time()
        if self._next_round_at and now > self._next_round_at:
            self._blocked.clear()
        self._next_round_at = self._next_round_at or now + ROUND_SECONDS
        return False

    def _on_ended(self, answer: Ended) -> None:
        subscription = self._subscriptions.get(answer.subscription)
        if subscription is None:
            return
        if answer.is_elsewhere and subscription.given_up < len(self._addresses) - 1:
            subscription.given_up += 1
            self._leave_member(answer.why)
            return
        del self._subscriptions[answer.subscription]
        subscription.end(ClientCut(answer.why))

    def _leave_member(self, why: str) -> None:
        if self._connection is not None:
            self._connection.close(why)

    # ------------------------------------------------------------------ subscriptions
    def _subscribe(self, subscription: ClientSubscription) -> None:
        """Under a new number: what the last member has sent must not be taken for what this one does."""
        self._subscriptions = {n: each for n, each in self._subscriptions.items() if each is not subscription}
        self._subscribed += 1
        subscription.begin_again(self._subscribed)
        self._subscriptions[self._subscribed] = subscription
        self._say(subscription.request())

    def _unsubscribe(self, subscription: ClientSubscription) -> None:
        for number, each in tuple(self._subscriptions.items()):
            if each is subscription:
                del self._subscriptions[number]
                self._say(Unsubscribe(number))

    async def _follow(self, group: GroupId, start: int | None) -> AsyncIterator[Delivery]:
        self._out.check()
        subscription = ClientSubscription(0, group, start, self._say)
        self._subscribe(subscription)
        try:
            async for delivery in subscription:
                yield delivery
        finally:
            self._unsubscribe(subscription)


async def _rest(seconds: float) -> float:
    """Wait, not all clients alike; how long to wait the next time."""
    await asyncio.sleep(seconds * random.uniform(0.5, 1.0))
    return min(2 * seconds, RETRY_SECONDS_MAX)


def connect(
    addresses: str | Sequence[str],
    key: str | Path | bytes | None = None,
    *,
    insecure: bool = False,
    timeout: float = 10.0,
) -> Client:
    """A client of a cluster: `async with ordercast.connect("host:port", "bank.key") as client: …`.

    `addresses` are where members listen for clients (`[clients]` in their configuration), one or several: the client is
    with one of them, and goes to another when it is lost. `key` is the cluster's key file, or the 32 bytes;
    `insecure=True` is for clusters without one. After `timeout` seconds without any member, whoever waits gets
    `NoMember`, and the client goes on trying.
    """
    texts = addresses.split(",") if isinstance(addresses, str) else [*addresses]
    wheres = [parse_address(text.strip()) for text in texts]
    if not wheres:
        raise UsageError("connect with which members? name HOST:PORT of one or several")
    if (key is None) != insecure:
        raise UsageError(
            "a client needs the cluster's key, or insecure=True where the cluster has none: one of the two"
        )
    keys = None if key is None else ClusterKeys(key) if isinstance(key, bytes) else read_keys(Path(key))
    return Client(wheres, keys, timeout)
