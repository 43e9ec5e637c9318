"""Retransmission (RET, 4.4): what was lost, and only that, comes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.selective_total.agreement import Agreement
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import Data, Epoch, Request, Retransmission
from ordercast.protocols.selective_total.plan import Plan
from ordercast.protocols.selective_total.receipt_log import Entry

if TYPE_CHECKING:
    from ordercast.protocols.selective_total.protocol import SelectiveTotal

AT_ONCE_MAX = 4
"""So many retransmissions may come at once: several losers that ask at the same time still fit into small buffers."""


class Retransmitting(Part):
    """What a site does about what it, or others, have lost, once it is known what that is."""

    packets = (Request, Retransmission)
    branches = ("requested",)

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core
        self._sent_again: set[int] = set()
        """TSEQ of those of this site's messages that were sent again in this period."""

    def forget(self) -> None:
        """A period is over, in which what was sent again may have been lost again; or the epoch is."""
        self._sent_again.clear()

    # ------------------------------------------------------------------ sending again
    def begin(self, agreement: Agreement, plan: Plan, cluster: Cluster) -> None:
        """The RET procedure: what others have lost of this site, when that is little. When it is much, each loser
        asks for a few at a time.

        (Else, where receivers are slow: the retransmissions of all sources come at once, overrun the buffers of those
        who lost the messages, and do so again in every period.)
        """
        core = self._core
        if core.options.recovery == "go-back-n":
            return
        if plan.losses <= AT_ONCE_MAX:
            lost = {
                (cluster.place[loser], number)
                for loser, sources in plan.missing.items()
                for number in sources.get(core.site, ())
            }
            self.send_data_again(cluster, agreement.identifier, lost)
        self._send_orphans(agreement)
        if plan.losses > AT_ONCE_MAX:
            self._ask(agreement)

    def send_data_again(self, cluster: Cluster, epoch: Epoch, lost: set[tuple[int, int]]) -> None:
        """Messages of this site that others have lost: place of the loser, partial number.

        Each at most once in a period: whoever else has lost it hears it, too.
        """
        core = self._core
        for data in core.transmission.sent:
            if data.tseq in self._sent_again:
                continue
            destinations = core.context.destinations(data.multicast)
            if any(data.pseq[at] == number and cluster.members[at] in destinations for at, number in lost):
                self._sent_again.add(data.tseq)
                core.broadcast(Retransmission(epoch, cluster.me, data))

    def _send_orphans(self, agreement: Agreement) -> None:
        """Messages of sources that are gone, as far as it is this site that sends them on."""
        core, plan = self._core, agreement.plan
        if plan is not None and plan.orphans:
            for entry in core.receipt.log:
                if plan.orphans.get((entry.source, entry.tseq)) == core.site:
                    core.broadcast(Retransmission(agreement.identifier, entry.source, entry.data))

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """Someone has lost messages of this site: in the agreement, or, in the SP service, in the epoch."""
        core = self._core
        agreement, cluster = core.recovery.agreement, core.cluster
        if cluster is None or packet.source != core.site or sender not in cluster.place:
            return
        if packet.epoch == (cluster.epoch if agreement is None else agreement.identifier):
            if agreement is not None:
                core.branch("requested")
            place = cluster.place[sender]
            self.send_data_again(cluster, packet.epoch, {(place, number) for number in packet.missing})

    # ------------------------------------------------------------------ missing something
    def _ask(self, agreement: Agreement) -> None:
        """Ask a source for the first few messages of it that are missing here."""
        core = self._core
        plan, cluster = agreement.plan, core.cluster
        if plan is None or cluster is None or core.options.recovery == "go-back-n":
            return
        here = {
            (key[0], data.pseq[cluster.me])
            for key, data in agreement.aside.items()
            if self._missed(cluster, plan, key, data)
        }
        for source, numbers in sorted(plan.missing.get(core.site, {}).items()):
            place = cluster.place[source]
            missing = [number for number in numbers if (place, number) not in here][:AT_ONCE_MAX]
            if missing:
                agreement.note_asked((place, number) for number in missing)
                core.broadcast(Request(agreement.identifier, source, tuple(missing)))
                return

    def repeat(self, agreement: Agreement) -> None:
        """A period is over: what was sent on, and what was asked for, may have been lost."""
        self._send_orphans(agreement)
        self._ask(agreement)

    def on_retransmission(self, sender: SiteId, packet: Retransmission, arrival: Arrival) -> None:
        """A message again: in an agreement, it is put aside until that ends."""
        core = self._core
        agreement, cluster = core.recovery.agreement, core.cluster
        if cluster is None:
            return
        core.check_address(packet.data.multicast)
        if agreement is None:
            if packet.agreement == cluster.epoch:
                core.order.take_again(cluster, sender, packet)
        elif packet.agreement == agreement.identifier:
            cluster.check_again(sender, packet)
            if len(agreement.aside) < core.options.window_messages * len(cluster.members):
                agreement.put_aside(packet.source, packet.data, packet.data.pseq[cluster.me])
                core.recovery.advance()
                if not agreement.asked and not agreement.has_said_restored:
                    self._ask(agreement)

    # ------------------------------------------------------------------ what has come
    def has_everything(self, agreement: Agreement) -> bool:
        """Whether what this site misses has come."""
        core = self._core
        plan, cluster = agreement.plan, core.cluster
        if plan is None or cluster is None or core.options.recovery == "go-back-n":
            return True
        own = {(entry.source, entry.tseq) for entry in core.receipt.log}
        if any(orphan not in agreement.aside and orphan not in own for orphan in plan.orphans):
            return False
        missing = sum(len(numbers) for numbers in plan.missing.get(core.site, {}).values())
        return missing == sum(self._missed(cluster, plan, *each) for each in agreement.aside.items())

    def recovered(self, agreement: Agreement, cluster: Cluster, plan: Plan) -> list[Entry]:
        """What has come that goes into the log: what this site has lost, and what it lacks of sources that are
        gone."""
        core = self._core
        own = {(entry.source, entry.tseq) for entry in core.receipt.log}
        return [
            Entry(key[0], data)
            for key, data in agreement.aside.items()
            if self._missed(cluster, plan, key, data)
            or (key in plan.orphans and key not in own and core.is_destination(data.multicast))
        ]

    def _missed(self, cluster: Cluster, plan: Plan, key: tuple[int, int], data: Data) -> bool:
        """Whether a message that was sent again is one that this site has lost."""
        missing = plan.missing.get(self._core.site, {}).get(cluster.members[key[0]], ())
        return data.pseq[cluster.me] in missing and self._core.is_destination(data.multicast)
