"""Retransmission during an agreement (RET, 4.4): what was lost, and only that, comes again."""

from __future__ import annotations

from ordercast.core import SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.selective_total.agreement import Agreement
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import Data, Epoch, Request, Retransmission
from ordercast.protocols.selective_total.plan import Plan
from ordercast.protocols.selective_total.transmission import Transmission

AT_ONCE_MAX = 4
"""So many retransmissions may come at once: several losers that ask at the same time still fit into small buffers."""


class Retransmitting(Transmission):
    """What a process does about what it, or others, have lost, once all know what that is."""

    def advance(self) -> None:
        """Go as far in the agreement as what was said allows (recovery)."""
        raise NotImplementedError

    # ------------------------------------------------------------------ sending again
    def send_again(self, agreement: Agreement) -> None:
        """The RET procedure: what others have lost of this process, when that is little. When it is much, each loser
        asks for a few at a time.

        (Else, where receivers are slow: the retransmissions of all sources come at once, overrun the buffers of those
        who lost the messages, and do so again in every period.)
        """
        plan, cluster = agreement.plan, self.cluster
        if plan is None or cluster is None or self.options.recovery == "go-back-n":
            return
        if plan.losses <= AT_ONCE_MAX:
            lost = {
                (cluster.place[loser], number)
                for loser, sources in plan.missing.items()
                for number in sources.get(self.site, ())
            }
            self.send_data_again(cluster, agreement.identifier, lost)
        self.send_orphans(agreement)

    def send_data_again(self, cluster: Cluster, epoch: Epoch, lost: set[tuple[int, int]]) -> None:
        """Messages of this process that others have lost: place of the loser, partial number.

        Each at most once in a period: whoever else has lost it hears it, too.
        """
        for data in self.sent:
            if data.tseq in self.sent_again:
                continue
            destinations = self.context.destinations(data.multicast)
            if any(data.pseq[at] == number and cluster.members[at] in destinations for at, number in lost):
                self.sent_again.add(data.tseq)
                self.broadcast(Retransmission(epoch, cluster.me, data))

    def send_orphans(self, agreement: Agreement) -> None:
        """Messages of sources that are gone, as far as it is this process that sends them on."""
        plan = agreement.plan
        for entry in self.log if plan is not None and plan.orphans else ():
            if plan is not None and plan.orphans.get((entry.source, entry.tseq)) == self.site:
                self.broadcast(Retransmission(agreement.identifier, entry.source, entry.data))

    # ------------------------------------------------------------------ missing something
    def ask(self, agreement: Agreement) -> None:
        """Ask a source for the first few messages of it that are missing here."""
        plan, cluster = agreement.plan, self.cluster
        if plan is None or cluster is None or self.options.recovery == "go-back-n":
            return
        here = {
            (key[0], data.pseq[cluster.me])
            for key, data in agreement.aside.items()
            if self.missed(cluster, plan, key, data)
        }
        for source, numbers in sorted(plan.missing.get(self.site, {}).items()):
            place = cluster.place[source]
            missing = [number for number in numbers if (place, number) not in here][:AT_ONCE_MAX]
            if missing:
                agreement.asked = {(place, number) for number in missing}
                self.broadcast(Request(agreement.identifier, source, tuple(missing)))
                return

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """Someone has lost messages of this process."""
        agreement, cluster, place = self.agreement, self.cluster, self.place_of(sender)
        if agreement is None or agreement.identifier != packet.epoch or packet.source != self.site:
            return
        if cluster is not None and place is not None:
            self.branch("requested")
            self.send_data_again(cluster, packet.epoch, {(place, number) for number in packet.missing})

    def on_retransmission(self, sender: SiteId, packet: Retransmission, arrival: Arrival) -> None:
        """A message again: it is put aside until the agreement ends."""
        agreement, cluster = self.agreement, self.cluster
        if agreement is None or cluster is None or packet.agreement != agreement.identifier:
            return
        self.check_again(cluster, sender, packet)
        if len(agreement.aside) < self.options.window_messages * len(cluster.members):
            agreement.aside.setdefault((packet.source, packet.data.tseq), packet.data)
            asked = agreement.asked
            asked.discard((packet.source, packet.data.pseq[cluster.me]))
            self.advance()
            if not asked and not agreement.has_said_restored:
                self.ask(agreement)

    def check_again(self, cluster: Cluster, sender: SiteId, packet: Retransmission) -> None:
        """Raise `WireError` when what was sent again cannot be a message of this epoch."""
        size, data = len(cluster.members), packet.data
        if (
            not 0 <= packet.source < size
            or len(data.pseq) != size
            or data.multicast.id.source != cluster.members[packet.source]
        ):
            raise WireError(f"{sender} sends again what is no message of this epoch")

    def has_everything(self, agreement: Agreement) -> bool:
        """Whether what this process misses has come."""
        plan, cluster = agreement.plan, self.cluster
        if plan is None or cluster is None or self.options.recovery == "go-back-n":
            return True
        own = {(entry.source, entry.tseq) for entry in self.log}
        if any(orphan not in agreement.aside and orphan not in own for orphan in plan.orphans):
            return False
        missing = sum(len(numbers) for numbers in plan.missing.get(self.site, {}).values())
        return missing == sum(self.missed(cluster, plan, *each) for each in agreement.aside.items())

    def missed(self, cluster: Cluster, plan: Plan, key: tuple[int, int], data: Data) -> bool:
        """Whether a message that was sent again is one that this process has lost."""
        missing = plan.missing.get(self.site, {}).get(cluster.members[key[0]], ())
        return data.pseq[cluster.me] in missing and self.is_destination(data.multicast)
