"""Establishment of clusters: of the first one, of one without those who crashed, of one with those who came (back).

The paper cites it only, and aborts the cluster when a site crashes. Here a cluster is established by the agreement
that also ends an epoch after a loss; any site may propose one, of a majority of all sites, and the latest
proposal wins. Whoever has joined it takes no part in an earlier one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.selective_total.packets import NO_EPOCH, Abort, Apply

if TYPE_CHECKING:
    from ordercast.protocols.selective_total.protocol import SelectiveTotal

STAGGER_PERIODS = 2
"""The second by name proposes so many periods after the first should have, the third after twice as many, …"""


class Establishment(Part):
    """The period, in which everything is repeated; whether there should be another cluster; the end of one."""

    packets = (Abort,)
    timers = ("tick",)
    branches = ("proposed",)

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core
        self._waiting = 0
        """Periods for which there has been a reason for another cluster."""
        self.aborted = ""
        """Why the cluster is over; empty when it is not."""

    # ------------------------------------------------------------------ the period
    def start(self) -> None:
        """The first period ends at a random moment."""
        core = self._core
        core.set_timer("tick", core.context.random.random() * core.options.receive_ready_seconds)

    def on_tick_timeout(self) -> None:
        """Repeat what may have been lost, count who is silent, and see whether there should be another cluster.

        Periods differ by a quarter, at random. (Else: all sites speak at the same moments, and small buffers
        overrun at each of them.)
        """
        core = self._core
        core.set_timer("tick", core.options.receive_ready_seconds * (0.75 + 0.5 * core.context.random.random()))
        core.presence.pass_period()
        core.transmission.pass_period()
        if self.aborted:
            core.broadcast(Abort(core.epoch, self.aborted))
            return
        self._repeat()
        core.acknowledgement.begin_period()
        self._look_for_members()

    def _repeat(self) -> None:
        """What may have been lost."""
        core = self._core
        core.retransmission.forget()
        cluster, periods = core.cluster, core.presence.periods
        if core.recovery.agreement is not None:
            core.recovery.repeat()
        elif cluster is None:
            core.broadcast(Apply(core.presence.number, core.context.incarnation))
        else:
            core.acknowledgement.repeat(cluster, idle=periods % core.options.idle_periods == 0)
            core.order.look_for_losses(cluster)

    # ------------------------------------------------------------------ members
    def _look_for_members(self) -> None:
        """Whether there is a reason for another cluster; if it lasts, propose one."""
        core = self._core
        members = self._wanted_members()
        if members is None:
            self._waiting = 0
            if core.cluster is not None:
                core.say_blocked("")
            return
        if 2 * len(members) <= len(core.context.sites):
            gone = [site for site in core.context.sites if site not in members]
            core.say_blocked(f"no majority: nothing is heard of {', '.join(gone)}")
            return
        if core.cluster is not None and core.options.after_crash == "abort":
            applied = core.presence.applied
            gone = [site for site in core.cluster.members if site not in members or site in applied]
            self._abort(f"{', '.join(gone)} crashed" if gone else "a process applies")
            return
        self._waiting += 1
        if self._waiting > STAGGER_PERIODS * members.index(core.site):
            self._waiting = 0
            core.branch("proposed")
            core.recovery.send_reset((core.presence.number + 1, core.site, 0), members)

    def _wanted_members(self) -> tuple[SiteId, ...] | None:
        """Who should be in another cluster; None when there is no reason for one."""
        core = self._core
        agreement, cluster, presence = core.recovery.agreement, core.cluster, core.presence
        if agreement is not None:
            # Those who apply meanwhile hear of it, or are in the next; unless they have crashed in the middle of it.
            reborn = presence.reborn(agreement.members, agreement.incarnations)
            return presence.find_change(agreement.members, reborn)
        if cluster is not None:
            return presence.find_change(cluster.members, set(presence.applied))
        return presence.find_founders()

    # ------------------------------------------------------------------ the end
    def on_abort(self, sender: SiteId, packet: Abort, arrival: Arrival) -> None:
        """The cluster is over."""
        if packet.epoch[:2] == self._core.epoch[:2] != NO_EPOCH[:2] and not self.aborted:
            self._abort(packet.reason)

    def _abort(self, reason: str) -> None:
        """Deliver nothing more, tell the others and the application."""
        core = self._core
        core.branch("aborted")
        self.aborted = reason
        core.recovery.abandon()
        core.broadcast(Abort(core.epoch, reason))
        core.say_blocked(f"the cluster is aborted: {reason}")
