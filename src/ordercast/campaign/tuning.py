"""What a campaign must know of each protocol beside its contract: which option values to try, how long to settle.

Defaults and tiny values alike: small windows, logs and timeouts reach the branches that a default of thousands
never would in a run of a few dozen messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

import msgspec

from ordercast.campaign.swarm import DELAY_SECONDS_MAX, log_uniform
from ordercast.core import GroupId, SiteId
from ordercast.protocols.scalatom.cells import Cells

Groups = Mapping[GroupId, tuple[SiteId, ...]]

SITES_MAX = 6

TIMEOUT_MIN = 0.03
"""With fifty messages pending, a question for each of them every 30 ms is a sixth of what a slow medium takes."""


class Situation(msgspec.Struct, frozen=True):
    """What options may depend on."""

    random: Random
    sites: tuple[SiteId, ...]
    members: tuple[SiteId, ...]
    """The sites that are in a group."""
    round_trip: float
    """Seconds there and back, without faults."""
    somebody_dies: bool
    """Whether sites crash that never come back."""

    def rarely(self, usual: int, low: int, high: int) -> int:
        """The default, or in one run of three something small. Where somebody dies, the default: what is kept for the
        dead grows until a bound is reached, and tiny bounds are for runs in which everyone comes back."""
        if self.somebody_dies:
            return usual
        return self.random.randint(low, high) if self.random.random() < 1 / 3 else usual

    def seconds(self, low: float, high: float) -> float:
        """A time, its order of magnitude uniform."""
        return round(log_uniform(self.random, low, high), 4)

    def timeout(self, high: float) -> float:
        """A time to wait for an answer: sometimes too short, so that the answer comes after the second question, but
        not so short that questions fill the network."""
        return self.seconds(max(TIMEOUT_MIN, self.round_trip / 2), max(high, self.round_trip))


def _no_options(_situation: Situation) -> dict[str, Any]:
    return {}


class Tuning(msgspec.Struct, frozen=True):
    """One protocol's line of the table."""

    options: Callable[[Situation], dict[str, Any]] = _no_options
    networks: dict[str, int] | None = None
    """Kinds of network and their weights; None: those that every protocol is tried on."""
    sites_max: int = SITES_MAX
    """More than usual only in one run of sixteen, and never in calm ones: many hosts make many events."""
    sources_max: int | None = None
    """Sites that multicast, at the most; None: any number."""
    layout: Callable[[Random], Groups] | None = None
    """Draws the groups, for protocols whose promises depend on how groups overlap; None: as for every protocol. The
    sites that this names in no group are sources only."""
    majorities: Callable[[Groups], Iterable[tuple[SiteId, ...]]] | None = None
    """The sets of sites of which a minority may die each; None: all sites are one."""
    settle: float = 5.0
    """Seconds that the protocol needs at the most, once everything works and nothing is under way, to finish what was
    begun. Packets that the last fault delayed come before that."""

    @property
    def settle_seconds(self) -> float:
        """How long a run goes on after the heal."""
        return DELAY_SECONDS_MAX + self.settle


def _fan(situation: Situation) -> dict[str, Any]:
    # With a tiny log, each few messages wait for a null message to be acknowledged: null messages often, then.
    kept = situation.rarely(4096, 2, 6)
    return {"log_messages_max": kept, "delta": situation.seconds(0.05, 0.2 if kept < 4096 else 1.0)}


def _sequencer(situation: Situation) -> dict[str, Any]:
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


def _two_phase(situation: Situation) -> dict[str, Any]:
    retransmit = situation.timeout(0.3)
    return {
        "window_messages": situation.rarely(256, 1, 3),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "acknowledge_seconds": situation.timeout(0.1),
        "retransmit_seconds": retransmit,
        "retransmit_seconds_max": round(situation.random.uniform(1.0, 8.0) * retransmit, 4),
        "blocked_seconds": situation.seconds(0.2, 2.0),
    }


def _lamport(situation: Situation) -> dict[str, Any]:
    interval = situation.timeout(0.3)
    options = {
        "window_messages": situation.rarely(256, 1, 3),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "tick_seconds": situation.seconds(0.001, 0.05),
        "interval_seconds": interval,
        "interval_seconds_max": round(situation.random.uniform(1.0, 8.0) * interval, 4),
        "blocked_seconds": situation.seconds(0.2, 2.0),
    }
    # Everyone waits for the sources only, which the scenario names; or for all sites.
    return options if situation.random.random() < 0.5 else options | {"sources": []}


