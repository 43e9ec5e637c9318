"""What others must know of the two-phase algorithm beside its contract."""

from __future__ import annotations

from ordercast.core import Arrangement, Capacity, OptionValues, Situation, Tuning


def _options(situation: Situation) -> OptionValues:
    retransmit = situation.timeout(0.3)
    return {
        "window_messages": situation.rarely(256, 1, 3),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "acknowledge_seconds": situation.timeout(0.1),
        "retransmit_seconds": retransmit,
        "retransmit_seconds_max": round(situation.random.uniform(1.0, 8.0) * retransmit, 4),
        "blocked_seconds": situation.seconds(0.2, 2.0),
    }


def _live(capacity: Capacity) -> OptionValues:
    return {
        "window_messages": capacity.window,
        # Often enough that nobody waits for news of what everyone has.
        "acknowledge_every": max(1, capacity.window // 4),
    }


ARRANGEMENT = Arrangement(
    order="total, across groups; only those addressed take part",
    crash="what concerns it waits",
    campaign=Tuning(
        options=_options,
        # A site that comes back is asked within eight retransmission times, and a window of one needs a round for
        # each.
        settle=20.0,
    ),
    live=_live,
)
