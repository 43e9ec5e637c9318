"""Mutants of core rules of safety, planted in the parts alone. A search must find each of them within two minutes of
processor time; `quickly` are those that it finds within two seconds or so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ordercast.core import Protocol, SiteId
from ordercast.core.events import Arrival
from ordercast.explore.hosts.consensus import ConsensusAlone
from ordercast.explore.hosts.letters import LinkAlone
from ordercast.explore.hosts.primary import PrimaryAlone
from ordercast.explore.hosts.quiet import LeaseAlone
from ordercast.explore.world import World
from ordercast.explore.worlds import find_world
from ordercast.protocols.parts.consensus import Consensus
from ordercast.protocols.parts.consensus_instance import NOTHING, Instance
from ordercast.protocols.parts.consensus_packets import Ack, Adopted, Decided, Promised, Propose, Value
from ordercast.protocols.parts.lease import Lease, LeaseGrant
from ordercast.protocols.parts.link import Link, Receipt
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.primary_packets import Promise
from tests.mutants.registry import call_without_log, with_part


class Planted(NamedTuple):
    """One broken part in its world."""

    name: str
    world: str
    messages: int
    limits: dict[str, int]
    broken: type[Protocol]
    quickly: bool

    def __str__(self) -> str:
        return f"{self.world}-{self.name.replace('_', '-')}"

    def find_world(self) -> World:
        """Its world, with what it takes to see it."""
        world = find_world(self.world, 3, self.messages)
        return msgspec.structs.replace(
            world, protocol=self.broken, limits=msgspec.structs.replace(world.limits, **self.limits)
        )


PLANTED: list[Planted] = []

HOSTS: dict[str, tuple[type[Protocol], str]] = {
    "consensus": (ConsensusAlone, "consensus"),
    "lease": (LeaseAlone, "lease"),
    "link": (LinkAlone, "link"),
    "link-full": (LinkAlone, "link"),
    "primary": (PrimaryAlone, "primary"),
}

Method = Callable[..., Any]


def planted(
    world: str, method: str, *, quickly: bool = False, messages: int = 2, **limits: int
) -> Callable[[Method], Method]:
    """Register a function as the replacement of a method of the part."""

    def register(function: Method) -> Method:
        host, part = HOSTS[world]
        broken = with_part(host, part, method, function)
        PLANTED.append(Planted(function.__name__, world, messages, limits, broken, quickly))
        return function

    return register


# ---------------------------------------------------------------------- consensus
@planted("consensus", "is_decided", quickly=True)
def decides_with_half(self: Consensus, instance: Instance) -> bool:
    """A quorum of half."""
    return len(instance.acks) >= len(self._quorum(instance.name).sites) // 2


@planted("consensus", "_propose_collected", quickly=True)
def proposes_without_a_quorum(self: Consensus, instance: Instance) -> None:
    """The first estimate is enough."""
    if not instance.proposed and instance.estimates:
        chosen = self.choose(instance)
        if chosen is not None:
            self._propose(instance, chosen)


@planted("consensus", "choose")
def keeps_any_adopted_value(self: Consensus, instance: Instance) -> Value | None:
    """Any adopted value instead of the last adopted."""
    possible = [each for _, each in sorted(instance.estimates.items()) if each[1] is not None]
    return min((e for e in possible if e[0] > NOTHING), default=(0, Consensus.choose(self, instance)))[1]


@planted("consensus", "_enter")
def does_not_log_promises(self: Consensus, *arguments: Any) -> None:
    """A promise that a crash forgets."""
    call_without_log(self._host, Promised, Consensus._enter, self, *arguments)


@planted("consensus", "adopt")
def does_not_log_what_it_adopts(self: Consensus, *arguments: Any) -> None:
    """An acknowledgement that a crash forgets."""
    call_without_log(self._host, Adopted, Consensus.adopt, self, *arguments)


@planted("consensus", "_decide", quickly=True)
def does_not_log_decisions(self: Consensus, *arguments: Any) -> None:
    """A decision is acted upon and not logged."""
    call_without_log(self._host, Decided, Consensus._decide, self, *arguments)


@planted("consensus", "on_propose")
def adopts_in_a_round_that_it_has_left(self: Consensus, sender: SiteId, propose: Propose, arrival: Arrival) -> None:
    """The promise is not kept."""
    instance = self._find(sender, propose.instance)
    if instance is not None and propose.round < instance.round:
        message = propose.value.numbers[0][0]
        self._link.post((sender,), Ack(self._link.next, instance.name, propose.round, message))
    else:
        Consensus.on_propose(self, sender, propose, arrival)


# ---------------------------------------------------------------------- leases
@planted("lease", "is_enough", quickly=True)
def is_content_with_one_grant(self: Lease, grants: set[SiteId]) -> bool:
    """One grant is enough."""
    return bool(grants)


@planted("lease", "_may_grant", quickly=True)
def grants_to_anyone(self: Lease, site: SiteId) -> bool:
    """A grant does not exclude another."""
    return not self._silent


@planted("lease", "_may_grant")
def grants_after_a_crash(self: Lease, site: SiteId) -> bool:
    """What was granted before the crash is forgotten."""
    return self.granted_to in (None, site)


@planted("lease", "on_lease_grant")
def takes_any_grant(self: Lease, sender: SiteId, packet: LeaseGrant, arrival: Arrival) -> None:
    """A grant of an earlier attempt, which was given back, counts."""
    if self._wanted:
        self._add_grant(sender)


@planted("lease", "hold_until", messages=1, timers=4, crashes=0)
def counts_from_the_last_grant(self: Lease) -> float:
    """The time began when it was asked for, not when the last grant came."""
    return self._host.now + self._hold_seconds


@planted("lease", "_take_back")
def takes_back_a_later_grant(self: Lease, site: SiteId, attempt: int) -> None:
    """A release that was overtaken by a later request ends what that one was granted."""
    if self.granted_to == site:
        self.on_lease_grant_timeout()
        self._host.cancel_timer("lease-grant")


@planted("lease", "release")
def gives_back_and_goes_on(self: Lease) -> None:
    """The grants are given back, and the holder still holds."""
    self._wanted = False
    self._host.cancel_timer("lease-ask")
    self._give_back()


# ---------------------------------------------------------------------- the link


@planted("link", "on_receipt", quickly=True)
def takes_receipts_for_everyone(self: Link, sender: SiteId, receipt: Receipt, arrival: Arrival) -> None:
    """A receipt of one site counts for all."""
    for site in list(self.peers):
        Link.on_receipt(self, site, receipt, arrival)


@planted("link-full", "estrange", quickly=True)
def drops_silently(self: Link, site: SiteId) -> None:
    """What exceeds the bound is dropped, and the site that missed it is not told."""
    self.peers[site].kept.clear()


@planted("link-full", "restore", quickly=True)
def never_forgives(self: Link, site: SiteId) -> None:
    """A site that was away gets no letter ever after."""


@planted("link", "on_receipt", quickly=True)
def takes_receipts_as_cumulative(self: Link, sender: SiteId, receipt: Receipt, arrival: Arrival) -> None:
    """A receipt counts for everything before it."""
    Link.on_receipt(self, sender, Receipt(tuple((0, last) for _, last in receipt.numbers)), arrival)


@planted("link", "on_link_resend_timeout", quickly=True)
def posts_once(self: Link) -> None:
    """No repetition."""


# ---------------------------------------------------------------------- epochs
@planted("primary", "_try_start")
def starts_with_too_few_reports(self: Primary) -> None:
    """Its own report is enough."""
    self.majority -= 1
    try:
        Primary._try_start(self)
    finally:
        self.majority += 1


@planted("primary", "choose")
def starts_with_the_shortest_report(self: Primary, reports: list[Promise]) -> Promise:
    """What a majority has accepted is not always in the start."""
    return min(reports, key=lambda report: (report.started, len(report.places)))
