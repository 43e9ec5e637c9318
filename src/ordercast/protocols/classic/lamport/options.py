"""Options of the symmetric timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ordercast.core import Options, Renamed, SiteId, UsageError


class LamportOptions(Options, frozen=True):
    """Every bound and every timer, with a reason for its value."""

    sources: tuple[SiteId, ...] = ()
    """The potential sources; none named: all sites. Everyone waits for the clocks of these, and of these only."""
    window_messages: int = 256
    """How many messages of a source may be under way, that is, not yet taken by the application of every destination:
    some round trips at full rate. It bounds everything else: a destination queues at most this many of each source."""
    window_bytes_max: int = 1 << 22
    """And bytes of their payloads, for a live node's messages are bundles: sixteen sources that all wait for one site
    make the others keep 64 MiB."""
    tick_seconds: float = 0.002
    """How long a site that has learnt a later time waits until it tells the others: messages that come meanwhile share
    one answer. It is part of the latency of every message to which not everybody has something to say."""
    interval_seconds: float = 0.1
    """How long a site waits for a clock, a message or an acknowledgement until it asks for it (up to twice as long: one
    timer serves all)."""
    interval_seconds_max: float = 1.6
    """A site that says nothing new is asked ever more seldom, down to this."""
    acknowledge_every: int = 32
    """Messages of a source that a destination takes until it tells the source, when nothing else is to be said: an
    eighth of the window, so that the source never waits for news of messages that everyone has."""
    blocked_seconds: float = 2.0
    """How long one message may hold up everything behind it until the site says that it is blocked, and by whom."""

    shared: ClassVar[frozenset[str]] = frozenset({"sources"})
    """A site that does not wait for the clock of a source delivers too early."""
    renamed: ClassVar[Mapping[str, Renamed]] = {
        "window": Renamed("window_messages"),
    }

    def __post_init__(self) -> None:
        if min(self.window_messages, self.window_bytes_max, self.acknowledge_every) < 1:
            raise UsageError(
                "options of lamport: window_messages, window_bytes_max and acknowledge_every are 1 or more"
            )
        if min(self.tick_seconds, self.interval_seconds, self.blocked_seconds) <= 0:
            raise UsageError("options of lamport: tick_seconds, interval_seconds and blocked_seconds are positive")
        if self.interval_seconds_max < self.interval_seconds:
            raise UsageError("options of lamport: interval_seconds_max is at least interval_seconds")
