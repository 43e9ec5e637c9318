"""Gap filling (section 4.4): messages that a host lacks come from its parent, its children, or anyone else."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ordercast.core import IntervalSet, Part, SiteId
from ordercast.protocols.broadcast_tree.info import holds
from ordercast.protocols.broadcast_tree.packets import Data
from ordercast.protocols.broadcast_tree.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.broadcast_tree.protocol import BroadcastTree


class GapFilling(Part):
    """Fills the gaps of others."""

    timers = ("gfc", "gfn", "gfo")
    branches = ("gap-filled", "gap-limit", "filled-for-others")

    def __init__(self, core: BroadcastTree) -> None:
        self._core = core
        self._turn = 0
        """Periods of gap filling among hosts that are not neighbours."""

    # ------------------------------------------------------------------ neighbours
    def on_gfc_timeout(self) -> None:
        """GAP-FILLING-CLUSTER."""
        self._core.repeat("gfc")
        self._fill_neighbours(inside=True)

    def on_gfn_timeout(self) -> None:
        """GAP-FILLING-NONCLUSTER."""
        self._core.repeat("gfn")
        self._fill_neighbours(inside=False)

    def _fill_neighbours(self, inside: bool) -> None:
        for stream in self._core.streams.values():
            for host in stream.neighbours:
                if (host in self._core.clusters) == inside:
                    stream.next_period(host)
                    self.fill(stream, host)

    def fill(self, stream: Stream, host: SiteId) -> None:
        """Send a neighbour what it lacks, and what it was not sent just now.

        A child takes anything from its parent. Others refuse what is newer than all they have, so to them go only
        numbers below their greatest.
        """
        missing = self.missing(stream, host)
        if host not in stream.children:
            missing = missing - IntervalSet([(stream.told.get(host, 0), stream.highest)])
        self._send(stream, host, missing)

    def missing(self, stream: Stream, host: SiteId) -> IntervalSet:
        """What this host has, and the other one neither has, as far as is known, nor was sent lately:
        it lacks what was sent a period of gap filling ago, or longer, and is not in an INFO set that came after that.

        (Without the second half: a message leaves for a child, the child's INFO set of just before arrives, the message
        is sent again. In a cluster tree of k clusters it costs more than k - 1 expensive packets then.)
        """
        known = stream.map_of(host)
        # The source lacks nothing, whatever it has said of itself lately.
        if known == stream.numbers or host == stream.id.source:
            return IntervalSet()
        missing = stream.info - IntervalSet(known)
        missing.discard_through(stream.floor)
        if missing:
            for sent in stream.sent.get(host, ()):
                missing = missing - sent
        return missing

    def _send(self, stream: Stream, host: SiteId, missing: IntervalSet) -> None:
        left = self._core.options.gap_messages_max
        for number in missing:
            if not left:
                self._core.branch("gap-limit")
                return
            left -= 1
            self._core.branch("gap-filled")
            self.note_sent(stream, host, number)
            self._core.send((host,), Data(stream.id.epoch, number, stream.kept[number]))

    def note_sent(self, stream: Stream, host: SiteId, number: int) -> None:
        """It is on its way."""
        sent = stream.sent.get(host)
        if sent is None:
            sent = stream.sent[host] = (IntervalSet(), IntervalSet(), IntervalSet())
        sent[0].add(number)

    # ------------------------------------------------------------------ others
    def on_gfo_timeout(self) -> None:
        """Gaps of hosts that are neither parent nor child (the end of 4.4; the appendix has no procedure for it).

        (Else: i and j are children of the source and have lost each another message when the source is cut off. Neither
        has more than the other, so neither attaches, and neither helps.)

        Those who have the message take turns: this host is one of so many that it can reach, and whom it can reach can
        reach the other, too (communication is transitive). Otherwise all of them would send it.
        """
        self._core.repeat("gfo")
        self._turn += 1
        for stream in self._core.streams.values():
            neighbours = set(stream.neighbours)
            for host in stream.others:
                # Most hosts have no gaps, and this is asked about all of them.
                if stream.has_gaps(host) and host not in neighbours and self._core.hearing.is_reachable(host):
                    self._fill_other(stream, host)

    def _fill_other(self, stream: Stream, host: SiteId) -> None:
        stream.next_period(host)
        missing = self.missing(stream, host)
        greatest = stream.told.get(host, 0)
        mine = IntervalSet()
        for number in islice(missing, self._core.options.gap_messages_max):
            if number >= greatest:
                break
            if self.is_our_turn(stream, host, number):
                mine.add(number)
        if mine:
            self._core.branch("filled-for-others")
            self._send(stream, host, mine)

    def is_our_turn(self, stream: Stream, lacking: SiteId, number: int) -> bool:
        """Whether, of the hosts that have the message and are within reach, this one is next."""
        core = self._core
        before = 0
        helpers = 1
        for host in stream.others:
            if host != lacking and core.hearing.is_reachable(host) and holds(stream.map_of(host), number):
                helpers += 1
                before += host < core.site
        return (self._turn + number) % helpers == before
