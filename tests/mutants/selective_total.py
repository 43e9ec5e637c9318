"""Mutants of selective total order. The first ones are rules as the paper prints them."""

from __future__ import annotations

from collections.abc import Mapping

from ordercast.core import SiteId
from ordercast.protocols.selective_total import SelectiveTotal
from ordercast.protocols.selective_total.agreement import Agreement
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import Data, Epoch, ReceiveReady, ResetAck, Retransmission, Vector
from ordercast.protocols.selective_total.plan import Plan
from ordercast.protocols.selective_total.receipt import Receipt
from ordercast.protocols.selective_total.receipt_log import Entry, sorted_log
from ordercast.protocols.selective_total.retransmission import Retransmitting
from ordercast.protocols.selective_total.sorting import Sorting
from ordercast.protocols.selective_total.source_order import SourceOrder
from ordercast.protocols.selective_total.total_order import TotalOrder
from tests.mutants.registry import mutant


class PrintedOrder(TotalOrder):
    """Total order in which what is lost comes again as in the SP service."""

    def __init__(self, core: SelectiveTotal) -> None:
        super().__init__(core)
        self._again = SourceOrder(core)

    def on_loss(self, source: int, number: int, expected: int) -> None:
        self._again.on_loss(source, number, expected)

    def take_again(self, cluster: Cluster, sender: SiteId, packet: Retransmission) -> None:
        self._again.take_again(cluster, sender, packet)


@mutant(SelectiveTotal, "make_order", caught_by="multiple-source-order")
def sends_again_without_agreement(self: SelectiveTotal) -> TotalOrder:
    """As printed in 4.1: a lost message is just broadcast again, and its loser puts it behind what came meanwhile."""
    return PrintedOrder(self)


@mutant(SelectiveTotal, "receipt.accepts", caught_by="termination")
def accepts_after_a_gap_only_what_is_for_itself(
    self: Receipt, cluster: Cluster, source: int, packet: Data | ReceiveReady, destined: bool
) -> bool:
    """As printed in 3.2: who has lost a message for others accepts nothing more for others, and its source waits."""
    return packet.tseq == cluster.treq[source] or (destined and packet.pseq[cluster.me] == cluster.preq[source])


@mutant(SelectiveTotal, "sorting.first_line", caught_by="acyclic-order")
def forgets_its_own_gaps(self: Sorting, cluster: Cluster, agreement: Agreement) -> Vector:
    """As printed in step 2 of the agreement: the line is that of what follows the first message that others lost, that
    message not included, and no longer that of what is missing here."""
    line = list(cluster.treq)
    log = list(self._core.receipt.log)
    for index, entry in enumerate(log):
        if any(self._lacks(cluster, sender, reset, entry) for sender, reset in agreement.resets.items()):
            following = log[index + 1 :]
            for source in {entry.source for entry in following}:
                line[source] = min(entry.tseq for entry in following if entry.source == source)
            break
    return tuple(line)


@mutant(SelectiveTotal, "sorting.sort", caught_by="R1")
def sorts_what_it_has_not_pre_acknowledged(self: Sorting, plan: Plan, lost: list[Entry]) -> list[Entry]:
    """As printed in 4.4: each process sorts its own RRL, which begins elsewhere in each log."""
    cluster = self._core.cluster
    assert cluster is not None
    return sorted_log(self._core.receipt.log, tuple(cluster.accepted_by_all), lost, range(len(plan.cut)))


class PrintedPlan(Plan):
    """FAIL as printed: the number of different values of PR that are below their PS."""

    def _finds_one_place(self, delivered: Mapping[SiteId, Vector]) -> bool:
        acks, place = self._acks, {member: at for at, member in enumerate(self._members)}
        return (
            len(
                {
                    ack.preq[place[source]]
                    for loser, ack in acks.items()
                    for source, told in acks.items()
                    if ack.preq[place[source]] < told.pseq[place[loser]]
                }
            )
            == 1
        )


@mutant(SelectiveTotal, "sorting.plan")
def counts_losses_by_their_numbers(
    self: Sorting,
    members: tuple[SiteId, ...],
    acks: Mapping[SiteId, ResetAck],
    frozen: Vector,
    delivered: Mapping[SiteId, Vector],
) -> Plan:
    """As printed in 4.4: several losses with the same number count as one, and each loser inserts its own."""
    return PrintedPlan(members, acks, frozen, delivered)


@mutant(SelectiveTotal, "order.deliver_acknowledged", caught_by="atomic-receipt")
def delivers_what_it_accepted(self: TotalOrder, cluster: Cluster) -> None:
    """No levels of receipt: what is delivered can still be lost elsewhere, and sorted."""
    receipt = self._core.receipt
    while receipt.log and not any(cluster.beyond):
        receipt.deliver_first(cluster)


@mutant(SelectiveTotal, "retransmission.send_data_again", caught_by="termination")
def sends_nothing_again(self: Retransmitting, cluster: Cluster, epoch: Epoch, lost: set[tuple[int, int]]) -> None:
    """No retransmission."""


@mutant(SelectiveTotal, "retransmission.has_everything", caught_by="termination")
def is_content_with_what_it_has(self: Retransmitting, agreement: Agreement) -> bool:
    """Nobody waits for what was lost before the next epoch begins."""
    return True


@mutant(SelectiveTotal, "sorting.plan", caught_by="order-equivalence")
def freezes_nothing(
    self: Sorting,
    members: tuple[SiteId, ...],
    acks: Mapping[SiteId, ResetAck],
    frozen: Vector,
    delivered: Mapping[SiteId, Vector],
) -> Plan:
    """What some have delivered is sorted again by the others."""
    return Plan(members, acks, (1,) * len(members), delivered)


@mutant(SelectiveTotal, "receipt.accepts", caught_by="selective-information")
def delivers_what_shows_a_loss(
    self: Receipt, cluster: Cluster, source: int, packet: Data | ReceiveReady, destined: bool
) -> bool:
    """A message for groups of others that shows that one before it is lost goes to the application."""
    accepted = packet.pseq[cluster.me] == cluster.preq[source]
    if not accepted and not destined and isinstance(packet, Data) and packet.multicast.groups:
        self._core.deliver(packet.multicast)
    return accepted
