"""What others must know of the broadcast tree beside its contract."""

from __future__ import annotations

from ordercast.core import Arrangement, Capacity, OptionValues, Situation, Tuning


def _options(situation: Situation) -> OptionValues:
    random, sites = situation.random, situation.sites
    # n hosts tell n others what they have: so often that half a minute of it is some tens of thousands of packets.
    shortest = max(0.2, situation.round_trip / 2, len(sites) ** 2 / 1000)
    within = situation.seconds(shortest, max(0.5, 1.5 * shortest))
    between = round(min(within * random.uniform(1.0, 3.0), max(within, 5.0)), 4)
    few = len(sites) <= 12
    clusters = random.choice(("cost-bit",) * 5 + ("transit-time",) * 3 + ("static", "none"))
    options = {
        "np1_seconds": round(within * random.uniform(1.0, 3.0), 4),
        "np2_seconds": situation.timeout(1.0),
        "pa_seconds": round(within * random.uniform(2.0, 5.0), 4),
        "eic_seconds": within,
        "ein_seconds": between,
        "gfc_seconds": within,
        "gfn_seconds": between,
        "gfo_seconds": round(between * random.uniform(1.0, 2.0), 4),
        "epp_seconds": round(within * random.choice((1.0, 1.7)), 4),
        "piggyback_seconds": random.choice((0.0, 0.01, 0.05)),
        "clusters": clusters,
        "transit_seconds": round(max(0.002, situation.round_trip / random.choice((2, 8))), 5),
        "order": random.choice(("none", "none", "source")),
        "burst_messages": situation.rarely(64, 1, 4),
        "kept_messages_max": situation.rarely(2048, 8, 16) if few else 2048,
        "gap_messages_max": situation.rarely(256, 2, 8) if few else 256,
        "silent_exchanges_max": situation.rarely(3, 1, 2),
    }
    if clusters == "static":
        half = random.sample(sites, (len(sites) + 1) // 2)
        options["static_clusters"] = [sorted(half), sorted(set(sites) - set(half))]
    return options


def _live(capacity: Capacity) -> OptionValues:
    return {"burst_messages": capacity.window}


def _clusters(between_seconds: float) -> OptionValues:
    """Processes are to find the clusters themselves."""
    return {"clusters": "transit-time", "transit_seconds": between_seconds / 2}


ARRANGEMENT = Arrangement(
    order=(
        "none, or each source's on request; reliable one-to-many over links of different cost, clusters found by "
        "transit time (Garcia-Molina, Kogan, Lynch 1987)"
    ),
    crash="the others go on",
    campaign=Tuning(
        options=_options,
        networks={"servers": 6, "point-to-point": 1, "wide-area": 1, "topology": 1, "broadcast": 1},
        sites_max=50,
        sources_max=3,
        # Two messages in five seconds, for a host that was cut off.
        long={"gap_messages_max": 256},
        # What was lost is sent again after up to two periods of gap filling and one of exchange, five seconds each at
        # most; a host that was away is found by one exchange before that.
        settle=25.0,
    ),
    live=_live,
    clusters=_clusters,
)
