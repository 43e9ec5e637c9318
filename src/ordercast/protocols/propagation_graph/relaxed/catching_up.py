"""What a site lacks of the order with which a graph begins: it is fetched from those who have it (Spauster 7.1.1)."""

from __future__ import annotations

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
        self.missing: list[Listed] = []
        """What this site still has to take, in order."""
        self._come: dict[MessageId, Multicast] = {}
        self._tries = 0

    @property
    def is_done(self) -> bool:
        """Whether this site has all of it."""
        return not self.missing

    def begin(self, missing: list[Listed]) -> None:
        """A graph begins with this."""
        self.missing = missing
        self._come.clear()
        self._tries = 0

    def go_on(self, ask: bool = True) -> None:
        """Take what has come, in order, while this site may deliver; ask for what has not."""
        core = self._core
        while self.missing and core.shares.is_held(core.now):
            item = self.missing[0]
            multicast = self._come.pop(item.id, None)
            if multicast is None:
                break
            del self.missing[0]
            core.branch("caught-up")
            core.take_listed(multicast, item)
        if self.missing:
            if ask:
                self._ask()
        else:
            core.on_caught_up()

    def _ask(self) -> None:
        core = self._core
        wanted: dict[SiteId, list[MessageId]] = {}
        for item in self.missing[:FETCH_MAX]:
            holders = [site for site in item.holders if site != core.site]
            if item.id not in self._come and holders:
                wanted.setdefault(holders[self._tries % len(holders)], []).append(item.id)
        for site, messages in wanted.items():
            core.send((site,), Fetch(core.number, tuple(messages)))
        self._tries += 1
        core.set_timer("fetch", core.options.retransmit_seconds)

    def on_fetch_timeout(self) -> None:
        """Somebody else may have it."""
        if self.missing and not self._core.is_closed:
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
        """It has come."""
        core = self._core
        message = packet.multicast.id
        if packet.graph == core.number and not core.is_closed and any(item.id == message for item in self.missing):
            core.branch("fetched")
            self._come[message] = packet.multicast
            self.go_on(ask=False)
