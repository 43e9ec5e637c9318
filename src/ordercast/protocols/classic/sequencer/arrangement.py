"""What others must know of the sequencer beside its contract."""

from __future__ import annotations

from ordercast.core import Arrangement, Capacity, OptionValues, Situation, Tuning


def _options(situation: Situation) -> OptionValues:
    return {
        "sequencer": situation.random.choice(situation.sites),
        "window_messages": situation.rarely(256, 1, 3),
        "history_messages_max": situation.rarely(4096, 2, 8),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "retransmit_seconds": (retransmit := situation.timeout(0.3)),
        "announce_seconds": situation.timeout(0.3),
        "blocked_seconds": situation.rarely(10, 1, 3) * retransmit,
        # Drawn last: what comes before keeps its draws.
        "direct_bytes": situation.random.choice((1, 8192)),
    }


def _live(capacity: Capacity) -> OptionValues:
    return {
        "window_messages": capacity.window,
        # What is sent ahead of the slowest reader is what fits into that one's buffer, and into its queue.
        "history_bytes_max": capacity.ahead * capacity.bundle_bytes,
        # Often enough that nobody waits for news of what everyone has.
        "acknowledge_bytes": max(1, capacity.window // 4) * capacity.bundle_bytes,
    }


ARRANGEMENT = Arrangement(
    order="total, across groups",
    crash="everyone waits for the sequencer",
    campaign=Tuning(
        options=_options,
        # Fifty messages through a history of two, each pair waiting for a retransmission and an announcement.
        settle=20.0,
    ),
    live=_live,
)
