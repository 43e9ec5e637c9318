"""A cluster in one epoch, as one site knows it: the variables of section 3.1 and the rules that move them."""

from __future__ import annotations

from ordercast.core import InvariantViolation, SiteId, WireError
from ordercast.protocols.selective_total.packets import Data, Epoch, ReceiveReady, Retransmission, Vector


class Cluster:
    """Numbers begin at 1 in every epoch, since an epoch begins when everything before it is settled."""

    def __init__(self, epoch: Epoch, members: tuple[SiteId, ...], site: SiteId, buffers: int, free: int) -> None:
        """`buffers` of everyone, as far as known; `free` are those of this site."""
        size = len(members)
        self.epoch = epoch
        self.members = members
        self.place = {member: place for place, member in enumerate(members)}
        self.me = self.place[site]
        self.tseq = 1
        """TSEQ: of the message that this site broadcasts next."""
        self.pseq = [1] * size
        """PSEQ_j: of the message that it sends to j next."""
        self.treq = [1] * size
        """TREQ_j: TSEQ of the message that it expects next from j."""
        self.preq = [1] * size
        """PREQ_j: partial number of the message for this site that it expects next from j."""
        self.beyond: list[list[int]] = [[] for _ in members]
        """Of each source the partial numbers that are here although an earlier one is lost."""
        self.accepted_by = [[1] * size for _ in members]
        """AL_hj: what j expects next from h, as far as known."""
        self.accepted_by_all = [1] * size
        """minAL_h over all sites. What is below is pre-acknowledged."""
        self.pre_acknowledged_by = [[1] * size for _ in members]
        """PAL_hj: what j expects to pre-acknowledge next of h, as j itself says."""
        self.pre_acknowledged_by_all = [1] * size
        """minPAL_h. What is below is acknowledged."""
        self.delivered = [1] * size
        """Of each source, one more than the TSEQ of the last message delivered."""
        self.buf = [buffers] * size
        """BUF_j: free buffers of j."""
        self.buf[self.me] = free

    # ------------------------------------------------------------------ sending
    def next_number(self, destinations: tuple[SiteId, ...]) -> tuple[int, Vector]:
        """The numbers of a message to these sites: TSEQ and, before they are raised, PSEQ (3.2)."""
        tseq, pseq = self.tseq, tuple(self.pseq)
        self.tseq += 1
        for destination in destinations:
            if destination in self.place:
                self.pseq[self.place[destination]] += 1
        return tseq, pseq

    @property
    def unaccepted(self) -> int:
        """Messages of this site that not everyone has accepted."""
        return self.tseq - self.accepted_by_all[self.me]

    # ------------------------------------------------------------------ receiving
    def check(self, packet: Data | ReceiveReady) -> None:
        """Raise `WireError` when a frame of this epoch cannot be one."""
        size = len(self.members)
        if not len(packet.pseq) == len(packet.ack) == len(packet.pak) == size:
            raise WireError(f"a frame of epoch {self.epoch} has vectors that are not of {size} numbers")
        if packet.ack[self.me] > self.tseq:
            raise WireError(f"a frame acknowledges message {packet.ack[self.me] - 1}, which was never sent")

    def check_again(self, sender: SiteId, packet: Retransmission) -> None:
        """Raise `WireError` when what was sent again cannot be a message of this epoch."""
        size, data = len(self.members), packet.data
        if (
            not 0 <= packet.source < size
            or len(data.pseq) != size
            or data.multicast.id.source != self.members[packet.source]
        ):
            raise WireError(f"{sender} sends again what is no message of this epoch")

    def note_progress(self, sender: int, packet: Data | ReceiveReady) -> None:
        """What the sender has accepted and pre-acknowledged, and its buffers."""
        self.buf[sender] = packet.buf
        for source, expected in enumerate(packet.ack):
            row = self.accepted_by[source]
            if expected > row[sender]:
                row[sender] = expected
                self._raise_accepted(source)
        for source, expected in enumerate(packet.pak):
            row = self.pre_acknowledged_by[source]
            if expected > row[sender]:
                row[sender] = expected
                self._raise_pre_acknowledged(source)

    def note_accepted(self, sender: int, expected: int, destined: bool) -> None:
        """The sender's messages up to `expected` are here, as far as they are for this site."""
        if expected > self.treq[sender]:
            self.treq[sender] = expected
            self.accepted_by[sender][self.me] = expected
            self._raise_accepted(sender)
        if destined:
            self.preq[sender] += 1

    def note_beyond(self, source: int, number: int) -> None:
        """A message with this partial number is here, and an earlier one is lost."""
        self.beyond[source].append(number)

    def note_again(self, source: int, number: int) -> None:
        """A lost message has come. PREQ goes on to the next that is lost."""
        beyond = self.beyond[source]
        beyond.append(number)
        while self.preq[source] in beyond:
            beyond.remove(self.preq[source])
            self.preq[source] += 1

    def has(self, source: int, number: int) -> bool:
        """Whether the source's message with this partial number is here."""
        return number < self.preq[source] or number in self.beyond[source]

    def note_delivered(self, source: int, tseq: int) -> None:
        """A message goes to the application."""
        if tseq < self.delivered[source]:
            raise InvariantViolation(f"message {tseq} is delivered after a later one of its source")
        self.delivered[source] = tseq + 1

    def _raise_accepted(self, source: int) -> None:
        least = min(self.accepted_by[source])
        if least > self.accepted_by_all[source]:
            self.accepted_by_all[source] = least
            self.pre_acknowledged_by[source][self.me] = least
            self._raise_pre_acknowledged(source)

    def _raise_pre_acknowledged(self, source: int) -> None:
        self.pre_acknowledged_by_all[source] = min(self.pre_acknowledged_by[source])

    # ------------------------------------------------------------------ what it amounts to
    def highest_known(self, source: int) -> int:
        """One more than the highest TSEQ of the source that anyone is known to have accepted."""
        return self.tseq if source == self.me else max(self.accepted_by[source])

    @property
    def settled(self) -> bool:
        """Whether everyone is known to have pre-acknowledged everything that anyone has accepted."""
        return all(
            self.pre_acknowledged_by_all[source] >= self.highest_known(source) for source in range(len(self.members))
        )
