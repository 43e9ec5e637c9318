"""What others must know of the fan protocols beside their contracts."""

from __future__ import annotations

from ordercast.core import Arrangement, Capacity, OptionValues, Situation, Tuning, no_options


def _options(situation: Situation) -> OptionValues:
    # With a tiny log, each few messages wait for a null message to be acknowledged: null messages often, then.
    kept = situation.rarely(4096, 2, 6)
    return {"log_messages_max": kept, "delta": situation.seconds(0.05, 0.2 if kept < 4096 else 1.0)}


def _live(capacity: Capacity) -> OptionValues:
    # What is sent ahead of the slowest reader is what fits into that one's buffer, and into its queue.
    return {"log_messages_max": capacity.ahead}


FAN_0 = Arrangement(
    order="none; with proved bounds on delivery time",
    crash="nobody waits",
    campaign=Tuning(options=no_options, settle=5.0),
    live=no_options,
)
FAN_1 = Arrangement(
    order="each source's, with proved bounds on delivery time, while the network loses nothing",
    crash="nobody waits",
    campaign=Tuning(options=_options, settle=5.0),
    live=_live,
)
FAN_2 = Arrangement(
    order="each source's, with proved bounds on delivery time",
    crash="nobody waits",
    campaign=Tuning(options=_options, settle=5.0),
    live=_live,
)
FAN_3 = Arrangement(
    order="each source's, with proved bounds on delivery time; a site that was down gets all of it",
    crash="nobody waits until a source's log is full",
    campaign=Tuning(options=_options, settle=10.0),
    live=_live,
)
