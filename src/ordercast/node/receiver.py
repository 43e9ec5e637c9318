"""The way in: bundles that the protocol delivers go to the inboxes of those who want them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from struct import error as struct_error

import msgspec

from ordercast.core import AddressMemo, Contract, GroupId, InstanceId, MessageId, Multicast, Payload, SiteId, WireError
from ordercast.core.effects import Deliver, Replay
from ordercast.node.bundles import ASKING_MARK, LETTER_PIECE_MARK, MARKS, PIECE_MARK, Assembly, TooLarge, is_first_piece
from ordercast.node.callbacks import Callbacks
from ordercast.node.deliveries import Batch, Shared, View
from ordercast.node.history import History
from ordercast.node.inbox import Inbox
from ordercast.node.journal import Attachment, Untaken
from ordercast.node.keys import KeysAt
from ordercast.node.letter_box import LetterBox, Ordered
from ordercast.node.letters import LETTERS_MARK, Letter
from ordercast.node.runs import RUNS_MARK, Run, decode_marked

logger = logging.getLogger("ordercast.node")

DIRECT: GroupId = ""
"""Stands for messages to this process itself, which name no group."""


def keeps_sending_order(contract: Contract) -> bool:
    """Whether what a source sends to a group is delivered in that order. (`single-source-order` alone says that all
    deliver it in the same order: 1. a source sends a large message in three pieces. 2. The first one is lost on the
    way, and is ordered when it was asked for. 3. All deliver the last one first.)"""
    claimed = set(contract.guarantees)
    return "single-source-order" in claimed and bool(claimed & {"source-order", "group-source-order"})


class Receiver:
    """Everything that was delivered to this process and that its application has not taken yet."""

    def __init__(
        self,
        views: Iterable[View],
        payload_max: int,
        attachment: Attachment,
        history_bytes: int,
        on_taken: Callable[[], None],
        callbacks: Callbacks | None = None,
        in_source_order: bool = True,
        is_own: Callable[[MessageId], bool] = lambda _: False,
        on_ordered: Ordered = lambda *_: None,
        on_early: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`views` are the first ones of the groups of which this process is a member: their deliveries wait for it from
        the start. Of each group's deliveries the last `history_bytes` are kept. `in_source_order`: what a source sends
        to a group is delivered in that order. `is_own`, `on_ordered` and `on_early` are for letters
        (see `ordercast.node.letter_box`)."""
        self.counters: Counter[str] = Counter()
        self.histories: dict[GroupId, History] = {}
        self.claimed: set[GroupId] = set()
        """The groups that the application has joined."""
        self._on_taken = on_taken
        self._callbacks = callbacks or Callbacks()
        self._in_source_order = in_source_order
        self._assembly = Assembly(payload_max, self.counters)
        self._assembly.restore(attachment.pieces)
        self.letters = LetterBox(is_own, on_ordered, on_early, attachment.keys, attachment.lacking)
        self.on_lacking: Callable[[GroupId, int], None] = self._learn_nothing
        """Called when keys of a group are needed that others have to tell, with the offset from which on everything is
        known here."""
        self.on_asked: Callable[[Multicast, Payload, bool], None] = lambda *_: None
        """Gets questions to groups and answers, and whether they come from the log."""
        self._ordinal = max((waiting.ordinal for waiting in attachment.untaken), default=0)
        """That of the last bundle."""
        self._routes = AddressMemo(self._find_route)
        self._history_bytes = history_bytes
        self._is_caught_up = False
        self._heard: dict[GroupId, set[SiteId]] = {}
        """Group that this process has come to, perhaps behind a gap -> sources that have begun a message there since.
        Of one that has not, a piece may be the rest of a message that began before."""
        self._inboxes: list[Inbox] = []
        first = {view.group: view for view in views}
        # Groups that were joined while the process ran are in the attachment alone.
        for name in dict.fromkeys((*first, *attachment.offsets, DIRECT)):
            inbox = self._open(name, attachment.offsets.get(name, 0))
            if name in first:
                inbox.install(first[name], 0)
        for waiting in attachment.untaken:
            for inbox in self._inboxes:
                if inbox.groups == (waiting.inbox,):
                    (inbox.hold_back if waiting.held else inbox.put)(waiting.batch(self.counters))

    def deliver(self, instance: InstanceId, effect: Deliver | Replay) -> None:
        """A bundle comes from the protocol."""
        multicast = effect.multicast
        payload: Payload = multicast.payload
        unpacked: list[bytes] | None = None
        if payload and payload[0] in MARKS:
            mark = payload[:1]
            if mark in (LETTERS_MARK, RUNS_MARK):
                self._hear(multicast)
                self._deliver_letters(multicast, payload, effect)
                return
            if mark == ASKING_MARK:
                self._on_taken()
                self.on_asked(multicast, payload, type(effect) is Replay)
                return
            unpacked = self._add_piece(multicast, payload)
            if unpacked is None:
                self._on_taken()
                return
            payload = unpacked[0] if unpacked else b""
            if unpacked and not self._in_source_order:
                multicast = msgspec.structs.replace(multicast, count=1)  # perhaps it is not the last piece
            if unpacked and mark == LETTER_PIECE_MARK:
                self._deliver_letters(multicast, payload, effect)
                return
        elif self._heard:
            self._hear(multicast)
        route = self._routes[multicast.groups, None]
        if not route:
            self._on_taken()
            return
        ordinal = self._ordinal = self._ordinal + 1
        taken = self._on_taken if len(route) == 1 else Shared(len(route), self._on_taken).take
        replayed = type(effect) is Replay
        for inbox in route:
            inbox.deliver(multicast, payload, unpacked, ordinal, taken, effect.view, None, replayed)

    # ------------------------------------------------------------------ letters
    def _deliver_letters(self, multicast: Multicast, payload: Payload, effect: Deliver | Replay) -> None:
        """The same for a bundle of letters: those whose key was used before do not go to the application, and have
        their places all the same."""
        route = self._routes[multicast.groups, None]
        places, unpacked = None, None
        letters: list[Letter] | list[Run] = []
        try:
            letters = decode_marked(payload, multicast.count)
        except WireError as error:
            unpacked = self._set_aside(multicast, str(error))
        is_of_one = len(multicast.groups) == 1
        lacks_keys = is_of_one and self.letters.lacks(multicast.groups[0]) and route and route[0].held is None
        if lacks_keys and any(letter.is_keyed for letter in letters):
            self._need_keys(multicast.groups[0], route[0])
        if not is_of_one or not route or route[0].held is None:
            places = self.letters.sort(multicast, letters, _own_offsets(route))
        if not route:
            self._on_taken()
            return
        ordinal = self._ordinal = self._ordinal + 1
        taken = self._on_taken if len(route) == 1 else Shared(len(route), self._on_taken).take
        replayed = type(effect) is Replay
        for inbox in route:
            inbox.deliver(multicast, payload, unpacked, ordinal, taken, effect.view, places, replayed)

    def _need_keys(self, group: GroupId, inbox: Inbox) -> None:
        """A letter with a key is the first since a gap: whether the key was used there, others have to tell."""
        if inbox.groups == (group,):
            inbox.hold()
            self.on_lacking(group, inbox.offset)
        else:
            # Of several groups together nobody counts the offsets.
            self._learn_nothing(group, 0)

    def _learn_nothing(self, group: GroupId, _offset: int) -> None:
        self.learn_keys(group, None)

    def learn_keys(self, group: GroupId, told: KeysAt | None) -> None:
        """Another member has told which keys were used in a group; None: nobody does, and what comes from now on is
        sorted by what comes from now on."""
        if told is None:
            logger.warning(
                "nobody tells which keys were used in group %s while this process was not there: a message that is "
                "sent again may be delivered a second time here",
                group,
            )
        self.letters.learn(group, told)
        inbox = self.find(group)
        if inbox is not None and inbox.held is not None:
            for batch in inbox.held:
                if batch.packed[:1] in (LETTERS_MARK, RUNS_MARK) and not batch.is_whole and len(batch.groups) == 1:
                    self._sort_held(batch, told)
            inbox.release()

    def _sort_held(self, batch: Batch, told: KeysAt | None) -> None:
        multicast = Multicast(batch.bundle, batch.groups, batch.packed, count=batch.count)
        offsets = {batch.groups[0]: batch.offset}
        with suppress(WireError):  # that was told when it came
            batch.places = self.letters.sort(multicast, decode_marked(batch.packed, batch.count), offsets, told)

    def caught_up(self) -> None:
        """The log has no more for the application."""
        self._is_caught_up = True
        for inbox in self._inboxes:
            inbox.catch_up(self._ordinal)

    def resume_seeking(self) -> None:
        """Ask for the keys that an earlier start has asked for."""
        for inbox in self._inboxes:
            if inbox.held:
                self.on_lacking(inbox.groups[0], inbox.held[0].offset)

    def keys_at(self, group: GroupId, since: int) -> KeysAt | None:
        """The keys that were used in a group, for whoever has its deliveries from `since` on; None: this process cannot
        tell."""
        inbox = self.find(group)
        if inbox is None or inbox.groups != (group,) or inbox.held is not None:
            return None
        return self.letters.at(group, inbox.offset, since)

    # ------------------------------------------------------------------ what else happens
    def take_back(self, multicast: Multicast) -> None:
        """The protocol takes a bundle back: the last one that stands in its groups."""
        payload: Payload = multicast.payload
        if payload[:1] in (PIECE_MARK, LETTER_PIECE_MARK):
            # Should the last piece alone come again, the message lies in a gap here. (Else it would be set aside in
            # silence, as one of which the others were never sent.)
            with suppress(struct_error):  # one that is malformed was set aside when it came
                self._assembly.give_up(multicast.id, multicast.groups, payload)
            for group in multicast.groups:
                self._heard.setdefault(group, set()).discard(multicast.id.source)
        if multicast.count:
            for inbox in self._routes[multicast.groups, None]:
                inbox.take_back(multicast.id, multicast.groups, multicast.count, self._ordinal)
                self.letters.take_back(inbox.groups, inbox.offset)

    def install(self, view: View) -> None:
        """The members of a group have agreed on who they are."""
        for inbox in self._inboxes:
            if view.group in inbox.groups:
                inbox.install(view, self._ordinal)

    def _add_piece(self, multicast: Multicast, payload: Payload) -> list[bytes] | None:
        """The message of which this is the last piece; no message where it stands that everybody sets aside."""
        message, groups = multicast.id, multicast.groups
        if self._heard and is_first_piece(payload):
            self._hear(multicast)
        try:
            whole = self._assembly.add(message, groups, payload)
        except TooLarge as error:
            logger.warning("dropped from %s: %s", message.source, error)
            self.counters["bad-bundles"] += 1
            self._skip(multicast)
            return None
        except WireError as error:
            return self._set_aside(multicast, str(error))
        if whole is not None:
            return [whole]
        if not multicast.count:
            return None
        if not all(message.source in self._heard.get(group, (message.source,)) for group in groups):
            # The others lie in a gap.
            self._assembly.give_up(message, groups, payload)
            self._skip(multicast)
        elif self._in_source_order:
            self._assembly.give_up(message, groups, payload)
            return self._set_aside(multicast, "the last piece of a message of which others were never sent")
        return None

    def _hear(self, multicast: Multicast) -> None:
        for group in multicast.groups:
            if group in self._heard:
                self._heard[group].add(multicast.id.source)

    def _set_aside(self, multicast: Multicast, why: str) -> list[bytes] | None:
        """A source has done something wrong that everybody sees: it has its place in the order, and no message."""
        logger.warning("bundle %s of %s is set aside: %s", multicast.id, multicast.id.source, why)
        self.counters["bad-bundles"] += 1
        return [] if multicast.count else None

    def _skip(self, multicast: Multicast) -> None:
        """What this counts for is delivered elsewhere, or has its place there; not here."""
        for inbox in self._routes[multicast.groups, None]:
            if multicast.count and len(inbox.groups) == 1 and inbox.groups[0] != DIRECT:
                self._go_on(inbox, inbox.offset + multicast.count)

    def _find_route(self, groups: tuple[GroupId, ...], _destinations: tuple[SiteId, ...] | None) -> tuple[Inbox, ...]:
        wanted = groups or (DIRECT,)
        return tuple(inbox for inbox in self._inboxes if not set(inbox.groups).isdisjoint(wanted))

    def open(self, group: GroupId, offset: int) -> None:
        """This process has come to a group, whose deliveries are kept from now on; the next one has this offset."""
        self._heard[group] = set()
        if offset:
            self.letters.lose(group)
        self._open(group, offset)

    def _open(self, group: GroupId, offset: int) -> Inbox:
        inbox = Inbox((group,), offset, self.counters, self._callbacks)
        if self._history_bytes:
            inbox.history = self.histories[group] = History(group, offset, self._history_bytes)
        inbox.is_new = self._is_caught_up
        self._inboxes.append(inbox)
        self._routes.clear()
        return inbox

    def find(self, group: GroupId) -> Inbox | None:
        """Where the deliveries of a group are kept; None when they are not."""
        return next((inbox for inbox in self._inboxes if group in inbox.groups), None)

    def forget(self, group: GroupId) -> None:
        """This process is out of a group."""
        inbox = self.find(group)
        if inbox is not None:
            self.release(inbox)
        self._heard.pop(group, None)
        self.letters.forget(group)
        history = self.histories.pop(group, None)
        if history is not None:
            history.end()

    def enter(self, group: GroupId, offset: int, elsewhere: bool = False) -> None:
        """The group's deliveries go on at an offset; what was ordered before, and has not come, never will. Where they
        go on `elsewhere`, among others who have the group too, that may be an offset that was here before."""
        self._heard[group] = set()
        for inbox in self._inboxes:
            if inbox.groups != (group,):
                continue
            if offset > inbox.offset:
                self._go_on(inbox, offset)
            elif elsewhere:  # at the same offset, too: what stands before it is not what was here
                logger.warning("group %s goes on at offset %d, and had %d here", group, offset, inbox.offset)
                self._lose_keys(inbox)
                inbox.skip(offset, self._ordinal)

    def tell_gap(self, group: GroupId, source: SiteId | None, shared: bool = False) -> None:
        """Messages of a source are missing here that were never counted: what comes next has the same offset all the
        same. Where all who go on lack the same, a state that somebody keeps is as good as everybody's, and no gap.
        (Else: two of five are killed, and the first has left something behind that only the second had. All replicas
        that are left give up the state that they share, and nobody has one to give.)"""
        if shared:
            self.counters["holes"] += 1
            logger.warning("group %s: messages of %s may be missing here, which nobody who is left has", group, source)
            return
        logger.warning("group %s: messages of %s are missing here, which nobody has any more", group, source)
        for inbox in self._inboxes:
            if group in inbox.groups:
                self.counters["gaps"] += 1
                inbox.skip(inbox.offset, self._ordinal)

    def _go_on(self, inbox: Inbox, offset: int) -> None:
        group = inbox.groups[0]
        self.counters["skipped-messages"] += offset - inbox.offset
        logger.warning("group %s: offsets %d to %d are missing here", group, inbox.offset, offset - 1)
        self._lose_keys(inbox)
        inbox.skip(offset, self._ordinal)

    def _lose_keys(self, inbox: Inbox) -> None:
        group = inbox.groups[0]
        if inbox.held is not None:
            # What is held stands before the next gap, too: nobody could tell about both.
            self._learn_nothing(group, 0)
        self.letters.lose(group)

    # ------------------------------------------------------------------ who takes it
    def claim(self, names: tuple[GroupId, ...], views: Mapping[GroupId, View]) -> Inbox:
        """The inbox of a group; of several, one for all of them, with what waits in the order of delivery. What it
        begins with of those that were left before: their last `views`."""
        self.claimed.update(names)
        own = [inbox for inbox in self._inboxes if inbox.groups[0] in names]
        if len(own) == 1 and len(names) == 1:
            return own[0]
        for inbox in own:
            if inbox.held is not None:
                self._learn_nothing(inbox.groups[0], 0)
        merged = Inbox(names, counters=self.counters, callbacks=self._callbacks)
        for name, view in views.items():
            if not any(name in inbox.groups for inbox in own):
                merged.install(view, self._ordinal)
        merged.take_over(own)
        self._inboxes = [inbox for inbox in self._inboxes if inbox not in own] + [merged]
        self._routes.clear()
        return merged

    def release(self, inbox: Inbox) -> None:
        """Nobody takes it any more: what waits is dropped, and what comes is not kept. Once is enough."""
        if inbox not in self._inboxes:
            return
        inbox.discard()
        inbox.close()
        self._inboxes.remove(inbox)
        self._routes.clear()
        self.claimed.difference_update(inbox.groups)

    def close(self, error: BaseException | None) -> None:
        """Nothing more will come."""
        with ExitStack() as steps:  # what an application's `on_end` raises must not keep the others waiting
            for inbox in self._inboxes:
                steps.callback(inbox.close, error)
            for history in self.histories.values():
                steps.callback(history.end)

    # ------------------------------------------------------------------ where it stands
    def offsets(self) -> dict[GroupId, int]:
        """Group -> the offset of its next delivery."""
        return {inbox.groups[0]: inbox.offset for inbox in self._inboxes if inbox.groups[0] != DIRECT}

    def waiting(self) -> dict[GroupId, int]:
        """Group -> how many bytes of it wait for the application."""
        return {inbox.groups[0]: inbox.bytes for inbox in self._inboxes if inbox.groups[0] != DIRECT}

    @property
    def waiting_bytes(self) -> int:
        """How much waits, of all groups together."""
        return sum(inbox.bytes for inbox in self._inboxes)

    def unread(self) -> list[GroupId]:
        """The groups of which something waits, and which nobody has joined."""
        waiting = [inbox.groups[0] for inbox in self._inboxes if inbox.bytes]
        return [name for name in waiting if name != DIRECT and name not in self.claimed]

    def attachment(self, snapshots: dict[str, bytes]) -> Attachment:
        """Kept with a checkpoint of the log: from there on the log knows no more what was delivered before."""
        untaken = [
            Untaken(
                inbox.groups[0],
                batch.bundle,
                batch.groups,
                batch.count,
                batch.offset,
                bytes(batch.packed),
                batch.is_whole,
                batch.view,
                batch.ordinal,
                batch.places,
                batch in (inbox.held or ()),
            )
            for inbox in self._inboxes
            for batch in inbox.untaken()
        ]
        named = {name: snapshot for name, snapshot in snapshots.items() if name}
        offsets = self.offsets()
        keys, lacking = self.letters.kept(offsets)
        return Attachment(offsets, untaken, snapshots.get(""), named, self._assembly.pieces(), keys, lacking)


def _own_offsets(route: tuple[Inbox, ...]) -> dict[GroupId, int]:
    """The offset of the next delivery in each group that has an inbox of its own."""
    return {inbox.groups[0]: inbox.offset for inbox in route if len(inbox.groups) == 1}
