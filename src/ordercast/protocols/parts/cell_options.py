"""Options that protocols which order by cells have in common."""

from __future__ import annotations

from typing import ClassVar

from ordercast.core import Options, UsageError


class CellOptions(Options, frozen=True):
    """Bounds and timers of the parts, with a reason for each value."""

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
    want_seconds: float = 0.05
    """How long a message may be known by name only before somebody is asked for it."""
    ping_seconds: float = 0.1
    """How often a site that is waited for is asked whether it is there."""
    suspicion_seconds: float = 0.5
    """How long it may be silent at first; each wrong suspicion doubles this."""
    suspicion_seconds_max: float = 10.0
    """How long it may be silent at the most: longer than any round trip."""
    blocked_seconds: float = 2.0
    """How long a message may wait before the application hears for whom."""

    may_be_zero: ClassVar[frozenset[str]] = frozenset()
    """Times that may be none at all."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name in self.may_be_zero:
                if value < 0:
                    raise UsageError(f"{name} is 0 or more, not {value}")
            elif name.endswith(("_seconds", "_seconds_max")):
                if value <= 0:
                    raise UsageError(f"{name} is positive, not {value}")
            elif name.endswith(("_messages", "_messages_max", "_every", "_bytes_max", "letters_max")) and value < 1:
                raise UsageError(f"{name} is at least 1, not {value}")
        if self.kept_messages_max < self.window_messages:
            raise UsageError(
                f"kept_messages_max = {self.kept_messages_max} is below window_messages = {self.window_messages}"
            )
        if self.suspicion_seconds_max < self.suspicion_seconds:
            raise UsageError("suspicion_seconds_max is not below suspicion_seconds")
