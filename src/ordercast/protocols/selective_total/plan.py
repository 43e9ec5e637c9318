"""What an agreement amounts to: who has lost what, who sends it again, and how logs are put in order (4.4).

Everything is computed from what all participants have said, so that each of them computes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ordercast.core import SiteId
from ordercast.protocols.selective_total.packets import NO_EPOCH, Epoch, Head, ResetAck, ResetPreAck, Vector


def effective_base(
    members: Iterable[SiteId], pre_acks: Mapping[SiteId, ResetPreAck]
) -> tuple[Epoch, tuple[SiteId, ...]]:
    """The last epoch that anyone can have begun, and those of the members who were in it.

    An epoch begins somewhere only after everyone in it has said `Restored`. So if one of its members who is here has
    not, nobody has begun it; and if all have, each of them can begin it now, with the same result. (Else: x begins
    epoch 7, delivers what was sorted for it, and crashes; the others, who never heard of its beginning, sort again.)
    """
    bases = {pre_ack.base for pre_ack in pre_acks.values()}
    candidates = bases | {pre_ack.restored for pre_ack in pre_acks.values()}
    for epoch in sorted(candidates - {NO_EPOCH}, reverse=True):
        inside = tuple(site for site in members if epoch in (pre_acks[site].base, pre_acks[site].restored))
        if epoch not in bases:
            expected = next(each.restored_members for each in pre_acks.values() if each.restored == epoch)
            if any(site in expected and site not in inside for site in members):
                continue
        return epoch, inside
    return NO_EPOCH, ()


def lowest(vectors: Iterable[Vector]) -> Vector:
    """The least number in each place."""
    return tuple(min(column) for column in zip(*vectors, strict=True))


def highest(vectors: Iterable[Vector]) -> Vector:
    """The largest number in each place."""
    return tuple(max(column) for column in zip(*vectors, strict=True))


class Plan:
    """How the logs of an epoch are completed."""

    def __init__(
        self,
        members: Sequence[SiteId],
        acks: Mapping[SiteId, ResetAck],
        frozen: Vector,
        delivered: Mapping[SiteId, Vector],
    ) -> None:
        """`members` of the epoch that ends; the last acknowledgements of the participants; what is pre-acknowledged
        anywhere; what each has delivered."""
        self._members = members
        self._acks = acks
        self.line: Vector = next(iter(acks.values())).treq
        """The sort line, closed: the same in all acknowledgements."""
        self.cut: Vector = highest((self.line, frozen))
        """From here on logs are sorted. What is pre-acknowledged anywhere keeps its place: someone may have delivered
        it, or be about to, and nothing of it is lost anywhere."""
        self.missing = self._find_missing()
        """Loser -> source -> partial sequence numbers."""
        self.orphans = self._find_orphans()
        """Messages of sources that are gone (place, TSEQ) -> who of those that have it sends it again."""
        self.losses = self.count_losses()
        self.inserts = self._finds_one_place(delivered)
        """Whether insertion will do: one message was lost by one site, and it is clear where it belongs."""

    def _find_missing(self) -> dict[SiteId, dict[SiteId, list[int]]]:
        place = {member: at for at, member in enumerate(self._members)}
        missing: dict[SiteId, dict[SiteId, list[int]]] = {}
        for loser, ack in self._acks.items():
            for source, told in self._acks.items():
                at = place[source]
                lost = [
                    number for number in range(ack.preq[at], told.pseq[place[loser]]) if number not in ack.beyond[at]
                ]
                if lost:
                    missing.setdefault(loser, {})[source] = lost
        return missing

    def _find_orphans(self) -> dict[tuple[int, int], SiteId]:
        """Below the cut everyone has them. The first by name of those who have one sends it again."""
        holders: dict[tuple[int, int], SiteId] = {}
        for site in sorted(self._acks):
            for orphan in self._acks[site].orphans:
                if orphan[1] >= self.cut[orphan[0]]:
                    holders.setdefault(orphan, site)
        everywhere = [set(ack.orphans) for ack in self._acks.values()]
        return {orphan: site for orphan, site in holders.items() if not all(orphan in held for held in everywhere)}

    def count_losses(self) -> int:
        """FAIL: how many messages are missing, counted for each loser and source."""
        return sum(len(numbers) for of in self.missing.values() for numbers in of.values())

    def _finds_one_place(self, delivered: Mapping[SiteId, Vector]) -> bool:
        """One message, lost by one site, that every other destination of it has as its sort point.

        Then nothing behind the line comes before it anywhere, and it can go right before the sort point of its loser.
        The loser must not have delivered anything from behind the line. (A line can be lower than it need be: a site
        that lost a message for others takes it for one that it may have to get.)
        """
        if self.losses != 1 or self.orphans or len(self._acks) < len(self._members):
            return False
        loser = next(iter(self.missing))
        ((source, (number,)),) = self.missing[loser].items()
        if any(done > line for done, line in zip(delivered[loser], self.line, strict=True)):
            return False
        at, loser_at = self._members.index(source), self._members.index(loser)
        points = {site: ack.sort_point for site, ack in self._acks.items() if site != loser}
        lost = next((p for p in points.values() if p and p.source == at and _is_for(p, loser_at, number)), None)
        return lost is not None and all(
            _same(points[self._members[destination]], lost)
            for destination in lost.destinations
            if destination != loser_at
        )


def _is_for(head: Head, destination: int, number: int) -> bool:
    return destination in head.destinations and head.pseq[destination] == number


def _same(head: Head | None, other: Head) -> bool:
    return head is not None and (head.source, head.tseq) == (other.source, other.tseq)
