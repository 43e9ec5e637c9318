"""The worlds that there are: a part in the smallest core around it, or a protocol in its smallest arrangement."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import msgspec

from ordercast.core import Protocol, UsageError
from ordercast.explore.hosts.consensus import ConsensusAlone
from ordercast.explore.hosts.letters import EagerMulticastAlone, LinkAlone, LinkOptions, MulticastAlone
from ordercast.explore.hosts.primary import PrimaryAlone
from ordercast.explore.hosts.quiet import DetectorAlone, LeaseAlone
from ordercast.explore.judges import (
    any_order,
    everything_delivered,
    holder_found,
    nothing_lost,
    nothing_promised,
    one_holder,
    order_of,
    rightly_suspected,
    total_order,
)
from ordercast.explore.world import Limits, Seen, World, observe_deliveries
from ordercast.protocols import PROTOCOL_NAMES, find_protocol

SITE_NAMES = ("a", "b", "c", "d")
GROUP = "g"
SLOW, FAST = 0.7, 1.3
"""How far apart the clocks of a lease may run: by 30 % either way."""

BEGIN_SECONDS = 1.0
"""In which sites on one channel establish a cluster. (From nothing, all the timers that may fire would be used up by
that.)"""
READ_THE_CLOCK = ("token", "fan-1", "fan-2", "fan-3", "broadcast-tree", "intergroup")


def find_world(name: str, sites: int, messages: int, checkpoint: int = 0) -> World:
    """The world of that name, with so many sites and messages; logs are summed up after so many records, or (0) not
    within a run as short as these."""
    if not 2 <= sites <= len(SITE_NAMES):
        raise UsageError(f"a small world has 2 to {len(SITE_NAMES)} sites, not {sites}")
    if not 1 <= messages <= 3:
        raise UsageError(f"a small world has 1 to 3 messages, not {messages}")
    world = _find(name, SITE_NAMES[:sites], messages)
    if not checkpoint:
        return world
    return msgspec.structs.replace(world, protocol=world.protocol.with_checkpoints(checkpoint))


def _find(name: str, sites: tuple[str, ...], messages: int) -> World:
    make = PARTS.get(name)
    if make is not None:
        return make(sites, messages)
    if name in PROTOCOL_NAMES:
        return _protocol_world(find_protocol(name), sites, messages)
    raise UsageError(f"nothing is called {name!r}; there are the parts {', '.join(PARTS)} and every protocol")


def _in_turn(sites: tuple[str, ...], messages: int) -> tuple[int, ...]:
    return tuple(number % len(sites) for number in range(messages))


def _swaps(sites: tuple[str, ...], fixed: int) -> tuple[tuple[int, ...], ...]:
    """The renamings of all sites but the first ones."""
    first = tuple(range(fixed))
    others = [(*first, *each) for each in permutations(range(fixed, len(sites)))]
    return tuple(each for each in others if each != tuple(range(len(sites))))


def _world(protocol: type[Protocol], sites: tuple[str, ...], **details: Any) -> World:
    contract = protocol.contract
    usual: dict[str, Any] = {
        "name": contract.name,
        "protocol": protocol,
        "sites": sites,
        "groups": {GROUP: sites},
        "options": contract.options(),
        "observe": observe_deliveries,
        "safe": total_order,
        "done": everything_delivered,
    }
    return World(**(usual | details))


def _consensus(sites: tuple[str, ...], messages: int) -> World:
    return _world(
        ConsensusAlone,
        sites,
        sources=_in_turn(sites, messages),
        may_die=(len(sites) - 1) // 2,
        limits=Limits(timers=4, losses=0),
    )


def _primary(sites: tuple[str, ...], messages: int) -> World:
    return _world(
        PrimaryAlone,
        sites,
        sources=_in_turn(sites, messages),
        limits=Limits(timers=5, losses=0),
    )


def _link(sites: tuple[str, ...], messages: int, letters_max: int = 2) -> World:
    def observe(core: Any, seen: Seen) -> tuple[Any, ...]:
        owed = tuple(
            (site, tuple(sorted({message for letter in core.link.unconfirmed(site) for message in letter.served()})))
            for site in core.others
            if not core.link.is_estranged(site)
        )
        return (core.site, seen.own, seen.delivered, owed)

    return _world(
        LinkAlone,
        sites,
        options=LinkOptions(letters_max=letters_max),
        sources=(0,) * messages,
        observe=observe,
        safe=nothing_lost,
        done=lambda seen, now, dead: everything_delivered(tuple(Seen(own, got) for _, own, got, _ in seen), now, dead),
        symmetries=_swaps(sites, 1),
        limits=Limits(timers=4, duplicates=1),
    )


def _full_link(sites: tuple[str, ...], messages: int) -> World:
    """One unanswered letter is as many as the link keeps: it estranges soon."""
    return msgspec.structs.replace(_link(sites, messages, letters_max=1), name="link-full")


def _multicast(name: str, protocol: type[Protocol]) -> Callable[[tuple[str, ...], int], World]:
    return lambda sites, messages: _world(
        protocol,
        sites,
        name=name,
        sources=(0,) * messages,
        safe=any_order,
        may_die=1,
        symmetries=_swaps(sites, 1),
        limits=Limits(timers=2, losses=0, duplicates=1),
    )


def _lease(sites: tuple[str, ...], messages: int) -> World:
    """The clock of the first site is slow, the others' are fast."""
    rates = (SLOW,) + (FAST,) * (len(sites) - 1)

    def observe(core: Any, _seen: Seen) -> tuple[float | None, bool]:
        until = core.lease.holds_until
        rate = rates[sites.index(core.site)]
        return (None if until is None else round(until / rate, 9), core.wanted)

    return _world(
        LeaseAlone,
        sites,
        # Each of the first two sites asks, and whoever has asked may give it back.
        sources=(0, 1, 0, 1)[: messages + 1],
        observe=observe,
        safe=one_holder,
        done=holder_found,
        rates=rates,
        limits=Limits(timers=8),
        counterexample_judged=False,
    )


