"""What a site has taken and others may lack: its history, back to what is stable everywhere (Spauster 7.1.1)."""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph.edges import OutgoingEdge
from ordercast.protocols.propagation_graph.packets import Null
from ordercast.protocols.propagation_graph.relaxed.graphs import LISTED_MAX, Address, Listed, Settled
from ordercast.protocols.propagation_graph.relaxed.packets import Stable, Took

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph

KEPT_MAX = LISTED_MAX // 8
"""So many messages are kept for those who are awaited, at the most: all of them stand in one packet, by name."""


class Held:
    """A message of the history."""

    __slots__ = ("entry", "multicast", "onward", "passed", "place", "undone")

    def __init__(
        self,
        multicast: Multicast,
        entry: SiteId,
        place: int,
        onward: tuple[tuple[OutgoingEdge, int], ...] = (),
        undone: bool = False,
        passed: bool = False,
    ) -> None:
        self.multicast = multicast
        self.entry = entry
        self.place = place
        self.onward = onward
        """The edges by which it went on, and its numbers there."""
        self.undone = undone
        """Whether it is taken back, and to be delivered again."""
        self.passed = passed
        """Whether it is taken back, and here for others only: this site goes on behind it."""

    @property
    def stands(self) -> bool:
        """Whether this site has had it, and has not taken it back."""
        return not self.undone and not self.passed

    def listed(self) -> Listed:
        """Without its payload."""
        multicast = self.multicast
        return Listed(multicast.id, multicast.groups, multicast.count, self.entry, self.place)


