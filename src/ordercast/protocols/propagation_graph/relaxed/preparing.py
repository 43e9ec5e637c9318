"""A site that is to come back by rollback fetches what it missed before it asks to be let in (Spauster 7.1.1, R3)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph.relaxed.catching_up import FETCH_MAX
from ordercast.protocols.propagation_graph.relaxed.history import KEPT_MAX
from ordercast.protocols.propagation_graph.relaxed.packets import Fetched, Kept, Missed

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph

AHEAD_MIN = 8
"""Fewer messages are fetched when the graph has begun: that takes a round trip."""
AHEAD_BYTES = 1 << 20
"""So much is given at once, and one message more."""
VAIN_MAX = 3
"""So often a giver is asked in vain."""


class Preparing(Part):
    """The others go on meanwhile. (Else: c was out for ten seconds; the graph that lets it in takes nothing before c
    has all that it missed, and everybody stands still while c fetches it.)

    Which of it c is to deliver, and at which place, is said by the order with which it is let in: these are bodies.
    Whatever is missing then, it fetches as everybody does.
    """

    packets = (Kept, Missed)
    branches = ("fetched-ahead", "ready")

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        self.bodies: dict[MessageId, Multicast] = {}
        """What has come."""
        self._bytes = 0
        self.begin()

    def begin(self) -> None:
        """A graph begins here."""
        self.is_ready = not self._core.takes_back
        """Whether this site asks to be let in at once."""
        self._giver: SiteId = ""
        self._graph = 0
        """The graph of the giver."""
        self._at = 0
        """How many messages of the giver's history this site has had, or they were not for it."""
        self._vain = 0

    def end(self) -> None:
        """Everybody has all with which the graph began."""
        self.bodies.clear()
        self._bytes = 0

    # ------------------------------------------------------------------ who comes back
    @property
    def is_busy(self) -> bool:
        """Whether this site fetches; what is not answered is asked for again, a few times."""
        if self.is_ready or not self._giver:
            return False
        self._vain += 1
        if self._vain > VAIN_MAX:  # it has failed, or is in another graph by now
            self.is_ready = True
        elif self._vain > 1:
            self._ask()
        return not self.is_ready

    def _ask(self) -> None:
        self._core.send((self._giver,), Missed(self._graph, self._at))

    def on_kept(self, sender: SiteId, packet: Kept, arrival: Arrival) -> None:
        """A site that goes on has something for this one: the first of them is asked."""
        core = self._core
        if self.is_ready or not core.shares.has_failed or packet.graph <= core.number:
            return
        if not self._giver:
            self._giver, self._graph = sender, packet.graph
        elif (sender, packet.graph) != (self._giver, self._graph) or packet.at <= self._at:
            return
        self._at, self._vain = packet.at, 0
        if packet.left > AHEAD_MIN and len(self.bodies) < KEPT_MAX and self._bytes < core.options.away_bytes_max:
            self._ask()
            core.watching.look_soon()
        else:
            core.branch("ready")
            self.is_ready = True
            core.watching.drive_soon()

    def take(self, sender: SiteId, packet: Fetched) -> None:
        """A message that this site may lack."""
        message = packet.multicast.id
        if (sender, packet.graph) == (self._giver, self._graph) and message not in self._core.history.held:
            self._core.branch("fetched-ahead")
            self._bytes += len(packet.multicast.payload) if message not in self.bodies else 0
            self.bodies[message] = packet.multicast

    # ------------------------------------------------------------------ who has gone on
    def offer(self, site: SiteId) -> bool:
        """Whether a site that comes back has much to fetch here first; it is told so."""
        core = self._core
        much = len(core.history.everywhere) > AHEAD_MIN and not core.history.overflowed
        if not much or core.is_closed or site not in core.graph.awaited:
            return False
        core.send((site,), Kept(core.number, 0, len(core.history.held)))
        return True

    def on_missed(self, sender: SiteId, packet: Missed, arrival: Arrival) -> None:
        """Give what follows, of the messages that go to the site, in the order in which they are here: nothing of them
        is forgotten while somebody is awaited."""
        core, history = self._core, self._core.history
        if packet.graph != core.number or core.is_closed or sender not in core.graph.awaited or packet.at < 0:
            return
        at, given, size = packet.at, 0, 0
        for held in islice(history.held.values(), packet.at, None):
            if given == FETCH_MAX or size > AHEAD_BYTES:
                break
            at += 1
            if any(sender in core.groups.get(group, ()) for group in held.multicast.groups):
                given, size = given + 1, size + len(held.multicast.payload)
                core.send((sender,), Fetched(core.number, held.multicast))
        core.send((sender,), Kept(core.number, at, max(0, len(history.held) - at)))
