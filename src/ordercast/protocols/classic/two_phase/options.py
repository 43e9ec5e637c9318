"""Options of the two-phase protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ordercast.core import Options, Renamed, UsageError


class TwoPhaseOptions(Options, frozen=True):
    """Every bound and every timer, with a reason for its value."""

    window_messages: int = 256
    """How many messages of a source may be under way, that is, not yet taken by the application of every destination:
    some round trips at full rate. It bounds everything else: a destination queues at most this many of each source."""
    window_bytes_max: int = 1 << 22
    """And bytes of their payloads, for a live node's messages are bundles: sixteen sources that all wait for one site
    make the others keep 64 MiB."""
    acknowledge_every: int = 32
    """Messages of a source that a destination takes until it tells the source: an eighth of the window, so that the
    source never waits for news of messages that everyone has."""
    acknowledge_seconds: float = 0.05
    """When fewer were taken, after this time: later than both phases on any local network."""
    retransmit_seconds: float = 0.2
    """What was not answered for this long (up to twice as long: one timer serves all messages) is sent again."""
    retransmit_seconds_max: float = 1.6
    """A site that says nothing is asked ever more seldom, down to this: it is how late a site that comes back may be
    found."""
    blocked_seconds: float = 2.0
    """How long one message may hold up everything behind it until the site says that it is blocked, and by whom."""

    renamed: ClassVar[Mapping[str, Renamed]] = {
        "window": Renamed("window_messages"),
    }

    def __post_init__(self) -> None:
        if min(self.window_messages, self.window_bytes_max, self.acknowledge_every) < 1:
            raise UsageError(
                "options of two-phase: window_messages, window_bytes_max and acknowledge_every are 1 or more"
            )
        if min(self.acknowledge_seconds, self.retransmit_seconds, self.blocked_seconds) <= 0:
            raise UsageError(
                "options of two-phase: acknowledge_seconds, retransmit_seconds and blocked_seconds are positive"
            )
        if self.retransmit_seconds_max < self.retransmit_seconds:
            raise UsageError("options of two-phase: retransmit_seconds_max is at least retransmit_seconds")
