"""Options of the propagation graph. All sites of a system have the same, or they would have different graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from ordercast.core import Options, Renamed, SiteId, UsageError, times


class PropagationGraphOptions(Options, frozen=True):
    """The graph (`ordercast graph` shows what it will be), and the message passing protocol."""

    prefer: tuple[SiteId, ...] = ()
    """Where sites are in equally many groups, the first of these; otherwise the lowest name."""
    parents: dict[SiteId, SiteId] = msgspec.field(default_factory=dict)
    """Site -> parent: a graph of one's own instead of the generator's."""
    load_bound: int = 0
    """Hand children of sites that send and receive more down to others (Figure 4.1); 0: no bound."""
    delivery: str = "atomic"
    """What becomes of those behind a site that has failed. `atomic`: they wait for it, and no delivery is ever in
    question (Spauster 7.1.2, Protocol 4). `non-atomic`: they go on without it, and what it alone has delivered they
    may deliver in another order (7.1.1, 7.3)."""
    rejoin: str = "skip"
    """How a site comes back that the others have gone on without. `skip`: at the current message (Spauster 7.1.1, R2).
    `rollback`: it takes back the tail of its deliveries, delivers them again in the agreed order, and what it missed
    (R3); of that `away_bytes_max` are kept, and with more it goes on at the current message."""
    suspicion_seconds: float = 0.5
    """After so long a silence a site is taken for failed."""
    suspicion_seconds_max: float = 8.0
    """And so long at the most with one that was taken for failed wrongly: each time makes it twice as long."""
    lease_seconds: float = 1.0
    """So long sites promise the manager to begin no other graph; after a failure the others wait until it has ended."""
    drift_max: float = 0.01
    """By so much the clocks of sites may go wrong, as a share."""
    entry: str = "primary"
    """Where messages enter. `primary`: at the primary destination of their group. `root`: at the root of its tree,
    which then has the load of all its groups; one source's messages are in its order, and what caused a message comes
    before it, across groups, too."""
    bypass: bool = False
    """Edges around sites that send on what is not theirs (3.5). A message has one group then, and the order of three
    groups may go round in a circle."""
    manager: SiteId = ""
    """Who changes the graph when sites come and go; empty: the first root, as long as it is in the graph."""
    window_messages: int = 256
    """Own messages that the primary destination has not yet taken: more wait at the application."""
    history_messages_max: int = 4096
    """Messages kept for one child until it acknowledges them. When they are as many, what is behind waits at the
    parent."""
    history_bytes_max: int = 1 << 26
    """And bytes of payload: on a live node messages are bundles, and what is kept for a slow child is what waits in
    its socket's buffer. The application may leave as much untaken."""
    away_bytes_max: int = 1 << 28
    """For a child that does not answer, and has no children itself, so much is kept before anyone waits for it: it
    gets it when it is back (Spauster 7.1.2). With `rejoin = "rollback"`: so much is kept for those who are out."""
    reader_messages_max: int = 4096
    """Deliveries that the application may leave untaken before the site takes nothing more."""
    acknowledge_every: int = 32
    retransmit_seconds: float = 0.1
    """How long to wait for an acknowledgement, or for what was asked for."""
    blocked_seconds: float = 1.0
    """After so long without an answer a site says that it is blocked: ten announcements."""

    shared: ClassVar[frozenset[str]] = frozenset(
        {
            *("prefer", "parents", "load_bound", "delivery", "entry", "bypass", "manager"),
            *("rejoin", "lease_seconds", "drift_max"),
        }
    )
    """Each site computes the graph for itself."""
    renamed: ClassVar[Mapping[str, Renamed]] = {
        "window": Renamed("window_messages"),
        "history_max": Renamed("history_messages_max"),
        "reader_max": Renamed("reader_messages_max"),
        "patience": Renamed("blocked_seconds", times("retransmit_seconds", 0.1)),
    }

    @property
    def vain_max(self) -> int:
        """`blocked_seconds` in retransmission times."""
        return max(1, round(self.blocked_seconds / self.retransmit_seconds))

    @property
    def patience_max(self) -> float:
        """With whoever was taken for failed wrongly, in seconds."""
        return max(self.suspicion_seconds, self.suspicion_seconds_max)

    def __post_init__(self) -> None:
        counts = (
            "window_messages",
            "history_messages_max",
            "history_bytes_max",
            "away_bytes_max",
            "reader_messages_max",
            "acknowledge_every",
        )
        for name in counts:
            if getattr(self, name) < 1:
                raise UsageError(f"options of propagation-graph: {name} is 1 or more")
        if self.load_bound < 0 or min(self.retransmit_seconds, self.blocked_seconds) <= 0:
            raise UsageError("options of propagation-graph: load_bound is 0 or more, times are positive")
        if self.delivery not in ("atomic", "non-atomic"):
            raise UsageError(f"options of propagation-graph: delivery is atomic or non-atomic, not {self.delivery!r}")
        if self.rejoin not in ("skip", "rollback"):
            raise UsageError(f"options of propagation-graph: rejoin is skip or rollback, not {self.rejoin!r}")
        if not 0 <= self.drift_max < 1:
            raise UsageError(f"options of propagation-graph: drift_max is from 0 to 1, not {self.drift_max}")
        if min(self.suspicion_seconds, self.suspicion_seconds_max, self.lease_seconds) <= 0:
            raise UsageError(
                "options of propagation-graph: suspicion_seconds, suspicion_seconds_max and lease_seconds are positive"
            )
        if self.delivery == "non-atomic" and (self.bypass or self.entry == "root"):
            raise UsageError("options of propagation-graph: bypass and entry = root are for atomic delivery")
        if self.entry not in ("primary", "root"):
            raise UsageError(f"options of propagation-graph: entry is primary or root, not {self.entry!r}")
        if self.bypass and self.entry == "root":
            raise UsageError("options of propagation-graph: bypass goes around sites, entry = root through them all")
        if self.parents and self.prefer:
            raise UsageError("options of propagation-graph: prefer is for the generator; parents replaces it")
