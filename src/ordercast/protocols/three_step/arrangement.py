"""What others must know of three steps beside its contract."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from ordercast.core import Arrangement, Capacity, OptionValues, SiteId, Situation, Tuning
from ordercast.core.arrangement import Groups
from ordercast.protocols.parts.cells import Cells


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
    }


def _layout(random: Random) -> Groups:
    """Groups of three that share nothing, three that share pairwise one site each, and others in between."""
    layouts: tuple[tuple[str, ...], ...] = (
        ("abc", "def", "ghi"),
        ("abc", "cde", "efa"),
        ("abc",),
        ("abcde",),
        ("abc", "def"),
        ("abcd", "bcde"),
        ("abcdef", "defghi"),
        ("abcd", "ab"),
    )
    names = ("g", "h", "i")
    return {name: tuple(members) for name, members in zip(names, random.choice(layouts), strict=False)}


def _majorities(groups: Groups) -> Iterable[tuple[SiteId, ...]]:
    return Cells(groups).cells


def _live(capacity: Capacity) -> OptionValues:
    return {
        "window_messages": capacity.window,
        # Often enough that nobody waits for news of what everyone has.
        "acknowledge_every": max(1, capacity.window // 4),
    }


def _warnings(groups: Groups) -> Iterable[str]:
    """The cells that tolerate no failure."""
    return Cells(groups).warnings()


ARRANGEMENT = Arrangement(
    order="total, across groups; only the addressees take part; open senders (Gotsman, Lefort, Chockler 2019)",
    crash="nobody waits while a majority of each group is up; after the crash of the one that orders, for a suspicion",
    campaign=Tuning(
        options=_options,
        layout=_layout,
        majorities=_majorities,
        # An epoch may need several suspicions, each after a patience that wrong ones have doubled; then what was away
        # asks for messages, some at a time.
        settle=40.0,
    ),
    live=_live,
    warnings=_warnings,
)