def _token(situation: Situation) -> dict[str, Any]:
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
    }
    if situation.somebody_dies or random.random() < 0.5:
        # L: half of the sites, which is what a minority that dies leaves.
        return options
    return options | {"resilience": random.randrange(len(situation.sites))}


def _broadcast_tree(situation: Situation) -> dict[str, Any]:
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


def _scalatom(situation: Situation) -> dict[str, Any]:
    random = situation.random
    window = situation.rarely(256, 1, 4)
    retransmit = situation.timeout(0.3)
    ping = situation.seconds(0.03, 0.2)
    return {
        "batch_messages_max": random.choice((64, 64, 2, 1)),
        "relay_eagerly": random.random() < 0.3,
        "history_seconds": random.choice((0.0, 0.0, 0.02, 0.2)),
        "window_messages": window,
        "kept_messages_max": max(window, situation.rarely(16384, 4, 16)),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "acknowledge_seconds": situation.timeout(0.1),
        "retransmit_seconds": retransmit,
        "retransmit_seconds_max": round(random.uniform(1.0, 8.0) * retransmit, 4),
        "receipt_seconds": round(random.uniform(0.1, 0.4) * retransmit, 4),
        "letters_max": situation.rarely(2048, 16, 48),
        "want_seconds": situation.timeout(0.2),
        # Often shorter than a round trip: coordinators are suspected wrongly all the time.
        "ping_seconds": ping,
        "suspicion_seconds": round(random.uniform(0.5, 4.0) * ping, 4),
        "blocked_seconds": situation.seconds(0.2, 2.0),
    }


def _scalatom_layout(random: Random) -> Groups:
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


def _propagation_graph_layout(random: Random) -> Groups:
    """Many small groups: where they overlap in few sites the trees are deep, with extra nodes, or there are several."""
    sites = "abcdefgh"[: random.randint(3, 8)]
    names = ("g", "h", "i", "j", "k", "l")[: random.randint(1, 6)]
    return {name: tuple(sorted(random.sample(sites, random.randint(2, min(4, len(sites)))))) for name in names}


def _propagation_graph(situation: Situation) -> dict[str, Any]:
    random = situation.random
    return {
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


def _selective_total(situation: Situation) -> dict[str, Any]:
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


TUNING: dict[str, Tuning] = {
    "fan-1": Tuning(_fan),
    "fan-2": Tuning(_fan),
    "fan-3": Tuning(_fan, settle=10.0),
    # Fifty messages through a history of two, each pair waiting for a retransmission and an announcement.
    "sequencer": Tuning(_sequencer, settle=20.0),
    # A site that comes back is asked within eight retransmission times, and a window of one needs a round for each.
    "two-phase": Tuning(_two_phase, settle=20.0),
    "lamport": Tuning(_lamport, settle=20.0),
    # What was lost is sent again after up to two periods of gap filling and one of exchange, five seconds each at most;
    # a host that was away is found by one exchange before that.
    "broadcast-tree": Tuning(
        _broadcast_tree,
        networks={"servers": 6, "point-to-point": 1, "wide-area": 1, "topology": 1, "broadcast": 1},
        sites_max=50,
        sources_max=3,
        settle=25.0,
    ),
    # A site that was away is told that it is behind, asks, is answered in pieces, and asks for bodies; then every
    # message needs a round of each step, with suspicions that are wrong at first.
    "scalatom": Tuning(_scalatom, layout=_scalatom_layout, majorities=lambda groups: Cells(groups).cells, settle=40.0),
    # Fifty messages through histories of two on each level of a tree, each pair waiting for a look.
    "propagation-graph": Tuning(_propagation_graph, layout=_propagation_graph_layout, settle=30.0),
    # Eight seconds of silence, by a clock that runs slow, until a crash is noticed; then an agreement or two.
    "selective-total": Tuning(_selective_total, networks={"one-channel": 5, "broadcast": 1}, settle=20.0),
    # A few attempts to form a list, each ended by retries that double.
    "token": Tuning(_token, settle=30.0),
}


def tuning_of(protocol: str) -> Tuning:
    """The protocol's line; a protocol without one runs with its defaults."""
    return TUNING.get(protocol, Tuning())
