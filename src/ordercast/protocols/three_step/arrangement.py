"""What others must know of three steps beside its contract."""

from __future__ import annotations

from random import Random

from ordercast.core import Arrangement, Capacity, OptionValues, Situation, Tuning
from ordercast.core.arrangement import Groups
from ordercast.protocols.parts.cell_arrangement import layout, majorities, warnings

EVEN_LAYOUTS: tuple[dict[str, str], ...] = (
    {"g": "abcd"},
    {"g": "ab"},
    {"g": "abcdef"},
    {"g": "abcd", "h": "efgh"},
    {"g": "abcd", "h": "cdef"},
)
"""Cells with an even number of sites, of which half are a quorum and more than half may start an epoch."""
EVEN_SHARE = 0.25
"""Of the campaign's runs, on top of what the layouts of all protocols with cells have of them."""


def _layout(random: Random) -> Groups:
    """As of all protocols with cells, and in some runs even cells. These are drawn apart: the others stay as they
    were."""
    groups = layout(random)
    apart = Random(repr(random.getstate()))
    if apart.random() >= EVEN_SHARE:
        return groups
    return {name: tuple(members) for name, members in apart.choice(EVEN_LAYOUTS).items()}


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
        "suspicion_seconds": (suspicion := round(random.uniform(0.5, 4.0) * ping, 4)) + ping,
        "suspicion_seconds_max": max(
            suspicion + ping, random.choice((10.0, max(1.0, 2 * suspicion), max(4.0, 2 * suspicion)))
        ),
        "retry_seconds": situation.timeout(0.2),
        "blocked_seconds": situation.seconds(0.2, 2.0),
        # Drawn last: what comes before keeps its draws.
        "direct_bytes": random.choice((1, 8192)),
    }


def _live(capacity: Capacity) -> OptionValues:
    """The options of a live process that depend on its machine. What was taken is told as seldom as elsewhere: a source
    waits for deliveries, and not for that. (After every second message: a third of all datagrams tell nothing else.)

    Credit comes back after three steps where others give it after two, so half as much more may be under way, as far as
    what all others send fits into a buffer. (Else: fewer messages come in each turn, and each costs more.)
    """
    fitting = capacity.ahead // max(1, capacity.processes - 1)
    return {"window_messages": max(capacity.window, min(3 * capacity.window // 2, fitting))}


ARRANGEMENT = Arrangement(
    order="total, across groups; only the addressees take part; open senders (Gotsman, Lefort, Chockler 2019)",
    crash="nobody waits while a majority of each group is up; after the crash of the one that orders, for a suspicion",
    campaign=Tuning(
        options=_options,
        layout=_layout,
        majorities=majorities,
        # An epoch may need several suspicions, each after a patience that wrong ones have doubled; then what was away
        # asks for messages, some at a time.
        settle=40.0,
    ),
    live=_live,
    warnings=warnings,
)
