"""What others must know of Lamport's timestamps beside its contract."""

from __future__ import annotations

from ordercast.core import Arrangement, Capacity, OptionValues, Situation, Tuning


def _options(situation: Situation) -> OptionValues:
    interval = situation.timeout(0.3)
    options = {
        "window_messages": situation.rarely(256, 1, 3),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "tick_seconds": situation.seconds(0.001, 0.05),
        "interval_seconds": interval,
        "interval_seconds_max": round(situation.random.uniform(1.0, 8.0) * interval, 4),
        "blocked_seconds": situation.seconds(0.2, 2.0),
    }
    # Everyone waits for the sources only, which the scenario names; or for all sites.
    return options if situation.random.random() < 0.5 else options | {"sources": []}


def _live(capacity: Capacity) -> OptionValues:
    return {
        "window_messages": capacity.window,
        # Often enough that nobody waits for news of what everyone has.
        "acknowledge_every": max(1, capacity.window // 4),
    }


ARRANGEMENT = Arrangement(
    order="total and causal, across groups",
    crash="everyone waits",
    campaign=Tuning(options=_options, settle=20.0),
    live=_live,
)
