"""Turns: small changes of a random run, each named by a number, so that a run can be led step by step to where
something happens that no other run has shown.

A turn never touches who may fail: what was drawn for a site stays with that site, deaths for good stay where they are
(a contract may say how far apart they must be), and sites that lose their memory lose it when they did.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from msgspec.structs import replace

from ordercast.core import UsageError, random_stream
from ordercast.sim.faults import AnyFault
from ordercast.sim.memory_faults import MemoryFault
from ordercast.sim.scenario import SEED_MAX, Scenario

TURN_NUMBERS: Final = 1_000
"""Turns that a run can take next."""
TURNS_MAX: Final = 8
"""Of one run; after so many nothing is left of what was drawn for its seed."""
BEGIN_SHARE: Final = 0.6
"""Of the time under faults, in which a fault that is moved begins: as in the swarm, there is traffic after it, which
shows what it did."""
END_SHARE: Final = 0.85
"""Where it ends at the latest, unless it ended later before."""
FAULTS_MAX: Final = 24
"""A run with more of them is a run in which nothing gets through."""

Turn = Callable[[Scenario, list[int], Random], Scenario]


def take_turn(scenario: Scenario, number: int) -> Scenario:
    """The run with that turn; with other chances only, where the turn would leave the contract or make no sense."""
    random = random_stream(scenario.seed, "turn", scenario.protocol.contract.name, number)
    other_chances = replace(scenario, seed=random.randrange(SEED_MAX))
    movable = [place for place, fault in enumerate(scenario.faults) if _is_movable(fault)]
    turned = random.choice(_TURNS)(other_chances, movable, random) if movable else other_chances
    try:
        turned.check()
    except UsageError:
        return other_chances
    return other_chances if turned.outside_contract else turned


def _is_movable(fault: AnyFault) -> bool:
    return not getattr(fault, "forever", False) and not isinstance(fault, MemoryFault)


def _moved(fault: AnyFault, scenario: Scenario, random: Random) -> AnyFault:
    """The fault at another time, as long as before where there is room."""
    begin = round(random.uniform(0.0, BEGIN_SHARE) * scenario.duration, 3)
    if fault.to is None:
        return replace(fault, from_=begin)
    latest = max(fault.to, END_SHARE * scenario.duration)
    return replace(fault, from_=begin, to=round(min(begin + fault.to - fault.from_, latest), 3))


def _other_chances(scenario: Scenario, _movable: list[int], _random: Random) -> Scenario:
    """The same faults; other packets are lost, late or doubled."""
    return scenario


def _other_time(scenario: Scenario, movable: list[int], random: Random) -> Scenario:
    place = random.choice(movable)
    faults = list(scenario.faults)
    faults[place] = _moved(faults[place], scenario, random)
    return replace(scenario, faults=tuple(faults))


def _once_more(scenario: Scenario, movable: list[int], random: Random) -> Scenario:
    if len(scenario.faults) >= FAULTS_MAX:
        return scenario
    again = _moved(scenario.faults[random.choice(movable)], scenario, random)
    return replace(scenario, faults=(*scenario.faults, again))


def _without_one(scenario: Scenario, movable: list[int], random: Random) -> Scenario:
    """One fault may hide what another one brings about."""
    gone = random.choice(movable)
    faults = tuple(fault for place, fault in enumerate(scenario.faults) if place != gone)
    return replace(scenario, faults=faults) if faults else scenario


_TURNS: Final[tuple[Turn, ...]] = (_other_chances, _other_time, _once_more, _without_one)
