"""Telling the clock: every potential source says that its clock has passed what it has heard of (Spauster 2.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.classic.lamport.packets import Reserved, Tick

if TYPE_CHECKING:
    from ordercast.protocols.classic.lamport.protocol import Lamport

RESERVE_TICKS = 1024
"""Clock ticks reserved with one record: a thousandth of a log write for each message. A crash skips at most so many."""


class Ticking(Part):
    """What the others know of a site's clock, and what is reserved of it."""

    packets = (Tick,)
    timers = ("tick",)
    records = (Reserved,)

    def __init__(self, core: Lamport) -> None:
        self._core = core
        self.reserved = 0
        """No clock value above this has left the site."""
        self.announced = [0] * len(core.context.sites)
        """By rank, the last clock value sent to a site. What is lost it asks for."""
        self._ticking = False

    def on_tick(self, sender: SiteId, packet: Tick, arrival: Arrival) -> None:
        """The clock of another site, and what it has taken from us."""
        core = self._core
        if sender not in core.ranks or sender == core.site:
            raise WireError(f"{sender} is not another site of the system")
        if len(packet.highest) != len(core.ranks) or len(packet.taken) != len(core.ranks):
            raise WireError(f"{sender} does not know the sites of the system")
        rank = core.ranks[sender]
        self.observe(packet.time)
        # Both, whatever the first one says.
        if core.destination.hear_clock(rank, packet) | core.source.forget_taken(rank, packet.taken[core.rank]):
            core.asking.hear_news(rank)
        if packet.reply:
            core.branch("answered")
            self.send_tick((rank,))
        core.destination.deliver_what_is_due()

    def observe(self, time: int) -> None:
        """Take note of a time; those who do not know that ours has passed it hear of it soon.

        The clock runs when something is multicast, and not when times are told, so telling them comes to an end.
        """
        clock = self._core.clock
        if time > clock.time:
            clock.observe(time)
            self.tick_soon()

    def tick_soon(self) -> None:
        """Tell the clock to those who do not know it, a little later: more may come."""
        core = self._core
        if not self._ticking and core.is_source and min(self._announced_to_others()) < core.clock.time:
            self._ticking = True
            core.set_timer("tick", core.options.tick_seconds)

    def _announced_to_others(self) -> list[int]:
        rank = self._core.rank
        return self.announced[:rank] + self.announced[rank + 1 :] or [self._core.clock.time]

    def on_tick_timeout(self) -> None:
        """Tell the clock to everyone to whom no message has told it meanwhile."""
        core = self._core
        self._ticking = False
        behind = [rank for rank, time in enumerate(self.announced) if time < core.clock.time and rank != core.rank]
        if behind:
            core.branch("ticked")
            self.send_tick(behind)

    def send_tick(self, ranks: Iterable[int], reply: bool = False) -> None:
        """Tell some sites the clock, the heads of our streams, and what we have taken."""
        self.reserve()
        core = self._core
        streams = core.destination.streams
        tick = Tick(
            core.clock.time,
            tuple([link.highest for link in core.source.links]),
            tuple([stream.taken for stream in streams]),
            reply,
        )
        to = []
        for rank in ranks:
            self.announced[rank] = core.clock.time
            streams[rank].reported = streams[rank].taken
            to.append(core.context.sites[rank])
        core.send(tuple(to), tick)

    # ------------------------------------------------------------------ stable storage
    def reserve(self) -> None:
        """The clock is about to be read to others: after a crash it must be at least there.

        (Else: 9 is told to b, which delivers a message with the timestamp 8; crash; the clock begins at 5 and the next
        message comes with 6.)
        """
        core = self._core
        if core.clock.time > self.reserved:
            core.branch("reserved")
            self.reserved = core.clock.time + RESERVE_TICKS
            core.append(Reserved(self.reserved))

    def recall_reserved(self, record: Reserved) -> None:
        """So far others may have been told."""
        self.reserved = record.time

    def check_invariants(self) -> None:
        """The clock has not run away from what is reserved."""
        if max(self.announced) > self.reserved:
            raise InvariantViolation(f"{max(self.announced)} was told, and only {self.reserved} is reserved")
