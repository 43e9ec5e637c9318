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
    question (Spauster 7.1.2, Protocol 4)."""
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
    gets it when it is back (Spauster 7.1.2)."""
    reader_messages_max: int = 4096
    """Deliveries that the application may leave untaken before the site takes nothing more."""
    acknowledge_every: int = 32
    retransmit_seconds: float = 0.1
    """How long to wait for an acknowledgement, or for what was asked for."""
    blocked_seconds: float = 1.0
    """After so long without an answer a site says that it is blocked: ten announcements."""

    shared: ClassVar[frozenset[str]] = frozenset(
        {"prefer", "parents", "load_bound", "delivery", "entry", "bypass", "manager"}
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
        if self.delivery != "atomic":
            raise UsageError(f"options of propagation-graph: delivery is atomic, not {self.delivery!r}")
        if self.entry not in ("primary", "root"):
            raise UsageError(f"options of propagation-graph: entry is primary or root, not {self.entry!r}")
        if self.bypass and self.entry == "root":
            raise UsageError("options of propagation-graph: bypass goes around sites, entry = root through them all")
        if self.parents and self.prefer:
            raise UsageError("options of propagation-graph: prefer is for the generator; parents replaces it")
