"""Schedules that look for trouble, beside the random swarm: a campaign with `--schedules` gives every seed one of them.

They are drawn by a stream of their own. Without that flag, no run has any, and every seed keeps its run.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from msgspec.structs import replace

from ordercast.campaign.varied import CHECKPOINT_RECORDS
from ordercast.core import Protocol, SiteId, UsageError, log_uniform, random_stream
from ordercast.sim.faults import AnyFault, Crash
from ordercast.sim.hunting_faults import AtEffect, BareQuorum, EffectName, HitLeader, OldPackets, Priorities
from ordercast.sim.memory_faults import MemoryFault
from ordercast.sim.scenario import Scenario

ALONE_SHARE: Final = 0.5
"""Of the runs with a schedule, so many have no other fault of network or sites: what is slow hides what is wrong."""
CRASHES_AT_EFFECTS: Final = 4
"""At the most, in one run."""
_EFFECTS: Final[tuple[EffectName, ...]] = ("append", "append", "send", "send", "checkpoint", "deliver")
"""What is drawn, the more often the more of it there is."""

CHECKPOINTS_SHARE: Final = 0.5
"""Of the runs with crashes at effects, so many sum up their logs every few records: else there is no checkpoint at
which to crash, and no log that begins with one."""
EFFECTS: Final = "effects"
LEADERS: Final = "leaders"

Draw = Callable[[Scenario, tuple[SiteId, ...], Random], tuple[AnyFault, ...]]


def _priorities(scenario: Scenario, _fragile: tuple[SiteId, ...], random: Random) -> tuple[AnyFault, ...]:
    """One to three changes: what takes more turns is seldom found by any of them."""
    seconds = round(log_uniform(random, 0.02, 3.0), 3)
    return (Priorities(from_=0.0, seconds=seconds, changes=random.randint(1, 3)),)


def _quorums(scenario: Scenario, _fragile: tuple[SiteId, ...], random: Random) -> tuple[AnyFault, ...]:
    """Where a protocol needs a majority of each of several sets of sites, a bare one of each."""
    seconds = round(log_uniform(random, 0.1, 2.0), 3)
    majorities = scenario.protocol.arrangement.campaign.majorities
    parts = () if majorities is None else tuple(tuple(part) for part in majorities(scenario.groups))
    return (BareQuorum(from_=0.0, seconds=seconds, parts=parts),)


def _effects(scenario: Scenario, fragile: tuple[SiteId, ...], random: Random) -> tuple[AnyFault, ...]:
    """Few, and most of them early in what a site does then: what has just begun is what is half done. Half of them at
    one kind of record or packet, so that rare steps are met as well."""
    protocol = scenario.protocol
    kinds: list[tuple[EffectName, str]] = [("append", record.__name__) for record in protocol.records]
    kinds += [("send", packet.__name__) for packet in protocol.packets]
    faults = []
    for _ in range(random.randint(1, CRASHES_AT_EFFECTS)):
        begin = round(random.uniform(0.0, 0.7) * scenario.duration, 3)
        effect, of = random.choice(kinds) if kinds and random.random() < 0.5 else (random.choice(_EFFECTS), "")
        fault = AtEffect(
            from_=begin,
            # Of a rare kind at whoever comes to it first.
            sites=fragile if of else (random.choice(fragile),),
            effect=effect,
            of=of,
            number=random.randint(1, 3) if of else min(random.randint(1, 20), random.randint(1, 20)),
            after=random.random() < 0.5,
            seconds=round(log_uniform(random, 0.01, 2.0), 3),
        )
        faults.append(fault)
    return tuple(faults)


def _leaders(scenario: Scenario, fragile: tuple[SiteId, ...], random: Random) -> tuple[AnyFault, ...]:
    every, seconds = round(log_uniform(random, 0.2, 3.0), 3), round(log_uniform(random, 0.01, 1.5), 3)
    return (HitLeader(from_=0.0, sites=fragile, every=every, seconds=seconds),)


def _old_packets(scenario: Scenario, fragile: tuple[SiteId, ...], random: Random) -> tuple[AnyFault, ...]:
    """A site crashes, and when it is back, what it had said before arrives."""
    site = random.choice(fragile)
    crash = round(random.uniform(0.2, 0.6) * scenario.duration, 3)
    back = round(crash + log_uniform(random, 0.02, 0.2 * scenario.duration), 3)
    release = round(back + random.uniform(0.0, 0.5), 3)
    kept = OldPackets(from_=0.0, to=crash, sites=(site,), release=release, rate=round(random.uniform(0.05, 0.5), 2))
    return (kept, Crash(from_=crash, to=back, sites=(site,)))


_SCHEDULES: Final[dict[str, tuple[Draw, tuple[str, ...]]]] = {
    "priorities": (_priorities, Priorities.made_of),
    "quorums": (_quorums, BareQuorum.made_of),
    EFFECTS: (_effects, AtEffect.made_of),
    LEADERS: (_leaders, HitLeader.made_of),
    "old-packets": (_old_packets, ("crash", *OldPackets.made_of)),
}
"""Schedule -> how to draw it, and what the contract must stand for that."""

SCHEDULES: Final = tuple(_SCHEDULES)


def is_stood(protocol: type[Protocol], schedule: str) -> bool:
    """Whether the contract stands what a schedule is made of, and there is somebody whom it can hit."""
    leads = protocol.ordering_site is not Protocol.ordering_site
    return set(_SCHEDULES[schedule][1]) <= set(protocol.contract.faults) and (leads or schedule != LEADERS)


def choose_schedule(protocol: type[Protocol], seed: int) -> str:
    """The schedule of a seed in a campaign with schedules; empty when the contract stands none."""
    possible = [name for name in SCHEDULES if is_stood(protocol, name)]
    name = protocol.contract.name
    return random_stream(seed, "schedules", name).choice(possible) if possible else ""


def add_schedule(scenario: Scenario, fragile: tuple[SiteId, ...], schedule: str, attempt: int) -> Scenario:
    """The scenario with that schedule; as it was where it makes no sense in it: nobody may fail, or somebody has to be
    heard when it comes back without its memory."""
    draw, needs = _SCHEDULES[schedule]
    name = scenario.protocol.contract.name
    random = random_stream(scenario.seed, "schedule", schedule, name, attempt)
    is_site_fault = "crash" in needs
    if (is_site_fault and not fragile) or any(isinstance(fault, MemoryFault) for fault in scenario.faults):
        return scenario
    others = scenario.faults
    if random.random() < ALONE_SHARE:
        others = tuple(fault for fault in others if getattr(fault, "forever", False))
    hunted = replace(scenario, faults=(*draw(scenario, fragile, random), *others))
    if schedule == EFFECTS and scenario.protocol.records and random.random() < CHECKPOINTS_SHARE:
        hunted = replace(hunted, checkpoint_records=random.choice(CHECKPOINT_RECORDS))
    try:
        hunted.check()
    except UsageError:
        return scenario
    # What a contract stands may depend on options that were drawn.
    return scenario if hunted.outside_contract else hunted
