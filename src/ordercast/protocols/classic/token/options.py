"""The options of the token protocol."""

from __future__ import annotations

from typing import ClassVar

from ordercast.core import Options, UsageError


class TokenOptions(Options, frozen=True):
    """Times are of the order of a local network by default; on slower ones they cost retransmissions, never order."""

    resilience: int | None = None
    """L: a message is delivered when L further sites have accepted the token behind it, so that any L sites may fail.
    None: half of the sites, rounded down, so that L + 1 are a majority."""
    retries: int = 6
    """R: how often something is sent again before it counts as a failure."""
    retry_seconds: float = 0.05
    """Until something is sent again the first time; each further time it takes twice as long, up to eight times as
    long."""
    pass_seconds: float = 0.02
    """How long the token site keeps the token when everything is committed and only the sites' buffers are still to be
    cleared."""
    beacon_seconds: float = 0.25
    """How often the token site says that it is there when there is nothing to do at all."""
    suspicion_seconds: float = 1.0
    """How long a site hears nothing before it suspects a failure: at least so long, and up to twice as long, at
    random."""
    window_messages: int = 256
    """How many messages of a source may be on their way, i.e. not committed."""
    batch_messages_max: int = 128
    """How many messages the token site acknowledges at once."""
    history_messages_max: int = 4096
    """How many messages a site keeps for those that have not delivered them yet. Then the sources wait for members of
    the list that are slow; those that are down, or were left out, miss what is forgotten."""
    history_bytes_max: int = 1 << 25
    """How many bytes it keeps for them, its own needs included, unless a single message is larger."""
    reader_messages_max: int = 1024
    """How many deliveries the application may leave untaken."""

    shared: ClassVar[frozenset[str]] = frozenset({"resilience"})
    """It is promised for all how many failures a delivered message survives; a site that delivers earlier breaks it."""

    def __post_init__(self) -> None:
        if self.resilience is not None and self.resilience < 0:
            raise UsageError(f"option resilience of token is 0 or more, not {self.resilience}")
        for name in (
            "retries",
            "window_messages",
            "batch_messages_max",
            "history_messages_max",
            "history_bytes_max",
            "reader_messages_max",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"option {name} of token is 1 or more, not {getattr(self, name)}")
        for name in ("retry_seconds", "pass_seconds", "beacon_seconds", "suspicion_seconds"):
            if not getattr(self, name) > 0:
                raise UsageError(f"option {name} of token is positive, not {getattr(self, name)}")
        if self.suspicion_seconds < 2 * self.beacon_seconds:
            raise UsageError(
                "option suspicion_seconds of token is at least twice beacon_seconds: one beacon may be lost"
            )
        if self.batch_messages_max > self.window_messages:
            raise UsageError(
                "option batch_messages_max of token is at most window_messages: a site must be able to hold a batch"
            )
