"""Options of SCALATOM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ordercast.core import Options, Renamed, UsageError


class ScalatomOptions(Options, frozen=True):
    """Every bound and every timer, with a reason for its value."""

    batch_messages_max: int = 64
    """Messages to the same destinations that one consensus orders: some kilobytes of identifiers. 1: one consensus for
    each message, all of them at the same time, as in the paper."""
    relay_eagerly: bool = False
    """Whether everyone passes messages and decisions on as soon as it has them, as in the paper: (d-1)² packets for
    each. Otherwise whoever misses something asks, which costs nothing while nobody fails."""
    history_seconds: float = 0.0
    """How long a history may wait for a packet that can carry it (five steps instead of six while new messages keep
    coming). 0: it is sent at once."""
    window_messages: int = 256
    """Messages of a source that the applications of a qualified majority have not taken yet: some round trips at full
    rate."""
    kept_messages_max: int = 16384
    """Messages that a site keeps for those who have not taken them: half a minute at five hundred bundles a second. At
    the bound whoever is silent is given up, and whoever is there but slow holds the sources up."""
    kept_bytes_max: int = 32 << 20
    """The same in bytes, with what is known about each message: small beside a machine, and more than what is under way
    among the sites that are there."""
    acknowledge_every: int = 32
    """Messages that an application takes until the other sites hear of it: an eighth of the window."""
    acknowledge_seconds: float = 0.05
    """How long they wait for that at the most."""
    retransmit_seconds: float = 0.1
    """How long an answer may take before a letter is repeated: some round trips of a wide network."""
    retransmit_seconds_max: float = 1.0
    """How seldom letters to a silent site are repeated at the least: a second after it is back it knows everything."""
    receipt_seconds: float = 0.02
    """How long receipts are gathered: short against the time after which a letter is repeated."""
    letters_max: int = 2048
    """Letters without receipt that are kept for a site: eight windows. A site that leaves more is told to catch up when
    it comes back."""
    want_seconds: float = 0.05
    """How long a message may be known by name only before somebody is asked for it."""
    ping_seconds: float = 0.1
    """How often a coordinator that is waited for is asked whether it is there."""
    suspicion_seconds: float = 0.5
    """How long a coordinator may be silent at first; each wrong suspicion doubles this."""
    suspicion_seconds_max: float = 10.0
    """How long it may be silent at the most: longer than any round trip."""
    blocked_seconds: float = 2.0
    """How long a message may wait before the application hears for whom."""

    renamed: ClassVar[Mapping[str, Renamed]] = {
        "window": Renamed("window_messages"),
    }

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not name.endswith(("_messages_max", "_messages", "_every", "_bytes_max", "letters_max")):
                continue
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is at least 1, not {getattr(self, name)}")
        for name in self.__struct_fields__:
            if name.endswith(("_seconds", "_seconds_max")) and name != "history_seconds" and getattr(self, name) <= 0:
                raise UsageError(f"{name} is positive, not {getattr(self, name)}")
        if self.history_seconds < 0:
            raise UsageError(f"history_seconds is 0 or more, not {self.history_seconds}")
        if self.kept_messages_max < self.window_messages:
            raise UsageError(
                f"kept_messages_max = {self.kept_messages_max} is below window_messages = {self.window_messages}"
            )
        if self.retransmit_seconds_max < self.retransmit_seconds:
            raise UsageError("retransmit_seconds_max is not below retransmit_seconds")
        if self.suspicion_seconds_max < self.suspicion_seconds:
            raise UsageError("suspicion_seconds_max is not below suspicion_seconds")
