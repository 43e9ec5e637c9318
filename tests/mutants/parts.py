"""Mutants of the parts, each in the smallest protocol around it. Those of the failure detector and of leases, which no
property of a multicast can judge, are in tests/protocols/parts."""

from __future__ import annotations

from ordercast.core import Multicast, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.parts.consensus import Consensus
from ordercast.protocols.parts.consensus_instance import Instance
from ordercast.protocols.parts.consensus_packets import Decided, Value
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.link import Link, Receipt
from ordercast.protocols.parts.multicast import Data, ReliableMulticast, Want
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.primary_packets import Promise, Started
from tests.mutants.registry import call_without_log, mutant
from tests.protocols.parts.hosts import ConsensusHost, EagerMulticastHost, LinkHost, MulticastHost
from tests.protocols.parts.primary_host import PrimaryHost


# ---------------------------------------------------------------------- the link
@mutant(LinkHost, "link.on_link_resend_timeout", caught_by="termination")
def posts_once(self: Link) -> None:
    """No repetition."""


@mutant(LinkHost, "link.on_receipt", caught_by="termination")
def takes_receipts_as_cumulative(self: Link, sender: SiteId, receipt: Receipt, arrival: Arrival) -> None:
    """A receipt for one letter counts for all earlier ones."""
    Link.on_receipt(self, sender, Receipt(tuple((0, last) for _, last in receipt.numbers)), arrival)


@mutant(LinkHost, "link.estrange", caught_by="termination")
def drops_silently(self: Link, site: SiteId) -> None:
    """What exceeds the bound is dropped, and the site that missed it is not told."""
    self.peers[site].kept.clear()


@mutant(LinkHost, "link.restore", caught_by="termination")
def never_forgives(self: Link, site: SiteId) -> None:
    """A site that was away gets an answer to its question, and no letter ever after."""


# ---------------------------------------------------------------------- reliable multicast
@mutant(MulticastHost, "multicast._post_copy", caught_by="uniform-agreement")
def announces_a_wrong_floor(self: ReliableMulticast, to: tuple[SiteId, ...], multicast: Multicast) -> None:
    """A copy says that the message is finished everywhere."""
    self._link.post(to, Data(self._link.next, multicast, (1 << 40, 0)))


@mutant(MulticastHost, "multicast.on_want_timeout", caught_by="uniform-agreement")
def does_not_ask(self: ReliableMulticast) -> None:
    """Whoever has only heard of a message does not ask for it."""


@mutant(MulticastHost, "multicast.on_want", caught_by="uniform-agreement")
def does_not_answer(self: ReliableMulticast, sender: SiteId, want: Want, arrival: Arrival) -> None:
    """Whoever has it does not send it."""


@mutant(EagerMulticastHost, "multicast.relay", caught_by="uniform-agreement")
def does_not_relay(self: ReliableMulticast, multicast: Multicast, but: SiteId) -> None:
    """A message that its source has sent to some only, before it died, stays with them."""


# ---------------------------------------------------------------------- consensus
@mutant(ConsensusHost, "consensus.choose")
def proposes_what_it_likes(self: Consensus, instance: Instance) -> Value | None:
    """What was adopted in an earlier round does not count."""
    return self._estimate(instance.name) or Consensus.choose(self, instance)


@mutant(ConsensusHost, "consensus.is_decided")
def decides_alone(self: Consensus, instance: Instance) -> bool:
    """The coordinator does not wait for a quorum to adopt its proposal."""
    return True


@mutant(ConsensusHost, "consensus._decide", caught_by="no-duplication")
def forgets_decisions(self: Consensus, name: tuple[int, ...], value: Value) -> None:
    """A decision is acted upon and not logged."""
    call_without_log(self._host, Decided, Consensus._decide, self, name, value)


# ---------------------------------------------------------------------- the failure detector
@mutant(ConsensusHost, "detector.suspect", caught_by="termination")
def suspects_nobody(self: FailureDetector, site: SiteId) -> None:
    """No completeness: everyone waits for a coordinator that is gone."""


# ---------------------------------------------------------------------- the epochs of a cell
@mutant(PrimaryHost, "primary.choose")
def starts_with_the_shortest_report(self: Primary, reports: list[Promise]) -> Promise:
    """What a majority has accepted is not always in the start."""
    return min(reports, key=lambda report: (report.started, len(report.places)))


@mutant(PrimaryHost, "primary.choose")
def starts_with_the_longest_report(self: Primary, reports: list[Promise]) -> Promise:
    """The longest report is taken, whatever its epoch: (g) of three steps."""
    return max(reports, key=lambda report: report.base + len(report.places))


@mutant(PrimaryHost, "primary._install")
def forgets_its_start(self: Primary, start: Started) -> None:
    """An epoch is started and not logged."""
    call_without_log(self._host, Started, Primary._install, self, start)


@mutant(PrimaryHost, "primary.hear", caught_by="termination")
def follows_nobody(self: Primary, sender: SiteId, epoch: int) -> bool:
    """Who hears of a higher epoch does not promise it."""
    return epoch == self.promised


@mutant(PrimaryHost, "primary.on_suspected", caught_by="termination")
def waits_for_its_primary(self: Primary, site: SiteId) -> None:
    """Nobody asks whether the others hear the primary."""
