"""What a campaign must know of each protocol beside its contract: which option values to try, how long to settle.

Defaults and tiny values alike: small windows, logs and timeouts reach the branches that a default of thousands
never would in a run of a few dozen messages.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from ordercast.campaign.swarm import DELAY_SECONDS_MAX, log_uniform
from ordercast.core import SiteId

TIMEOUT_MIN = 0.03
"""With fifty messages pending, a question for each of them every 30 ms is a sixth of what a slow medium takes."""


class Situation(msgspec.Struct, frozen=True):
    """What options may depend on."""

    random: Random
    sites: tuple[SiteId, ...]
    members: tuple[SiteId, ...]
    """The sites that are in a group."""
    round_trip: float
    """Seconds there and back, without faults."""

    def rarely(self, usual: int, low: int, high: int) -> int:
        """The default, or in one run of three something small."""
        return self.random.randint(low, high) if self.random.random() < 1 / 3 else usual

    def seconds(self, low: float, high: float) -> float:
        """A time, its order of magnitude uniform."""
        return round(log_uniform(self.random, low, high), 4)

    def timeout(self, high: float) -> float:
        """A time to wait for an answer: sometimes too short, so that the answer comes after the second question, but
        not so short that questions fill the network."""
        return self.seconds(max(TIMEOUT_MIN, self.round_trip / 2), max(high, self.round_trip))


def _no_options(_situation: Situation) -> dict[str, Any]:
    return {}


class Tuning(msgspec.Struct, frozen=True):
    """One protocol's line of the table."""

    options: Callable[[Situation], dict[str, Any]] = _no_options
    settle: float = 5.0
    """Seconds that the protocol needs at the most, once everything works and nothing is under way, to finish what was
    begun. Packets that the last fault delayed come before that."""

    @property
    def settle_seconds(self) -> float:
        """How long a run goes on after the heal."""
        return DELAY_SECONDS_MAX + self.settle


def _fan(situation: Situation) -> dict[str, Any]:
    # With a tiny log, each few messages wait for a null message to be acknowledged: null messages often, then.
    kept = situation.rarely(4096, 2, 6)
    return {"log_messages_max": kept, "delta": situation.seconds(0.05, 0.2 if kept < 4096 else 1.0)}


def _sequencer(situation: Situation) -> dict[str, Any]:
    return {
        "sequencer": situation.random.choice(situation.sites),
        "window": situation.rarely(256, 1, 3),
        "history_max": situation.rarely(4096, 2, 8),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "retransmit_seconds": situation.timeout(0.3),
        "announce_seconds": situation.timeout(0.3),
        "patience": situation.rarely(10, 1, 3),
    }


def _two_phase(situation: Situation) -> dict[str, Any]:
    retransmit = situation.timeout(0.3)
    return {
        "window": situation.rarely(256, 1, 3),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "acknowledge_seconds": situation.timeout(0.1),
        "retransmit_seconds": retransmit,
        "retransmit_seconds_max": round(situation.random.uniform(1.0, 8.0) * retransmit, 4),
        "blocked_seconds": situation.seconds(0.2, 2.0),
    }


def _lamport(situation: Situation) -> dict[str, Any]:
    interval = situation.timeout(0.3)
    options = {
        "window": situation.rarely(256, 1, 3),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "tick_seconds": situation.seconds(0.001, 0.05),
        "interval_seconds": interval,
        "interval_seconds_max": round(situation.random.uniform(1.0, 8.0) * interval, 4),
        "blocked_seconds": situation.seconds(0.2, 2.0),
    }
    # Everyone waits for the sources only, which the scenario names; or for all sites.
    return options if situation.random.random() < 0.5 else options | {"sources": []}


def _token(situation: Situation) -> dict[str, Any]:
    random = situation.random
    beacon = situation.seconds(0.1, 0.4)
    window = situation.rarely(256, 1, 4)
    options = {
        "retries": situation.rarely(6, 1, 3),
        "retry_seconds": situation.timeout(0.1),
        "pass_seconds": situation.seconds(0.005, 0.05),
        "beacon_seconds": beacon,
        "suspicion_seconds": round(random.uniform(2.1, 4.0) * beacon, 3),
        "window_messages": window,
        "batch_messages_max": min(window, situation.rarely(128, 1, 4)),
        "history_messages_max": situation.rarely(4096, 2, 8),
        "reader_messages_max": situation.rarely(1024, 1, 4),
    }
    # L: half of the sites by default, and otherwise anything from none to all others.
    return options if random.random() < 0.5 else options | {"resilience": random.randrange(len(situation.sites))}


TUNING: dict[str, Tuning] = {
    "fan-1": Tuning(_fan),
    "fan-2": Tuning(_fan),
    "fan-3": Tuning(_fan, settle=10.0),
    # Fifty messages through a history of two, each pair waiting for a retransmission and an announcement.
    "sequencer": Tuning(_sequencer, settle=20.0),
    # A site that comes back is asked within eight retransmission times, and a window of one needs a round for each.
    "two-phase": Tuning(_two_phase, settle=20.0),
    "lamport": Tuning(_lamport, settle=20.0),
    # A few attempts to form a list, each ended by retries that double.
    "token": Tuning(_token, settle=30.0),
}


def tuning_of(protocol: str) -> Tuning:
    """The protocol's line; a protocol without one runs with its defaults."""
    return TUNING.get(protocol, Tuning())
