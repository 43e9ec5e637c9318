"""Whether a change of state is appropriate, whether it goes on, and after how long: Tables 2.2, 2.3 and 2.4 (2.5).

THL and THH of the tables are `coordinators_low` and `coordinators_high`, LTS is `local_target_size`.
"""

from __future__ import annotations

from enum import Enum
from math import expm1, log1p
from random import Random

from ordercast.protocols.intergroup.control.options import ControlOptions

STEEPNESS = 10.0
"""Of the distribution of timers: one of e^10 draws, about 22,000, lies in the first tenth of the interval."""


class Appropriateness(Enum):
    """How likely this process is to change from child to coordinator, or the other way round."""

    NO_CHANGE = "no change"
    APPROPRIATE = "appropriate"
    NEUTRAL = "neutral"
    INAPPROPRIATE = "inappropriate"


def of_coordinator(options: ControlOptions, num_coords: int, num_locals: int, close: bool) -> Appropriateness:
    """Table 2.2, coordinator. `close` is whether another coordinator is.

    The table prints numCoords < THL. Then, with just as many: one without children leaves, a child sees that there are
    too few and takes its place, has no children either, and leaves; and so on for ever. 2.2.3 says that there should
    be more than THL.
    """
    if num_coords <= options.coordinators_low:
        return Appropriateness.NO_CHANGE
    if close and num_locals == 0:
        return Appropriateness.APPROPRIATE
    if close and num_locals < options.local_target_size:
        return Appropriateness.NEUTRAL
    return Appropriateness.INAPPROPRIATE


def of_child(options: ControlOptions, num_locals: int, far: bool) -> Appropriateness:
    """Table 2.2, child. `far` is whether its coordinator is."""
    if not far:
        return Appropriateness.INAPPROPRIATE
    if num_locals > options.local_target_size:
        return Appropriateness.APPROPRIATE
    return Appropriateness.NEUTRAL


def coordinator_continues(options: ControlOptions, appropriateness: Appropriateness, num_coords: int) -> bool:
    """Table 2.3, coordinator."""
    low, high = options.coordinators_low, options.coordinators_high
    match appropriateness:
        case Appropriateness.APPROPRIATE:
            return True
        case Appropriateness.NEUTRAL:
            return num_coords > (low + 3 * high) / 4
        case Appropriateness.INAPPROPRIATE:
            return num_coords > high
        case Appropriateness.NO_CHANGE:
            return False


def child_continues(options: ControlOptions, appropriateness: Appropriateness, num_coords: int) -> bool:
    """Table 2.3, child.

    The table prints "always" for APPROPRIATE. Where regions that are far from each other are more than THH: a child
    becomes a coordinator, one too many; some coordinator leaves; its children are far from their new one, and one of
    them becomes a coordinator; and so on for ever.
    """
    low, high = options.coordinators_low, options.coordinators_high
    match appropriateness:
        case Appropriateness.APPROPRIATE:
            return num_coords < high
        case Appropriateness.NEUTRAL:
            return num_coords < (3 * low + high) / 4
        case Appropriateness.INAPPROPRIATE:
            return num_coords < low
        case Appropriateness.NO_CHANGE:
            return False


def timer_interval(options: ControlOptions, appropriateness: Appropriateness) -> tuple[float, float]:
    """Table 2.4."""
    s1, s2 = options.state_change_low_seconds, options.state_change_high_seconds
    match appropriateness:
        case Appropriateness.APPROPRIATE:
            return s1, s2
        case Appropriateness.NEUTRAL:
            return s1 + s2, s1 + 2 * s2
        case _:
            return s1 + 2 * s2, s1 + 3 * s2


def draw(random: Random, low: float, high: float) -> float:
    """A random time from an interval, by the truncated exponential distribution that rises towards its end. However
    many draw at once, those who come first are few, and what they do reaches the others in time. (Uniform: of 2,000
    children that wait for up to eight seconds to replace one coordinator, 125 do it in the half second that the first
    one's GCon takes.)"""
    return low + (high - low) * log1p(random.random() * expm1(STEEPNESS)) / STEEPNESS
