"""Mutants of the broadcast tree (Garcia-Molina, Kogan, Lynch 1987)."""

from __future__ import annotations

from ordercast.core import IntervalSet, Multicast, SiteId
from ordercast.core.events import Arrival, Recovered
from ordercast.protocols.broadcast_tree import BroadcastTree
from ordercast.protocols.broadcast_tree.attachment import Attachment
from ordercast.protocols.broadcast_tree.exchange import Exchange
from ordercast.protocols.broadcast_tree.gap_filling import GapFilling
from ordercast.protocols.broadcast_tree.hearing import Hearing
from ordercast.protocols.broadcast_tree.packets import Data, Info, Stored
from ordercast.protocols.broadcast_tree.propagation import Propagation
from ordercast.protocols.broadcast_tree.source import Source
from ordercast.protocols.broadcast_tree.stream import Stream
from tests.mutants.registry import call_without_log, mutant


@mutant(BroadcastTree, "propagation.store", caught_by="uniform-agreement")
def forgets_its_messages(self: Propagation, stream: Stream, number: int, multicast: Multicast, sender: SiteId) -> None:
    """A message is delivered and not logged: after a crash the host lacks what it has said that it has."""
    call_without_log(self._core, Stored, Propagation.store, self, stream, number, multicast, sender)


@mutant(BroadcastTree, "propagation.may_accept")
def accepts_from_anyone(self: Propagation, stream: Stream, sender: SiteId, number: int) -> bool:
    """New messages are taken from hosts that are not the parent: a host gets ahead of its parent, which may attach to
    it then, and the two are a cycle (test_broadcast_tree_runs.py shows one)."""
    return True


@mutant(BroadcastTree, "propagation.on_data", caught_by="no-duplication")
def delivers_what_it_has(self: Propagation, sender: SiteId, packet: Data, arrival: Arrival) -> None:
    """No duplicate check for what fills a gap: the second copy of it is delivered as well."""
    for stream in self._core.streams.values():
        if (stream.id.source, stream.id.groups) == (
            packet.multicast.id.source,
            tuple(sorted(set(packet.multicast.groups))),
        ) and stream.floor < packet.number < stream.highest:
            stream.info = stream.info - IntervalSet([(packet.number, packet.number)])
            stream.kept.pop(packet.number, None)
            stream.delivered = min(stream.delivered, packet.number - 1)
    Propagation.on_data(self, sender, packet, arrival)


@mutant(BroadcastTree, "source.next_number")
def counts_from_one(self: Source, stream: Stream) -> int:
    """The source counts in memory: after a crash it gives its numbers a second time."""
    last: dict[int, int] = self.__dict__.setdefault("last", {})
    last[stream.index] = last.get(stream.index, 0) + 1
    return last[stream.index]


@mutant(BroadcastTree, "exchange.prune")
def prunes_for_those_within_reach(self: Exchange, stream: Stream) -> None:
    """What every host that is heard has taken is forgotten, as if the others would never come back."""
    taken = [stream.taken_by.get(host, 0) for host in stream.others if self._core.hearing.is_reachable(host)]
    stream.raise_floor(min([stream.taken_prefix, *taken]))


@mutant(BroadcastTree, "hearing.on_info", caught_by="termination")
def takes_all_it_hears_of_for_taken(self: Hearing, sender: SiteId, stream: Stream, info: Info, stamp: int) -> None:
    """Pruned by the greatest number of an INFO set instead of what is complete below it: gaps stay gaps."""
    greatest = info.numbers[-1][1] if info.numbers else 0
    Hearing.on_info(self, sender, stream, info, stamp)
    stream.taken_by[sender] = max(stream.taken_by[sender], greatest)


@mutant(BroadcastTree, "gaps.fill", caught_by="termination")
def fills_no_gaps(self: GapFilling, stream: Stream, host: SiteId) -> None:
    """What was lost on the way to a child is lost; only what newcomers lack is sent."""
    if not stream.map_of(host):
        GapFilling.fill(self, stream, host)


@mutant(BroadcastTree, "exchange.tell_others", caught_by="termination")
def keeps_to_its_cluster(self: Exchange) -> None:
    """INFO sets are told in the cluster only: nobody elsewhere knows whom to attach to."""


@mutant(BroadcastTree, "attachment.note_pointer", caught_by="termination")
def adopts_neighbours_only(self: Attachment, sender: SiteId, stream: Stream, parent: SiteId | None, stamp: int) -> None:
    """Hosts of other clusters are not adopted: a leader waits for ever."""
    if parent != self._core.site or sender in self._core.clusters:
        Attachment.note_pointer(self, sender, stream, parent, stamp)


@mutant(BroadcastTree, "on_recovered", caught_by="termination")
def claims_to_have_taken_all(self: BroadcastTree, event: Recovered) -> None:
    """After a crash a host says that it has everything up to its greatest number: nobody keeps for it what it lacks."""
    BroadcastTree.on_recovered(self, event)
    for stream in self.streams.values():
        stream.taken.add_range(1, stream.highest)
