"""Which runs a campaign has: the usual ones, ones with schedules that look for trouble, large ones, or some of each."""

from __future__ import annotations

from typing import Final, Literal, get_args

from ordercast.campaign.draw import Draw
from ordercast.campaign.schedules import choose_schedule
from ordercast.core import Protocol, random_stream

Profile = Literal["usual", "schedules", "large", "nightly"]
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)

LARGE_SHARE: Final = 0.1
"""Of the seeds of a night; they take most of its time all the same."""
SCHEDULES_SHARE: Final = 0.5
"""Of the other seeds."""


def draw_of(protocol: type[Protocol], seed: int, profile: Profile = "usual") -> Draw:
    """What decides the run of a seed."""
    if profile == "nightly":
        profile = _one_of_a_night(protocol, seed)
    schedule = choose_schedule(protocol, seed) if profile == "schedules" else ""
    return Draw(protocol, seed, schedule=schedule, large=profile == "large")


def _one_of_a_night(protocol: type[Protocol], seed: int) -> Profile:
    random = random_stream(seed, "night", protocol.contract.name)
    if random.random() < LARGE_SHARE:
        return "large"
    return "schedules" if random.random() < SCHEDULES_SHARE else "usual"
