"""Deliveries that wait for the application, and what happens between them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from threading import get_ident

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, Payload, UsageError
from ordercast.node.bundles import encode_bundle
from ordercast.node.callbacks import Callbacks
from ordercast.node.deliveries import Batch, CaughtUp, Delivery, Rollback, View
from ordercast.node.errors import check_thread
from ordercast.node.history import History

logger = logging.getLogger("ordercast.node")

VIEWS_MAX = 64
"""Views that wait. With more, of two between which nothing was delivered the later one stands for both: nothing holds
back processes that come and go while nobody reads."""


class _Between(msgspec.Struct):
    """What happened between two deliveries: a view, a gap with the offset behind it, that a bundle was taken back, or
    that the log has no more."""

    ordinal: int
    """That of the last bundle before it, of whatever group."""
    what: View | int | Rollback | CaughtUp


class Inbox:
    """What was delivered to some groups and not taken yet, in order.

    How much that can become the protocol decides: it hears what was taken, and lets nobody send when too much waits.
    """

    def __init__(
        self,
        groups: tuple[GroupId, ...],
        offset: int = 0,
        counters: Counter[str] | None = None,
        callbacks: Callbacks | None = None,
    ) -> None:
        self.groups = groups
        self._callbacks = callbacks or Callbacks()
        self.shows_views = False
        """Whether who iterates gets what happens between deliveries, too."""
        self._view = ""
        """The name of the last view, where there is one group; of several, each may have its own."""
        self.is_new = False
        """Whether the log has nothing for it, and its first view has not come."""
        self.views: dict[GroupId, str] = {}
        """Group -> the name of its last view."""
        self._between = 0
        """How many views and gaps wait."""
        self._counters = counters
        self.offset = offset
        """The offset of the next delivery."""
        self.bytes = 0
        self._waiting: deque[Batch | _Between] = deque()
        self._held: deque[Batch | _Between] | None = None
        """What comes while it is not known which letters go to the application; the application sees none of it."""
        self._current: Batch | None = None
        self._unfinished: deque[Batch] | None = None
        """What whoever consumes was given and is not done with; None while nobody does."""
        self._rest: Iterator[Delivery] = iter(())
        self._callback: Callable[[Batch], object] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._end: BaseException | None = None
        self._thread = get_ident()
        self.closed = False
        self.history: History | None = None
        self.on_end: Callable[[BaseException | None], None] | None = None
        self.on_gap: Callable[[int], None] | None = None
        self.on_view: Callable[[View], None] | None = None
        self.on_rollback: Callable[[Rollback], None] | None = None
        self.on_caught_up: Callable[[CaughtUp], None] | None = None

    # ------------------------------------------------------------------ in
    def deliver(
        self,
        multicast: Multicast,
        packed: Payload,
        unpacked: list[bytes] | None,
        ordinal: int,
        taken: Callable[[], None],
        view: str | None = None,
        places: tuple[int, ...] | None = None,
        replayed: bool = False,
    ) -> None:
        """A bundle for the application, at the next place."""
        offset, count, groups = self.offset, multicast.count, multicast.groups
        # Most groups of a configuration never have a view, and are not asked for it with every bundle.
        view = view or (self._view or self._view_of(groups) if self.views else "")
        batch = Batch(
            multicast.id,
            groups,
            count,
            offset,
            packed,
            unpacked,
            ordinal,
            taken,
            self._counters,
            view,
            places,
            replayed,
        )
        self.offset = offset + count
        if self._held is not None:
            self._held.append(batch)
            self.bytes += len(packed)
            return
        if self.history is not None:
            # A copy of its own: the application's is unpacked when it looks.
            self.history.add(msgspec.structs.replace(batch, counters=None))
        callback = self._callback
        if callback is None:
            self.put(batch)
        else:
            # What is delivered while it runs, because it multicasts, waits until it is done. (Called at once, it would
            # see the next batch before the rest of this one.)
            self._callback = None
            self._callbacks.running += 1
            callback(batch)
            self._callbacks.running -= 1
            taken()
            self._callback = callback
            if self._waiting:
                self.call(callback)

    def _view_of(self, groups: tuple[GroupId, ...]) -> str:
        return next((self.views[group] for group in groups if group in self.views), "")

    def install(self, view: View, ordinal: int) -> None:
        """The members of a group have agreed on who they are, after the bundle with this ordinal."""
        self.views[view.group] = view.view
        if len(self.groups) == 1:
            self._view = view.view
        self._put_between(_Between(ordinal, view))
        if self.is_new:
            self.is_new = False
            self.catch_up(ordinal)

    def catch_up(self, ordinal: int) -> None:
        """The log has no more: what comes from now on is new."""
        self._put_between(_Between(ordinal, CaughtUp(",".join(self.groups), self.offset)))

    def skip(self, offset: int, ordinal: int) -> None:
        """The next delivery has this offset; what lies between was lost to this process."""
        self.offset = offset
        if self.history is not None:
            self.history.skip(offset)
        self._put_between(_Between(ordinal, offset))

    def take_back(self, bundle: MessageId, groups: tuple[GroupId, ...], count: int, ordinal: int) -> None:
        """The last bundle that stands is taken back: as if it had never come where the application has not seen it."""
        self.offset = max(0, self.offset - count)
        if self.history is not None:
            self.history.take_back(self.offset)
        for events in (self._held or deque(), self._waiting):
            last = next((event for event in reversed(events) if isinstance(event, Batch)), None)
            if last is not None:
                if last.bundle != bundle:
                    break
                events.remove(last)
                self.bytes -= len(last.packed)
                last.taken()
                return
        self._put_between(_Between(ordinal, Rollback(bundle, groups, count, self.offset)))

    def _put_between(self, between: _Between) -> None:
        if self._held is not None:
            self._held.append(between)
            return
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, _Between) and self._between >= VIEWS_MAX:
            view, before = between.what, last.what
            if isinstance(view, View) and isinstance(before, View) and view.group == before.group:
                last.what = view.follow(before.before)
                return
        self._waiting.append(between)
        self._between += 1
        callback = self._callback
        if callback is not None:
            self.call(callback)
        else:
            self._wake()

    def put(self, batch: Batch) -> None:
        """A batch waits for the application."""
        self._waiting.append(batch)
        self.bytes += len(batch.packed)
        # As `_wake`, without a call in between: this is the way of every bundle.
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def hold(self) -> None:
        """What comes from now on waits until `release`, ahead of the application."""
        if self._held is None:
            self._held = deque()

    def hold_back(self, batch: Batch) -> None:
        """A batch waits there that an earlier start has held."""
        self.hold()
        if self._held is not None:
            self._held.append(batch)
            self.bytes += len(batch.packed)

    @property
    def held(self) -> list[Batch] | None:
        """The batches that wait there; None when nothing is held."""
        return None if self._held is None else [event for event in self._held if isinstance(event, Batch)]

    def release(self) -> None:
        """Everything that was held goes to the application."""
        held, self._held = self._held or (), None
        for event in held:
            if isinstance(event, _Between):
                self._waiting.append(event)
                self._between += 1
            else:
                if self.history is not None:
                    self.history.add(msgspec.structs.replace(event, counters=None))
                self._waiting.append(event)
        callback = self._callback
        if callback is not None:
            self.call(callback)
        else:
            self._wake()

    def close(self, error: BaseException | None = None) -> None:
        """Nothing more will come; without an error whoever iterates simply comes to the end."""
        self.closed = True
        self._end = error
        self._wake()
        if self.on_end is not None:
            self.on_end(error)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ------------------------------------------------------------------ out
    def call(self, callback: Callable[[Batch], object]) -> None:
        """From now on every batch goes to a function at once, what waits first."""
        self._finish()
        self._callback = None
        self._callbacks.running += 1
        while self._waiting:
            event = self._waiting.popleft()
            if type(event) is Batch:
                self.bytes -= len(event.packed)
                callback(event)
                event.taken()
            else:
                self._pass(event)
        self._callbacks.running -= 1
        self._callback = callback

    def _pass(self, between: Batch | _Between) -> View | Rollback | CaughtUp | None:
        """The application comes to what lies between two deliveries; a gap is not given back."""
        if not isinstance(between, _Between):
            return None
        self._between -= 1
        what = between.what
        if isinstance(what, View):
            if self.on_view is not None:
                self.on_view(what)
            return what
        if isinstance(what, Rollback):
            self._note_rollback(what)
            return what
        if isinstance(what, CaughtUp):
            if self.on_caught_up is not None:
                self.on_caught_up(what)
            return what
        if self.on_gap is not None:
            self.on_gap(what)
        return None

    def _note_rollback(self, rollback: Rollback) -> None:
        if self._counters is not None:
            self._counters["rolled-back"] += rollback.count
        if self.on_rollback is not None:
            self.on_rollback(rollback)
        elif not self.shows_views:
            logger.warning(
                "bundle %s of group %s is taken back, and nobody listens: give on_rollback, or read events()",
                rollback.bundle,
                ", ".join(self.groups),
            )

    def _finish(self) -> None:
        """The application has asked for more, so it is done with what it had, or will say so."""
        if self._current is not None:
            if self._unfinished is None:
                self._current.taken()
            else:
                self._unfinished.append(self._current)
            self._current = None

    def retain(self) -> deque[Batch]:
        """From now on batches count as taken when `take_until` says so, not when the next one is asked for. That holds
        for as long as `is_retained_by` says so of what is given back."""
        if self._callback is not None:
            raise UsageError(f"a callback takes the deliveries of {', '.join(self.groups)}: one way at a time")
        self.retain_no_more()
        self.put_back()
        self._unfinished = deque()
        return self._unfinished

    def is_retained_by(self, given: deque[Batch]) -> bool:
        """Whether nobody else has begun to take the deliveries since."""
        return self._unfinished is given

    def take_until(self, offset: int) -> None:
        """The application is done with everything before this offset."""
        if self._unfinished is None:
            return
        while self._unfinished and self._unfinished[0].offset + self._unfinished[0].count <= offset:
            self._unfinished.popleft().taken()

    def retain_no_more(self) -> None:
        """Whoever has said so has ended: what it was not done with waits again, ahead of the rest."""
        if self._unfinished is None:
            return
        self._rest = iter(())
        unfinished = [*self._unfinished, *([] if self._current is None else [self._current])]
        self._unfinished = self._current = None
        for batch in reversed(unfinished):
            self._waiting.appendleft(batch)
            self.bytes += len(batch.packed)

    def __aiter__(self) -> Inbox:
        return self

    async def __anext__(self) -> Batch | View | Rollback | CaughtUp:
        """The next batch; what else happens where that is shown. What was returned before counts as taken."""
        self._finish()
        while True:
            while not self._waiting:
                if self.closed:
                    raise StopAsyncIteration if self._end is None else self._end
                check_thread(self._thread)
                if self._callback is not None:
                    raise UsageError(
                        f"a callback takes the deliveries of {', '.join(self.groups)}: iterate, or give one, not both"
                    )
                if self._waiter is not None and not self._waiter.done():
                    raise RuntimeError("two tasks take deliveries of one group: let one of them do it")
                self._waiter = asyncio.get_running_loop().create_future()
                # A task that is cancelled here has taken nothing, and nothing is lost.
                await self._waiter
            event = self._waiting.popleft()
            if type(event) is Batch:
                self._current = event
                self.bytes -= len(event.packed)
                return event
            between = self._pass(event)
            if between is not None and self.shows_views:
                return between

    def put_back(self) -> None:
        """What is left of a batch that somebody began to iterate over is the next batch."""
        left, batch = list(self._rest), self._current
        if batch is not None and left and batch.places is not None:
            self._current = None
            self._waiting.appendleft(
                msgspec.structs.replace(batch, unpacked=None, places=tuple(each.index for each in left), counters=None)
            )
            self.bytes += len(batch.packed)
        elif batch is not None and left:
            packed = encode_bundle([delivery.payload for delivery in left])
            self._current = None
            self._waiting.appendleft(
                msgspec.structs.replace(
                    batch, count=len(left), offset=left[0].offset, packed=packed, unpacked=None, counters=None
                )
            )
            self.bytes += len(packed)

    @property
    def rest(self) -> Iterator[Delivery]:
        """What is left of the batch that was begun; kept here so that who stops in the middle can go on there."""
        return self._rest

    async def begin_next(self) -> bool:
        """Unpack the next batch; False at the end."""
        try:
            batch = await anext(self)
        except StopAsyncIteration:
            return False
        self._rest = batch.deliveries() if isinstance(batch, Batch) else iter(())
        return True

    def waiting(self) -> list[Batch | _Between]:
        """What the application has not finished with, the batch in its hands included."""
        current = [] if self._current is None else [self._current]
        return [*(self._unfinished or ()), *current, *self._waiting, *(self._held or ())]

    def untaken(self) -> list[Batch]:
        """The batches among it."""
        return [event for event in self.waiting() if isinstance(event, Batch)]

    def take_over(self, others: list[Inbox]) -> None:
        """Everything that waits in other inboxes comes here, in the order in which it was delivered."""
        seen: set[MessageId] = set()
        undone: set[tuple[MessageId, int]] = set()
        is_caught_up = False
        events = [event for inbox in others for event in inbox.waiting()]
        # What lies between comes behind the bundle with its number.
        for event in sorted(events, key=lambda each: (each.ordinal, isinstance(each, _Between))):
            if isinstance(event, _Between):
                # No gaps: of several groups together this process alone counts the offsets.
                if isinstance(event.what, View):
                    self.install(event.what, event.ordinal)
                elif isinstance(event.what, CaughtUp) and not is_caught_up:
                    is_caught_up = True
                    self.catch_up(event.ordinal)
                elif isinstance(event.what, Rollback) and (event.what.bundle, event.ordinal) not in undone:
                    undone.add((event.what.bundle, event.ordinal))
                    self._put_between(msgspec.structs.replace(event, what=event.what))
            elif event.bundle in seen:
                # It was addressed to two of the groups: here it is one delivery.
                event.taken()
            else:
                seen.add(event.bundle)
                event.offset = self.offset
                self.offset += event.count
                self.put(event)
        for inbox in others:
            self.views |= inbox.views

    def discard(self) -> None:
        """The application will not take it."""
        batches = self.untaken()
        self._current = self._held = self._unfinished = None
        self._waiting.clear()
        self._between = 0
        for batch in batches:
            batch.taken()
        self.bytes = 0
        self._rest = iter(())
