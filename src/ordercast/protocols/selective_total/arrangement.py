"""What others must know of selective total order beside its contract."""

from __future__ import annotations

from ordercast.core import Arrangement, Capacity, OptionValues, Situation, Tuning


def _options(situation: Situation) -> OptionValues:
    random = situation.random
    share = random.randint(1, 2)
    # Each process has its share of the smallest buffers; less than one message would stop everyone for good.
    least = share * len(situation.sites)
    return {
        "window_messages": situation.rarely(64, 1, 4),
        "buffer_share": share,
        "buffer_messages": situation.rarely(2048, least, 3 * least),
        "pending_messages_max": situation.rarely(256, 1, 4),
        "receive_ready_seconds": situation.seconds(0.07, 0.15),
        "acknowledge_seconds": situation.seconds(0.0005, 0.02),
        "idle_periods": random.randint(4, 10),
        "loss_periods": random.randint(1, 4),
        "recovery": "go-back-n" if random.random() < 0.2 else "selective",
    }


def _live(capacity: Capacity) -> OptionValues:
    return {"window_messages": capacity.window}


ARRANGEMENT = Arrangement(
    order=(
        "total among common destinations, any subset, on one lossy channel, which `ordercast hub` gives (Tachikawa, "
        "Takizawa)"
    ),
    crash="the others go on without it after a while",
    campaign=Tuning(
        options=_options,
        networks={"one-channel": 5, "broadcast": 1},
        # silence_seconds: whoever is left out comes back as a stranger.
        unheard_seconds=8.0,
        # Eight seconds of silence, by a clock that runs slow, until a crash is noticed; then an agreement or two.
        settle=20.0,
    ),
    live=_live,
)