class HistoryKeeping(Part):
    """A message is kept until everyone to whom it goes has it. Acknowledgements tell what everyone below has; the
    primary destination knows when all have, and says so downwards.

    (With acknowledgements from hop to hop, in Figure 7.1: a has α3, c has acknowledged it, a forgets it, c fails before
    d and e have it. With acknowledgements upwards alone: p has acknowledged m to its source and fails, d has m and has
    forgotten it, e has never had it.)

    Where sites come back by rollback, a site forgets in its order, and nothing while somebody is awaited: of what it
    has, it can take back the end, and give what another one missed.
    """

    packets = (Took, Stable)
    timers = ("tidy",)
    branches = ("stable-told", "settled-told", "settled-asked")

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        self.held: dict[MessageId, Held] = {}
        """In the site's order."""
        self.settled: dict[tuple[SiteId, Address], tuple[int, int]] = {}
        """Source and address -> up to which of its messages everybody has them."""
        self.everywhere: set[MessageId] = set()
        """What is held although all who take part have it."""
        self.overflowed = False
        """Whether that was more than is kept for those who are away."""
        self._tidying = False
        self.begin()

    def begin(self) -> None:
        """A graph begins."""
        self.marks: dict[SiteId, int] = {}
        """Primary destination -> everybody has what entered there up to this number."""
        self._told: dict[SiteId, int] = {}
        """The same, as far as the sites below were told."""
        self._below: dict[SiteId, int] = {}
        """Receiver of an edge -> up to which number all below have everything."""
        self._unsettled: dict[SiteId, deque[tuple[int, Held]]] = {}
        """Sender of an edge -> its numbers that somebody below lacks."""
        self._settled_of: dict[SiteId, int] = {}
        """Sender of an edge -> the number up to which everyone below has everything."""
        self._told_above: dict[SiteId, int] = {}
        self._waited_at: dict[SiteId, int] = {}
        """Receiver that has taken everything -> what of it was everywhere below when it was last looked at."""
        self._entered: deque[Held] = deque()
        """What entered here and somebody lacks."""
        self._unstable: dict[SiteId, deque[Held]] = {}
        """Primary destination -> what entered there and is not known to be everywhere, in its order."""
        self.everywhere.clear()
        self._kept_bytes = 0
        self.overflowed = False

    # ------------------------------------------------------------------ growing
    def add(self, sender: SiteId, number: int, held: Held) -> None:
        """A message is taken; it came by this edge with this number."""
        self.held[held.multicast.id] = held
        self._unstable.setdefault(held.entry, deque()).append(held)
        unsettled = self._unsettled.setdefault(sender, deque())
        enters = held.entry == self._core.site
        if held.onward or unsettled or enters:
            unsettled.append((number, held))
            if enters:
                self._entered.append(held)
            if not held.onward:
                self._settle()
        else:
            self._settled_of[sender] = number  # the way of every message at a leaf
        self.tidy_soon()

    def find(self, message: MessageId) -> Multicast | None:
        """The message, if it is here."""
        held = self.held.get(message)
        return None if held is None else held.multicast

    def listed(self) -> tuple[Listed, ...]:
        """What is told to whoever makes the next graph."""
        return tuple(held.listed() for held in self.held.values())

    def settled_list(self) -> tuple[Settled, ...]:
        """What everybody has had, for each source and address."""
        return tuple(Settled(source, groups, *last) for (source, groups), last in sorted(self.settled.items()))

    # ------------------------------------------------------------------ shrinking
    def _is_settled(self, held: Held) -> bool:
        below = self._below
        for edge, number in held.onward:  # noqa: SIM110 - no generator for each message
            if below.get(edge.to, 0) < number:
                return False
        return True

    def _settle(self) -> None:
        """What all below have is settled; what entered here and is settled is stable."""
        for sender, unsettled in self._unsettled.items():
            while unsettled and self._is_settled(unsettled[0][1]):
                self._settled_of[sender] = unsettled.popleft()[0]
        entered, last = self._entered, 0
        while entered and self._is_settled(entered[0]):
            last = entered.popleft().place
        if last:
            self.note_stable(self._core.site, last)

    def note_stable(self, entry: SiteId, number: int) -> None:
        """Everybody has what entered there, up to this number."""
        if number <= self.marks.get(entry, 0):
            return
        self.marks[entry] = number
        unstable = self._unstable.get(entry, ())
        # Where nobody takes back or is awaited, what everybody has is forgotten at once.
        keeps = self._core.takes_back or bool(self._core.graph.awaited)
        while unstable and unstable[0].place <= number:
            multicast = unstable.popleft().multicast
            self.note_settled(multicast.id, multicast.groups)
            if keeps or multicast.id in self.everywhere:
                self.note_everywhere(multicast.id)
            else:
                self.held.pop(multicast.id, None)
        self.forget()

    def note_everywhere(self, message: MessageId) -> None:
        """All who take part have it."""
        held = self.held.get(message)
        if held is not None and message not in self.everywhere:
            self.everywhere.add(message)
            self._kept_bytes += len(held.multicast.payload)
            if self._kept_bytes > self._core.options.away_bytes_max or len(self.everywhere) > KEPT_MAX:
                self.overflowed = True

    @property
    def lacked(self) -> int:
        """How many messages others may lack."""
        return len(self.held) - len(self.everywhere)

    def forget(self) -> None:
        """Of what all who take part have, forget what nobody may need any more."""
        core = self._core
        if core.graph.awaited and not self.overflowed:
            return
        # In order where deliveries may be taken back. (Else: c has u s, s is everywhere and u is not; u is ordered
        # anew, c takes it back, and s, which it has delivered behind it, stands.)
        gone = takewhile(self.everywhere.__contains__, self.held) if core.takes_back else self.everywhere
        for message in list(gone):
            self.everywhere.discard(message)
            self._kept_bytes -= len(self.held.pop(message).multicast.payload)

    def note_settled(self, message: MessageId, groups: Address) -> None:
        """Everybody has it, and what its source has multicast to the same address before."""
        key, last = (message.source, groups), (message.incarnation, message.number)
        self.settled[key] = max(last, self.settled.get(key, last))

    def is_settled(self, message: MessageId, groups: Address) -> bool:
        """Whether everybody has it."""
        last = self.settled.get((message.source, groups))
        return last is not None and (message.incarnation, message.number) <= last

    def note_undone(self, held: Held) -> None:
        """It is taken back, to be delivered again: what its source has multicast to its address from there on is not
        settled here."""
        multicast = held.multicast
        held.undone = True
        key, last = (multicast.id.source, multicast.groups), (multicast.id.incarnation, multicast.id.number - 1)
        if key in self.settled:
            self.settled[key] = min(last, self.settled[key])

    # ------------------------------------------------------------------ telling
    def on_took(self, sender: SiteId, packet: Took, arrival: Arrival) -> None:
        """A receiver has taken something, and so have all below it."""
        core = self._core
        if packet.graph != core.number or core.is_closed:
            return
        edge = core.outgoing.get(sender)
        if edge is None or not packet.settled <= packet.taken <= edge.highest:
            raise WireError(f"{sender} has taken {packet.taken} of what was not sent to it")
        core.upkeep.take_acknowledgement(edge, packet.taken)
        if packet.settled > self._below.get(sender, 0):
            self._below[sender] = packet.settled
            core.pending.settle(sender, packet.settled)
            self._settle()
            core.use_room()

    def settled_of(self, sender: SiteId) -> int:
        """Up to which number of an edge everyone from here on has everything."""
        return self._settled_of.get(sender, 0)

    def tidy_soon(self) -> None:
        """Somebody is to be told something, in a while."""
        if not self._tidying:
            self._tidying = True
            self._core.set_timer("tidy", self._core.options.retransmit_seconds)

    def on_tidy_timeout(self) -> None:
        """Tell those above what is settled, and those below what is stable."""
        self._tidying = False
        core = self._core
        if core.is_closed:
            return
        for sender, number in self._settled_of.items():
            if number > self._told_above.get(sender, 0) and sender != core.site:
                core.branch("settled-told")
                core.repair.acknowledge(core.incoming_edge(sender))
        news = tuple((entry, mark) for entry, mark in self.marks.items() if mark > self._told.get(entry, 0))
        below = core.steps_below()
        if news and below:
            core.branch("stable-told")
            core.send(below, Stable(core.number, news))
        self._told.update(news)
        self._ask_again()
        if self.lacked or core.pending.messages:
            self.tidy_soon()

    def _ask_again(self) -> None:
        """Ask receivers who have taken everything, and have not said for a while whether all below have it. (Else: the
        one packet that tells a source that everybody has its messages is lost; it keeps them, and as it may keep no
        more it multicasts nothing any more.)"""
        core = self._core
        waiting = {
            edge.to: self._below.get(edge.to, 0)
            for edge in core.outgoing.values()
            if not edge.kept and self._below.get(edge.to, 0) < edge.highest
        }
        for site, below in waiting.items():
            if self._waited_at.get(site) == below:
                core.branch("settled-asked")
                core.send((site,), Null(core.outgoing[site].highest, core.number))
        self._waited_at = waiting

    def note_told(self, sender: SiteId, settled: int) -> None:
        """The sender of an edge was told."""
        self._told_above[sender] = settled

    def on_stable(self, sender: SiteId, packet: Stable, arrival: Arrival) -> None:
        """Something is everywhere. A site that has stopped forgets nothing more.

        (Else: f tells its history, with m, then hears that m is everywhere, and forgets it; m stands in the order with
        which the next graph begins, f lacks it, fetches it, and delivers it again.)
        """
        core = self._core
        if packet.graph == core.number and not core.is_closed and sender in core.routes.above[core.site]:
            for entry, number in packet.marks:
                self.note_stable(entry, number)
            self.tidy_soon()
            core.use_room()
