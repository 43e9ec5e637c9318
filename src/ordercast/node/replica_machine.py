"""One replica at work: it applies what its group delivers, and gets the state from others when it has missed something.
What decides about the state happens at a place in the order of the group, so that all replicas decide the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec

from ordercast.core import GroupId, SiteId
from ordercast.node.deliveries import Batch, Delivery, Rollback, View
from ordercast.node.errors import NodeClosed
from ordercast.node.group import Group
from ordercast.node.node import Node
from ordercast.node.replica_applying import Applying
from ordercast.node.replica_backlog import Backlog
from ordercast.node.replica_calls import Calls
from ordercast.node.replica_changes import Changes
from ordercast.node.replica_digests import Digests, digest_steps
from ordercast.node.replica_division import Division, Hooks
from ordercast.node.replica_lineage import Brought, Lineage
from ordercast.node.replica_messages import Announce, Call, Check, Digest, Hold, Part, Stand, Want, decode_message
from ordercast.node.replica_packing import Packing, encode_steps
from ordercast.node.replica_parting import hand_over
from ordercast.node.replica_schema import Schema
from ordercast.node.replica_seeker import Seeker
from ordercast.node.replica_sending import Sending
from ordercast.node.replica_snapshot import Snapshot, find_snapshot, keep_beside, make_snapshot, unpack_state
from ordercast.node.replica_versions import Versions
from ordercast.node.state_giving import Head
from ordercast.node.state_packets import Offer

logger = logging.getLogger("ordercast.node")

State = TypeVar("State")

CATCH_UP_CALLS = 200
"""That are applied in one turn when the state has come."""


class Machine(Generic[State]):
    """The replica of one process in one group."""

    def __init__(
        self,
        node: Node,
        name: GroupId,
        initial: State,
        schema: Schema,
        quorum: int | None,
        merge: Callable[[list[State]], State] | None,
    ) -> None:
        self.state: State | None = initial
        self.applied = 0
        """How many deliveries of the group the state contains."""
        self.arrival: asyncio.Future[None] | None = None
        """Is there while the state is not, and done when it has come."""
        self.group: Group | None = None
        self.node = node
        self.internals = node.internals
        self.name = name
        self._class = type(initial)
        self._schema = schema
        self._quorum = quorum
        self._merge = merge
        self._seen = 0
        """The offset behind the last delivery."""
        self._backlog = Backlog()
        """What was delivered while there is no state."""
        self.is_live = False
        """Whether what is delivered happens now: what the log has is delivered again before."""
        self._coming: State | None = None
        """The state that has come, while what waited for it is applied."""
        self._brought: Brought[State] | None = None
        """What this replica had, until it knows what the others have."""
        self._follows: SiteId | None = None
        """Whose state the group takes, which that one has brought along, as long as it is not here."""
        self._keeping: asyncio.Future[None] | None = None
        """Is there while the state that has come is written to the disk."""
        self._packing: Packing | None = None
        """Is there while somebody is given the state, which does not change before it is packed."""
        self._is_thawing = False
        self._is_newcomer = False
        self.end: BaseException | None = None
        self._division: Division[State] | None = None
        """Is there where sides of the group may go on apart."""
        self._sending = Sending(self._multicast)
        self._versions = Versions(node.process, node.incarnation, self._class.__name__, schema.name, self._sending.send)
        self.lineage = Lineage(node.process, name, self._sending.send)
        self._digests = Digests(self.internals, name, self._sending.send)
        self.changes = Changes()
        """Who waits until the state has changed."""
        self.is_configured = self.internals.engine.is_configured(name)
        self.kept_name = f"replicated {name}"

    async def _multicast(self, message: bytes) -> None:
        if self.group is not None:
            await self.group.multicast(message)

    # ------------------------------------------------------------------ in and out
    async def enter(self) -> None:
        """Be in the group, with what the log has."""
        node, internals = self.node, self.internals
        snapshot = find_snapshot(node.keep_snapshot(self._take_snapshot, self.kept_name), node, self.kept_name)
        was_in = await internals.was_in(self.name)
        if self._digests.was_wrong():
            self._lose_state()
        elif snapshot is not None and was_in:
            what = f"the snapshot in the log of {node.process}"
            self.state = self._unpack_state(snapshot.state, what, snapshot.schema)
            self.applied = snapshot.offset
            self.lineage.take_over(snapshot.birth, snapshot.calls, snapshot.time)
        self._is_newcomer = not was_in
        self.group = group = await node.join(self.name)
        self.calls = Calls(node, group)
        self._applying = Applying(node.process, self._class.__name__, self._schema, self.calls, self._versions)
        one_history = not internals.engine.contract.partitionable
        self._seeker = Seeker(node, group, self._sending.send, self._on_state, self._on_followed, one_history)
        if not one_history:
            self._division = Division(internals, self.name, self._schema.name, self._hooks(), self._quorum, self._merge)
        elif internals.engine.is_open:
            by_majority = internals.engine.contract.minority_may_die
            self.lineage.guard(self._quorum, by_majority, internals.engine.apart_seeds)
        group.on_view(self._on_view)
        group.on_end(self._close)
        group.on_gap(self._on_gap)
        group.on_rollback(self._on_rollback)
        group.on_batch(self._on_batch)
        await internals.wait_started()
        if self._division is None and (self.state is None or self.applied != group.offset):
            self._on_gap(group.offset)
        self.is_live = True
        self._digests.start(lambda: None if self.state is None else self.lineage.calls)
        self._versions.announce()
        if not self.is_configured:
            internals.hand_over[self.name] = partial(
                hand_over, internals, self.name, self.lineage, lambda: self.state is not None
            )
            if self.state is not None:
                self.lineage.say_held()

    async def leave(self, timeout: float | None) -> None:
        """Be a replica no more."""
        if self.group is not None:
            await self.group.leave(timeout)
        self.internals.take_no_snapshot(self.kept_name)
        if not self.is_configured:
            self.internals.engine.journal.forget_state(self.kept_name)

    def _close(self, error: BaseException | None) -> None:
        self.end = error or NodeClosed(f"group {self.name} was left, or the node is closed")
        self.internals.hand_over.pop(self.name, None)
        self.calls.close(error)
        self._seeker.stop()
        self._digests.stop()
        self.changes.tell()
        if self._packing is not None:
            self._packing.stop()
        # Who waits for the state goes on, and hears from the group that it is over.
        self._arrive()
        self.lineage.tell_change()

    async def wait_changed(self) -> None:
        """Until the state has changed."""
        if self.end is None:
            await self.changes.wait()
        if self.end is not None:
            raise self.end

    @property
    def obstacles(self) -> str:
        """Why nothing goes on in the group; empty when it does."""
        return self.internals.told_obstacles((self.name,))

    # ------------------------------------------------------------------ what is delivered
    @property
    def refuses(self) -> str:
        """Why calls are not even sent, although there is a state; empty as a rule."""
        return self._lacking or self.lineage.waits_for

    @property
    def _lacking(self) -> str:
        """Why calls are not applied in this view; empty as a rule."""
        return self.lineage.lacking if self._division is None else self._division.lacking

    def _on_view(self, view: View) -> None:
        self.lineage.on_view(view)
        if self._is_newcomer:
            self._is_newcomer = False
            if len(view.members) > 1:
                # Others were there before: the state is theirs, wherever their offsets are.
                self._lose_state()
        if self._division is not None:
            self._division.on_view(view)

    def _on_batch(self, batch: Batch) -> None:
        try:
            for delivery in batch.deliveries():
                self._take(delivery)
            # What cannot be decoded nobody applies, and it has its place in the order all the same.
            self._pass(batch.offset, batch.offset + batch.count)
        except Exception as error:
            # Raised to whoever multicasts or joins just now, it would go unheard: the next message would be applied to
            # a state that lacks this one.
            self.internals.failed(error)
            raise

    def _take(self, delivery: Delivery) -> None:
        message = decode_message(delivery.payload, delivery.source)
        offset = delivery.offset
        self._pass(offset, offset)
        self._seen = offset + 1
        if isinstance(message, Call):
            if self._lacking:
                self.calls.give_up(f"{self._lacking}; the call was not applied", message)
            elif self.state is None or self._packing is not None:
                self._backlog.add(offset, message, len(delivery.payload))
            elif offset == self.applied:
                self._on_call(self.state, message)
        elif message is None:
            self._skip(delivery)
        elif isinstance(message, Want):
            self.lineage.note_replica(message.asker)
            self._on_want(offset, message)
        elif isinstance(message, Announce):
            self.lineage.note_replica(message.process)
            self._versions.on_announce(message)
        elif isinstance(message, Check):
            self._on_check(offset, delivery.view, message)
        elif isinstance(message, Digest):
            self._digests.on_digest(message)
        elif isinstance(message, Stand):
            self.lineage.go_on(message.time)
            if self._division is not None:
                self._division.on_stand(message)
        elif isinstance(message, Hold | Part) and self.is_live:
            self.lineage.on_said(message, self._is_safe)
        self._pass(offset, offset + 1)

    def _pass(self, offset: int, end: int) -> None:
        """Deliveries go on at an offset, and this one comes next."""
        is_current = self.state is not None and self._packing is None
        if is_current and offset > self.applied:
            self._on_gap(offset)
        self._seen = max(self._seen, end)
        if is_current:
            self.applied = max(self.applied, end)

    def _skip(self, delivery: Delivery) -> None:
        """Somebody has sent to the group what no replica sends, and no replica applies."""
        self.internals.receiver.counters["no-replica-messages"] += 1
        self._versions.tell_stranger(delivery.message, delivery.source, self.name)

    def _on_call(self, state: State, call: Call) -> None:
        # Unpacked first: a call that is not understood must not count as applied in a snapshot.
        arguments = self._applying.unpack(call)
        self.applied += 1
        self.lineage.count_call(call)
        if arguments is not None:
            self._applying.apply(state, call, arguments, self.applied - 1, self.lineage.time)
        self.changes.tell()

    # ------------------------------------------------------------------ state transfer
    def _on_gap(self, offset: int) -> None:
        """The log was cut without a snapshot, or the others have gone on without us: our state is not the group's."""
        if self.state is not None and self._seen <= offset < self.applied:
            return  # the log is read again, and the state is from behind the gap
        self._stop_packing()
        logger.info("replica %s goes on at %d without what lies before", self.node.process, offset)
        self._seen = offset
        # Whoever comes to others who have the group, too, may be at an offset that it has had in another history.
        self.internals.engine.journal.forget_state(self.kept_name)
        self.calls.give_up("the group has gone on without this process; the call may be applied all the same")
        self._backlog.begin(offset)
        had = self.state if self._coming is None else self._coming
        if had is not None and self.lineage.calls and self.internals.engine.is_open:
            self._brought = Brought(had, self.lineage.birth, self.lineage.calls, self.lineage.time)
        self._lose_state()
        self._seek()

    def _on_rollback(self, rollback: Rollback) -> None:
        """What was applied cannot be undone here: the state is taken anew."""
        self._seen = max(self._seen, rollback.offset + 1)
        self._on_gap(rollback.offset)

    def _lose_state(self) -> None:
        self.state = self._coming = None
        if self.arrival is None:
            self.arrival = asyncio.get_running_loop().create_future()

    def _seek(self, givers: Collection[SiteId] | None = None) -> None:
        had = self._brought
        self._seeker.begin(self._backlog.needed_from, givers, ("", 0) if had is None else (had.birth, had.calls))

    def _hooks(self) -> Hooks[State]:
        def stand(said: Stand) -> None:
            self._sending.send(msgspec.structs.replace(said, time=self.lineage.time))

        return Hooks(self._hold, self._show, self._resume, self._seek, self._unpack_state, stand)

    def _hold(self) -> State | None:
        self._stop_packing()
        if self._coming is not None:
            # Those who come along have applied it, or will.
            self._apply_backlog(self._coming, len(self._backlog) + 1)
        held = self.state
        if held is None:
            self.calls.give_up("the group was divided before this replica had a state; the call may be applied")
        self._seeker.stop()
        self._backlog.begin(self._seen)
        self._lose_state()
        return held

    def _show(self, state: State | None) -> None:
        self.state = state
        self._arrive()

    def _resume(self, state: State) -> None:
        self._coming = state
        self.applied = self._backlog.needed_from
        self._catch_up()

    def _on_want(self, offset: int, want: Want) -> None:
        if want.asker == self.node.process:
            self._seeker.on_delivered(want, offset)
            return
        if self._packing is not None or (self.state is None and want.calls):
            self._backlog.add(offset, want, 0)  # whether the group takes the asker's is decided when a state is here
        elif self.state is not None and offset >= self.applied and self.lineage.gives_way(want):
            self._follow(offset, want)
        if self._packing is None:
            self._answer(offset, want)

    def _answer(self, offset: int, want: Want) -> None:
        """Somebody asks for the state, and whoever is named gives it as it is here."""
        asker, transfer = want.asker, self.internals.transfer
        if want.giver != self.node.process or not self.is_live:
            return  # another one gives it; or the question stands in the log, and nobody waits for an answer
        if self._follows == asker and want.calls:
            transfer.refuse(asker, want.transfer, "the others take the state of the asker", yours=True)
        elif self.state is None or offset < self.applied or (self._division is not None and self._lacking):
            transfer.refuse(asker, want.transfer, "it has no state itself")
        else:
            self.applied, known = offset + 1, self.lineage
            head = Head(self.name, offset + 1, self._schema.name, known.birth, known.calls, known.time)
            transfer.give(asker, want.transfer, want.since, head, self._pack)

    def _pack(
        self,
        on_packed: Callable[[Sequence[bytes] | None], None],
        steps: Callable[[State], Iterator[bytes]] = encode_steps,
    ) -> None:
        """Make bytes of the state, step by step. It stays as it is meanwhile, and calls wait."""

        def done(chunks: list[bytes] | None) -> None:
            self._packing = None
            on_packed(chunks)
            self._thaw()

        self._packing = Packing(self.state, done, steps, self.internals.failed)

    def _on_check(self, offset: int, view: str, check: Check) -> None:
        """All compare their states; whoever is busy with its own is left out this time."""
        if self.state is not None and self._packing is None and self.is_live and not self._lacking:
            self.applied = offset + 1
            self._pack(self._digests.on_check(check, offset, view, self.lineage.calls), digest_steps)

    def _thaw(self) -> None:
        """Apply what has waited while the state was packed, until there is something to pack again."""
        state = self.state
        if state is None or self._packing is not None or self._is_thawing or self.internals.over.is_set():
            return
        self._is_thawing = True
        try:
            while self._packing is None and self.state is state and (waited := self._backlog.pop()) is not None:
                offset, message = waited
                self.applied = offset
                if isinstance(message, Call):
                    self._on_call(state, message)
                else:
                    self._on_want(offset, message)
        except Exception as error:
            self.internals.failed(error)
        finally:
            self._is_thawing = False
        if self._packing is None:
            self._pass(self.applied, self._seen)

    def _stop_packing(self) -> None:
        """The state must go on at once, or is given up."""
        while self._packing is not None:
            self._packing.stop()

    def _follow(self, offset: int, want: Want) -> None:
        """The group takes the state that the asker has brought along: no call was applied to ours."""
        self._backlog.needed_from = offset + 1
        logger.info("replica %s takes the state with which %s has come", self.node.process, want.asker)
        self._lose_state()
        self._follows = want.asker
        if self.is_live:
            self._seek()

    def _on_followed(self) -> None:
        """The others take the state that this replica has brought along."""
        brought, self._brought = self._brought, None
        if brought is not None:
            self.lineage.take_over(brought.birth, brought.calls, brought.time)
            snapshot = self._snapshot_of(brought.state, self._backlog.needed_from, brought)
            self._keep(lambda: snapshot)
            self._resume(brought.state)

    def _on_state(self, giver: SiteId, offer: Offer, content: bytearray, offset: int) -> None:
        """The state of another replica has come: what was delivered from this offset on is applied to it."""
        self._coming = self._unpack_state(content, f"the state that {giver} gave", offer.schema)
        self.applied = offset
        if self._brought is not None and self._brought.birth != offer.birth:
            self.internals.receiver.counters["given-up-calls"] += self._brought.calls
            self.lineage.tell_given_up(self._brought.calls, giver)
        self._digests.set_right()
        self._follows = self._brought = None
        self.lineage.take_over(offer.birth, offer.calls, offer.time)
        self.lineage.note_holder(giver)
        self._keep(lambda: Snapshot(offer.offset, bytes(content), offer.schema, offer.birth, offer.calls, offer.time))
        self._catch_up()

    def _keep(self, take: Callable[[], Snapshot]) -> None:
        """The log has only what was delivered since: when the others are gone, this is the one that there is."""
        self._keeping = keep_beside(self.internals.engine.journal, self.kept_name, take)

    def _catch_up(self) -> None:
        try:
            if self._coming is not None and not self.internals.over.is_set():
                self._apply_backlog(self._coming)
        except Exception as error:
            self.internals.failed(error)

    def _apply_backlog(self, state: State, most: int = CATCH_UP_CALLS) -> None:
        for _ in range(most):
            waited = self._backlog.pop()
            if waited is None:
                self.state, self._coming = state, None
                self.applied = max(self.applied, self._seen)
                if self._division is not None:
                    self._division.on_resumed()
                self._arrive()
                self._tell_held()
                return
            offset, message = waited
            if offset < self.applied:
                continue
            self.applied = offset
            if isinstance(message, Call):
                self._on_call(state, message)
            elif self.lineage.gives_way(message):
                self._follow(offset, message)
                return
        asyncio.get_running_loop().call_soon(self._catch_up)

    @property
    def _is_safe(self) -> bool:
        """Whether the state is here, and outlives a crash."""
        return self.state is not None and (self._keeping is None or self._keeping.done())

    def _tell_held(self) -> None:
        """Let the others know that they may leave; but not before the state outlives a crash here."""
        if self.is_configured or not self.is_live or self.state is None or self.end is not None:
            return
        if self._keeping is None or self._is_safe:
            self.lineage.say_held()
        else:
            self._keeping.add_done_callback(lambda _: self._tell_held())

    def _arrive(self) -> None:
        """Whoever waits for the state need not wait any more."""
        if self.arrival is not None:
            self.arrival.set_result(None)
            self.arrival = None
        self.changes.tell()

    def _take_snapshot(self) -> bytes | None:
        while self._packing is not None:
            self._packing.finish()
        if self.state is None:
            return None
        return msgspec.msgpack.encode(self._snapshot_of(self.state, self.applied, self.lineage))

    def _snapshot_of(self, state: State, offset: int, known: Lineage | Brought[State]) -> Snapshot:
        return make_snapshot(state, offset, self._schema.name, (known.birth, known.calls, known.time))

    def _unpack_state(self, content: bytes | bytearray, what: str, schema: str) -> State:
        return unpack_state(content, self._class, what, schema, f"that of {self.node.process} is {self._schema.name}")