def _detector(sites: tuple[str, ...], _messages: int) -> World:
    def observe(core: Any, _seen: Seen) -> tuple[str, frozenset[str]]:
        return (core.site, frozenset(core.detector.suspected))

    return _world(
        DetectorAlone,
        sites,
        sources=(),
        observe=observe,
        safe=lambda seen, now: None,
        done=rightly_suspected,
        may_die=1,
        symmetries=_swaps(sites, 0),
        limits=Limits(timers=8),
        counterexample_judged=False,
    )


PARTS: dict[str, Callable[[tuple[str, ...], int], World]] = {
    "consensus": _consensus,
    "link": _link,
    "link-full": _full_link,
    "lease": _lease,
    "detector": _detector,
    "primary": _primary,
    "multicast": _multicast("multicast", MulticastAlone),
    "multicast-eager": _multicast("multicast-eager", EagerMulticastAlone),
}


def _protocol_world(protocol: type[Protocol], sites: tuple[str, ...], messages: int) -> World:
    contract = protocol.contract
    sources = (0,) * messages if contract.single_source else _in_turn(sites, messages)
    options = contract.options(**({"sources": sites[:1]} if contract.single_source else {}))
    return _world(
        protocol,
        sites,
        sources=sources,
        options=options,
        safe=order_of(contract.guarantees),
        done=everything_delivered if "termination" in contract.guarantees else nothing_promised,
        reads_clock=contract.name in READ_THE_CLOCK,
        one_channel=contract.one_channel,
        begin_seconds=BEGIN_SECONDS if contract.one_channel else 0.0,
        settle_seconds=120.0,
        limits=Limits(timers=4, crashes=1 if "crash" in contract.faults else 0),
    )
