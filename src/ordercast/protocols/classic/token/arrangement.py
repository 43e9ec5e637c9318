"""What others must know of the token protocol beside its contract."""

from __future__ import annotations

from random import Random

from ordercast.core import Arrangement, Capacity, OptionValues, Situation, Tuning


def _options(situation: Situation) -> OptionValues:
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
    } | _draw_history(random)
    if situation.somebody_dies or random.random() < 0.5:
        # L: half of the sites, which is what a minority that dies leaves.
        return options
    return options | {"resilience": random.randrange(len(situation.sites))}


def _draw_history(random: Random) -> OptionValues:
    """In one run of three a history of a few messages, even where somebody dies: the others forget it past the dead.

    Drawn from a copy of the stream, which leaves everything else as it is.
    """
    apart = Random()
    apart.setstate(random.getstate())
    return {"history_bytes_max": apart.randint(1_000, 8_000)} if apart.random() < 1 / 3 else {}


def _live(capacity: Capacity) -> OptionValues:
    return {
        "window_messages": capacity.window,
        # A batch holds the bundles themselves.
        "batch_messages_max": max(1, capacity.window // 2),
    }


ARRANGEMENT = Arrangement(
    order="total, across groups",
    crash="the majority goes on without it",
    campaign=Tuning(
        options=_options,
        # A few attempts to form a list, each ended by retries that double.
        settle=30.0,
        # With L = 0 a message is committed when one site has it.
        repairable=lambda options, _groups: options.get("resilience") != 0,
    ),
    live=_live,
)
