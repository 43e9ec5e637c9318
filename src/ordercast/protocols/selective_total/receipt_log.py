"""The receipt log and what recovery does to it: sort point, closing of the sort line, insertion, sorting (4.2 to 4.4).

RRL and PRL of the paper are one list here, in the order of the channel: what is pre-acknowledged is the part of it
below `Cluster.accepted_by_all`. ARL is what has been delivered; it is never touched again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ordercast.protocols.selective_total.packets import Data, Vector


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An accepted message in the log."""

    source: int
    """Place of its source in the cluster."""
    data: Data

    @property
    def tseq(self) -> int:
        """Its total sequence number."""
        return self.data.tseq


def sort_point(log: Sequence[Entry], line: Vector) -> int | None:
    """Where the log begins to change when everything from `line` on is sorted; None when nowhere."""
    for index, entry in enumerate(log):
        if entry.data.tseq >= line[entry.source]:
            return index
    return None


def lowered(line: Vector, entries: Iterable[Entry]) -> Vector:
    """The line, lowered to include these entries."""
    lower = list(line)
    for entry in entries:
        if entry.data.tseq < lower[entry.source]:
            lower[entry.source] = entry.data.tseq
    return tuple(lower)


def closed(log: Sequence[Entry], line: Vector) -> Vector:
    """The line, lowered so that everything behind the sort point is behind the line, the sort point included (4.4, 2).

    (Without it: g is inserted before the sort point at its loser, and behind a message that follows g elsewhere.)
    """
    index = sort_point(log, line)
    return line if index is None else lowered(line, list(log)[index:])


def inserted(log: Sequence[Entry], line: Vector, lost: Iterable[Entry]) -> list[Entry]:
    """Recovery by insertion (4.2): the lost message goes right before the sort point."""
    index = sort_point(log, line)
    at = len(log) if index is None else index
    return [*list(log)[:at], *lost, *list(log)[at:]]


def sorted_log(log: Sequence[Entry], cut: Vector, lost: Iterable[Entry], order: Sequence[int]) -> list[Entry]:
    """Recovery by sorting (4.3): below the cut nothing is lost anywhere, and it stays in the order of the channel; the
    rest follows, by source and sequence number."""
    place = {source: index for index, source in enumerate(order)}
    kept = [entry for entry in log if entry.data.tseq < cut[entry.source]]
    rest = [entry for entry in log if entry.data.tseq >= cut[entry.source]]
    rest += lost
    return kept + sorted(rest, key=lambda entry: (place[entry.source], entry.data.tseq))
