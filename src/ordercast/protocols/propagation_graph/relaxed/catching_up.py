"""What a site lacks of the order with which a graph begins: it is fetched from those who have it (Spauster 7.1.1)."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph.relaxed.graphs import Listed
from ordercast.protocols.propagation_graph.relaxed.packets import Fetch, Fetched

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph

FETCH_MAX = 64
"""Messages asked for at once."""


class CatchingUp(Part):
    """Nothing else is taken before everyone has it. (Else: m4 of s is in the order, and only z has it; e, which passes
    on what is not for it, takes m5 of s; z fails, s submits m4 again, and it comes after m5.)"""

    packets = (Fetch, Fetched)
    timers = ("fetch",)
    branches = ("fetched", "caught-up")

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        self.missing: deque[Listed] = deque()
        """What this site still has to take, in order."""
        self._lacking: set[MessageId] = set()
        """What of it has not come."""
        self._come: dict[MessageId, Multicast] = {}
        self._asked: set[MessageId] = set()
        """What of it was asked for."""
        self._tries = 0

    @property
    def is_done(self) -> bool:
        """Whether this site has all of it."""
        return not self.missing

    def begin(self, missing: list[Listed]) -> None:
        """A graph begins with this; what this site has taken back is here."""
        self.missing = deque(missing)
        held, ahead = self._core.history.held, self._core.preparing.bodies
        self._come = {item.id: ahead[item.id] for item in missing if item.id in ahead}
        self._come |= {item.id: held[item.id].multicast for item in missing if item.id in held}
        self._lacking = {item.id for item in missing if item.id not in self._come}
        self._asked.clear()
        self._tries = 0

    def go_on(self, ask: bool = True) -> None:
        """Take what has come, in order, while this site may deliver; ask for what has not."""
        core = self._core
        while self.missing and core.shares.is_held(core.now):
            multicast = self._come.pop(self.missing[0].id, None)
            if multicast is None:
                break
            core.branch("caught-up")
            core.take_listed(multicast, self.missing.popleft())
        if self.missing:
            if ask:
                self._ask()
        else:
            core.on_caught_up()

    def _ask(self) -> None:
        core = self._core
        wanted: dict[SiteId, list[MessageId]] = {}
        self._asked.clear()
        for item in islice((item for item in self.missing if item.id in self._lacking), FETCH_MAX):
            holders = [site for site in item.holders if site != core.site]
            if holders:
                wanted.setdefault(holders[self._tries % len(holders)], []).append(item.id)
                self._asked.add(item.id)
        for site, messages in wanted.items():
            core.send((site,), Fetch(core.number, tuple(messages)))
        core.set_timer("fetch", core.options.retransmit_seconds)

    def on_fetch_timeout(self) -> None:
        """Somebody else may have it."""
        if self.missing and not self._core.is_closed:
            self._tries += 1
            self.go_on()

    def on_fetch(self, sender: SiteId, packet: Fetch, arrival: Arrival) -> None:
        """Give what is here."""
        core = self._core
        if packet.graph == core.number and sender in core.graph.present:
            for message in packet.messages[:FETCH_MAX]:
                multicast = core.history.find(message)
                if multicast is not None:
                    core.send((sender,), Fetched(core.number, multicast))

    def on_fetched(self, sender: SiteId, packet: Fetched, arrival: Arrival) -> None:
        """It has come; when all has that was asked for, ask for more."""
        core = self._core
        message = packet.multicast.id
        if packet.graph == core.number and not core.is_closed and message in self._lacking:
            core.branch("fetched")
            self._lacking.discard(message)
            self._asked.discard(message)
            self._come[message] = packet.multicast
            self.go_on(ask=bool(self._lacking) and not self._asked)
        elif packet.graph > core.number:
            core.preparing.take(sender, packet)
