"""What others must know of the propagation graph beside its contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from ordercast.core import Arrangement, Capacity, GroupId, OptionValues, SiteId, Situation, Tuning
from ordercast.core.arrangement import Groups
from ordercast.graphs.system import system_graph


def _options(situation: Situation) -> OptionValues:
    random = situation.random
    return (
        {
            "prefer": random.sample(situation.members, random.randint(0, len(situation.members))),
            "load_bound": situation.rarely(0, 2, 6),
            "window_messages": situation.rarely(256, 1, 3),
            "history_messages_max": situation.rarely(4096, 2, 8),
            "history_bytes_max": situation.rarely(1 << 26, 1, 3000),
            "reader_messages_max": situation.rarely(4096, 1, 4),
            "acknowledge_every": situation.rarely(32, 1, 4),
            "retransmit_seconds": (retransmit := situation.timeout(0.3)),
            "blocked_seconds": situation.rarely(10, 1, 3) * retransmit,
        }
        | _draw_away(random)
        | draw_leases(situation)
    )


def _draw_away(random: Random) -> OptionValues:
    """In one run of three little is kept for a leaf that is away. Drawn from a copy of the stream, which leaves
    everything else as it is."""
    apart = Random()
    apart.setstate(random.getstate())
    return {"away_bytes_max": apart.randint(1, 3000)} if apart.random() < 1 / 3 else {}


def draw_leases(situation: Situation) -> OptionValues:
    """Leases and suspicions from shorter than an outage to longer, a few round trips at the least, and how sites come
    back. Drawn apart, too."""
    apart = Random()
    apart.setstate(situation.random.getstate())
    apart.random()
    least = max(0.1, 4 * situation.round_trip)
    return {
        "suspicion_seconds": round(apart.uniform(least, least + 0.6), 3),
        "lease_seconds": round(apart.uniform(least, least + 1.0), 3),
        "rejoin": apart.choice(("skip", "rollback")),
    }


def _layout(random: Random) -> Groups:
    """Many small groups: where they overlap in few sites the trees are deep, with extra nodes, or there are several."""
    sites = "abcdefgh"[: random.randint(3, 8)]
    names = ("g", "h", "i", "j", "k", "l")[: random.randint(1, 6)]
    return {name: tuple(sorted(random.sample(sites, random.randint(2, min(4, len(sites)))))) for name in names}


def _orders(groups: Groups, options: OptionValues) -> Mapping[GroupId, SiteId]:
    """The primary destinations of the first graph."""
    return system_graph(groups, tuple(options["prefer"]), load_bound=options["load_bound"]).primary if groups else {}


def _live(capacity: Capacity) -> OptionValues:
    return {
        "window_messages": capacity.window,
        # What is sent ahead of the slowest reader is what fits into that one's buffer, and into its queue.
        "history_bytes_max": capacity.ahead * capacity.bundle_bytes,
        # Often enough that nobody waits for news of what everyone has.
        "acknowledge_every": max(1, capacity.window // 4),
    }


def _warnings(groups: Groups, options: OptionValues) -> Iterable[str]:
    sites = {site for members in groups.values() for site in members}
    if options.get("delivery") == "non-atomic" and len(sites) == 2:
        yield (
            'a graph of two: a majority of two is both, so with delivery = "non-atomic" each waits for the other all '
            "the same; add a process"
        )


ARRANGEMENT = Arrangement(
    order="total, across overlapping groups, by a forest of sites that spreads the load (Spauster 1991)",
    crash="what passes through it waits",
    campaign=Tuning(
        options=_options,
        layout=_layout,
        # Fifty messages through histories of two on each level of a tree, each pair waiting for a look.
        settle=30.0,
        # A manager renews its lease for ever.
        quiet=4.0,
        orders=_orders,
        modes=({}, {"delivery": "non-atomic"}),
    ),
    live=_live,
    warnings=_warnings,
)
