"""Options of the sequencer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ordercast.core import Options, Renamed, SiteId, UsageError, times


class SequencerOptions(Options, frozen=True):
    """Every bound and every timer, with a reason for its value."""

    sequencer: SiteId = ""
    """The site that orders; by default the first by name that is in a group."""
    window_messages: int = 256
    """How many messages of a source may wait for their place: a round trip at full rate."""
    history_messages_max: int = 4096
    """How many messages the sequencer keeps for one destination. A destination that is slow or down stops everyone
    when it is full; the alternative is to lose its messages."""
    history_bytes_max: int = 1 << 26
    """And how many bytes of payload: on a live node messages are bundles, and what is kept for a slow destination is
    also what waits in its socket's buffer."""
    direct_bytes: int = 8192
    """Messages of this size and more go from their source straight to the destinations, and the sequencer sends only
    their places: from there on, carrying them twice costs more than the additional packets."""
    acknowledge_every: int = 32
    """Deliveries until a destination acknowledges, and submissions until the sequencer does: the cost of an answer
    shared by 32."""
    acknowledge_bytes: int = 1 << 20
    """And bytes of payload until then: of large messages fewer are worth an answer."""
    retransmit_seconds: float = 0.1
    """How long a source waits for acceptance, and a destination for what it has requested."""
    announce_seconds: float = 0.1
    """How often the sequencer tells destinations that have not acknowledged what there is: this finds a lost last
    message."""
    blocked_seconds: float = 1.0
    """After so long in vain a source says that it is blocked: ten retransmissions."""

    shared: ClassVar[frozenset[str]] = frozenset({"sequencer"})
    """Two sequencers give two orders."""
    renamed: ClassVar[Mapping[str, Renamed]] = {
        "window": Renamed("window_messages"),
        "history_max": Renamed("history_messages_max"),
        "patience": Renamed("blocked_seconds", times("retransmit_seconds", 0.1)),
    }

    @property
    def vain_max(self) -> int:
        """`blocked_seconds` in retransmission times."""
        return max(1, round(self.blocked_seconds / self.retransmit_seconds))

    def __post_init__(self) -> None:
        for name in (
            "window_messages",
            "history_messages_max",
            "history_bytes_max",
            "direct_bytes",
            "acknowledge_every",
            "acknowledge_bytes",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"option {name} of the sequencer is 1 or more, not {getattr(self, name)}")
        if min(self.retransmit_seconds, self.announce_seconds, self.blocked_seconds) <= 0:
            raise UsageError("options of the sequencer: retransmit_, announce_ and blocked_seconds are positive")
