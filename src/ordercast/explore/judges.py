"""What must hold in every state of a small world, and what must have come about in the end: of a handful of sites, so
plain loops will do."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from ordercast.core import MessageId
from ordercast.explore.world import Safe, Seen


# ---------------------------------------------------------------------- what is delivered
def any_order(seen: tuple[Seen, ...], _now: float) -> str | None:
    """Nobody delivers a message twice, or one that was not multicast."""
    multicast = {message for site in seen for message in site.own}
    for site in seen:
        if len(set(site.delivered)) < len(site.delivered):
            return f"no-duplication: {_words(site.delivered)}"
        strange = [message for message in site.delivered if message not in multicast]
        if strange:
            return f"integrity: {_words(tuple(strange))} was never multicast"
    return None


def total_order(seen: tuple[Seen, ...], now: float) -> str | None:
    """Every two sites have delivered the same messages in the same order, as far as the shorter one has come."""
    wrong = any_order(seen, now)
    if wrong is not None:
        return wrong
    for one, other in combinations(seen, 2):
        length = min(len(one.delivered), len(other.delivered))
        if one.delivered[:length] != other.delivered[:length]:
            return f"total order: {_words(one.delivered)} here, {_words(other.delivered)} there"
    return None


def order_of(guarantees: tuple[str, ...]) -> Safe:
    """The judge of what is delivered, by what is claimed."""
    return total_order if "multiple-source-order" in guarantees else any_order


def everything_delivered(seen: tuple[Seen, ...], _now: float, dead: frozenset[int]) -> str | None:
    """Whoever is up has delivered what anybody has delivered, and every message of whoever is up."""
    wanted = {message for number, site in enumerate(seen) if number not in dead for message in site.own}
    wanted.update(message for site in seen for message in site.delivered)
    for number, site in enumerate(seen):
        missing = wanted - set(site.delivered)
        if missing and number not in dead:
            return f"termination: site {number + 1} has not delivered {_words(tuple(sorted(missing)))}"
    return None


def nothing_promised(_seen: tuple[Any, ...], _now: float, _dead: frozenset[int]) -> str | None:
    """For protocols that promise no end: what is lost may be lost."""
    return None


def _words(messages: tuple[MessageId, ...]) -> str:
    return ", ".join(map(str, messages)) or "nothing"


# ---------------------------------------------------------------------- the link
def nothing_lost(seen: tuple[Any, ...], now: float) -> str | None:
    """A letter is kept until its addressee has what it says, unless the addressee is told that it is behind."""
    wrong = any_order(tuple(Seen(own, delivered) for _, own, delivered, _ in seen), now)
    if wrong is not None:
        return wrong
    delivered = {name: got for name, _, got, _ in seen}
    for name, own, _, owed in seen:
        for site, kept in owed:
            for message in own:
                if message not in kept and message not in delivered[site]:
                    return f"loss: {name} no longer keeps {message} for {site}, which has not got it"
    return None


# ---------------------------------------------------------------------- leases
def one_holder(seen: tuple[Any, ...], now: float) -> str | None:
    """Never two who may act."""
    holders = [number + 1 for number, (until, _) in enumerate(seen) if until is not None and until > now]
    if len(holders) > 1:
        return f"two holders: sites {holders[0]} and {holders[1]} at {now:.3f}"
    return None


def holder_found(seen: tuple[Any, ...], now: float, dead: frozenset[int]) -> str | None:
    """Somebody who wants it gets it."""
    wanted = [number for number, (_, wants) in enumerate(seen) if wants and number not in dead]
    if wanted and not any(until is not None and until > now for until, _ in seen):
        return f"nobody holds the lease, and site {wanted[0] + 1} wants it"
    return None


# ---------------------------------------------------------------------- the failure detector
def rightly_suspected(seen: tuple[Any, ...], _now: float, dead: frozenset[int]) -> str | None:
    """Whoever is down is suspected by everyone, whoever is up by nobody."""
    gone = frozenset(seen[number][0] for number in dead)
    for number, (name, suspected) in enumerate(seen):
        if number not in dead and suspected != gone - {name}:
            return f"{name} suspects {', '.join(sorted(suspected)) or 'nobody'}; down: {', '.join(gone) or 'nobody'}"
    return None
