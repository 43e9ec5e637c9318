"""Sorting (4.2 to 4.4): what one log contributes to the sort line, and how it is put in order once all agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.protocols.selective_total.agreement import Agreement
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import Head, Reset, ResetAck, Vector
from ordercast.protocols.selective_total.plan import Plan, highest
from ordercast.protocols.selective_total.receipt_log import Entry, closed, inserted, lowered, sort_point, sorted_log

if TYPE_CHECKING:
    from ordercast.protocols.selective_total.protocol import SelectiveTotal


class Sorting(Part):
    """The receipt log of one site, in an agreement."""

    branches = ("insertion", "single-loss-sorted", "sorting", "orphans")

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core

    # ------------------------------------------------------------------ the line
    def first_line(self, cluster: Cluster, agreement: Agreement) -> Vector:
        """Where this log may change: from the first message on that someone has lost, and where its own gaps are.

        The gaps are kept even when the log has lost messages of others. (As printed, a site with both says only
        where the others' are, and nobody learns of its own.)
        """
        line = tuple(cluster.treq)
        log = list(self._core.receipt.log)
        for index, entry in enumerate(log):
            if any(self._lacks(cluster, sender, reset, entry) for sender, reset in agreement.resets.items()):
                return lowered(line, log[index:])
        return line

    def _lacks(self, cluster: Cluster, sender: SiteId, reset: Reset, entry: Entry) -> bool:
        """Whether the sender of a RST has lost this message."""
        place = cluster.place.get(sender)
        if place is None or reset.base != cluster.epoch:
            return False
        destinations = self._core.context.destinations(entry.data.multicast)
        return sender in destinations and entry.data.pseq[place] >= reset.preq[entry.source]

    def close_line(self, line: Vector) -> Vector:
        """One log's share in closing the line; rounds go on until no log lowers it."""
        return closed(self._core.receipt.log, line)

    def sort_point(self, cluster: Cluster, line: Vector) -> Head | None:
        """What others must know of the message from which on this log changes; None when it does not."""
        log = self._core.receipt.log
        index = sort_point(log, line)
        if index is None:
            return None
        entry = log[index]
        destinations = self._core.context.destinations(entry.data.multicast)
        places = tuple(cluster.place[site] for site in destinations if site in cluster.place)
        return Head(entry.source, entry.tseq, entry.data.pseq, places)

    def orphans(self, cluster: Cluster, participants: tuple[SiteId, ...]) -> tuple[tuple[int, int], ...]:
        """Messages in the log whose sources are no longer with us: place of the source, TSEQ."""
        there = set(participants)
        log = self._core.receipt.log
        return tuple((entry.source, entry.tseq) for entry in log if cluster.members[entry.source] not in there)

    # ------------------------------------------------------------------ the plan
    def make_plan(self, agreement: Agreement, cluster: Cluster, acks: Mapping[SiteId, ResetAck]) -> Plan:
        """All lines are the same: what is to be done about it."""
        core = self._core
        ones = (1,) * len(cluster.members)

        def told(site: SiteId, vector: Vector) -> Vector:
            return vector if agreement.pre_acks[site].base == agreement.base else ones

        frozen = highest(told(site, agreement.pre_acks[site].pre_acknowledged) for site in acks)
        delivered = {site: told(site, agreement.pre_acks[site].delivered) for site in acks}
        plan = self.plan(cluster.members, acks, frozen, delivered)
        if plan.losses == 1:
            core.branch("insertion" if plan.inserts else "single-loss-sorted")
        elif plan.losses:
            core.branch("sorting")
        if plan.orphans:
            core.branch("orphans")
        return plan

    def plan(
        self,
        members: tuple[SiteId, ...],
        acks: Mapping[SiteId, ResetAck],
        frozen: Vector,
        delivered: Mapping[SiteId, Vector],
    ) -> Plan:
        """What the agreement amounts to."""
        return Plan(members, acks, frozen, delivered)

    # ------------------------------------------------------------------ the order
    def restored_log(self, agreement: Agreement, cluster: Cluster, plan: Plan) -> list[Entry]:
        """The log with what was lost, in the order on which all agree."""
        core = self._core
        log = core.receipt.log
        if core.options.recovery == "go-back-n":
            # From the cut on everything goes, here as everywhere; its sources send it again.
            core.transmission.take_back(plan.cut[cluster.me])
            return [entry for entry in log if entry.tseq < plan.cut[entry.source]]
        if not plan.losses and not plan.orphans:
            # Someone was wrong, or the members change: the order of the channel stands.
            return list(log)
        lost = core.retransmission.recovered(agreement, cluster, plan)
        if plan.inserts:
            core.branches.update({"messages-inserted": len(lost)})
            return inserted(log, plan.line, lost)
        moved = sum(entry.tseq >= plan.cut[entry.source] for entry in log) + len(lost)
        core.branches.update({"messages-sorted": moved})
        return self.sort(plan, lost)

    def sort(self, plan: Plan, lost: list[Entry]) -> list[Entry]:
        """The sorting rule; any order of sources will do on which all agree, and that of their names is one."""
        return sorted_log(self._core.receipt.log, plan.cut, lost, range(len(plan.cut)))
