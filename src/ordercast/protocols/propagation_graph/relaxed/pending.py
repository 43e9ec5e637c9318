"""A source's own messages, until everybody has them (Spauster 7.1.1): what only failed sites had comes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, Part, SiteId
from ordercast.core.effects import Recall
from ordercast.protocols.propagation_graph.records import Submitted
from ordercast.protocols.propagation_graph.relaxed.graphs import Address
from ordercast.protocols.propagation_graph.relaxed.records import Dropped

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph


class Pending(Part):
    """What this site has multicast by another primary destination, or waits here. Not until that one has it, but until
    everyone has: else a message that the primary destination took and acknowledged would die with it."""

    records = (Submitted, Dropped)
    branches = ("source-resent", "nobody-there", "held-for-absent", "absent-given-up")

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        self.messages: dict[MessageId, Multicast] = {}
        """In the order in which they were multicast."""
        self._sent: dict[SiteId, dict[int, MessageId]] = {}
        """Primary destination -> the numbers of its edge."""
        self.is_too_much = False
        """Whether more is for members who are all away than is held for them: there is to be another graph, in which
        they are awaited no more."""

    def addresses(self) -> tuple[Address, ...]:
        """Of what is pending."""
        return tuple(sorted({multicast.groups for multicast in self.messages.values()}))

    def add(self, multicast: Multicast) -> None:
        """A new message; it is in the log before it goes."""
        self._core.append(Submitted("", multicast))
        self.messages[multicast.id] = multicast
        self._submit(multicast)

    def recall_submitted(self, record: Submitted) -> None:
        """It is in the log."""
        self._core.outbox.append(Recall(record.multicast))
        self.messages[record.multicast.id] = record.multicast

    def recall_dropped(self, record: Dropped) -> None:
        """It was for nobody."""
        self.messages.pop(record.message, None)

    def recall_taken(self, multicast: Multicast) -> None:
        """An own message that was taken here was multicast before all that comes now.

        (Else: b has logged m1 and crashes before anybody hears of it; it comes back and multicasts m2, which waits; the
        tail of the log, with m1, waits for the next graph, and m1 counts as multicast there, after m2, and is delivered
        before m2.)
        """
        if multicast.id.source == self._core.site:
            self._core.outbox.append(Recall(multicast))

    def begin(self) -> None:
        """A graph begins: what is not known to be everywhere, and is not in the order with which it begins, is
        submitted anew."""
        core = self._core
        self.is_too_much = False
        self._sent.clear()
        core.own_pending = core.own_pending_bytes = 0
        ordered = {item.id for item in core.graph.order}
        for multicast in list(self.messages.values()):
            if multicast.id not in ordered:
                core.branch("source-resent")
                self._submit(multicast)

    def drop_settled(self) -> None:
        """Everybody has these."""
        is_settled = self._core.history.is_settled
        for multicast in [each for each in self.messages.values() if is_settled(each.id, each.groups)]:
            del self.messages[multicast.id]

    def _submit(self, multicast: Multicast) -> None:
        core = self._core
        if core.is_closed:
            return
        entry = core.find_entry(multicast)
        if entry is None:
            self._drop_if_current(multicast)
        elif entry == core.site:
            edge = core.incoming_edge(core.site)
            core.queue_here(edge, multicast)
            core.stall(edge)
        else:
            submit = core.keep_submission(entry, multicast)
            self._sent.setdefault(entry, {})[submit.number] = multicast.id
            core.send((entry,), submit)
            core.repair.look_soon()
            core.history.tidy_soon()

    def _drop_if_current(self, multicast: Multicast) -> None:
        """All members are away, and will go on behind it. That is so while this site has a share: nobody is in a later
        graph then. (Without one: y, which was cut off, is still in graph 1, where b is away; b is back in graph 2 when
        y multicasts to it.) It is in the log. (Else: b drops m1, later m9 is delivered; b crashes, finds m1 in its log,
        and submits it again.)"""
        core = self._core
        if any(core.graph.awaits(group) for group in multicast.groups):
            self._hold_for_absent()
        elif core.shares.is_held(core.now):
            core.branch("nobody-there")
            core.append(Dropped(multicast.id))
            del self.messages[multicast.id]
            core.give_credit()

    def _hold_for_absent(self) -> None:
        """Members who come back by rollback get it, as long as that is not too much."""
        core = self._core
        core.branch("held-for-absent")
        held = [len(each.payload) for each in self._for_nobody()]
        if 2 * len(held) > core.options.history_messages_max or sum(held) > core.options.away_bytes_max:
            core.branch("absent-given-up")
            self.is_too_much = core.history.overflowed = True
            core.watching.look_soon()

    def _for_nobody(self) -> list[Multicast]:
        return [each for each in self.messages.values() if self._core.find_entry(each) is None]

    def on_share_held(self) -> None:
        """This is the latest graph."""
        for multicast in self._for_nobody():
            if not self._core.graph.awaited:
                self._drop_if_current(multicast)

    def settle(self, entry: SiteId, number: int) -> None:
        """Everybody has what was sent by this edge, up to this number."""
        sent = self._sent.get(entry)
        while sent and (first := next(iter(sent))) <= number:
            self.messages.pop(sent.pop(first), None)
            self._core.give_credit()

    def note_taken_here(self, multicast: Multicast) -> None:
        """This site is its primary destination and has taken it: from here on it is in its history."""
        self.messages.pop(multicast.id, None)
