"""What others must know of three steps beside its contract."""

from __future__ import annotations

from ordercast.core import Arrangement, OptionValues, Situation, Tuning
from ordercast.protocols.parts.cell_arrangement import layout, live, majorities, warnings


def _options(situation: Situation) -> OptionValues:
    random = situation.random
    window = situation.rarely(256, 1, 4)
    ping = situation.seconds(0.03, 0.2)
    return {
        "window_messages": window,
        "kept_messages_max": max(window, situation.rarely(16384, 4, 16)),
        # Now and then so little that whoever is away for a while is given up.
        "kept_bytes_max": situation.rarely(32 << 20, 4 << 10, 32 << 10),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "acknowledge_seconds": situation.timeout(0.1),
        "want_seconds": situation.timeout(0.2),
        "turn_seconds": 0.02 if len(situation.members) > 6 else random.choice((0.0, 0.0, 0.0, 0.01)),
        "ask_seconds": max(0.08, situation.timeout(0.4)),
        # Often shorter than a round trip: primaries are suspected wrongly all the time.
        "ping_seconds": ping,
        "suspicion_seconds": (suspicion := round(random.uniform(0.5, 4.0) * ping, 4)),
        "suspicion_seconds_max": random.choice((10.0, max(1.0, 2 * suspicion), max(4.0, 2 * suspicion))),
        "retry_seconds": situation.timeout(0.2),
        "blocked_seconds": situation.seconds(0.2, 2.0),
        # Drawn last: what comes before keeps its draws.
        "direct_bytes": random.choice((1, 8192)),
    }


ARRANGEMENT = Arrangement(
    order="total, across groups; only the addressees take part; open senders (Gotsman, Lefort, Chockler 2019)",
    crash="nobody waits while a majority of each group is up; after the crash of the one that orders, for a suspicion",
    campaign=Tuning(
        options=_options,
        layout=layout,
        majorities=majorities,
        # An epoch may need several suspicions, each after a patience that wrong ones have doubled; then what was away
        # asks for messages, some at a time.
        settle=40.0,
    ),
    live=live,
    warnings=warnings,
)
